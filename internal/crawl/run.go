package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/gate"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/warc"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

// run is one crawl while its data directory is open. Fields whose comment says nothing else are written only while the
// run is opened.
type run struct {
	o        *Options
	settings *config.Settings // with as many workers as there are sockets for
	params   *weburl.Params   // removed from every URL before its key is computed
	log      *slog.Logger
	metrics  *metrics.Metrics
	shared   *Shared
	starts   []datadir.Start
	bare     map[string]bool // start URLs that were bare domains
	resumed  bool            // earlier runs or other machines have queued URLs, perhaps by other settings
	cluster  *member         // nil in a crawl of one machine

	store    *state.Store
	frontier *frontier.Frontier
	hasher   weburl.Hasher // of the store's seed
	client   *fetch.Client // the fetcher when it is the run's own, else nil
	fetcher  fetch.Fetcher
	archive  *warc.Writer // nil without --warc
	login    *login       // nil without one
	parser   *parser.Parser
	scope    *scope.Scope
	robots   *robotscache.Cache
	sitemaps *seeding.Sitemaps
	indexes  *seeding.Indexes
	visits   *recrawl.Visits
	sweeper  *recrawl.Sweeper // of the visits that are due as the run begins; nil if none are
	crashes  *crashGuard
	traps    *traps.Traps // a fold over evidence, like linkage; the frontier has folds of its own
	linkage  *linkage     // of earlier versions

	permits *permits    // asked before a lease; the gate is asked after it
	gate    *gate.Party // of the gate of all crawls of the process
	limits  *limits
	quota   *quota      // nil without one
	parsing *gate.Party // of the gate of what is computed
	buffers sync.Pool   // of *pageBuffer

	monitor  *monitor.Monitor
	warnings *warnings
	endings  *endings
	clock    clock
	phase    atomic.Pointer[phaseNote] // written by enter
	tally    tally
	lag      lagMeter

	limitsChanged chan struct{} // has room for one: tells the supervisor that a limit was changed
	backAt        time.Time     // when the engine of several machines was last away; only the supervisor uses it

	extending sync.Mutex // held while a redirect extends the scope
	// start URLs may lead to what followStarts has not seen yet: one redirected, or pages are read again
	unfollowed atomic.Bool
	// where redirects of start URLs lead, in a crawl with a depth limit; written by followStarts, nil before
	ledTo atomic.Pointer[map[weburl.Key]bool]

	hosts sync.Mutex
	lost  map[string]bool // guarded by hosts; hosts of starts that were abandoned

	checks    atomic.Int64 // of all runs, with those that the limit left out in this one
	checksCut sync.Once    // the warning about that limit

	listed   atomic.Int64 // pages that were new when a sitemap listed them, in this run
	relisted atomic.Bool  // sitemaps have listed pages that were known since readNearer has last looked
	holding  sync.Mutex
	held     bool // guarded by holding; sitemaps stay in the queue
}

