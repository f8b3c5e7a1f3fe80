package pace

import (
	"math"
	"slices"
	"time"
)

// A sharedHost is what the crawls of a process know together about a host. It is guarded by the registry's lock.
//
// The queue holds the crawls that could ask the host if they were alone, now or when its gap or rest is over, each
// once. Only one of them may: the first of the account that has waited longest for a turn. A crawl that takes a slot goes
// to the end of the queue when it needs another. So the accounts take turns, and the crawls of an account. A request may
// take minutes, so turns are not enough: an account leaves one slot to the crawls of others.
type sharedHost struct {
	r    *Registry
	name string

	said         []*said // to the accounts whose crawls have asked it lately
	restUntil    int64   // Unix ns; of the rests that the host has asked any of them for, up to mostForOthers each
	lastStart    int64   // Unix ns; of the last request, 0 for none
	gapUntil     int64   // Unix ns; end of the gap after it that was demanded by crawls which are not active any more
	backoffUntil int64   // Unix ns; of the last failure in any crawl
	failStart    int64   // Unix ns; start of the request that failed
	failures     int     // in a row, over all crawls

	inflight  int // slots taken
	unstarted int // of them, without a request yet

	handles []*Handle
	queue   []*Handle
	turns   int64 // how many were taken or lost

	offeredTo *Handle // the one whose turn it is, if the host can be asked now or at a known time
	offeredAt int64   // Unix ns; since when
	timer     *time.Timer
	armed     int64 // Unix ns; when the timer fires, 0 if it will not
	listed    bool  // in the registry's unasked
}

// said is what a host has said to the crawls of an account, and when their last turn was.
type said struct {
	account string
	facts
	turn int64 // its number, or of another one if they had none yet
}

// find is what the host has said to an account lately, or nil.
func (s *sharedHost) find(account string) *said {
	for _, to := range s.said {
		if to.account == account {
			return to
		}
	}
	return nil
}

// saidTo is what the host has said to an account, in this process or before.
func (s *sharedHost) saidTo(account string) *said {
	if to := s.find(account); to != nil {
		return to
	}
	to := &said{account, s.r.memory.facts(Learner{s.name, account}, s.r.now()), s.turns}
	s.said = append(s.said, to)
	return to
}

// inForce is what the given crawl and the others demand: the longest gap and the smallest limit.
func (s *sharedHost) inForce(h *Handle, now int64) Terms {
	t, others := h.terms, s.ofOthers(h, now)
	return Terms{Gap: max(t.Gap, others.Gap), Paced: t.Paced || others.Paced, Limit: min(t.Limit, others.Limit)}
}

// ofOthers is what the other active crawls demand, their gaps up to mostForOthers. The limit of another account's crawl
// does not count if all that it has in flight takes longer than longRequest.
func (s *sharedHost) ofOthers(h *Handle, now int64) Terms {
	t := Terms{Limit: math.MaxInt}
	for _, other := range s.handles {
		if other != h && other.demands(now) {
			t.Gap = max(t.Gap, min(other.terms.Gap, mostForOthers))
			t.Paced = t.Paced || other.terms.Paced
			if other.account == h.account || other.slots == 0 || other.moved+int64(longRequest) > now {
				t.Limit = min(t.Limit, other.terms.Limit)
			}
		}
	}
	return t
}

// restsUntil is when the gap after the last start, the rest and the backoff are over that hold for all crawls.
func (s *sharedHost) restsUntil(force Terms) int64 {
	at := max(s.gapUntil, s.restUntil, s.backoffUntil)
	if s.lastStart > 0 {
		at = max(at, s.lastStart+int64(force.Gap))
	}
	return at
}

// first is the crawl whose turn it is, or nil: of those in the queue whose account need not leave a slot to others.
func (s *sharedHost) first(now int64) (first *Handle) {
	for _, h := range s.queue {
		if !s.leavesSlot(h, now) && (first == nil || h.isBefore(first, now)) {
			first = h
		}
	}
	return first
}

// isBefore says whether a crawl has its turn before one that is further ahead in the queue. Those whose account was asked
// to rest come last, as their rests end.
func (h *Handle) isBefore(ahead *Handle, now int64) bool {
	if rest := max(h.said.restUntil, ahead.said.restUntil); rest > now {
		return h.said.restUntil < ahead.said.restUntil
	}
	return h.said.turn < ahead.said.turn
}

// endTurn takes a crawl out of the queue after its turn, or the loss of it.
func (s *sharedHost) endTurn(h *Handle) {
	s.dequeue(h)
	s.turns++
	h.said.turn = s.turns
}

// leavesSlot says whether the crawl's account may have no further slot, because other accounts ask the host and it has
// all but one.
func (s *sharedHost) leavesSlot(h *Handle, now int64) bool {
	own, others, limit := 0, false, h.terms.Limit
	for _, other := range s.handles {
		switch {
		case other.account == h.account:
			own += other.slots
		case other.demands(now):
			others = true
			limit = min(limit, other.terms.Limit)
		}
	}
	return others && own > 0 && own >= limit-1
}

