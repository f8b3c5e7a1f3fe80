package frontier

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/pace"
)

// A shard owns the hosts of some partitions: their queues, their pace, and the
// filters that know their URLs. Whoever changes a host under the shard's mutex
// touches it; unlocking settles all touched hosts, which is the one place where
// it is decided what a host does next.
type shard struct {
	f     *Frontier
	index int
	self  []*shard     // this shard alone, for unlock
	due   atomic.Int64 // clock; when the first host in ready may be leased; written under mu

	mu sync.Mutex // guards everything below

	table   map[HostID]int32
	hosts   slab[host]
	seats   slab[seat]
	levels  slab[level]
	waits   slab[wait]
	domains slab[domain]
	arena   arena

	// A seated host is in ready exactly when it may be leased at the key's time;
	// a parked one is in parked exactly when it could be, if it had a seat.
	ready, parked hostHeap
	places        []int32
	maxSeats      int
	checked       int64 // the first time in parked when all seated hosts were last held against it

	paces     map[int32]pace.Pace              // of parked hosts, where it must not be forgotten
	origins   map[int32]map[origin]originState // all but a host's first
	asks      asks
	sitemaps  map[int32][]sitemap
	domainIDs map[uint64]int32

	filters [partitions]*dedup.Filter // of the shard's partitions; nil while empty
	recent  *dedup.Recent
	doubts  map[Key]*doubt
	higher  promotions

	leases     []*Lease // all that are out
	robotsWait fifo
	ticketWait fifo
	idle       fifo

	now      int64 // see time; 0 when it was not read since the shard was locked
	touched  []int32
	change   changes
	notices  []Notice
	facts    []HostFact        // to be committed with the next record
	evidence []Evidence        // to be committed with the record that is being made
	gone     map[HostID]Cursor // of hosts that were freed: how far they are finished, for the next checkpoint
	rng      rand.PCG
	rec      [1]Record // for commit
	key      [1]Key    // for keyOnly
	count    counts
	whys     [whyCount]int64 // hosts, by what they wait for
}

// changes are what has to be added to the frontier's counters before the shard is
// unlocked: all at once, so that they are never zero by accident.
type changes struct {
	live, pages, busy int64
	gate              []gateChange
	permits           int64
	returning         bool // whoever made them ends a lease, and will most likely ask for the next
}

// counts are the shard's part of the statistics.
type counts struct {
	added, finished, pending, disk int64
	pages                          int64 // of pending, those that may be leased in this run
	givenUp                        int64 // pending URLs of blocked and abandoned hosts, without those in flight
	loads, loaded, gaveBack        int64
	links, hot, filtered           int64
	doubtful, erred                int64
	violations                     int64
}

func newShard(f *Frontier, index, maxSeats, hotBytes int) *shard {
	s := &shard{
		f: f, index: index, maxSeats: maxSeats, recent: dedup.NewRecent(hotBytes),
		table: map[HostID]int32{}, paces: map[int32]pace.Pace{}, origins: map[int32]map[origin]originState{},
		asks:     asks{questions: map[int32][]question{}, away: map[int32]*robotsWait{}},
		sitemaps: map[int32][]sitemap{}, domainIDs: map[uint64]int32{}, doubts: map[Key]*doubt{}, gone: map[HostID]Cursor{},
	}
	s.self = []*shard{s}
	s.due.Store(never)
	s.checked = never
	s.ready.place, s.parked.place = &s.places, &s.places
	s.rng.Seed(rand.Uint64(), rand.Uint64())
	return s
}

// touch has a host settled before the shard is unlocked.
func (s *shard) touch(i int32) {
	h := s.hosts.at(i)
	if h.flags&hostTouched == 0 {
		h.flags |= hostTouched
		s.touched = append(s.touched, i)
	}
}

// time is the clock, read once while the shard is locked.
func (s *shard) time() int64 {
	if s.now == 0 {
		s.now = s.f.clock()
	}
	return s.now
}

func (s *shard) lock() {
	s.mu.Lock()
	s.now = 0
}

// unlock ends what began with lock, if anything was changed. If nothing was, the
// mutex can be unlocked by itself.
func (s *shard) unlock() { s.f.unlock(s.self) }

// hostOf finds the host of a URL, or makes it.
func (s *shard) hostOf(id HostID, name string) (int32, *host) {
	if i, ok := s.table[id]; ok {
		h := s.hosts.at(i)
		if h.nameLen == 0 {
			s.setName(h, name)
		}
		if h.flags&hostClosed != 0 { // its partition was closed and is open again
			h.flags = h.flags&^hostClosed | hostUnknown
			s.begin(h)
		}
		return i, h
	}
	return s.makeHost(id, name)
}

