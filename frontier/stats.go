package frontier

import (
	"cmp"
	"slices"
	"time"
)

// Stats are a frontier's figures at one moment. Those of different shards are
// read one after another.
type Stats struct {
	Pending  int64 // URLs not finished, leased ones included; an estimate until a resumed queue is read
	InMemory int64 // of them, held in memory: the used part of Options.MaxInMemory
	Peak     int64 // the most that InMemory ever was
	OnDisk   int64 // of them, only in the store
	Leased   int64 // leases out, of all kinds
	Robots   int64 // of them, robots leases
	Waiting  int64 // URLs that wait for another attempt
	Held     int64 // URLs that are not tried in this run: blocked, abandoned, over the host limit
	GivenUp  int64 // of them, those of blocked and abandoned hosts
	Sitemaps int64 // sitemaps queued
	Sources  int64 // source tokens held
	Tickets  int64 // page tickets taken in the crawl's life
	Added    int64 // links that were new, in this run
	Finished int64 // URLs finished, in this run
	Level    int   // under LevelByLevel: the depth that is open

	Active int             // hosts that are seated: the used part of Options.MaxHosts
	Parked int             // hosts that are not
	Hosts  [whyCount]int64 // hosts by what they wait for, as of when they were last looked at
	Next   time.Duration   // until the first host may be leased; negative if none will by itself
	Idle   int64           // calls of Next that wait

	// The counts of the dedup only grow: each is counted where it happens. A link that another page records while this
	// page's links are looked up counts in both Filtered and HotHits, so Filtered is not Links minus HotHits.
	Links    int64 // links that went through the dedup
	HotHits  int64 // of them, known to the hot set, at once or when they were to be recorded
	Filtered int64 // of them, unknown to the hot set at first, and so looked up in the filter
	Doubtful int64 // of them, known to the filter and looked up in the store
	Erred    int64 // of those, unknown to the store: the filter's false positives

	LookingUp   int64 // keys being looked up now: the used part of Options.MaxVerify
	LookWaiting int64 // keys that wait for that
	LookWaited  int64 // times that a page's links had to wait for it

	FilterKeys, FilterBytes int
	HotKeys, HotBytes       int
	WindowBytes             int   // in queued URLs
	Loads, Loaded, GaveBack int64 // windows read from the store; URLs read into them; URLs given back
	Starved                 bool  // a host waits for memory

	Violations int64 // times that a host had more in flight than its limit: always 0
}

// PagesUsed is Stats.Tickets alone, without taking a lock.
func (f *Frontier) PagesUsed() int64 { return f.tickets.used.Load() }

// Stats returns the figures of this moment.
func (f *Frontier) Stats() Stats {
	st := Stats{
		InMemory: f.permits.used.Load(), Peak: f.permits.peak.Load(), Robots: f.robots.used.Load(),
		Sources: f.sources.Load(), Tickets: f.tickets.used.Load(), Level: depthOf(uint8(f.gate.open.Load())),
		Idle: f.waiters.n.Load(), Starved: f.loader.starved.Load(), Next: -1,
		LookingUp: f.verify.used.Load(), LookWaiting: f.verify.waiting.Load(), LookWaited: f.verify.waited.Load(),
	}
	for _, s := range f.shards {
		s.lock()
		s.addStats(&st)
		s.mu.Unlock()
	}
	if due := f.firstDue(); due != never {
		st.Next = max(0, time.Duration(due-f.clock()))
	}
	return st
}

func (s *shard) addStats(st *Stats) {
	c := &s.count
	st.Pending += c.pending
	st.Held += c.pending - c.pages
	st.OnDisk += c.disk
	st.GivenUp += c.givenUp
	st.Leased += int64(len(s.leases))
	st.Waiting += int64(s.waits.len())
	st.Added += c.added
	st.Finished += c.finished
	st.Links += c.links
	st.HotHits += c.hot
	st.Filtered += c.filtered
	st.Doubtful += c.doubtful
	st.Erred += c.erred
	st.Loads += c.loads
	st.Loaded += c.loaded
	st.GaveBack += c.gaveBack
	st.Violations += c.violations
	st.Active += s.seats.len()
	st.Parked += s.hosts.len() - s.seats.len()
	st.WindowBytes += s.arena.bytes
	for w, n := range s.whys {
		st.Hosts[w] += n
	}
	for _, list := range s.sitemaps {
		st.Sitemaps += int64(len(list))
	}
	hot := s.recent.Stats()
	st.HotKeys += hot.Len
	st.HotBytes += hot.Bytes
	for _, fl := range s.filters {
		if fl != nil {
			st.FilterKeys += fl.Len()
			st.FilterBytes += fl.Bytes()
		}
	}
}

// A HostView is one host at one moment.
type HostView struct {
	Host     string
	Why      Why
	Left     time.Duration // until it may be leased, if that is known
	Inflight int
	Limit    int
	Pending  int64
	Leases   int64 // since the host became active
	Delay    time.Duration
	Latency  time.Duration
	Failures int
	Refusals int
}

// Busy returns the n hosts with the most requests in flight. After them come hosts
// that are between two requests: of a polite crawl, these are most of them at any
// moment. It looks at a bounded number of hosts.
func (f *Frontier) Busy(n int) []HostView {
	const most = 64 // of those between two requests, in each shard
	var all []HostView
	for _, s := range f.shards {
		s.lock()
		now := f.clock()
		seen := make(map[int32]bool, len(s.leases))
		add := func(i int32) {
			if !seen[i] && s.hosts.at(i).seat >= 0 {
				seen[i] = true
				all = append(all, s.view(i, now))
			}
		}
		for _, l := range s.leases {
			add(l.host)
		}
		for _, node := range s.ready.nodes[:min(most, len(s.ready.nodes))] {
			if h := s.hosts.at(node.host); (h.why == WhyDelay || h.why == WhyNothing) && h.seat >= 0 && s.seats.at(h.seat).crawled > 0 {
				add(node.host)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b HostView) int {
		return cmp.Or(cmp.Compare(b.Inflight, a.Inflight), cmp.Compare(b.Leases, a.Leases), cmp.Compare(a.Host, b.Host))
	})
	return all[:min(n, len(all))]
}

// Resting returns n hosts that rest after a refusal or back off after failures,
// the longest first. It looks at a bounded number of hosts.
func (f *Frontier) Resting(n int) []HostView {
	const most = 1 << 14
	var all []HostView
	for _, s := range f.shards {
		s.lock()
		now := f.clock()
		for _, node := range s.ready.nodes[:min(most, len(s.ready.nodes))] {
			if why := s.hosts.at(node.host).why; node.at > now && (why == WhyRest || why == WhyBackoff) {
				all = append(all, s.view(node.host, now))
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b HostView) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Host, b.Host))
	})
	return all[:min(n, len(all))]
}

// view describes a seated host.
func (s *shard) view(i int32, now int64) HostView {
	h := s.hosts.at(i)
	st, c := s.seats.at(h.seat), &s.f.o.Pace
	v := HostView{
		Host: string(s.nameOf(h)), Why: h.why, Inflight: int(st.inflight), Limit: s.limit(h, st), Pending: h.pending,
		Leases: st.crawled, Delay: st.pace.Delay(c), Latency: st.pace.Latency(), Failures: st.pace.Failures(),
	}
	v.Refusals, _ = st.pace.Refusals()
	if place := s.places[i]; place > 0 {
		v.Left = time.Duration(max(0, s.ready.nodes[place-1].at-now))
	}
	return v
}
