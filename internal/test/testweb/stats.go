package testweb

import "time"

// NoGap stands for a gap where there were not two requests to have one between.
const NoGap time.Duration = -1

// Stats is what all hosts saw since the start or the last reset.
type Stats struct {
	Requests     int64 `json:"requests"`
	MostInFlight int64 `json:"most_in_flight"` // over all hosts together
	Connections  int64 `json:"connections"`
	// requests for hosts that are not there; not among Requests
	UnknownHosts int64                `json:"unknown_hosts"`
	Hosts        map[string]HostStats `json:"hosts"` // by name; only hosts that were asked something
}

// HostStats is what one host saw. Durations are nanoseconds in JSON.
type HostStats struct {
	Requests    int `json:"requests"`    // of all kinds
	Pages       int `json:"pages"`       // requests for anything but the next two
	Robots      int `json:"robots"`      // requests for robots.txt, redirected ones included
	Sitemaps    int `json:"sitemaps"`    // requests for sitemaps, where there is one or not
	Connections int `json:"connections"` // that came to this host, from the start or from another host

	MostInFlight int           `json:"most_in_flight"`
	LeastGap     time.Duration `json:"least_gap"`      // between the starts of two requests, or NoGap
	LeastPageGap time.Duration `json:"least_page_gap"` // between the starts of two page requests, or NoGap
	First        time.Time     `json:"first"`          // start of the first request
	Last         time.Time     `json:"last"`           // start of the last request

	// Status counts answers by status; 0 is for requests that got none.
	Status map[int]int `json:"status"`

	Duplicates   Samples `json:"duplicates"`    // URLs answered 200 again
	Disallowed   Samples `json:"disallowed"`    // asked for against robots.txt
	BeforeRobots Samples `json:"before_robots"` // pages asked for before robots.txt ever was
	Baits        Samples `json:"baits"`         // URLs that no crawl should have taken for a link to follow
	Unknown      Samples `json:"unknown"`       // URLs that the host never named
	Traps        Samples `json:"traps"`         // requests inside traps: not wrong, unless there are many

	// Conditional counts requests for pages that had an If-None-Match or an If-Modified-Since. Status[304] says how
	// many answers had nothing new.
	Conditional int `json:"conditional"`
	// Bodies counts the pages that were answered 200 with a body, BodyBytes the bytes of these bodies as they were
	// sent.
	Bodies    int   `json:"bodies"`
	BodyBytes int64 `json:"body_bytes"`

	// Aborted counts answers that the client did not wait for or did not take whole.
	Aborted int `json:"aborted"`
	// Sent is the number of bytes written to clients.
	Sent int64 `json:"sent"`

	// Refused counts refusals: 429, 503, and whatever else a refusing fault
	// answered. Refusals are the first thousand of them.
	Refused  int       `json:"refused"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Early is requests that started before a Retry-After was over, but for those within
	// Config.Grace of the refusal.
	Early Samples `json:"early"`
}

// Samples are a number of requests, and the URIs of the first few.
type Samples struct {
	Count int      `json:"count"`
	URIs  []string `json:"uris,omitempty"`
}

// Refusal is one time a host asked to be left alone.
type Refusal struct {
	At     time.Time `json:"at"`
	Status int       `json:"status"`
	Until  time.Time `json:"until,omitzero"` // what its Retry-After came to; zero if it had none
	Next   time.Time `json:"next,omitzero"`  // start of the first request after it; zero if there was none
}

// Stats returns a copy of the statistics. An answer that a client has read in full is
// in them.
func (s *Server) Stats() Stats {
	b := Stats{
		Requests:     s.requests.Load(),
		MostInFlight: s.mostInflight.Load(),
		Connections:  s.connections.Load(),
		UnknownHosts: s.unknownHosts.Load(),
		Hosts:        make(map[string]HostStats),
	}
	for i := range s.hosts {
		if hb := s.HostStats(i); hb.Requests > 0 {
			b.Hosts[s.web.names.name(i)] = hb
		}
	}
	return b
}

// HostStats returns a copy of the statistics of the host with number i.
func (s *Server) HostStats(i int) HostStats {
	h := &s.hosts[i]
	sent := h.sent.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.counts
	b := HostStats{
		Requests:     c.requests,
		Pages:        c.pages,
		Robots:       c.robots,
		Sitemaps:     c.sitemaps,
		Connections:  c.connections,
		MostInFlight: c.most,
		LeastGap:     c.gap,
		LeastPageGap: c.pageGap,
		First:        c.first,
		Last:         c.last,
		Status:       make(map[int]int, len(c.status)),
		Duplicates:   c.duplicates.copy(),
		Disallowed:   c.disallowed.copy(),
		BeforeRobots: c.beforeRobots.copy(),
		Baits:        c.baits.copy(),
		Unknown:      c.unknown.copy(),
		Traps:        c.traps.copy(),
		Conditional:  c.conditional,
		Bodies:       c.bodies,
		BodyBytes:    c.bodyBytes,
		Aborted:      c.aborted,
		Sent:         sent,
		Refused:      c.refused,
		Refusals:     append([]Refusal(nil), c.refusals...),
		Early:        c.early.copy(),
	}
	for _, n := range c.status {
		b.Status[n.status] = n.count
	}
	return b
}

func (s *Samples) copy() Samples {
	return Samples{s.Count, append([]string(nil), s.URIs...)}
}

// Reset clears the statistics and puts every fault back to how it started. It is
// meant for a quiet moment: requests in flight stay in flight and are counted when
// they end.
func (s *Server) Reset() {
	s.requests.Store(0)
	s.connections.Store(0)
	s.unknownHosts.Store(0)
	s.mostInflight.Store(s.inflight.Load())
	for i := range s.hosts {
		s.hosts[i].reset()
	}
	if s.log != nil {
		s.log.reset()
	}
}
