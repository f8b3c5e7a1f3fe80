package frontier

import (
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A shard owns the hosts of some partitions, and decides what each of them does next. Its parts hold the data: hosts,
// queues, schedule, leases and others. Only sharing knows the shard.
//
// A call that changes a host under the shard's mutex touches it, and unlocking settles
// all touched hosts. While the shard is not locked, no host is touched, and counters,
// heaps and lists agree with all hosts.
type shard struct {
	f     *Frontier
	index int
	self  []*shard     // this shard alone, for unlock
	due   atomic.Int64 // clock; when the first host in ready may be leased; written under mu

	mu sync.Mutex // guards everything below

	hosts     hostTable
	schedule  schedule
	sharing   sharing
	addresses addresses
	queues    queues
	origins   origins
	robots    robotsQuestions
	known     known
	leases    leases

	now     int64   // see time; 0 when it was not read since the shard was locked
	touched []int32 // hosts to settle; each has hostTouched
	effects effects
	count   counts
	facts   []HostFact    // of hosts, for the next record of the shard
	rec     [1]Record     // for commit, which must not allocate
	key     [1]weburl.Key // for commitLeased and commitReturned
}

// counts are the shard's part of the statistics.
type counts struct {
	added, finished         int64
	hosts                   hostCounts // the sum over all hosts
	loads, loaded, gaveBack int64
	violations              int64
}

func newShard(f *Frontier, index, maxActive, hotBytes int) *shard {
	s := &shard{
		f: f, index: index,
		hosts: newHostTable(), origins: origins{others: map[int32]map[origin]originState{}},
		robots: newRobotsQuestions(),
	}
	s.known.init(&f.o, hotBytes, &f.gate)
	s.self = []*shard{s}
	s.due.Store(never)
	s.leases.init(&f.tickets, &f.robots)
	s.schedule.init(&f.o.Pace, maxActive)
	s.effects.observed = f.o.Observe != nil
	s.sharing.init(s, f.o.Registry)
	s.addresses.share = f.o.Addresses
	return s
}

// touch marks a host to be settled before the shard is unlocked.
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
		s.now = s.f.clock.now()
	}
	return s.now
}

func (s *shard) lock() {
	s.mu.Lock()
	s.now = 0
}

// unlock settles the touched hosts and unlocks the shard. If nothing was changed, s.mu.Unlock is enough.
func (s *shard) unlock() { s.f.unlock(s.self) }

// hostOf finds the host of a URL, or makes it.
func (s *shard) hostOf(id weburl.HostID, name string) (int32, *host) {
	if i, ok := s.hosts.find(id); ok {
		h := s.hosts.at(i)
		s.hosts.setName(h, name)
		if h.flags&hostClosed != 0 { // its partition was closed and is open again
			h.flags = h.flags&^hostClosed | hostUnknown
			s.f.parts.of(h.id).admit(h)
		}
		return i, h
	}
	return s.makeHost(id, name)
}

func (s *shard) makeHost(id weburl.HostID, name string) (int32, *host) {
	i, h := s.hosts.add(id, name)
	h.fair = s.time()
	s.schedule.add(i)
	s.f.parts.of(h.id).admit(h)
	if s.schedule.hasParked() {
		return i, h
	}
	if s.schedule.isFull() {
		if idle, ok := s.schedule.takeIdle(&s.hosts); ok {
			s.park(idle, s.time())
		}
	}
	if !s.schedule.isFull() {
		s.schedule.activate(i, h)
	}
	return i, h
}

// freeHost forgets a host of which nothing needs to be remembered.
func (s *shard) freeHost(i int32) {
	h := s.hosts.at(i)
	s.queues.dropLevels(&h.hostQueue)
	s.origins.remove(i)
	s.sharing.leave(i, s.time())
	s.addresses.leave(i)
	s.schedule.remove(i, h)
	s.hosts.remove(i)
}

// forgettable reports whether a parked host may be freed. What it has learned is in the store by then, and what the
// store does not keep no longer matters.
func (s *shard) forgettable(i int32, h *host, now int64) bool {
	if !h.isDone(now) {
		return false
	}
	p := s.schedule.pace(i, h)
	return p.IsDefault() && s.schedule.nextStart(i, h) <= now
}

// push queues a new link, in memory if it may be there, and else on disk only.
func (s *shard) push(l *Link) {
	o, name := originOf(l.URL)
	i, h := s.hostOf(l.Key.Host, name)
	lv := s.queues.ensureLevel(&h.hostQueue, l.Priority, l.At.before())
	if h.active >= 0 && lv.disk == 0 && h.flags&hostHeld == 0 && !s.f.jobs.Starved() && s.f.permits.Take(1) == 1 {
		e := entryOf(l, o)
		s.queues.add(&h.hostQueue, lv, &e)
	} else {
		s.queues.addOnDisk(&h.hostQueue, lv, 1)
	}
	s.touch(i)
}

