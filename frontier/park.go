package frontier

import "github.com/mapwright/mapwright/frontier/pace"

// sit gives a host a seat.
func (s *shard) sit(i int32) {
	h := s.hosts.at(i)
	h.seat = s.seats.alloc()
	st := s.seats.at(h.seat)
	st.pace = s.paces[i]
	delete(s.paces, i)
	st.rnd = s.rng.Uint64()
	st.fair = s.time()
	st.saved, st.savedAt = st.pace.Saved(), 0
	s.parked.remove(i)
}

// seatParked fills free seats with the parked hosts whose time comes first.
func (s *shard) seatParked(now int64) {
	for s.seats.len() < s.maxSeats && len(s.parked.nodes) > 0 {
		i := s.parked.nodes[0].host
		s.sit(i)
		s.settle(i, now)
	}
}

// makeRoom parks hosts whose time comes well after that of the first parked one.
// Settling does so for every host that changes; what is left to do is to look at
// the others when a parked host comes in before all that were there. Many are
// parked at a time, for that is a look at every host.
func (s *shard) makeRoom(now int64) {
	const most = 1024
	top := s.parked.top()
	if top == never {
		s.checked = never
		return
	}
	if top >= s.checked || s.seats.len() < s.maxSeats {
		return
	}
	s.checked = top
	for i, n := int32(0), 0; i < s.hosts.n; i++ {
		h := s.hosts.at(i)
		if h.id == 0 || h.seat < 0 || !s.parkable(i, h) || s.keyOf(i) <= top+parkGap {
			continue
		}
		s.park(i, now)
		s.touch(i)
		if n++; n == most {
			s.checked = never
			return
		}
	}
}

// keyOf is the time at which a host is in its heap.
func (s *shard) keyOf(i int32) int64 {
	place := s.places[i]
	if place == 0 {
		return never
	}
	if s.hosts.at(i).seat >= 0 {
		return s.ready.nodes[place-1].at
	}
	return s.parked.nodes[place-1].at
}

// parkable reports whether a host can do without its seat for now.
func (s *shard) parkable(i int32, h *host) bool {
	return h.leases == 0 && h.disowned == 0 && h.flags&(hostAsking|hostLoading) == 0
}

// park takes a host's seat away. Its windows stay in the store alone, and of its
// pace what must not be forgotten is put aside.
func (s *shard) park(i int32, now int64) {
	h := s.hosts.at(i)
	st := s.seats.at(h.seat)
	s.giveBack(h, 0)
	h.parkedAt = now
	if st.pace.Unsaved(st.saved) {
		h.flags |= hostFactDirty
	}
	s.putAside(i, &st.pace)
	s.ready.remove(i)
	s.seats.release(h.seat)
	h.seat = -1
	h.flags &^= hostEarly
}

// putAside keeps of the pace of a host without a seat what must not be forgotten.
func (s *shard) putAside(i int32, p *pace.Pace) {
	if !p.IsDefault() || p.CrawlDelay() > 0 || p.RestUntil().UnixNano() > s.time() {
		s.paces[i] = *p
	} else {
		delete(s.paces, i)
	}
}

// trimIdle forgets entries of the idle list whose hosts have found work or are
// gone, lest it grow with every host that ever was.
func (s *shard) trimIdle() {
	if len(s.idle.items) < 2*s.seats.len()+1024 {
		return
	}
	var kept fifo
	for i, ok := s.idle.pop(); ok; i, ok = s.idle.pop() {
		if h := s.hosts.at(i); h.flags&hostIdle != 0 && h.seat >= 0 {
			h.flags &^= hostIdle // lest a second entry of the same host be kept
			kept.push(i)
		}
	}
	for _, i := range kept.items {
		s.hosts.at(i).flags |= hostIdle
	}
	s.idle = kept
}

// evictIdle takes the seat of the host that has been without work the longest.
func (s *shard) evictIdle() {
	now := s.time()
	for {
		i, ok := s.idle.pop()
		if !ok {
			return
		}
		h := s.hosts.at(i)
		if h.flags&hostIdle == 0 {
			continue
		}
		h.flags &^= hostIdle
		if h.seat >= 0 && h.why == WhyIdle && s.parkable(i, h) && h.pending == 0 && h.sitemaps == 0 {
			s.park(i, now)
			s.touch(i)
			return
		}
	}
}
