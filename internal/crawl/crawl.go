package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// StopMode is how Stop ends a crawl.
type StopMode uint8

const (
	// Gracefully makes no new fetches, gives those under way a grace period, and writes the outputs.
	Gracefully StopMode = iota
	// AtOnce leaves without outputs; the directory stays consistent, and the crawl can be resumed.
	AtOnce
	// Pause stops like Gracefully, but writes no outputs. Run returns ErrPaused, and another crawl in the same
	// directory continues this one.
	Pause
	// Suspend is Pause for a process that ends: it also gives up outputs that are being written.
	Suspend
)

// Crawl is one crawl in a data directory. New makes it; Run may be called once. Its other methods may be
// called at any time, from any goroutine. Only Run has the directory open, so nothing has to be closed.
type Crawl struct {
	shared *Shared
	o      Options

	stop    stopSignal
	leaving context.Context // ended by Stop(AtOnce)
	leave   context.CancelFunc

	mu       sync.Mutex
	ran      bool          // guarded by mu; Run was called
	stopped  bool          // guarded by mu; Stop was called
	running  *run          // guarded by mu; while the store is open
	finished *monitor.Live // guarded by mu; how the run ended
	change   func(*run)    // guarded by mu; changes the limits, for a run that is opened later; may be nil
	capped   bool          // guarded by mu; CapSafe was called
	closed   *state.Store  // guarded by mu; the store of the run that has ended; nil before

	// exporting is held for reading while an export reads the run's store, and for writing while the store is opened or
	// closed.
	exporting sync.RWMutex
}

// stopSignal tells a run that Stop was called.
type stopSignal struct {
	called  chan struct{}   // closed by the first Stop
	toPause bool            // written before called is closed: the first Stop was Pause or Suspend
	writing context.Context // ended by Stop(Suspend), the first Stop or not
	giveUp  context.CancelFunc
}

// Errors of Run.
var (
	ErrRan    = errors.New("a crawl runs once: make a new one to go on with it")
	ErrPaused = errors.New("the crawl was paused")
	ErrQuota  = errors.New("the crawl was paused: its quota is used up")
)

// New makes a crawl that uses what is shared. Nothing is opened yet.
func New(shared *Shared, o Options) (*Crawl, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Crawl{shared: shared, o: o, stop: stopSignal{called: make(chan struct{})}}
	c.leaving, c.leave = context.WithCancel(context.Background())
	c.stop.writing, c.stop.giveUp = context.WithCancel(context.Background())
	return c, nil
}

// Run crawls until there is nothing left, a limit is reached or the crawl is stopped, and makes the outputs. The error
// is about the crawl itself: a data directory that cannot be used, a disk that fails. To cancel ctx has the effect of
// Stop(AtOnce).
func (c *Crawl) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.ran
	c.ran = true
	c.mu.Unlock()
	if again {
		return ErrRan
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.leaving, cancel)()
	r, err := c.open(ctx)
	if err != nil {
		return err
	}
	err = r.run(ctx, c)
	return errors.Join(err, c.close(r, err == nil))
}

// open opens the data directory. An export waits meanwhile, and then reads from the run's store.
func (c *Crawl) open(ctx context.Context) (*run, error) {
	c.exporting.Lock()
	defer c.exporting.Unlock()
	if c.o.Plan == nil {
		defer c.shared.takeTurn(ctx, c.o.Managed.Account)()
	}
	r, err := open(ctx, c.shared, c.o, &c.stop)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = r
	if c.change != nil && r != nil {
		c.change(r)
	}
	return r, err
}

// close closes the data directory when no export reads from it any more, and keeps how the run ended. Ended means
// that the outputs are made.
func (c *Crawl) close(r *run, ended bool) error {
	c.exporting.Lock()
	defer c.exporting.Unlock()
	err := r.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = r.store
	c.running, c.finished = nil, r.monitor.Live()
	if ended {
		end := r.endings.get()
		c.finished.State, c.finished.Reason, c.finished.Phase = end.status, end.reason, ""
	}
	return err
}