func (s *shard) makeHost(id HostID, name string) (int32, *host) {
	i := s.hosts.alloc()
	if int(i) == len(s.places) {
		s.places = append(s.places, 0)
	}
	h := s.hosts.at(i)
	s.whys[WhyIdle]++
	*h = host{id: id, flags: hostUnknown, why: WhyIdle, levels: -1, wait: -1, waitLast: -1, seat: -1, domain: -1, domNext: -1, domPrev: -1}
	h.ended = s.gone[id] // it was not committed yet, and must not be once there are links before it
	delete(s.gone, id)
	s.table[id] = i
	s.setName(h, name)
	s.joinDomain(i, h, name)
	s.begin(h)
	if len(s.parked.nodes) == 0 {
		if s.seats.len() >= s.maxSeats {
			s.evictIdle()
		}
		if s.seats.len() < s.maxSeats {
			s.sit(i)
		}
	}
	return i, h
}

// begin makes a host that becomes known wait as its partition's opening says: it
// may have been asked just before, by somebody else.
func (s *shard) begin(h *host) {
	part := s.partitionOf(h)
	h.lastStart = max(h.lastStart, part.openedAt)
	h.notBefore = max(h.notBefore, part.notBefore)
}

func (s *shard) setName(h *host, name string) {
	if name == "" {
		return
	}
	h.name = s.arena.alloc(len(name))
	h.nameLen = uint8(copy(s.arena.at(h.name), name[:min(len(name), 255)]))
}

func (s *shard) nameOf(h *host) []byte {
	if h.nameLen == 0 {
		return nil
	}
	return s.arena.at(h.name)[:h.nameLen]
}

// freeHost forgets a host of which nothing needs to be remembered.
func (s *shard) freeHost(i int32) {
	h := s.hosts.at(i)
	s.dropLevels(h)
	if h.ended.Compare(h.saved) > 0 {
		s.gone[h.id] = h.ended
	}
	s.leaveDomain(i, h)
	s.whys[h.why]--
	delete(s.table, h.id)
	delete(s.origins, i)
	delete(s.paces, i)
	if h.nameLen > 0 {
		s.arena.release(h.name)
	}
	s.hosts.release(i)
}

// forgetAfter is how long a host is remembered after its last request, if only
// for the time of it: its robots.txt may come back with a Crawl-delay.
const forgetAfter = int64(time.Minute)

// forgettable reports whether a host may be freed. What it has learned is in the
// store by then, and what the store does not keep is over.
func (s *shard) forgettable(i int32, h *host, now int64) bool {
	const busy = hostHeld | hostAsking | hostLoading | hostFactDirty | hostTouched | hostRobotsAway | hostRobotsAsked
	p := s.paces[i]
	return h.id != 0 && h.seat < 0 && h.pending == 0 && h.leases == 0 && h.disowned == 0 && h.sitemaps == 0 &&
		h.flags&busy == 0 && p.IsDefault() && max(s.nextStart(i, h), h.lastStart+forgetAfter) <= now
}

// push queues a new link, in memory if it may, and else counts it as on disk.
func (s *shard) push(l *Link) {
	o, name := originOf(l.URL)
	i, h := s.hostOf(l.Key.Host, name)
	_, lv := s.level(h, l.Priority, l.At.before())
	h.pending++
	s.count.pending++
	if h.seat >= 0 && lv.disk == 0 && h.flags&hostHeld == 0 && !s.f.loader.starved.Load() && s.f.permits.take(1) == 1 {
		e := entry{
			path: textOf(l.URL.RequestURI()), origin: o, depth: l.Depth, source: l.Source, hops: l.Hops, visit: visitOf(l),
			index: l.At.Index, position: l.At.Position,
		}
		lv.push(&s.arena, &e)
		lv.setLoad(l.At)
		h.inMemory++
	} else {
		lv.disk++
		s.count.disk++
	}
	s.touch(i)
}

// giveBack frees a host's windows but for the first keep entries, and if it keeps
// none the text of its waits too. All of it is in the store.
func (s *shard) giveBack(h *host, keep uint32) {
	freed, everything := uint32(0), keep == 0
	for i := h.levels; i >= 0; {
		lv := s.levels.at(i)
		if n, first := lv.cut(&s.arena, keep, lv.class); n > 0 {
			lv.disk += n
			lv.setLoad(first.before())
			freed += n
			s.count.disk += int64(n)
		}
		keep -= min(keep, lv.n)
		i = lv.next
	}
	if everything && h.inMemory > freed {
		for i := h.wait; i >= 0; {
			w := s.waits.at(i)
			if w.text != 0 {
				s.arena.release(w.text)
				w.text = 0
				freed++
			}
			i = w.next
		}
	}
	h.inMemory -= freed
	s.count.gaveBack += int64(freed)
	s.change.permits += int64(freed)
}

// A fifo is a queue of hosts.
type fifo struct {
	items []int32
	head  int
}

func (q *fifo) push(i int32) { q.items = append(q.items, i) }

func (q *fifo) pop() (int32, bool) {
	if q.head == len(q.items) {
		return 0, false
	}
	i := q.items[q.head]
	q.head++
	if q.head > 64 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return i, true
}