// giveBack frees what a host has in memory, except for the first keep entries.
func (s *shard) giveBack(h *host, keep uint32) {
	freed := int64(s.queues.giveBack(&h.hostQueue, keep))
	s.count.gaveBack += freed
	s.effects.permits += freed
}

// settle brings everything that depends on a host in line with its state: the
// counters, its time in the schedule, what is to be loaded for it, whether it keeps
// its memory and stays active. It may free the host.
func (s *shard) settle(i int32, now int64) {
	h := s.hosts.at(i)
	if h.flags&(hostClosed|hostHeld) != 0 {
		s.addresses.leave(i)
	}
	if h.flags&hostClosed != 0 {
		s.sharing.plan(i, h, never, whyClosing, now)
		s.f.parts.of(h.id).settleHost(s, i, h)
		return
	}
	if h.flags&hostRobotsAsked != 0 && h.flags&hostHeld != 0 {
		s.robots.refuseAll(i, h)
	}
	s.recount(h)
	s.sharing.sync(i, h)
	at, why, load := s.next(i, h, now)
	key, turn := s.sharing.plan(i, h, at, why, now)
	if s.excludeAway(i, h, key, now) {
		return // it is settled again
	}
	s.hosts.setWhy(h, turn)
	h.flags &^= hostEarly
	if h.active < 0 {
		s.schedule.set(i, h, at)
		if s.forgettable(i, h, now) {
			s.freeHost(i)
		}
		return
	}
	if load {
		if at > now+soon {
			key = at - soon
			h.flags |= hostEarly
		} else {
			key = never
			s.load(i, h, at)
		}
	}
	if h.flags&hostUnknown != 0 {
		s.ask(i, h)
	}
	s.schedule.set(i, h, key)
	if h.inMemory > 0 && (load || at > now+soon) && s.f.jobs.Starved() {
		s.giveBack(h, 0) // others must not wait for the memory of URLs that cannot be leased now
	}
	if s.schedule.shouldPark(at) && h.parkable() {
		s.park(i, now)
	} else if why == whyIdle {
		s.schedule.addIdle(i, &s.hosts)
	}
}

// settleAll settles the touched hosts, and those that become active or parked by it.
func (s *shard) settleAll(now int64) {
	for {
		for j := 0; j < len(s.touched); j++ {
			i := s.touched[j]
			s.hosts.at(i).flags &^= hostTouched
			s.settle(i, now)
		}
		s.touched = s.touched[:0]
		for i, ok := s.schedule.nextParked(); ok; i, ok = s.schedule.nextParked() {
			s.schedule.activate(i, s.hosts.at(i))
			s.settle(i, now)
		}
		for _, i := range s.schedule.late(&s.hosts) {
			if !s.sharing.waits(i) { // its turn would be lost
				s.park(i, now)
			}
		}
		if len(s.touched) == 0 {
			return
		}
	}
}

// park makes an active host a parked one. What it has queued stays in the store
// alone.
func (s *shard) park(i int32, now int64) {
	h := s.hosts.at(i)
	s.giveBack(h, 0)
	if st := s.schedule.stateOf(h); st.pace.Unsaved(st.saved) {
		h.flags |= hostFactDirty
	}
	s.sharing.leave(i, now)
	s.schedule.park(i, h, now)
	s.touch(i)
}

// next decides when a host's next lease may be given out, why not now, and whether its URL must be loaded first.
func (s *shard) next(i int32, h *host, now int64) (at int64, why reason, load bool) {
	switch {
	case s.f.parts.of(h.id).state != partitionOpen:
		return never, whyClosing, false
	case h.flags&hostBlocked != 0:
		return never, whyBlocked, false
	case h.flags&hostAbandoned != 0:
		return never, whyAbandoned, false
	case s.addresses.waits(i):
		return never, whyAddress, false
	case h.active < 0:
		at := max(s.schedule.nextStart(i, h), h.fair)
		p := s.pick(i, h, max(at, now)) // what it would have if it were active, else it would be parked again at once
		if p.at == never {
			return never, p.why, false
		}
		return max(at, p.at), whyParked, false
	case h.flags&hostUnknown != 0:
		return never, whyLoading, false
	}
	st := s.schedule.stateOf(h)
	if int(st.inflight) >= s.schedule.limit(h, st) {
		return never, whyFull, false
	}
	if st.unstarted > 0 && (st.pace.Delay(&s.f.o.Pace) > 0 || s.addresses.wasLetIn(i)) {
		return never, whyStarting, false
	}
	start := s.schedule.nextStart(i, h)
	p := s.pick(i, h, max(start, now))
	if p.at == never {
		return never, p.why, false
	}
	at = max(start, p.at)
	why = whyNothing
	if at > now {
		why = whyRetry
		if p.late {
			why = whyRobots
		}
		if start >= p.at {
			why = st.whyNot(now)
		}
	} else {
		// Its time has come. Such hosts take turns, in the order in which their last turns ended. A host that has
		// requests out goes behind those that have none: one connection to each of many hosts is better for all than
		// many to one.
		if at = max(st.fair, p.at); st.inflight > 0 {
			at = now
		}
	}
	if p.load {
		if at <= now {
			why = whyLoading
		}
		return at, why, true
	}
	if p.level >= 0 && at <= now+soon {
		if lv := s.queues.level(p.level); lv.disk > 0 && lv.n < windowLow && s.f.permits.Plenty() {
			s.load(i, h, at+soon)
		}
	}
	return at, why, false
}

