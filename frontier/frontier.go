package frontier

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Frontier decides which URL may be fetched next. Its methods may be called
// from any goroutine.
type Frontier struct {
	o      Options
	store  Store
	hasher urlnorm.Hasher
	owners [partitions]uint16 // partition → index in shards
	parts  [partitions]partition
	// notOpen is how many partitions do not take links; written under the locks of
	// their shards.
	notOpen  atomic.Int64
	closings atomic.Int64 // how often a partition was closed
	shards   []*shard

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
	verify        *lookups
	batches       sync.Pool    // of *batch
	idlers        sync.Pool    // of *waiter
	packs         []filterPack // what SaveFilters has written; for its caller alone
	packed        int64        // closings when it was; likewise

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
	f.waiters.armed, f.waiters.ring = never, f.ring
	f.verify = newLookups(o.MaxVerify)
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
	if o.Closed {
		for p := range f.parts {
			f.parts[p].state = partitionClosed
		}
		f.notOpen.Store(partitions)
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
