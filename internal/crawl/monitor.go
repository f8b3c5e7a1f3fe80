package crawl

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/export"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Monitor is a view of a running crawl, for whoever shows it. It may be asked by anybody at any time; after the run it shows
// how that ended.
type Monitor struct {
	r      *run
	before state.Counters // what earlier runs did; written before anything runs
	pulse  pulse

	mu   sync.Mutex
	last *sample // guarded by mu; set when the run is over, since its parts are closed then
}

// sample is a crawl's figures at one moment.
type sample struct {
	live     *Live
	frontier frontier.Stats
	store    state.Stats
	outcomes map[page.Outcome]int64 // URLs that this run finished
	skipped  map[Reason]int64
	parsing  ControlUse
	waits    map[string]int64 // times that somebody had to wait, by control
	pause    time.Duration    // left of a pause because this machine fails
	pauses   int              // so far
}

// Live takes the state as it is now.
func (m *Monitor) Live() *Live {
	live := *m.sample().live
	return &live
}

func (m *Monitor) sample() *sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil {
		return m.last
	}
	return m.take()
}

// freeze takes the last sample. After it nothing of the run is touched.
func (m *Monitor) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = m.take()
	}
}

func (m *Monitor) take() *sample {
	r, now := m.r, time.Now()
	s := &sample{frontier: r.frontier.Stats(), store: r.store.Stats(), skipped: r.tally.byReason()}
	pages := r.tally.fetched()
	s.parsing = ControlUse{Limit: r.parsing.limit(), InUse: r.parsing.used(), Waiting: r.parsing.waiting()}
	s.waits = map[string]int64{"workers": r.gov.waited(), "parsers": r.parsing.waited(), "dedup_lookups": s.frontier.LookWaited}
	_, s.pause, s.pauses = r.breaker.state()

	fs, counters, phase, began := &s.frontier, r.store.Counters(), r.phase.get(), r.clock.began()
	s.outcomes = map[page.Outcome]int64{}
	for code, n := range counters.Outcomes {
		s.outcomes[page.Outcome(code)] = int64(n - m.before.Outcomes[code])
	}
	// The store's counts are of what it has applied, which may be a moment ago. The frontier's are of now.
	found, done := int64(m.before.Discovered)+fs.Added, int64(m.before.Finished)+fs.Finished
	bytes := r.tally.bytes.Load()
	elapsed := r.clock.elapsed()
	live := &Live{
		SchemaVersion: StatusVersion, State: Running, Phase: phase.phase, PID: os.Getpid(), Profile: string(r.settings.Profile),
		StartURLCount: len(r.starts), StartedAt: page.Time{Time: began}, Elapsed: elapsed.Seconds(),
		Found: found, Done: done, Pending: max(0, found-done), InFlight: fs.Leased,
		Outcomes: outcomeCounts(&counters, fs.GivenUp), Bytes: int64(counters.Bytes), PagesPerSec: float64(pages) / max(elapsed.Seconds(), 0.001),
		Memory: residentMemory(), InMemory: fs.InMemory, OnDisk: fs.OnDisk, Hosts: map[string]int64{},
		CommitMS: milliseconds(s.store.CommitLatency), LogBytes: s.store.LogBytes,
		Robots: fs.Robots, Tickets: fs.Tickets, Violations: fs.Violations,
	}
	live.PagesPerSecNow, live.BytesPerSecNow = m.pulse.rates(now, pages, bytes)
	for _, st := range r.starts[:min(len(r.starts), maxShownStarts)] {
		live.StartURLs = append(live.StartURLs, st.URL.String())
	}
	for why, n := range fs.Hosts {
		if n > 0 && frontier.Why(why) != frontier.WhyIdle {
			live.Hosts[frontier.Why(why).String()] = n
		}
	}
	// A worker waits for its lease with a permit in hand; it is at work when it has one.
	live.Workers = ControlUse{Most: r.settings.MaxWorkers}
	live.Workers.Limit, live.Workers.InUse, live.Workers.Waiting = r.gov.state()
	live.Workers.InUse = max(0, live.Workers.InUse-int(fs.Idle))
	live.Limits = r.limits.use(fs.Tickets, elapsed, live.PagesPerSecNow)
	m.hosts(live)
	idle := m.pulse.idle(now, m.work(fs, bytes))
	live.Idle = math.Floor(idle.Seconds())
	live.Waiting = r.waitingReason(phase, fs, idle)
	s.live = live
	return s
}

// work is a number that grows whenever a URL is found or finished, or bytes of a page came.
func (m *Monitor) work(fs *frontier.Stats, bytes int64) int64 { return fs.Added + fs.Finished + bytes }

// hosts fills in the hosts that are worth a look.
func (m *Monitor) hosts(live *Live) {
	asked := m.r.frontier.Busy(math.MaxInt)
	for _, h := range asked[:min(len(asked), shownHosts)] {
		live.Busiest = append(live.Busiest, hostUse(h))
	}
	slices.SortFunc(asked, func(a, b frontier.HostView) int {
		return cmp.Or(cmp.Compare(b.Latency, a.Latency), cmp.Compare(a.Host, b.Host))
	})
	for _, h := range asked[:min(len(asked), shownHosts)] {
		live.Slowest = append(live.Slowest, hostUse(h))
	}
	for _, h := range m.r.frontier.Resting(shownHosts) {
		live.Resting = append(live.Resting, hostUse(h))
	}
}

func hostUse(h frontier.HostView) HostUse {
	return HostUse{
		Host: h.Host, InFlight: h.Inflight, Limit: h.Limit, Leases: h.Leases, Pending: h.Pending, DelayMS: milliseconds(h.Delay),
		LatencyMS: milliseconds(h.Latency), Why: h.Why.String(), Left: h.Left.Seconds(), Refusals: h.Refusals, Failures: h.Failures,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// keep feels the pulse, and writes metrics.jsonl if the settings ask for it. It returns when ctx ends.
func (m *Monitor) keep(ctx context.Context) {
	beat := time.NewTicker(pulseEvery)
	defer beat.Stop()
	var export <-chan time.Time
	if every := m.r.settings.MetricExportIntervalSecs; every > 0 {
		t := time.NewTicker(time.Duration(every) * time.Second)
		defer t.Stop()
		export = t.C
	}
	for {
		pages, bytes, fs := m.r.tally.fetched(), m.r.tally.bytes.Load(), m.r.frontier.Stats()
		m.pulse.beat(time.Now(), pages, bytes, m.work(&fs, bytes))
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case <-export:
			m.export()
		}
	}
}

// export writes a line of metrics.jsonl. What cannot be written is missed by nobody but its reader, so the crawl goes on.
func (m *Monitor) export() {
	if err := m.writeSnapshot(); err != nil {
		m.r.log.Warn("cannot write metrics.jsonl", "error", err)
	}
}

// exportLast writes the line of a run's end.
func (m *Monitor) exportLast() {
	if m.r.settings.MetricExportIntervalSecs > 0 {
		m.export()
	}
}

func (m *Monitor) writeSnapshot() (err error) {
	line, err := m.snapshot()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(m.r.dir.MetricsLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, export.Private)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(line)
	return err
}