// readyAt is when a crawl may ask the host, as far as the crawls are concerned: Never while others must do something
// first.
func (s *sharedHost) readyAt(h *Handle, now int64) int64 {
	force := s.inForce(h, now)
	if s.inflight >= force.Limit || force.Paced && s.unstarted > 0 || s.leavesSlot(h, now) {
		return Never
	}
	return max(s.restsUntil(force), h.said.restUntil)
}

// start notes that a request of a crawl starts, and the gap that the crawl demands after it.
func (s *sharedHost) start(h *Handle, gap time.Duration, now int64) {
	h.terms.Gap = gap
	s.lastStart = max(s.lastStart, now)
}

// fail begins a backoff for all crawls. It grows with the failures in a row over all of them. So a crawl that fails
// often, perhaps because its time-out is short, does not hold up a crawl that gets answers.
func (s *sharedHost) fail(p *Pace, isNew bool, now int64) {
	if isNew {
		s.failures++
	}
	until := min(p.backoffUntil, now+int64(Backoff(max(1, s.failures), mostForOthers)))
	s.backoffUntil, s.failStart = max(s.backoffUntil, until), max(s.failStart, p.failStart)
}

// deactivate ends the demands of a crawl, except for the gap after the last start.
func (s *sharedHost) deactivate(h *Handle) {
	if s.lastStart > 0 {
		s.gapUntil = max(s.gapUntil, s.lastStart+int64(min(h.terms.Gap, mostForOthers)))
	}
}

func (s *sharedHost) enqueue(h *Handle) {
	if !h.queued {
		h.queued, h.told = true, Never
		s.queue = append(s.queue, h)
	}
}

func (s *sharedHost) dequeue(h *Handle) {
	if h.queued {
		h.queued = false
		s.queue = slices.DeleteFunc(s.queue, func(other *Handle) bool { return other == h })
	}
}

// offer is called after every change. It returns the first crawl of the queue, if that may ask the host earlier than
// it was told. The crawl that made the change is not returned: it looks at the host anyway. While further crawls wait,
// the first one must ask within patience, or it loses its turn.
func (s *sharedHost) offer(changed *Handle, now int64) (wake *Handle) {
	first := s.first(now)
	at := int64(Never)
	if first != nil {
		at = s.readyAt(first, now)
	}
	if at == Never {
		s.offeredTo = nil
		if first != nil {
			s.armForLimits(now)
		}
		return nil
	}
	if s.offeredTo != first {
		s.offeredTo, s.offeredAt = first, now
	}
	if len(s.queue) > 1 {
		s.arm(max(at, s.offeredAt)+patience, now)
	}
	if first == changed || at >= first.told {
		return nil
	}
	first.told = at
	return first
}

// armForLimits sets the timer to the next time at which the limit of a crawl does not count for others any more.
func (s *sharedHost) armForLimits(now int64) {
	for _, h := range s.handles {
		if at := h.moved + int64(longRequest); h.slots > 0 && at > now {
			s.arm(at, now)
		}
	}
}

// arm sets the timer to fire at the given time or before.
func (s *sharedHost) arm(at, now int64) {
	if s.armed != 0 && s.armed <= at {
		return
	}
	s.armed = at
	if d := time.Duration(max(0, at-now)); s.timer == nil {
		s.timer = time.AfterFunc(d, s.fire)
	} else {
		s.timer.Reset(d)
	}
}

// fire ends the turn of a crawl that has not used it while others wait.
func (s *sharedHost) fire() { s.lapse().Wake() }

func (s *sharedHost) lapse() (wake *Handle) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.armed = 0
	now := s.r.now()
	if first := s.offeredTo; first != nil && len(s.queue) > 1 && s.first(now) == first {
		if at := s.readyAt(first, now); at != Never && max(at, s.offeredAt)+patience <= now {
			s.endTurn(first)
			first.lapsed = true
		}
	}
	return s.offer(nil, now)
}

// remove takes out a crawl that has no slot.
func (s *sharedHost) remove(h *Handle) {
	s.deactivate(h)
	s.handles = slices.DeleteFunc(s.handles, func(other *Handle) bool { return other == h })
	now := s.r.now()
	s.said = slices.DeleteFunc(s.said, func(to *said) bool {
		return to.restUntil <= now && !slices.ContainsFunc(s.handles, func(h *Handle) bool { return h.said == to })
	})
	if len(s.handles) == 0 && !s.listed {
		s.listed = true
		s.r.unasked = append(s.r.unasked, s)
	}
}

// keepUntil is how long the host must be kept though no crawl asks it. A long rest was asked for, and is remembered.
func (s *sharedHost) keepUntil() int64 {
	until := max(s.lastStart+keepHost, s.restUntil, s.backoffUntil)
	for _, to := range s.said {
		until = max(until, min(to.restUntil, s.lastStart+int64(LongRetryAfter)))
	}
	return until
}