// Reclaim closes what Run had to leave open because the disk was full, so that this process can go on with the crawl.
// See [state.Store.Reclaim]. Run must have returned.
func (c *Crawl) Reclaim() error {
	c.mu.Lock()
	store := c.closed
	c.mu.Unlock()
	if store == nil {
		return nil
	}
	return store.Reclaim()
}

// Stop ends the crawl. It does not wait: Run returns when the crawl has ended. Stop before Run makes Run end as soon as
// it has begun.
func (c *Crawl) Stop(mode StopMode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped = true
		c.stop.toPause = mode == Pause || mode == Suspend
		close(c.stop.called)
	}
	switch mode {
	case AtOnce:
		c.leave()
	case Suspend:
		c.stop.giveUp()
	}
}

// Change changes the page limit and the time limit of the run; zero means none. It is not for safe crawls. After
// CapSafe it does nothing.
func (c *Crawl) Change(maxURLs int, duration time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.capped {
		c.apply(func(r *run) {
			r.limits.change(maxURLs, duration)
			r.applyLimits()
		})
	}
}

// CapSafe gives the run the caps of the safe profile for pages and time, and their messages. Later calls do nothing.
func (c *Crawl) CapSafe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.capped {
		return
	}
	c.capped = true
	before := c.change
	c.apply(func(r *run) {
		if before != nil {
			before(r)
		}
		r.limits.capSafe()
		r.applyLimits()
	})
}

// apply makes a change to the run now, or when a run is opened. The caller holds mu.
func (c *Crawl) apply(change func(*run)) {
	c.change = change
	if c.running != nil {
		change(c.running)
	}
}

// Regrant makes a running crawl ask its quota again. Call it when the quota has changed.
func (c *Crawl) Regrant(ctx context.Context) {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running != nil {
		running.quota.refresh(ctx)
	}
}

// Status is the state of the crawl at this moment. Before the data directory is open it has no phase; after Run it is
// how the run ended.
func (c *Crawl) Status() *monitor.Live {
	c.mu.Lock()
	running, finished := c.running, c.finished
	c.mu.Unlock()
	switch {
	case running != nil:
		return running.monitor.Live()
	case finished != nil:
		live := *finished
		return &live
	}
	return &monitor.Live{SchemaVersion: monitor.StatusVersion, State: page.Running,
		Profile: string(c.o.Settings.Profile)}
}

// Reserved is how much of the disk a running crawl has set aside beside what it has recorded.
func (c *Crawl) Reserved() int64 {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running == nil {
		return 0
	}
	return running.store.Stats().LogSpare
}

// Hosts is how many hosts a running crawl holds in memory: those that have anything left to do.
func (c *Crawl) Hosts() int {
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running == nil {
		return 0
	}
	stats := running.frontier.Stats()
	return stats.Active + stats.Parked
}

// ErrNotRunning is returned by Read and Export of a crawl that does not run.
var ErrNotRunning = errors.New("the crawl does not run")

// Read calls read with the store of the run, and with the content types that XML sitemaps may list. The store stays
// open meanwhile, and has applied everything that was committed before the call.
func (c *Crawl) Read(ctx context.Context, read func(s *state.Store, types []string) error) error {
	c.exporting.RLock()
	defer c.exporting.RUnlock()
	c.mu.Lock()
	running := c.running
	c.mu.Unlock()
	if running == nil {
		return ErrNotRunning
	}
	if err := running.store.Flush(ctx); err != nil {
		return err
	}
	return read(running.store, c.o.Settings.XMLTypes)
}

// Export writes the pages that a running crawl has recorded so far; see Outputs. Types are the content types that XML
// sitemaps may list.
func (c *Crawl) Export(ctx context.Context, options json.RawMessage, types []string) (res json.RawMessage, err error) {
	err = c.Read(ctx, func(s *state.Store, _ []string) error {
		res, err = c.o.Outputs.Export(ctx, s, options, types)
		return err
	})
	return res, err
}
