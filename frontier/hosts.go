package frontier

import (
	"iter"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A host is the state of a host name that has something pending, or that must not be forgotten yet. What only an active
// host needs is in its activeState; a parked host has none.
type host struct {
	hostQueue
	id        weburl.HostID
	lastStart int64 // clock; 0 if nothing was started yet
	notBefore int64 // clock; no start before it, whatever the pace says
	fair      int64 // clock; activeState.fair while the host is parked; when it was made if it was never active

	counts hostCounts // what the host adds to the counters

	first originState // the origin asked for first; others are in origins

	tickets int64 // page tickets taken, under MaxURLsPerHost
	counted int64 // finished pages that took one, likewise

	nameText memory.Ref // in the arena of the table
	nameSize uint8      // 0 while the name is unknown

	flags  hostFlags
	why    reason
	active int32 // the index of its activeState, -1 if the host is parked

	domain             int32 // the index of its domain
	nextHost, prevHost int32 // of the domain; -1 at the ends

	leases        uint32 // that are out, of all kinds; each counts until its Done has ended
	pageLeases    uint32
	sitemapLeases uint32
	checkLeases   uint32
	disowned      uint32 // requests of leases whose partition was closed: they hold slots
	gated         uint32 // what its robots leases add to the gate's count of depth 0
}

type hostFlags uint16

const (
	hostBlocked     hostFlags = 1 << iota // failed too often in a row, or is one of hostTable.excluded
	hostAbandoned                         // its domain was given up
	hostUnknown                           // the store has not been asked about it yet
	hostAsking                            // a loader is to ask the store about it
	hostLoading                           // a loader is to fill a window or a wait
	hostRobotsOut                         // a robots lease is out
	hostRobotsWait                        // waits for one of the Options.MaxRobots slots
	hostRobotsAway                        // an origin of it waits for one more robots.txt request; see robotsQuestions
	hostRobotsAsked                       // has questions; see robotsQuestions
	hostTicketWait                        // waits for a page ticket
	hostEarly                             // in the ready heap before its time, so that loading is done by then
	hostIdle                              // in the list of idle hosts
	hostFactDirty                         // has a fact that must be written at the next checkpoint
	hostTouched                           // in the list of hosts to settle
	hostClosed                            // its partition was closed; only its slots are left of it
	hostSitemapTurn                       // its last lease from a level was a page: a sitemap is next, if it has one

	hostHeld = hostBlocked | hostAbandoned
)

// limited reports whether the host has had as many pages as it may; 0 means any number.
func (h *host) limited(most int64) bool { return most > 0 && h.tickets >= most }

// count is what the host adds to the counters now. If it is limited, it may lease no
// further pages, and if skipSitemaps is set, no sitemaps.
func (h *host) count(limited, skipSitemaps bool) hostCounts {
	pages, sitemaps, busy, givenUp := int64(h.pageLeases), int64(h.sitemapLeases), int64(h.leases), int64(0)
	checks := int64(h.checkLeases)
	if h.flags&hostHeld != 0 {
		givenUp = h.pages() - pages
	} else {
		busy += int64(h.ticketed)
		if limited {
			pages += int64(h.ticketed)
		} else {
			pages = h.pages()
		}
		if !skipSitemaps {
			sitemaps = h.sitemaps
		}
		checks = h.checks
		busy += checks // a page limit does not hold them back
	}
	urls := pages + sitemaps + checks
	return hostCounts{live: urls + int64(h.robotsLeases()), urls: urls, pages: pages, checks: checks, busy: busy,
		givenUp: givenUp}
}

// robotsLeases are the robots leases that are out.
func (h *host) robotsLeases() uint32 {
	return h.leases - h.pageLeases - h.sitemapLeases - h.checkLeases
}

// forgetAfter is how long a host is remembered after its last request, even if nothing but the time of that request is
// known: its robots.txt may be read again, and demand a Crawl-delay.
const forgetAfter = int64(time.Minute)

// isDone reports whether nothing of a parked host is queued, leased or to be written,
// and its last request was long ago.
func (h *host) isDone(now int64) bool {
	const busy = hostHeld | hostAsking | hostLoading | hostFactDirty | hostTouched | hostRobotsAway | hostRobotsAsked
	return h.pending == 0 && h.leases == 0 && h.disowned == 0 && h.flags&busy == 0 && h.lastStart+forgetAfter <= now
}

// drawn is for the delay after the last start, as activeState.rnd. It is the same each time that the host becomes
// active: otherwise a host could be parked for its long delay, and become active at once for a shorter one.
func (h *host) drawn() uint64 {
	n := uint64(h.id) ^ uint64(h.lastStart) // mixed as by SplitMix64
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// parkable reports whether a host can be parked: nothing refers to its activeState.
func (h *host) parkable() bool {
	return h.leases == 0 && h.disowned == 0 && h.flags&(hostAsking|hostLoading) == 0
}

// A hostTable holds the hosts of a shard, by id and by index, their names and their
// domains. Every host in it is in the list of its domain. A host keeps its index and
// its address until it is removed.
type hostTable struct {
	byID    map[weburl.HostID]int32
	records memory.Slab[host]
	names   memory.Arena
	domains domainTable
	// gone are the cursors of removed hosts that are not committed yet. A cursor says how far the queue is finished.
	gone map[weburl.HostID]Cursor
	whys [whyCount]int64 // how many hosts wait for what
	// excluded says of the blocked hosts that have not failed too often why they are blocked; nil if there are none.
	excluded map[weburl.HostID]NoticeKind
}

func newHostTable() hostTable {
	return hostTable{byID: map[weburl.HostID]int32{}, domains: domainTable{byID: map[uint64]int32{}},
		gone: map[weburl.HostID]Cursor{}}
}

// at is the host of an index.
func (t *hostTable) at(i int32) *host { return t.records.At(i) }

// len is the number of hosts, end the index after the last one that was ever used.
// A host that was removed has id 0.
func (t *hostTable) len() int   { return t.records.Len() }
func (t *hostTable) end() int32 { return t.records.End() }

// find returns the index of a host, and whether it is in the table.
func (t *hostTable) find(id weburl.HostID) (int32, bool) {
	i, ok := t.byID[id]
	return i, ok
}

// all goes through the hosts of a partition.
func (t *hostTable) all(p uint8) iter.Seq2[int32, *host] {
	return func(yield func(int32, *host) bool) {
		for i := range t.end() {
			if h := t.at(i); h.id != 0 && h.id.Partition() == p && !yield(i, h) {
				return
			}
		}
	}
}

// add adds a host that is not in the table. If gone has a cursor of the host, the host takes it over: a cursor must not
// be committed after links before it are queued.
func (t *hostTable) add(id weburl.HostID, name string) (int32, *host) {
	i := t.records.Alloc()
	h := t.at(i)
	*h = host{id: id, flags: hostUnknown, why: whyIdle, active: -1, hostQueue: emptyQueue(t.gone[id])}
	delete(t.gone, id)
	t.byID[id] = i
	t.whys[h.why]++
	t.setName(h, name)
	t.join(i, h, name)
	return i, h
}

// remove takes a host out. If its queue is finished further than was committed, the
// cursor is kept for takeGone.
func (t *hostTable) remove(i int32) {
	h := t.at(i)
	if h.ended.Compare(h.saved) > 0 {
		t.gone[h.id] = h.ended
	}
	t.leave(h)
	t.whys[h.why]--
	delete(t.byID, h.id)
	if h.nameSize > 0 {
		t.names.Free(h.nameText)
	}
	t.records.Free(i)
}

// takeGone returns the cursors of removed hosts, and forgets them.
func (t *hostTable) takeGone() []HostCursor {
	var cursors []HostCursor
	for id, c := range t.gone {
		cursors = append(cursors, HostCursor{Host: id, Low: c})
	}
	clear(t.gone)
	return cursors
}

// forgetPartition forgets cursors of a partition's removed hosts, and what is known
// of its domains. Domains with hosts are removed with the last of them.
func (t *hostTable) forgetPartition(p uint8) {
	for id := range t.gone {
		if id.Partition() == p {
			delete(t.gone, id)
		}
	}
	for i, d := range t.domains.all() {
		if d.partition() == p {
			d.failures, d.at, d.abandoned = 0, 0, false
			t.domains.release(i)
		}
	}
}

// setWhy sets what a host waits for.
func (t *hostTable) setWhy(h *host, why reason) {
	t.whys[h.why]--
	t.whys[why]++
	h.why = why
}

// name is a host's name, or nil while it is unknown. It must not be written to.
func (t *hostTable) name(h *host) []byte {
	if h.nameSize == 0 {
		return nil
	}
	return t.names.At(h.nameText)[:h.nameSize]
}

// setName sets a host's name, if it is not known yet.
func (t *hostTable) setName(h *host, name string) {
	if name == "" || h.nameSize > 0 {
		return
	}
	h.nameText = t.names.Alloc(len(name))
	h.nameSize = uint8(copy(t.names.At(h.nameText), name[:min(len(name), MaxHost)]))
}

// domain is the domain of a host.
func (t *hostTable) domain(h *host) *domain { return t.domains.at(h.domain) }

// join puts a new host into the list of its registrable domain.
func (t *hostTable) join(i int32, h *host, name string) {
	index := t.domains.ensure(xxhash.Sum64String(weburl.RegistrableDomain(name)))
	d := t.domains.at(index)
	h.domain, h.nextHost, h.prevHost = index, d.hosts, -1
	if d.hosts >= 0 {
		t.at(d.hosts).prevHost = i
	}
	d.hosts = i
	if d.abandoned {
		h.flags |= hostAbandoned | hostFactDirty
	}
}

// leave takes a host out of the list of its domain.
func (t *hostTable) leave(h *host) {
	if h.prevHost >= 0 {
		t.at(h.prevHost).nextHost = h.nextHost
	} else {
		t.domain(h).hosts = h.nextHost
	}
	if h.nextHost >= 0 {
		t.at(h.nextHost).prevHost = h.prevHost
	}
	t.domains.release(h.domain)
}

// siblings goes through the hosts of a domain.
func (t *hostTable) siblings(d *domain) iter.Seq2[int32, *host] {
	return func(yield func(int32, *host) bool) {
		for i := d.hosts; i >= 0; {
			h := t.at(i)
			if !yield(i, h) {
				return
			}
			i = h.nextHost
		}
	}
}
