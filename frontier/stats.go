package frontier

import (
	"cmp"
	"slices"
	"time"
)

// Stats are a frontier's figures at one moment. Those of different shards are
// read one after another.
type Stats struct {
	Pending  int64 // pages not finished, leased ones included; an estimate until a resumed queue is read
	InMemory int64 // URLs held in memory, sitemaps too: the used part of Options.MaxInMemory
	Peak     int64 // the most that InMemory ever was
	OnDisk   int64 // URLs that are queued in the store only, sitemaps too
	Leased   int64 // leases out, of all kinds
	Robots   int64 // of them, robots leases
	Waiting  int64 // URLs that wait for another attempt
	Held     int64 // pages that are not tried in this run: blocked, abandoned, over the host limit
	GivenUp  int64 // of them, those of blocked and abandoned hosts
	// pages that can be leased in this run without opening another level, leased ones included; an estimate like
	// Pending
	Open     int64
	Sitemaps int64 // sitemaps not finished, leased ones included; an estimate like Pending
	Unwanted int64 // of them, those that are not tried in this run: of blocked and abandoned hosts, or skipped
	Checks   int64 // checks that are tried in this run and not finished, leased ones included; an estimate like Pending
	Sources  int64 // source tokens held
	Tickets  int64 // page tickets taken in all runs of the crawl
	Added    int64 // pages that were new, in this run
	Finished int64 // pages finished, in this run
	Level    int   // under LevelByLevel: the depth that is open

	// Hosts are hosts by what they wait for, as of when they were last looked at: "ready" (nothing), "idle" (no URLs),
	// "delay", "rest" (after a refusal), "backoff" (after failures), "retry", "in flight" (its limit is reached),
	// "starting" (a leased request is not sent yet), "robots.txt", "robots.txt slot", "loading" (from the store),
	// "page limit", "host page limit", "level", "blocked", "abandoned", "parked", "partition" (it opens or closes),
	// "other crawl" (of the process), "address" (it gets as many requests as it may, from other hosts too). All of them
	// are in the map.
	Hosts  map[string]int64
	Active int           // active hosts: the used part of Options.MaxHosts
	Parked int           // hosts that are not active
	Next   time.Duration // until the first host may be leased; negative if none will by itself
	Idle   int64         // calls of Next that wait

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
func (f *Frontier) PagesUsed() int64 { return f.tickets.Used() }

// SetMaxURLs changes Options.MaxURLs while the frontier runs. Zero means no limit, and a negative number
// that no further page may be fetched. Pages that are being fetched are not stopped.
func (f *Frontier) SetMaxURLs(n int64) {
	f.tickets.SetLimit(n)
	f.waiting.WakeAll()
}

// Stats returns the figures of this moment.
func (f *Frontier) Stats() Stats {
	st := Stats{
		InMemory: f.permits.Used(), Peak: f.permits.Peak(), Robots: f.robots.Used(),
		Sources: f.sources.Load(), Tickets: f.tickets.Used(), Level: depthOf(uint8(f.gate.open.Load())),
		Idle: f.waiting.Len(), Starved: f.jobs.Starved(), Next: -1,
		Hosts: make(map[string]int64, whyCount),
	}
	st.LookingUp, st.LookWaiting, st.LookWaited = f.lookups.Counts()
	for _, s := range f.shards.all {
		s.lock()
		st.add(s)
		s.mu.Unlock()
	}
	st.Open = st.Pending - st.Held
	if f.gate.on {
		st.Open = max(0, f.gate.unfinished()-st.Sources-(st.Sitemaps-st.Unwanted))
	}
	if due := f.shards.firstDue(); due != never {
		st.Next = max(0, time.Duration(due-f.clock.now()))
	}
	return st
}

// add adds the figures of a shard, which is locked.
func (st *Stats) add(s *shard) {
	c := &s.count
	pages := s.queues.pending - s.queues.sitemaps - s.queues.checks
	st.Pending += pages
	st.Sitemaps += s.queues.sitemaps
	st.Unwanted += s.queues.sitemaps - (c.hosts.urls - c.hosts.pages - c.hosts.checks)
	st.Checks += c.hosts.checks
	st.Held += pages - c.hosts.pages
	st.OnDisk += s.queues.disk
	st.GivenUp += c.hosts.givenUp
	st.Leased += int64(len(s.leases.out))
	st.Waiting += int64(s.queues.waits.Len())
	st.Added += c.added
	st.Finished += c.finished
	st.Loads += c.loads
	st.Loaded += c.loaded
	st.GaveBack += c.gaveBack
	st.Violations += c.violations
	st.Active += s.schedule.activeCount()
	st.Parked += s.hosts.len() - s.schedule.activeCount()
	st.WindowBytes += s.queues.text.Bytes() + s.hosts.names.Bytes()
	for w, n := range s.hosts.whys {
		st.Hosts[reason(w).String()] += n
	}
	s.known.addStats(st)
}

// A HostView is one host at one moment.
type HostView struct {
	Host     string
	Why      string        // what it waits for; see Stats.Hosts
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

// Busy returns the n hosts with the most requests in flight. After them come hosts that are between two requests: in a
// polite crawl, these are most hosts at any moment. It looks at a bounded number of hosts.
func (f *Frontier) Busy(n int) []HostView {
	const most = 64 // of those between two requests, in each shard
	var all []HostView
	for _, s := range f.shards.all {
		s.lock()
		now := f.clock.now()
		seen := make(map[int32]bool, len(s.leases.out))
		add := func(i int32) {
			if !seen[i] && s.hosts.at(i).active >= 0 {
				seen[i] = true
				all = append(all, s.view(i, now))
			}
		}
		for _, l := range s.leases.out {
			add(l.host)
		}
		for _, node := range s.schedule.soonest(most) {
			if h := s.hosts.at(node.Item); (h.why == whyDelay || h.why == whyNothing) && h.active >= 0 &&
				s.schedule.stateOf(h).crawled > 0 {
				add(node.Item)
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
	for _, s := range f.shards.all {
		s.lock()
		now := f.clock.now()
		for _, node := range s.schedule.soonest(most) {
			if why := s.hosts.at(node.Item).why; node.At > now && (why == whyRest || why == whyBackoff) {
				all = append(all, s.view(node.Item, now))
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b HostView) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), cmp.Compare(a.Host, b.Host))
	})
	return all[:min(n, len(all))]
}

// view describes an active host.
func (s *shard) view(i int32, now int64) HostView {
	h := s.hosts.at(i)
	st, c := s.schedule.stateOf(h), &s.f.o.Pace
	v := HostView{
		Host: string(s.hosts.name(h)), Why: h.why.String(), Inflight: int(st.inflight), Limit: s.schedule.limit(h, st),
		Pending: h.pages(),
		Leases:  st.crawled, Delay: st.pace.Delay(c), Latency: st.pace.Latency(), Failures: st.pace.Failures(),
	}
	v.Refusals, _ = st.pace.Refusals()
	if at := s.schedule.time(i, h); at != never {
		v.Left = time.Duration(max(0, at-now))
	}
	return v
}
