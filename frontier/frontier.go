// Package frontier decides which URL may be fetched next. It knows nothing of HTTP, HTML or disks: it is told what was
// found and how each fetch went, keeps its records in a [Store], and hands out leases. A small crawler needs [New] with
// [Options], [Frontier.Add], [Frontier.Next], the [Lease] and its [Result]. Package examples/smallcrawler is one.
//
// # The life of a URL
//
// A URL comes in as a [Link]: a seed through [Frontier.Add], a link of a page through [Lease.Done]. A new URL is
// recorded, in the same record as the end of its page, and queued with its host. Then it is pending until it is
// finished. It is finished exactly once, even if the process is killed in between.
//
// [Frontier.Next] waits until some host may be asked, and leases one URL of it. The worker defers [Lease.Abandon],
// which returns the lease after a panic. It calls [Lease.Start] before the first byte of the request, and sends nothing
// if that returns an error. It calls [Lease.Done] when the result is known: the URL is
// finished, or goes back for another try.
//
// Before the first page of an origin there is a lease of [KindRobots], and links with Sitemap set are leases of
// [KindSitemap], or of [KindCheck] if Check is set too; they obey the host's pace like any other. When nothing is
// queued, leased or waiting, and no token of [Frontier.Source] is held, Next returns [ErrDrained]. That is exact if
// every caller that adds links without a lease holds a token while it does.
//
// # Going on later
//
// With a durable store a crawl can be ended at any moment. The next run makes a frontier with the same Seed over the
// same store, calls [Frontier.Resume], and [Frontier.Remember] with the keys of all links. For large crawls
// [Frontier.SaveFilters] and [Frontier.RestoreFilters] make that read unnecessary. Each run may set other limits.
//
// # For Mapwright itself
//
// Mapwright's own crawl uses [Found] for the links of pages, [Notice] and [Stats] for its log, [Frontier.Revisit] and
// [Named] for later visits, and [Evidence] with the folds. A crawl of several machines uses [Member], the partitions,
// [Mark] and [RobotsQuestion]. Other callers need none of these. DESIGN.md gives the reasons for the design.
package frontier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/internal/jobs"
	"github.com/mapwright/mapwright/frontier/internal/limit"
	"github.com/mapwright/mapwright/frontier/internal/waiters"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A Frontier decides which URL may be fetched next. Its methods may be called
// from any goroutine.
type Frontier struct {
	o      Options
	store  Store
	hasher weburl.Hasher
	clock  clock
	parts  partitionSet
	shards shardSet
	gate   gate

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup        // the loaders
	failure atomic.Pointer[error] // the store's first error; after it nothing is recorded or leased

	// live counts the work that is left: unfinished URLs of hosts that are still crawled, robots leases, the tokens of
	// Source and Member.Hold, and calls that have notices for the observer. urls counts the URLs among them. busy
	// counts the leases, the checks, and the URLs that hold a ticket while they wait. A call adds all its changes at
	// once, before it unlocks the shards that it changed. So the frontier is drained exactly when live is zero.
	live, urls, busy atomic.Int64
	sources          atomic.Int64 // source tokens

	waiting waiters.List // calls of Next
	// A permit is taken for every URL in a window, goes with it into its lease and into
	// its wait for a retry, and is released when the URL leaves memory.
	permits limit.Permits
	// tickets are for the pages that the crawl may fetch. Hosts that wait for one are in leases.tickets of their
	// shards.
	tickets limit.Slots
	// robots are the slots of robots leases. Hosts that wait for one are in leases.robots of their shards.
	robots  limit.Slots
	rounds  atomic.Uint32 // calls of AskRobotsAgain, from 1
	holding atomic.Bool   // no sitemap is leased; written by HoldSitemaps

	// naming means that links to known URLs are recorded; see name. It is never unset. name sets it for the first
	// listed URL, with that URL's shard locked and before it claims the URL.
	naming  atomic.Bool
	lookups *limit.Lookups
	batches sync.Pool    // of *batch
	packs   *dedup.Packs // of the filters; used by SaveFilters and RestoreFilters, without a lock

	jobs   jobs.Queue[hostRef] // for the loaders
	sweeps sync.Mutex          // held while memory is being reclaimed; guards fruitless
	// fruitless means that the last sweep freed nothing, and that jobs are starved since then: settle takes memory from
	// hosts meanwhile.
	fruitless bool
}

