package frontier

import "time"

const (
	// soon is how long before a host's time its window is loaded, and how far away
	// that time may be for the host to keep its window while others need memory.
	soon = int64(time.Second)
	// parkGap is how much later than a parked host's time a seated host's must be
	// for the two to change places: seats should not change hands for nothing.
	parkGap = int64(time.Second)
)

// settle brings everything that depends on a host in line with its state: the
// frontier's counters, its place in the heaps, what is to be loaded for it,
// whether it keeps its memory and its seat. It may free the host.
func (s *shard) settle(i int32, now int64) {
	h := s.hosts.at(i)
	if h.flags&hostClosed != 0 {
		s.settleClosed(i, h)
		return
	}
	if h.flags&hostRobotsAsked != 0 && h.flags&hostHeld != 0 {
		s.refuseQuestions(i, h)
	}
	s.recount(h)
	at, why, load := s.next(i, h, now)
	s.whys[h.why]--
	s.whys[why]++
	h.why = why
	h.flags &^= hostEarly
	if h.seat < 0 {
		s.rank(&s.parked, i, at)
		if s.forgettable(i, h, now) {
			s.freeHost(i)
		}
		return
	}
	key := at
	if load {
		if at > now+soon {
			key = at - soon
			h.flags |= hostEarly
		} else {
			key = never
			s.f.loader.load(s, i, h, at)
		}
	}
	if h.flags&hostUnknown != 0 {
		s.f.loader.ask(s, i, h)
	}
	s.rank(&s.ready, i, key)
	if h.inMemory > 0 && (load || at > now+soon) && s.f.loader.starved.Load() {
		s.giveBack(h, 0) // what cannot be leased now must not keep others waiting
	}
	if top := s.parked.top(); top != never && at > top+min(parkGap, never-top) && s.parkable(i, h) {
		s.park(i, now)
		s.touch(i)
		return
	}
	if why == WhyIdle && h.flags&hostIdle == 0 {
		h.flags |= hostIdle
		s.idle.push(i)
		s.trimIdle()
	}
}

func (s *shard) rank(heap *hostHeap, i int32, at int64) {
	if at == never {
		heap.remove(i)
	} else {
		heap.set(i, at)
	}
}

// next decides when a host's next lease may be given out, why not now, and
// whether what it would be for must be loaded first.
func (s *shard) next(i int32, h *host, now int64) (at int64, why Why, load bool) {
	switch {
	case s.partitionOf(h).state != partitionOpen:
		return never, WhyClosing, false
	case h.flags&hostBlocked != 0:
		return never, WhyBlocked, false
	case h.flags&hostAbandoned != 0:
		return never, WhyAbandoned, false
	case h.seat < 0:
		at := max(s.nextStart(i, h), h.parkedAt)
		p := s.pick(i, h, at)
		if p.at == never {
			return never, p.why, false
		}
		return max(at, p.at), WhyParked, false
	case h.flags&hostUnknown != 0:
		return never, WhyLoading, false
	}
	st, c := s.seats.at(h.seat), &s.f.o.Pace
	if int(st.inflight) >= s.limit(h, st) {
		return never, WhyFull, false
	}
	if st.unstarted > 0 && st.pace.Delay(c) > 0 {
		return never, WhyStarting, false
	}
	start := s.nextStart(i, h)
	p := s.pick(i, h, max(start, now))
	if p.at == never {
		return never, p.why, false
	}
	at = max(start, p.at)
	why = WhyNothing
	if at > now {
		why = WhyRetry
		if p.late {
			why = WhyRobots
		}
		if start >= p.at {
			why = st.whyNot(now)
		}
	} else {
		// Its time has come; who goes first is a matter of turns. A host that has requests out goes behind those that have
		// none: one connection to each of many hosts is better for all than many to one, and an answer brings its turn back.
		if at = max(st.fair, p.at); st.inflight > 0 {
			at = now
		}
	}
	if p.load {
		if at <= now {
			why = WhyLoading
		}
		return at, why, true
	}
	if p.level >= 0 && at <= now+soon {
		if lv := s.levels.at(p.level); lv.disk > 0 && lv.n < windowLow && s.f.permits.plenty() {
			s.f.loader.load(s, i, h, at+soon)
		}
	}
	return at, why, false
}

// limit is how many requests a host may have in flight. A sitemap can take long to
// read: where only one would be allowed because nothing is known of the host, it
// does not keep the first pages waiting.
func (s *shard) limit(h *host, st *seat) int {
	c := &s.f.o.Pace
	if c.Adaptive && st.pace.IsFresh() && h.leases > h.pageLeases {
		return c.MinInflight
	}
	return st.pace.Limit(c)
}

