package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// robotsOf is what is known of an origin's robots.txt.
func (s *shard) robotsOf(i int32, h *host, o origin) originState {
	if h.first.until == 0 || h.first.origin == o {
		return h.first
	}
	return s.origins[i][o]
}

// leaseRobots makes l a robots lease, if one may be had; ticket says whether the
// page that needs it has a ticket already.
func (s *shard) leaseRobots(l *Lease, h *host, o origin, ticket bool) bool {
	if !ticket && s.f.tickets.exhausted() {
		s.waitTicket(l.host, h) // no page would follow
		return false
	}
	if !s.takeRobots(l.host, h) {
		return false
	}
	h.flags |= hostRobotsOut
	l.kind, l.level, l.attempts = KindRobots, -1, 0
	l.origin = o
	b := append(appendOrigin(nil, o, s.nameOf(h)), "/robots.txt"...)
	l.url, _ = urlnorm.FromCanonical(stringOf(b))
	return true
}

// takeRobots takes a slot for a robots lease, or has the host wait for one.
func (s *shard) takeRobots(i int32, h *host) bool {
	if s.f.robots.take() {
		return true
	}
	h.flags |= hostRobotsWait
	s.robotsWait.push(i)
	s.f.robotsWaiters.Add(1)
	return false
}

// setRobots notes until when an origin's robots.txt is known, and the delay that
// it asks for. A host of several origins keeps the longest of their delays.
func (s *shard) setRobots(l *Lease, h *host, until time.Time, delay time.Duration) pace.Change {
	o := originState{origin: l.origin, crawl: delay, until: s.f.clockOf(until)}
	if h.first.until == 0 || h.first.origin == l.origin {
		h.first = o
	} else {
		if s.origins[l.host] == nil {
			s.origins[l.host] = map[origin]originState{}
		}
		s.origins[l.host][l.origin] = o
	}
	most := h.first.crawl
	for _, other := range s.origins[l.host] {
		most = max(most, other.crawl)
	}
	var ch pace.Change
	st := s.seats.at(h.seat)
	st.pace, ch = st.pace.WithCrawlDelay(&s.f.o.Pace, most)
	return ch
}