// run crawls to the end and writes the outputs. The control socket answers for the given crawl.
func (r *run) run(ctx context.Context, controlled monitor.Controlled) (err error) {
	defer func() {
		r.monitor.Freeze()
		r.monitor.ExportLast()
	}()
	var watching sync.WaitGroup
	defer watching.Wait()
	looking, look := context.WithCancel(context.Background())
	defer look()
	watching.Go(func() { r.monitor.Keep(looking) })
	if r.o.NoControl {
		r.log.Debug("no control socket, as asked")
	} else if control, err := monitor.Listen(r.o.Dir.Socket(), controlled, r.log); err != nil {
		r.log.Warn("no control socket: 'mapwright status' will not see this crawl run", "error", err)
	} else {
		watching.Go(control.Serve)
		defer control.Close()
	}
	r.monitor.Register()
	if r.o.Started != nil {
		r.o.Started(r.monitor)
	}
	err = r.crawl(ctx)
	if r.client != nil {
		err = errors.Join(err, r.client.Close()) // an export can take long, and needs no connections
	}
	if closing := r.archive.Close(); err == nil { // else the error is that of the archive, or hides nothing
		err = closing
	}
	if r.cluster != nil {
		return r.cluster.conclude(ctx, err)
	}
	if err != nil {
		return err
	}
	end := r.endings.get()
	if r.cluster == nil && (end.status == page.Partial || end.paused == ErrQuota) { // is anything left to fetch?
		if err := r.extendByStarts(ctx); err != nil {
			return err
		}
	}
	if paused := end.paused; paused != nil {
		if err := r.store.Flush(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if _, nothing := r.workLeft(); !nothing || paused != ErrQuota {
			return cmp.Or(r.checkpoint(ctx), paused)
		}
	}
	return r.conclude(ctx)
}

// applyLimits puts changed limits into effect.
func (r *run) applyLimits() {
	if r.quota == nil {
		r.frontier.SetMaxURLs(r.limits.pages.Load())
	} else {
		r.quota.setLimit()
	}
	select {
	case r.limitsChanged <- struct{}{}:
	default: // the supervisor has not seen the last change yet, and will see both
	}
}

// close closes the frontier, the archive and the store.
func (r *run) close() error {
	return errors.Join(r.frontier.Close(), r.archive.Close(), r.store.Close())
}

// figures returns what the monitor shows and neither the frontier nor the store counts.
func (r *run) figures() monitor.Figures {
	phase := r.phase.Load()
	f := monitor.Figures{
		Phase: phase.phase, Note: phase.note, Began: r.clock.began(), Elapsed: r.clock.elapsed(),
		Counted: r.clock.counted(),
		Pages:   r.tally.fetched(), Bytes: r.tally.bytes.Load(),
		Workers: monitor.ControlUse{Most: r.settings.MaxWorkers},
		Parsing: monitor.ControlUse{Limit: r.settings.ParseSemaphoreLimit}, Generation: r.visits.Generation(),
	}
	if r.sweeper != nil {
		tally := &r.tally
		f.Outcomes, f.Conditional, f.NotModified = &[32]int64{}, tally.conditional.Load(), tally.notModified.Load()
		for i := range tally.outcomes {
			f.Outcomes[i] = tally.outcomes[i].Load()
		}
	}
	f.MaxPages, f.MaxTime = int(r.limits.pages.Load()), time.Duration(r.limits.duration.Load())
	if r.cluster != nil {
		f.Cluster, f.Counters = r.cluster.figures()
		f.MaxTime = r.settings.Duration // the session keeps this limit
	}
	f.Parsing.InUse, f.Parsing.Waiting, f.ParserWaits = r.parsing.Use()
	f.Workers.Limit, f.Workers.InUse, f.Workers.Waiting, f.WorkerWaits = r.permits.state()
	f.PauseReason, f.PauseLeft, f.Pauses = r.permits.paused()
	return f
}

// crawl runs the workers to the end of the crawl.
func (r *run) crawl(ctx context.Context) error {
	release, err := r.holdSlot(ctx, r.starts[0].URL, r.o.Dir)
	if err != nil || release == nil {
		return err
	}
	defer release()
	defer r.indexes.Close()
	if r.endings.interrupted() { // while the store was opened
		return nil
	}
	r.clock.begin()
	if err := r.noteClock(); err != nil {
		return err
	}
	r.enter(monitor.Crawling, "")
	r.quota.refresh(ctx)

	// Leasing ends first, so that nothing new begins; fetching ends when the grace period is over.
	leasing, stopLeasing := context.WithCancel(ctx)
	defer stopLeasing()
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()

	helpers, helping := context.WithCancel(ctx)
	defer helping()
	var background sync.WaitGroup
	background.Go(func() { r.lag.run(helpers) })
	background.Go(func() { r.supervise(helpers, stopLeasing, stopFetching) })
	background.Go(func() { r.keepCheckpoints(helpers) })

	if r.cluster != nil {
		defer context.AfterFunc(ctx, r.cluster.session.Abort)()
		background.Go(func() { r.cluster.work(leasing, func() { stopLeasing(); stopFetching() }) })
	} else {
		err = r.addStarts(leasing)
	}
	stop := func() {
		stopLeasing()
		stopFetching()
	}
	var sweeps errgroup.Group
	sweep := func(s *recrawl.Sweeper) {
		release := s.Begin()
		sweeps.Go(func() error {
			err := s.Run(leasing, release)
			if err != nil {
				stop()
			}
			return err
		})
	}
	askIndexes := func() {
		wait := r.startIndexes(leasing)
		sweeps.Go(func() error { wait(); return nil })
	}
	again := func(s *recrawl.Sweeper) {
		sweep(s)
		askIndexes() // what they know was judged by the narrower scope too
	}
	if err == nil && r.sweeper != nil {
		sweep(r.sweeper)
	}
	if err == nil && r.cluster == nil {
		askIndexes()
		if r.settings.MaxDepth >= 0 {
			release := r.frontier.Source()
			sweeps.Go(func() error { return r.finishFirstLevel(leasing, again, release) })
		}
	}
	if err == nil {
		err = r.runWorkers(leasing, fetching, stop)
		for more := false; err == nil; err = r.runWorkers(leasing, fetching, stop) {
			if more, err = r.sweepAgain(leasing, again); !more {
				break
			}
		}
		stopLeasing() // a limit may have ended the crawl before the sources
	}
	helping()
	background.Wait()
	r.warnings.save() // another machine may write the report
	if err = errors.Join(err, sweeps.Wait()); err == nil {
		err = ctx.Err()
	}
	return err
}

// sweepAgain ends a run that has nothing left to fetch, unless what was found meanwhile makes more of what is known
// due. Then it queues that, and returns true. At this moment nothing is under way: so it does not matter which answer
// came first. Start URLs may have led to further sites since the last sweep, and then another one begins. Sitemaps may
// be named by hosts that were not asked, and they may list pages that were deeper until then.
func (r *run) sweepAgain(ctx context.Context, sweep func(*recrawl.Sweeper)) (more bool, err error) {
	if ctx.Err() != nil || r.endings.interrupted() || r.endings.get().set {
		return false, nil
	}
	next, err := r.nextSweep(ctx)
	if next != nil {
		sweep(next)
		return true, nil
	}
	for _, queue := range []func(context.Context) (int, error){r.revisitUnasked, r.readNearer} {
		n := 0
		if err == nil && r.cluster == nil {
			n, err = queue(ctx)
		}
		if ctx.Err() != nil {
			return false, nil
		}
		if n > 0 && err == nil {
			return true, nil
		}
	}
	if err == nil {
		r.endings.set(drained())
	}
	return false, err
}

// readNearer queues pages whose links were left out because they were too deep, and that a sitemap lists by now, so
// that they have depth 0. It returns how many.
func (r *run) readNearer(ctx context.Context) (int, error) {
	if r.settings.MaxDepth < 0 || !r.relisted.Swap(false) {
		return 0, nil
	}
	if err := r.store.Flush(ctx); err != nil {
		return 0, err
	}
	s, err := r.newSweeper()
	if err != nil {
		return 0, err
	}
	return s.QueueNearer(ctx)
}

// nextSweep makes the sweep that is due, if one is. What that reads may be a page on the way from a start URL, so the
// start URLs are followed again after it.
func (r *run) nextSweep(ctx context.Context) (*recrawl.Sweeper, error) {
	if r.cluster != nil {
		return nil, nil
	}
	err := r.extendByStarts(ctx)
	if err != nil || ctx.Err() != nil || r.isSwept() {
		return nil, err
	}
	r.unfollowed.Store(true)
	return r.newSweeper()
}

// finishFirstLevel keeps the deeper levels of a crawl with a depth limit closed until the start URLs lead nowhere new:
// the depths of pages follow from all of them, whichever answers first. Sweep runs a sweeper. Release releases a source
// of the frontier, which keeps the levels closed.
func (r *run) finishFirstLevel(ctx context.Context, sweep func(*recrawl.Sweeper), release func()) error {
	defer release()
	look := time.NewTicker(levelLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		st := r.frontier.Stats()
		if st.Level > 0 { // nothing was queued above it when the run began
			return nil
		}
		if st.Sources > 1 || st.Open > 0 || st.Sitemaps > st.Unwanted { // one source is this one
			continue
		}
		next, err := r.nextSweep(ctx)
		if next == nil {
			return err
		}
		sweep(next)
	}
}

// levelLook is how often finishFirstLevel looks.
const levelLook = 20 * time.Millisecond

// conclude decides the status of the crawl, makes it durable and writes the outputs.
func (r *run) conclude(ctx context.Context) error {
	r.enter(monitor.Writing, "")
	crawled := r.clock.elapsed()
	if err := r.frontier.Checkpoint(ctx); err != nil { // which hosts are not asked
		return err
	}
	if err := r.store.Flush(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// In a crawl of several machines, linkage is complete only now.
	if _, err := r.linkage.record(ctx, r.store); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.o.Managed.Finishing != nil && !r.o.Managed.Finishing() {
		return ErrPaused
	}
	end := r.endings.get()
	// The status is recorded only now, after everything that it describes is durable.
	ended := []frontier.CrawlFact{{Name: page.FactStatus, Value: []byte(end.status)},
		{Name: page.FactReason, Value: []byte(end.reason)}}
	if _, err := r.store.Commit(frontier.Record{Facts: ended}); err != nil {
		return err
	}
	if err := r.checkpoint(ctx); err != nil {
		return err
	}
	if r.cluster != nil {
		if err := r.cluster.settle(end.status); err != nil {
			return err
		}
	}
	writing, cancel := context.WithCancel(r.endings.stop.writing)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer r.shared.takeTurn(writing, r.o.Managed.Account)()
	err := r.o.Outputs.Finish(writing, &monitor.Ended{
		Store: r.store, Settings: r.settings, Given: r.o.Managed.Given, Starts: r.starts, Dir: r.o.Dir,
		Version: r.o.Version, Log: r.log, Unnamed: r.linkage.isFull(), Status: end.status,
		Success: end.success, Reason: end.reason, Errors: end.errors, Warnings: r.warnings.all(),
		Pages: r.tally.fetched(), Crawled: crawled, HotBytes: int64(r.frontier.Stats().HotBytes),
		DryRun: r.o.WouldFetch != nil, Spent: r.spent, Room: r.o.outputRoom(),
	})
	if err != nil && writing.Err() != nil && ctx.Err() == nil {
		return ErrPaused
	}
	return err
}

// spent returns the number and the time of the generation's runs so far. In a crawl of one machine it also records
// them.
func (r *run) spent(ctx context.Context) (monitor.Spent, error) {
	if r.cluster != nil {
		began, err := recrawl.Began(r.facts())
		if err != nil {
			return monitor.Spent{}, err
		}
		h, err := r.cluster.session.History(ctx, began)
		if err != nil {
			return monitor.Spent{}, err
		}
		spent := monitor.Spent{Began: h.Created, Runs: int(h.Run), Elapsed: h.Used, Cluster: h}
		if g := r.o.Plan.Generation; g != nil {
			spent.Began, spent.Runs, spent.Elapsed = began, int(h.Run-g.Run)+1, h.Used-r.cluster.local.Before
		}
		return spent, nil
	}
	all := r.clock.all()
	return monitor.Spent{Began: all.began, Runs: all.runs, Elapsed: all.elapsed}, r.noteClock()
}