// A pick is what a host's next lease would be for.
type pick struct {
	at    int64 // when it may be had, as far as the URL goes; never for nothing
	why   Why   // why it is nothing
	load  bool
	wait  int32 // index or -1
	level int32 // index or -1
	// question means the host's first question, late an origin whose wait is over.
	question, late bool
	// sitemap is the index in the host's list or -1.
	sitemap int
}

// pick chooses among what a host has at the given time: questions, sitemaps, then
// URLs that are due for another attempt, then the best level.
func (s *shard) pick(i int32, h *host, now int64) pick {
	p := pick{at: never, why: WhyIdle, wait: -1, level: -1, sitemap: -1}
	if h.flags&(hostRobotsAsked|hostRobotsWait|hostRobotsOut) == hostRobotsAsked {
		p.at, p.question = 0, true
		return p
	}
	if h.sitemaps > 0 && h.flags&hostRobotsOut != 0 {
		p.why = WhyRobots // its answer, which may have named the sitemap, may bring a Crawl-delay too
		return p
	}
	if h.sitemaps > 0 {
		p.sitemap, p.at = firstSitemap(s.sitemaps[i])
		if p.at <= now {
			return p
		}
	}
	if h.pending == int64(h.pageLeases) {
		return p
	}
	if h.flags&(hostRobotsOut|hostRobotsWait|hostRobotsAway) != 0 {
		p.why = WhyRobots
		if h.flags&hostRobotsWait != 0 {
			p.why = WhyRobotsSlot
		} else if h.flags&hostRobotsOut == 0 {
			if until := s.asks.away[i].until; until < p.at {
				p.at, p.late, p.sitemap = until, true, -1
			}
		}
		return p
	}
	limited := s.limited(h)
	if limited {
		p.why = WhyHostLimit
	}
	if h.flags&hostTicketWait != 0 {
		limited = true
		p.why = WhyTicket
	}
	w := s.firstWait(h, limited)
	if w >= 0 {
		if at := s.waits.at(w).at; at <= now {
			p.at, p.wait, p.sitemap, p.load = at, w, -1, s.waits.at(w).text == 0
			return p
		}
	}
	if !limited {
		if p.level = s.bestLevel(h); p.level >= 0 {
			p.at, p.sitemap, p.load = 0, -1, s.levels.at(p.level).n == 0
			return p
		}
		p.why = WhyLevel
	}
	if w >= 0 {
		if at := s.waits.at(w).at; at < p.at {
			p.at, p.wait, p.sitemap, p.load = at, w, -1, s.waits.at(w).text == 0
		}
	}
	return p
}

// limited reports whether a host has had all its pages.
func (s *shard) limited(h *host) bool {
	most := s.f.o.MaxURLsPerHost
	return most > 0 && h.tickets >= most
}

// recount brings the frontier's counters in line with a host.
func (s *shard) recount(h *host) {
	leases, others := int64(h.leases), int64(h.leases)-int64(h.pageLeases)
	live, pages, busy, givenUp := leases, int64(h.pageLeases), leases, int64(0)
	held := h.flags&hostHeld != 0
	limited := s.limited(h)
	if !held {
		pages = h.pending
		if limited {
			pages = int64(h.pageLeases) + int64(h.ticketed)
		}
		live = pages + others + int64(h.sitemaps)
		busy += int64(h.ticketed)
	} else {
		givenUp = h.pending - pages
	}
	s.count.givenUp += givenUp - h.givenUp
	h.givenUp = givenUp
	s.change.live += live - h.live
	s.partitionOf(h).live += live - h.live
	s.change.pages += pages - h.pages
	s.count.pages += pages - h.pages
	s.change.busy += busy - h.busy
	h.live, h.pages, h.busy = live, pages, busy
	if s.f.gate.on {
		s.recountLevels(h, held, limited)
	}
}

// nextStart is when a host's pace allows another start.
func (s *shard) nextStart(i int32, h *host) int64 {
	var last time.Time
	if h.lastStart != 0 {
		last = time.Unix(0, h.lastStart)
	}
	var at time.Time
	if h.seat >= 0 {
		st := s.seats.at(h.seat)
		at = st.pace.NextStart(&s.f.o.Pace, last, st.rnd)
	} else {
		at = s.paces[i].NextStart(&s.f.o.Pace, last, 0)
	}
	if at.IsZero() {
		return h.notBefore
	}
	return max(h.notBefore, at.UnixNano())
}

// whyNot tells what of the pace holds the host back.
func (st *seat) whyNot(now int64) Why {
	switch ready := st.pace.ReadyAt(); {
	case ready.IsZero() || ready.UnixNano() <= now:
		return WhyDelay
	case st.pace.Failures() > 0:
		return WhyBackoff
	}
	return WhyRest
}
