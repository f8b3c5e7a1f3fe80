package frontier

import (
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/internal/limit"
	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A Lease is the right to make one fetch now. It holds one of the host's slots, and
// for a page its place in memory and its page ticket. Done says how the fetch ended,
// and releases them.
//
// Start, Done and Abandon may be called from any goroutine.
type Lease struct {
	f *Frontier
	s *shard

	url weburl.URL
	key weburl.Key

	queued
	host, level int32
	slot        int // index in s.leases.out; guarded by s.mu
	priority    uint8
	attempts    uint8 // before this one
	kind        Kind
	round       uint32 // of a robots lease: Frontier.rounds when it was given out

	// What is known of the lease's requests; guarded by s.mu.
	granted int64         // clock; when the lease was given out
	started int64         // clock; when Start last allowed a request, 0 if it never did
	wire    int           // requests of the host on the wire at the start
	slots   int           // slots of the host that were taken then
	landed  bool          // the slot was given back
	address *pace.Address // that Reach has allowed requests to; nil for none

	marked bool // recorded as in flight; guarded by s.mu
	ticket bool // a page ticket is held; guarded by s.mu
	spent  bool // the ticket was used by a request or a failed connection, in this attempt or before; guarded by s.mu
	// disowned means that the partition was closed: the lease has nothing but its slot. Guarded by s.mu.
	disowned bool

	ask  *question // what a robots lease answers; nil for an origin's first request
	late bool      // see RobotsTask

	over atomic.Bool // Done or Abandon was called
}

// Kind is what to fetch.
func (l *Lease) Kind() Kind { return l.kind }

// Link is the URL to fetch, with what was queued of it. For robots leases it has a URL
// only.
func (l *Lease) Link() Link {
	return Link{
		URL: l.url, Sitemap: l.kind != KindPage && l.kind.isQueued(), Check: l.kind == KindCheck, Depth: l.depth,
		Priority: l.priority, Source: l.source,
		Hops: l.hops, Repeats: l.repeats, Visit: max(1, l.visit), Before: l.before, Key: l.key, At: l.place(l.priority),
	}
}

// URL is the URL to fetch.
func (l *Lease) URL() weburl.URL { return l.url }

// Attempt counts this lease and those before it that were used up: 1 for the
// first.
func (l *Lease) Attempt() int { return int(l.attempts) + 1 }

// path is the part of the URL that queues keep.
func (l *Lease) path() []byte { return textOf(l.url.RequestURI()) }

// Start is called before the first byte of each request of the lease. If it returns
// an error, the request must not be sent, and the lease must be ended by
// Done(Result{}): its URL is then leased again, and no attempt is used. The host's
// pace counts from Start, and so do page limits. A lease that ends without Start
// costs no page ticket, unless its Result says that the host failed.
//
// The errors are ErrDone, ErrClosed, ErrPartitionClosed, ErrNotNow, and ErrTooSoon. Without Options.Registry,
// ErrTooSoon is never returned for the first request of a lease. Start never waits.
func (l *Lease) Start() error {
	s := l.s
	s.lock()
	defer s.unlock()
	if err := l.refusalLocked(); err != nil {
		return err
	}
	h := s.hosts.at(l.host)
	st, rnd := s.schedule.stateOf(h), s.schedule.rng.Uint64()
	if !s.sharing.start(l, st, rnd) {
		return ErrTooSoon
	}
	if l.started == 0 {
		st.start()
		l.slots, l.wire = s.sharing.inflight(l.host, st)
		if l.wire > l.f.o.Pace.MaxInflight {
			s.count.violations++
		}
	}
	l.started = s.time()
	l.spent = l.ticket
	s.schedule.started(h, l.started, rnd)
	s.touch(l.host)
	return nil
}

// refusalLocked is the reason why no request of the lease may be sent now, or nil.
func (l *Lease) refusalLocked() error {
	switch {
	case l.over.Load():
		return ErrDone
	case l.f.closed():
		return ErrClosed
	case l.disowned:
		return ErrPartitionClosed
	case l.started != 0 && !l.mayRepeatLocked():
		return ErrTooSoon
	case l.started != 0 && l.address != nil && !l.address.Repeat(l.f.o.Addresses):
		return ErrTooSoon
	case l.f.o.MayStart != nil && !l.f.o.MayStart():
		return ErrNotNow
	}
	return nil
}

// mayRepeatLocked reports whether the host's pace allows a further request of a lease
// that has sent one. The first one was allowed by the lease itself. The rules are
// those by which shard.next gives out a lease.
func (l *Lease) mayRepeatLocked() bool {
	s := l.s
	h := s.hosts.at(l.host)
	st := s.schedule.stateOf(h)
	switch {
	case h.flags&hostHeld != 0:
		return false
	case st.unstarted > 0 && st.pace.Delay(&s.f.o.Pace) > 0:
		return false // the next request belongs to a lease that is out already
	}
	return s.schedule.nextStart(l.host, h) <= s.time()
}

// RecordInFlight commits that the URL is in flight, unless that is recorded already. It is for callers whose
// journal must tell which URLs were in flight when the process ended, as in a crawl of several machines. After an
// error nothing must be read, and the lease must be ended by Done(Result{}).
func (l *Lease) RecordInFlight() error {
	s := l.s
	s.lock()
	defer s.unlock()
	switch {
	case l.over.Load():
		return ErrDone
	case l.disowned:
		return ErrPartitionClosed
	case l.marked || !l.kind.isQueued():
		return nil
	}
	return s.commitLeased(l)
}

// Done says how the fetch ended, exactly once: a second call returns ErrDone. If
// it returns another error nothing was recorded, and the URL is pending.
func (l *Lease) Done(r Result) (Disposition, error) {
	if l.over.Swap(true) {
		return Returned, ErrDone
	}
	b, err := l.f.newBatch(r.Found, r.Links)
	if err == nil {
		err = l.f.ready()
	}
	if err != nil {
		l.putBack(0)
		return Returned, err
	}
	defer l.f.recycle(b)

	s := l.s
	s.lock()
	if l.disowned {
		defer s.unlock()
		return Returned, l.endDisownedLocked()
	}
	end := &b.end
	event := end.land(l, &r)
	if back, d := end.goesBack(&r); back {
		err := end.back(&r, event, d)
		s.effects.returning = true
		s.unlock()
		return d, err
	}
	b.origin, b.self = r.Origin, l.key
	b.take(&r, l.key.Host.Partition())
	end.again = r.Again
	if l.kind.isQueued() {
		b.fin = *r.Finish
		b.fin.Key, b.fin.Visit, b.fin.Generation, b.fin.Before = l.key, max(1, l.visit), l.f.o.Generation,
			l.before
		b.fin.Attempts, b.fin.Counted, b.fin.Sitemap = uint16(l.Attempt()), l.spent, l.kind != KindPage
	}
	if err := l.f.finish(b, s); err != nil {
		l.putBack(0)
		return Returned, err
	}
	return Finished, nil
}

// Abandon ends the lease if Done was never called. Workers defer it, so that a panic
// costs an attempt and nothing else. The URL is leased again after a while; Attempt
// then tells how often that has happened.
func (l *Lease) Abandon() {
	if !l.over.Swap(true) {
		l.putBack(pace.Backoff(l.Attempt(), l.f.o.Pace.MaxBackoff))
	}
}

// putBack ends the lease without a result: its URL waits for the given time.
func (l *Lease) putBack(wait time.Duration) {
	s := l.s
	s.lock()
	defer s.unlock()
	if l.disowned {
		_ = l.endDisownedLocked() // the caller has an error already, or wants none
		return
	}
	if !l.landed {
		l.releaseLocked(s.hosts.at(l.host))
	}
	l.putBackLocked(s.time()+int64(wait), l.Attempt())
	if l.kind.isQueued() && l.f.failed() == nil {
		_ = s.commitReturned(l) // a failure is noted, and the next call returns it
	}
}

// disownLocked ends a lease because its partition closes. Its request keeps the host's slot.
func (l *Lease) disownLocked() {
	s := l.s
	h := s.hosts.at(l.host)
	l.endLocked(h)
	l.disowned = true
	if !l.landed {
		h.disowned++
	}
	switch l.kind {
	case KindPage, KindSitemap, KindCheck:
		s.effects.permits++
		if l.ticket {
			s.returnTicket(h)
		}
	case KindRobots:
		l.endRobotsLocked(h)
		if l.ask != nil {
			s.robots.refuse(h.id, l.ask)
		}
	}
}

// endDisownedLocked releases the slot of a disowned lease.
func (l *Lease) endDisownedLocked() error {
	if !l.landed {
		h := l.s.hosts.at(l.host)
		l.releaseLocked(h)
		h.disowned--
	}
	return ErrPartitionClosed
}

// leases are the leases of a shard that are out, and its hosts that wait for one of
// the bounded numbers that leases need: page tickets and robots slots.
type leases struct {
	out     []*Lease // in no order; each knows its index
	tickets slotQueue
	robots  slotQueue
}

func (ls *leases) init(tickets, robots *limit.Slots) {
	ls.tickets = slotQueue{slots: tickets, flag: hostTicketWait}
	ls.robots = slotQueue{slots: robots, flag: hostRobotsWait}
}

func (ls *leases) add(l *Lease) {
	l.slot = len(ls.out)
	ls.out = append(ls.out, l)
}

func (ls *leases) remove(l *Lease) {
	last := len(ls.out) - 1
	ls.out[l.slot] = ls.out[last]
	ls.out[l.slot].slot = l.slot
	ls.out[last] = nil
	ls.out = ls.out[:last]
}

// lowest returns, for each level, the first place in its queue that is leased.
func (ls *leases) lowest() map[int32]Cursor {
	low := make(map[int32]Cursor, len(ls.out))
	for _, l := range ls.out {
		if !l.kind.isQueued() {
			continue
		}
		at := l.place(l.priority)
		if old, ok := low[l.level]; !ok || at.Compare(old) < 0 {
			low[l.level] = at
		}
	}
	return low
}

// reserve takes a page ticket for a host, or has the host wait for one.
func (ls *leases) reserve(i int32, h *host) bool {
	if !ls.tickets.take(i, h) {
		return false
	}
	h.tickets++
	return true
}

// returnTicket gives a page ticket back that was not used.
func (ls *leases) returnTicket(h *host) {
	h.tickets--
	ls.tickets.release()
}

// A slotQueue takes slots of a bounded number that all shards share, for the hosts of
// one shard, and keeps those that wait for a slot. A host that waits has the flag and
// is in the queue. Entries of hosts without the flag are skipped.
type slotQueue struct {
	slots *limit.Slots
	flag  hostFlags
	hosts memory.Fifo
}

// take takes a slot, or has the host wait for one.
func (q *slotQueue) take(i int32, h *host) bool {
	if q.slots.Take() {
		return true
	}
	q.wait(i, h)
	return false
}

// wait has a host wait for a slot.
func (q *slotQueue) wait(i int32, h *host) {
	h.flags |= q.flag
	q.hosts.Push(i)
	q.slots.Queue()
}

// release gives a slot back.
func (q *slotQueue) release() { q.slots.Release() }

// next ends the wait of the first host that waits, and returns it. The host has to
// try again to get a slot.
func (q *slotQueue) next(hosts *hostTable) (int32, bool) {
	for {
		i, ok := q.hosts.Pop()
		if !ok {
			return 0, false
		}
		q.slots.Dequeue()
		if h := hosts.at(i); h.flags&q.flag != 0 {
			h.flags &^= q.flag
			return i, true
		}
	}
}