// A pick is what a host's next lease would be for.
type pick struct {
	at    int64  // when the URL may be fetched, whatever the pace says; never if there is no URL
	why   reason // why there is no URL
	load  bool   // it must be read from the store first
	wait  int32  // index or -1
	level int32  // index or -1
	// question: the lease is for the host's first question. late: it is for an origin whose wait for its robots.txt has
	// ended.
	question, late bool
}

// pick chooses among what a host has at the given time: questions, then URLs that are
// due for another attempt, then the best level.
func (s *shard) pick(i int32, h *host, now int64) pick {
	p := pick{at: never, why: whyIdle, wait: -1, level: -1}
	if h.flags&(hostRobotsAsked|hostRobotsWait|hostRobotsOut) == hostRobotsAsked {
		p.at, p.question = 0, true
		return p
	}
	if h.pending == int64(h.pageLeases)+int64(h.sitemapLeases)+int64(h.checkLeases) {
		return p
	}
	if h.flags&(hostRobotsOut|hostRobotsWait|hostRobotsAway) != 0 {
		p.why = whyRobots
		if h.flags&hostRobotsWait != 0 {
			p.why = whyRobotsSlot
		} else if h.flags&hostRobotsOut == 0 {
			if until := s.robots.waiting[i].until; until < p.at {
				p.at, p.late = until, true
			}
		}
		return p
	}
	noPages, noSitemaps := h.limited(s.f.o.MaxURLsPerHost), s.f.o.SkipSitemaps
	if noPages {
		p.why = whyHostLimit
	}
	if s.f.holding.Load() {
		noSitemaps = true
		if !noPages {
			p.why = whyTicket
		}
	}
	if h.flags&hostTicketWait != 0 {
		noPages, noSitemaps = true, true
		p.why = whyTicket
	}
	w := s.queues.firstWait(&h.hostQueue, noPages, noSitemaps)
	if w >= 0 {
		if at := s.queues.wait(w).until; at <= now {
			p.at, p.wait, p.load = at, w, s.queues.wait(w).text == 0
			return p
		}
	}
	if p.level = s.bestLevel(h, noPages, noSitemaps); p.level >= 0 {
		p.at, p.load = 0, s.queues.level(p.level).n == 0
		return p
	}
	if !noPages && h.pages() > int64(h.pageLeases) {
		p.why = whyLevel
	}
	if w >= 0 {
		if at := s.queues.wait(w).until; at < p.at {
			p.at, p.wait, p.load = at, w, s.queues.wait(w).text == 0
		}
	}
	return p
}

// bestLevel is the level that a host's next lease comes from, or -1. Start pages go first. Then pages and sitemaps take
// turns: sitemaps name further pages, but there may be so many sitemaps that no page would be leased if all of them
// went first. Checks are last.
func (s *shard) bestLevel(h *host, noPages, noSitemaps bool) int32 {
	pages, sitemaps := int32(-1), int32(-1)
	if !noPages {
		pages = s.queues.best(&h.hostQueue, s.f.gate.open.Load(), KindPage)
	}
	if !noSitemaps {
		sitemaps = s.queues.best(&h.hostQueue, int32(PrioritySitemap), KindSitemap)
	}
	switch {
	case sitemaps < 0 && pages < 0:
		return s.queues.best(&h.hostQueue, int32(PriorityCheck), KindCheck)
	case sitemaps < 0:
		return pages
	case pages < 0:
		return sitemaps
	case s.queues.level(pages).priority == PriorityStart || h.flags&hostSitemapTurn == 0:
		return pages
	}
	return sitemaps
}

// recount brings the counters in line with a host.
func (s *shard) recount(h *host) {
	limited := h.limited(s.f.o.MaxURLsPerHost)
	now := h.count(limited, s.f.o.SkipSitemaps)
	s.count.hosts.change(&now, &h.counts)
	s.effects.change(&now, &h.counts)
	s.f.parts.of(h.id).live += now.live - h.counts.live
	h.counts = now
	if s.f.gate.on {
		s.effects.gate.recount(&s.queues, h, limited, s.f.o.SkipSitemaps)
	}
}