// New returns a frontier over a store. A crawl that goes on from an earlier run
// calls Resume next. Close must be called in the end.
func New(o Options, s Store) (*Frontier, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("frontier options: %w", err)
	}
	o = o.withDefaults()
	f := &Frontier{o: o, store: s, hasher: weburl.NewHasher(o.Seed), clock: newClock(o.Registry),
		lookups: limit.NewLookups(o.MaxVerify)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.permits.Init(int64(o.MaxInMemory))
	f.tickets.Init(o.MaxURLs, o.URLsUsed)
	f.robots.Init(int64(o.MaxRobots), 0)
	f.rounds.Store(1)
	f.gate.init(o.LevelByLevel, o.Closed)
	f.waiting.Init(func() { f.wakeNext(false) })
	f.naming.Store(o.Generation > 0 || o.Closed)
	var all []*shard
	for i := range o.Shards {
		active := o.MaxHosts / o.Shards
		if i < o.MaxHosts%o.Shards {
			active++
		}
		all = append(all, newShard(f, i, active, o.HotSetBytes/o.Shards))
	}
	f.shards.init(all)
	f.packs = dedup.NewPacks(o.Seed, f.shards.filters)
	f.parts.init(o.Closed)
	f.jobs.Init()
	for range loaders {
		f.wg.Go(f.runLoader)
	}
	return f, nil
}

// Close ends all waiting in Next and stops the frontier's goroutines. Leases that are out can no longer be done. With
// Options.Registry, each of these leases keeps its slot until it ends. Other crawls can use all other slots at once.
func (f *Frontier) Close() error {
	f.cancel()
	f.jobs.Close()
	f.waiting.Close()
	f.wg.Wait()
	for _, s := range f.shards.all {
		s.lock()
		s.sharing.leaveAll(s.time())
		s.addresses.leaveAll()
		s.unlock()
	}
	return nil
}

// HoldSitemaps sets whether sitemaps are held back. While they are, no sitemap is leased, and the frontier is not
// drained as long as sitemaps are queued. A caller holds them while more pages are queued than it may fetch.
func (f *Frontier) HoldSitemaps(hold bool) {
	if f.holding.Swap(hold) && !hold {
		for _, s := range f.shards.all {
			s.settleHosts()
		}
	}
}

// Add records and queues those of the links that are new, and returns how many these are.
func (f *Frontier) Add(ctx context.Context, links []Link) (added int, err error) {
	for some := range slices.Chunk(links, batchMost) {
		n, err := f.add(ctx, some)
		added += n
		if err != nil {
			return added, fmt.Errorf("add links: %w", err)
		}
	}
	return added, nil
}

// Revisit queues finished links again. Each link has Before, and a Visit that is one more than the finished visit. The
// caller decides which URLs are due, and makes sure that none is queued twice in the same visit. The facts are recorded
// together with the last of the links: if they are on record after a crash, all links are queued.
func (f *Frontier) Revisit(ctx context.Context, links []Link, facts ...CrawlFact) error {
	for len(links) > batchMost {
		if err := f.revisit(ctx, links[:batchMost], nil); err != nil {
			return fmt.Errorf("visit again: %w", err)
		}
		links = links[batchMost:]
	}
	if len(links)+len(facts) == 0 {
		return nil
	}
	if err := f.revisit(ctx, links, facts); err != nil {
		return fmt.Errorf("visit again: %w", err)
	}
	return nil
}

// NameLinks makes the frontier record links to known URLs from now on. It is called when FactListed is on record. A
// later generation records them anyway, and so does a frontier with Options.Closed, whose partitions may have listed
// URLs when they are opened.
func (f *Frontier) NameLinks() { f.naming.Store(true) }

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
			f.gate.advance(&f.shards)
		}
		if f.live.Add(-1) == 0 {
			f.waiting.WakeAll()
		}
	})
}

// SaveFilters writes the filters, with all URLs that were recorded before the call and perhaps a few more. A layer that
// is full is written once, in one pack with the others that became full since the last call. It must not be called
// twice at once.
//
// A closed partition has no filter here. While one is closed nothing is saved, and the next run makes the filters from
// the store. A partition that was closed and opened again has other layers, so earlier packs are useless.
func (f *Frontier) SaveFilters(w dedup.BlobWriter) error {
	closings := f.parts.closings.Load()
	if f.parts.notOpen.Load() > 0 {
		f.packs.Forget()
		return nil
	}
	err := f.packs.Save(w, closings)
	if err == nil && f.parts.closings.Load() != closings {
		err = errors.New("a partition was closed meanwhile")
	}
	if err != nil {
		return fmt.Errorf("save filters: %w", err)
	}
	return nil
}

