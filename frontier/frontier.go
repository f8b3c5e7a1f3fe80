package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Frontier decides which URL may be fetched next. Its methods may be called
// from any goroutine.
type Frontier struct {
	o      Options
	store  Store
	hasher urlnorm.Hasher
	owners [partitions]uint16 // partition → index in shards
	shards []*shard

	epoch   time.Time // clock readings are epochNS plus the time since
	epochNS int64

	// live counts everything that is or may bring work: unfinished URLs of hosts
	// that are still crawled, queued sitemaps, leases and source tokens. pages are
	// the URLs among them. busy are the leases, and the URLs that hold a ticket
	// while they wait. Whatever one call changes is added at once, before the shards
	// it changed are unlocked: drained is live = 0, exactly.
	live, pages, busy atomic.Int64
	sources           atomic.Int64

	permits       permits
	tickets       tickets
	robots        slots
	robotsWaiters atomic.Int64 // entries in the shards' robotsWait; written under their locks
	ticketWaiters atomic.Int64 // entries in the shards' ticketWait; written under their locks
	gate          gate
	waiters       waiters
	loader        loader
	verify        *semaphore.Weighted
	batches       sync.Pool    // of *batch
	idlers        sync.Pool    // of *waiter
	packs         []filterPack // what SaveFilters has written; for its caller alone

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	failed atomic.Pointer[error] // the store's first failure
}

// New returns a frontier over a store. A crawl that goes on from an earlier run
// calls Resume next. Close must be called in the end.
func New(o Options, s Store) (*Frontier, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("frontier options: %w", err)
	}
	f := &Frontier{o: o, store: s, hasher: urlnorm.NewHasher(o.Seed), epoch: time.Now()}
	f.epochNS = f.epoch.UnixNano()
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.permits.limit = int64(o.MaxInMemory)
	f.tickets.limit = o.MaxURLs
	f.tickets.used.Store(o.URLsUsed)
	f.robots.limit = int64(o.MaxRobots)
	f.gate.init(o.LevelByLevel)
	f.waiters.armed = never
	f.verify = semaphore.NewWeighted(int64(o.MaxVerify))
	for i := range o.Shards {
		seats := o.MaxHosts / o.Shards
		if i < o.MaxHosts%o.Shards {
			seats++
		}
		f.shards = append(f.shards, newShard(f, i, seats, o.HotSetBytes/o.Shards))
	}
	for p := range f.owners {
		f.owners[p] = uint16(assign(uint8(p), o.Shards))
	}
	f.loader.init()
	for range loaders {
		f.wg.Go(f.runLoader)
	}
	return f, nil
}

// Close ends all waiting in Next and stops the frontier's goroutines. Leases that
// are out can no longer be done.
func (f *Frontier) Close() error {
	f.cancel()
	f.loader.close()
	f.waiters.close()
	f.waiters.wakeAll()
	f.wg.Wait()
	return nil
}

// clock is the time in nanoseconds since 1970, of a clock that is never set back.
func (f *Frontier) clock() int64 { return f.epochNS + int64(time.Since(f.epoch)) }

// clockOf is the clock's reading at a time; t may come from time.Now or not.
func (f *Frontier) clockOf(t time.Time) int64 { return f.epochNS + int64(t.Sub(f.epoch)) }

func (f *Frontier) shardOf(id HostID) *shard { return f.shards[f.owners[id.Partition()]] }

// fail notes that the store has failed. Nothing can be recorded from then on, so
// nothing is leased either.
func (f *Frontier) fail(err error) error {
	f.failed.CompareAndSwap(nil, &err)
	f.waiters.wakeAll()
	return err
}

// Add records the links that are new, and queues them. It returns how many they
// were.
func (f *Frontier) Add(ctx context.Context, links []Link) (added int, err error) {
	for len(links) > 0 {
		n := min(len(links), batchMost)
		m, err := f.add(ctx, links[:n])
		added += m
		if err != nil {
			return added, fmt.Errorf("add links: %w", err)
		}
		links = links[n:]
	}
	return added, nil
}

// Source returns a token: while it is held the frontier is not drained, and under
// LevelByLevel no deeper level is opened. Release may be called more than once.
func (f *Frontier) Source() (release func()) {
	f.sources.Add(1)
	f.live.Add(1)
	if f.gate.on {
		f.gate.count[0].Add(1)
	}
	return sync.OnceFunc(func() {
		f.sources.Add(-1)
		if f.gate.on {
			f.gate.count[0].Add(-1)
			f.openGate()
		}
		if f.live.Add(-1) == 0 {
			f.waiters.wakeAll()
		}
	})
}

