package frontier

import (
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Lease is the right to make one fetch now, and the duty to say how it ended:
// it holds one of the host's slots, and for a page its room in memory and its
// page ticket. Done pays them back.
//
// Start, Done and Abandon may be called from any goroutine.
type Lease struct {
	f *Frontier
	s *shard

	url URL
	key Key
	at  Cursor

	host, level int32
	origin      origin
	slot        int // index in s.leases; guarded by s.mu
	depth       uint16
	class       uint8
	source      uint8
	hops        uint8
	visit       laterVisit
	attempts    uint8 // before this one
	kind        Kind

	granted int64 // clock
	started int64 // clock; when Start last allowed a request, 0 if it never did; guarded by s.mu
	wire    int   // requests of the host on the wire at the start; guarded by s.mu
	slots   int   // slots of the host that were taken then; guarded by s.mu
	ticket  bool  // a page ticket is held; guarded by s.mu
	spent   bool  // and used by a request or a failure to connect, now or in an earlier attempt; guarded by s.mu
	landed  bool  // the slot was given back; guarded by s.mu
	// disowned means that the partition was closed: all that the lease has is its
	// slot. Guarded by s.mu.
	disowned bool

	ask  *question // of a robots lease that is not an origin's first
	late bool      // see RobotsTask

	over atomic.Bool // Done or Abandon was called
}

// fill makes l a lease of an entry.
func (l *Lease) fill(id HostID, name []byte, e *entry, class uint8) {
	b := make([]byte, 0, len(name)+len(e.path)+len("https://.:65535"))
	b = append(appendOrigin(b, e.origin, name), e.path...)
	l.url, _ = urlnorm.FromCanonical(stringOf(b)) // it was canonical when it was queued
	l.key = l.f.hasher.KeyOf(id, b)
	l.at = Cursor{Priority: class, Position: e.position, Index: e.index}
	l.origin, l.depth, l.class, l.source, l.hops, l.visit = e.origin, e.depth, class, e.source, e.hops, e.visit
}

// Kind is what to fetch.
func (l *Lease) Kind() Kind { return l.kind }

// Link is the URL to fetch, with what was queued of it. For robots and sitemap
// leases it has a URL only.
func (l *Lease) Link() Link {
	return Link{
		URL: l.url, Depth: l.depth, Priority: l.class, Source: l.source, Hops: l.hops, Visit: max(1, l.visit.number), Before: l.visit.before, Key: l.key, At: l.at,
	}
}

// URL is the URL to fetch.
func (l *Lease) URL() URL { return l.url }

// Attempt counts this lease and those before it that were used up: 1 for the
// first.
func (l *Lease) Attempt() int { return int(l.attempts) + 1 }

// path is what of the URL is queued.
func (l *Lease) path() []byte { return textOf(l.url.RequestURI()) }

// Start is called before the first byte of each request of the lease. If it returns
// an error, the request must not be sent, and the lease must be ended by
// Done(Result{}): its URL is then leased again, and no attempt is used. The host's
// pace counts from Start, and so do page limits. A lease that ends without Start
// costs no page ticket, unless its Result says that the host failed.
//
// The errors are ErrDone, ErrClosed, ErrPartitionClosed, and ErrTooSoon if the request is not the first
// of the lease. Start never waits.
func (l *Lease) Start() error {
	s := l.s
	s.lock()
	defer s.unlock()
	if err := l.refusalLocked(); err != nil {
		return err
	}
	h := s.hosts.at(l.host)
	st := s.seats.at(h.seat)
	if l.started == 0 {
		st.unstarted--
		st.wire++
		l.wire, l.slots = int(st.wire), int(st.inflight)
		if l.wire > l.f.o.Pace.MaxInflight {
			s.count.violations++
		}
	}
	l.started = s.time()
	l.spent = l.ticket
	h.lastStart = l.started
	st.rnd = s.rng.Uint64()
	s.touch(l.host)
	return nil
}

// refusalLocked is the reason why no request of the lease may be sent now, or nil.
func (l *Lease) refusalLocked() error {
	switch {
	case l.over.Load():
		return ErrDone
	case l.f.ctx.Err() != nil:
		return ErrClosed
	case l.disowned:
		return ErrPartitionClosed
	case l.started != 0 && !l.mayRepeatLocked():
		return ErrTooSoon
	}
	return nil
}

// mayRepeatLocked reports whether the host's pace allows a further request of a lease
// that has sent one. The first one was allowed by the lease itself. The rules are
// those by which shard.next gives out a lease.
func (l *Lease) mayRepeatLocked() bool {
	s := l.s
	h := s.hosts.at(l.host)
	st := s.seats.at(h.seat)
	switch {
	case h.flags&hostHeld != 0:
		return false
	case st.unstarted > 0 && st.pace.Delay(&s.f.o.Pace) > 0:
		return false // the next request belongs to a lease that is out already
	}
	return s.nextStart(l.host, h) <= s.time()
}

// Done says how the fetch ended, exactly once: a second call returns ErrDone. If
// it returns another error nothing was recorded, and the URL is pending.
func (l *Lease) Done(r Result) (Disposition, error) {
	if l.over.Swap(true) {
		return Returned, ErrDone
	}
	b, err := l.f.batch(r.Links)
	if err == nil {
		err = l.f.ready()
	}
	if err != nil {
		l.pay(1, 0)
		return Returned, err
	}
	defer l.f.recycle(b)

	s := l.s
	s.lock()
	if l.disowned {
		defer s.unlock()
		return Returned, s.endDisowned(l)
	}
	e, ch := s.land(l, &r)
	if back, d := s.goesBack(l, &r, ch); back {
		err := s.back(l, &r, e, d)
		s.change.returning = true
		s.unlock()
		return d, err
	}
	b.end = ending{lease: l, class: r.Class, verdict: ch.Verdict, until: r.RobotsUntil, crawlDelay: r.CrawlDelay}
	if l.kind == KindPage {
		b.fin = *r.Finish
		b.fin.Key, b.fin.Visit, b.fin.Generation, b.fin.Before = l.key, max(1, l.visit.number), l.f.o.Generation, l.visit.before
		b.fin.Attempts, b.fin.Counted = uint16(l.Attempt()), l.spent
	}
	if err := l.f.commit(b, s); err != nil {
		l.pay(1, 0)
		return Returned, err
	}
	return Finished, nil
}

// Abandon pays the lease back if Done was never called. Workers defer it, so that
// a panic costs an attempt and nothing else. The URL is leased again after a
// while; whoever gets it can tell by Attempt how often that has happened.
func (l *Lease) Abandon() {
	if !l.over.Swap(true) {
		l.pay(1, pace.Backoff(l.Attempt(), l.f.o.Pace.MaxBackoff))
	}
}

// pay gives the lease back without an end: its URL waits for the given time.
func (l *Lease) pay(attempts int, wait time.Duration) {
	s := l.s
	s.lock()
	defer s.unlock()
	if l.disowned {
		_ = s.endDisowned(l) // whoever pays has an error already, or wants none
		return
	}
	if !l.landed {
		s.land(l, &Result{})
	}
	s.putBack(l, s.time()+int64(wait), int(l.attempts)+attempts)
	if l.kind == KindPage && l.f.failed.Load() == nil {
		s.commit(Record{Returned: s.keyOnly(l.key)})
	}
}