// RestoreFilters reads what SaveFilters wrote. names are all blobs that are kept; it reports whether one of them is
// from SaveFilters. It is called before anything is added. After an error the frontier knows no URL, and must be told
// of all of them with Remember.
func (f *Frontier) RestoreFilters(
	names []string, read func(name string, fn func(io.Reader) error) error,
) (bool, error) {
	packs := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !dedup.IsPack(name) })
	if len(packs) == 0 {
		return false, nil
	}
	return true, f.packs.Restore(packs, read)
}

// A clock counts nanoseconds since 1970 and is never set back.
type clock struct {
	epoch   time.Time
	epochNS int64
}

// newClock returns the clock of a frontier. The crawls of a registry must have the same.
func newClock(r *pace.Registry) clock {
	epoch := time.Now()
	if r != nil {
		epoch = r.Epoch()
	}
	return clock{epoch, epoch.UnixNano()}
}

func (c *clock) now() int64 { return c.epochNS + int64(time.Since(c.epoch)) }

// at is the clock's reading at a time, with or without a monotonic reading.
func (c *clock) at(t time.Time) int64 { return c.epochNS + int64(t.Sub(c.epoch)) }

// fail notes that the store has failed, and returns the error.
func (f *Frontier) fail(err error) error {
	f.failure.CompareAndSwap(nil, &err)
	f.waiting.WakeAll()
	return err
}

// failed is the store's first failure, or nil.
func (f *Frontier) failed() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// closed reports whether Close was called.
func (f *Frontier) closed() bool { return f.ctx.Err() != nil }

// stopped is the reason why nothing is recorded any more, or nil.
func (f *Frontier) stopped() error {
	if err := f.failed(); err != nil {
		return err
	}
	if f.closed() {
		return ErrClosed
	}
	return nil
}

// ready waits for the store, without a lock and until the frontier is closed.
func (f *Frontier) ready() error {
	if err := f.stopped(); err != nil {
		return err
	}
	if err := f.store.Ready(f.ctx); err != nil {
		if f.closed() {
			return ErrClosed
		}
		return fmt.Errorf("wait for the store: %w", err)
	}
	return nil
}

// partitions is how many parts the space of registrable domains is cut into, for
// ever: what is on disk belongs to partitions, never to shards.
const partitions = dedup.Partitions

// shardSet are the shards of a frontier, and which of them owns which partition.
// It does not change after New.
type shardSet struct {
	all    []*shard
	owners [partitions]uint16 // partition → index in all
}

func (ss *shardSet) init(all []*shard) {
	ss.all = all
	for p := range ss.owners {
		ss.owners[p] = uint16(assign(uint8(p), len(all)))
	}
}

// of is the shard of a host.
func (ss *shardSet) of(id weburl.HostID) *shard { return ss.ofPartition(id.Partition()) }

func (ss *shardSet) ofPartition(p uint8) *shard { return ss.all[ss.owners[p]] }

// firstDue is when the first host of all shards may be leased.
func (ss *shardSet) firstDue() int64 {
	due := int64(never)
	for _, s := range ss.all {
		due = min(due, s.due.Load())
	}
	return due
}

// filters are the filters of a partition's shard, and the mutex that guards them.
func (ss *shardSet) filters(p uint8) (*dedup.Filters, sync.Locker) {
	s := ss.ofPartition(p)
	return &s.known.filters, &s.mu
}

// assign returns the shard, of the given number, that owns a partition.
//
// It is highest-random-weight hashing: every (partition, shard) pair has a
// fixed weight and the heaviest shard wins. Adding a shard therefore moves only
// the partitions that the new shard wins, and moves each of them to it.
func assign(partition uint8, shards int) int {
	best, owner := uint64(0), 0
	for s := range shards {
		if w := shardWeight(partition, s); w > best {
			best, owner = w, s
		}
	}
	return owner
}

// shardWeight is the fixed weight of a pair. Shards exist in one process only: nothing on disk and no other machine
// depends on it.
func shardWeight(partition uint8, shard int) uint64 {
	var b [9]byte
	b[0] = partition
	binary.LittleEndian.PutUint64(b[1:], uint64(shard))
	return xxhash.Sum64(b[:])
}
