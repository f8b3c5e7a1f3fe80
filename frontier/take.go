package frontier

// take leases from the first host whose time has come. It returns nil when there
// is none.
func (s *shard) take(now int64) *Lease {
	for s.ready.top() <= now {
		i := s.ready.nodes[0].host
		l := s.lease(i, now)
		s.settle(i, now)
		if l != nil {
			return l
		}
	}
	return nil
}

// lease makes a lease of what a host has next. It returns nil if the host must
// wait for something after all: then settling the host moves it out of the way.
func (s *shard) lease(i int32, now int64) *Lease {
	h := s.hosts.at(i)
	if h.flags&hostEarly != 0 {
		return nil
	}
	p := s.pick(i, h, now)
	if p.at > now || p.load {
		return nil
	}
	l := &Lease{f: s.f, s: s, host: i, level: -1}
	switch {
	case p.question:
		if !s.leaseQuestion(l, h) {
			return nil
		}
	case p.late:
		if !s.leaseLate(l, h) {
			return nil
		}
	case p.sitemap >= 0:
		s.leaseSitemap(l, h, p.sitemap)
	case !s.leasePage(l, h, p, now):
		return nil
	}
	s.open(l, h, now)
	return l
}

// leasePage makes l a lease of the URL that was picked, or of the robots.txt that
// must be known before.
func (s *shard) leasePage(l *Lease, h *host, p pick, now int64) bool {
	var e entry
	size, ticket := 0, false
	if p.wait >= 0 {
		w := s.waits.at(p.wait)
		ticket = w.ticket
		e = entry{
			path: s.arena.at(w.text)[:w.size], origin: w.origin, depth: w.depth, source: w.source, hops: w.hops, visit: w.visit,
			index: w.index, position: w.position,
		}
		l.level, l.attempts = w.level, w.attempts
	} else {
		l.level = p.level
		size = s.levels.at(p.level).peek(&s.arena, &e)
	}
	if !s.f.o.IgnoreRobots && s.robotsOf(l.host, h, e.origin).until <= now {
		return s.leaseRobots(l, h, e.origin, ticket)
	}
	if !ticket && !s.reserve(l.host, h) {
		return false
	}
	l.ticket, l.spent = true, ticket
	l.kind = KindPage
	l.fill(h.id, s.nameOf(h), &e, s.levels.at(l.level).class)
	if p.wait >= 0 {
		s.arena.release(s.waits.at(p.wait).text)
		s.removeWait(h, p.wait)
	} else {
		s.levels.at(l.level).drop(&s.arena, size)
	}
	h.inMemory-- // the permit goes with the lease
	h.pageLeases++
	s.levels.at(l.level).leased++
	if s.f.gate.on {
		l.depth = s.higher.correct(l.key, l.depth)
	}
	return true
}

// reserve takes a page ticket for a host's next URL, or has the host wait for one.
func (s *shard) reserve(i int32, h *host) bool {
	if s.f.tickets.reserve() {
		h.tickets++
		if s.limited(h) && s.f.o.Observe != nil {
			s.note(Notice{Kind: NoticeHostLimit, Host: string(s.nameOf(h)), Waiting: h.pending - int64(h.pageLeases) - int64(h.ticketed) - 1})
		}
		return true
	}
	s.waitTicket(i, h)
	return false
}

func (s *shard) waitTicket(i int32, h *host) {
	h.flags |= hostTicketWait
	s.ticketWait.push(i)
	s.f.ticketWaiters.Add(1)
}

// open enters a new lease into the books.
func (s *shard) open(l *Lease, h *host, now int64) {
	st := s.seats.at(h.seat)
	h.leases++
	s.partitionOf(h).leases++
	st.crawled++
	st.inflight++
	st.unstarted++
	if int(st.inflight) > s.limit(h, st) {
		s.count.violations++
	}
	if st.turn == 0 {
		st.turn = uint16(min(s.f.o.KeepTurn, 1<<15))
	}
	if st.turn--; st.turn == 0 {
		st.fair = now
	}
	l.granted = now
	l.slot = len(s.leases)
	s.leases = append(s.leases, l)
}

// strike takes a lease out of the books.
func (s *shard) strike(l *Lease, h *host) {
	h.leases--
	part := s.partitionOf(h)
	if part.leases--; part.leases == 0 && part.state == partitionDraining {
		close(part.drained)
	}
	last := len(s.leases) - 1
	s.leases[l.slot] = s.leases[last]
	s.leases[l.slot].slot = l.slot
	s.leases[last] = nil
	s.leases = s.leases[:last]
	if l.kind == KindPage {
		h.pageLeases--
		s.levels.at(l.level).leased--
	}
	s.touch(l.host)
}