// Next waits for a URL that may be fetched now, and leases it. It returns
// ErrDrained, ErrLimit or ErrClosed, the context's error, or the store's.
func (f *Frontier) Next(ctx context.Context) (*Lease, error) {
	for {
		if err := f.over(ctx); err != nil {
			if f.waiters.n.Load() > 0 {
				f.passOn() // this call may have been woken for what it does not take now
			}
			return nil, err
		}
		if l := f.take(); l != nil {
			if err := l.record(); err != nil {
				return nil, err
			}
			return l, nil
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// over is the reason to lease nothing any more.
func (f *Frontier) over(ctx context.Context) error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.live.Load() == 0 {
		return ErrDrained
	}
	if f.limitReached() {
		return ErrLimit
	}
	return nil
}

// limitReached reports whether all tickets are spent for good, and some page
// would need another.
func (f *Frontier) limitReached() bool {
	return f.tickets.exhausted() && f.busy.Load() == 0 && f.pages.Load() > 0
}

// take leases from any shard where a host's time has come.
func (f *Frontier) take() *Lease {
	f.release()
	now, n := f.clock(), len(f.shards)
	from := 0
	if n > 1 {
		from = rand.IntN(n)
	}
	for i := range n {
		s := f.shards[(from+i)%n]
		if s.due.Load() > now {
			continue
		}
		s.mu.Lock()
		l := s.take(now)
		s.unlock()
		if l != nil {
			return l
		}
	}
	return nil
}

// release lets one host go on that waits for a robots slot, and one that waits for
// a ticket, if there are any again.
func (f *Frontier) release() {
	if f.robotsWaiters.Load() > 0 && f.robots.free() {
		f.releaseOne(func(s *shard) *fifo { return &s.robotsWait }, &f.robotsWaiters, hostRobotsWait)
	}
	if f.ticketWaiters.Load() > 0 && !f.tickets.exhausted() {
		f.releaseOne(func(s *shard) *fifo { return &s.ticketWait }, &f.ticketWaiters, hostTicketWait)
	}
}

func (f *Frontier) releaseOne(queue func(*shard) *fifo, waiting *atomic.Int64, flag hostFlags) {
	from := rand.IntN(len(f.shards))
	for i := range f.shards {
		s := f.shards[(from+i)%len(f.shards)]
		s.mu.Lock()
		found := false
		for !found {
			h, ok := queue(s).pop()
			if !ok {
				break
			}
			waiting.Add(-1)
			if found = s.hosts.at(h).flags&flag != 0; found {
				s.hosts.at(h).flags &^= flag
				s.touch(h)
			}
		}
		s.unlock()
		if found {
			return
		}
	}
}

// wait returns when there may be something to lease, or when the crawl is over.
func (f *Frontier) wait(ctx context.Context) error {
	w, _ := f.idlers.Get().(*waiter)
	if w == nil {
		w = &waiter{woken: make(chan struct{}, 1)}
	}
	f.waiters.add(w)
	// Only now that everybody who makes work sees somebody wait: look once more.
	now := f.clock()
	due := f.firstDue()
	if due <= now || f.over(ctx) != nil || f.couldRelease() {
		if f.waiters.remove(w) {
			f.arrive(w)
		}
		f.idlers.Put(w)
		return nil
	}
	f.arm(due, now)
	select {
	case <-w.woken:
		f.waiters.awake.Add(-1)
		f.idlers.Put(w)
		return nil
	case <-ctx.Done():
		if f.waiters.remove(w) {
			f.arrive(w)
			f.passOn() // somebody else must take what this one was woken for
		}
		f.idlers.Put(w)
		return ctx.Err()
	}
}

// arrive takes in the waking of a waiter that did not wait for it.
func (f *Frontier) arrive(w *waiter) {
	<-w.woken
	f.waiters.awake.Add(-1)
}

func (f *Frontier) couldRelease() bool {
	return f.robotsWaiters.Load() > 0 && f.robots.free() || f.ticketWaiters.Load() > 0 && !f.tickets.exhausted()
}

// firstDue is when the first host of all shards may be leased.
func (f *Frontier) firstDue() int64 {
	due := int64(never)
	for _, s := range f.shards {
		due = min(due, s.due.Load())
	}
	return due
}

// passOn wakes another waiter if there is more work, or sets the timer.
func (f *Frontier) passOn() {
	due, now := f.firstDue(), f.clock()
	if due <= now || f.couldRelease() {
		f.waiters.wake()
	} else {
		f.arm(due, now)
	}
}

func (f *Frontier) arm(due, now int64) {
	if due != never {
		f.waiters.arm(due, time.Duration(due-now))
	}
}

// unlock settles what was touched in the shards, which are locked, adds to the
// counters all that was changed, unlocks, and tells whoever must know.
func (f *Frontier) unlock(shards []*shard) {
	now := int64(0)
	for _, s := range shards {
		if len(s.touched) > 0 || len(s.parked.nodes) > 0 {
			if now == 0 {
				now = f.clock()
			}
			s.settleAll(now)
		}
	}
	var sum changes
	var notices []Notice
	for _, s := range shards {
		sum.live += s.change.live
		sum.pages += s.change.pages
		sum.busy += s.change.busy
		sum.permits += s.change.permits
		if len(s.change.gate) > 0 {
			sum.gate = append(sum.gate, s.change.gate...)
		}
		s.change = changes{gate: s.change.gate[:0]}
		if len(s.notices) > 0 {
			notices = append(notices, s.notices...)
			s.notices = s.notices[:0]
		}
		s.due.Store(s.ready.top())
	}
	live := int64(1)
	if sum.live != 0 {
		live = f.live.Add(sum.live)
	}
	if sum.pages != 0 {
		f.pages.Add(sum.pages)
	}
	if sum.busy != 0 {
		f.busy.Add(sum.busy)
	}
	if len(sum.gate) > 0 {
		f.gate.apply(sum.gate)
	}
	for _, s := range shards {
		s.mu.Unlock()
	}
	if sum.permits > 0 {
		f.permits.used.Add(-sum.permits)
		f.loader.kick()
	}
	if len(sum.gate) > 0 {
		f.openGate()
	}
	if live == 0 || f.limitReached() {
		f.waiters.wakeAll()
	} else if f.waiters.n.Load() > 0 {
		f.passOn()
	}
	for _, n := range notices {
		f.o.Observe(n)
	}
}

// settleAll settles the touched hosts, and whoever gets a seat by it.
func (s *shard) settleAll(now int64) {
	for {
		for j := 0; j < len(s.touched); j++ {
			i := s.touched[j]
			s.hosts.at(i).flags &^= hostTouched
			s.settle(i, now)
		}
		s.touched = s.touched[:0]
		s.seatParked(now)
		s.makeRoom(now)
		if len(s.touched) == 0 {
			return
		}
	}
}
