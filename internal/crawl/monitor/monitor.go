// Package monitor shows a running crawl: samples of its figures for the live view, status, metrics and metrics.jsonl,
// and the control socket.
package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Monitor is a view of a running crawl for the live view, metrics and the control socket. Its methods may be called by
// any goroutine at any time; after the run it shows how that ended.
type Monitor struct {
	o      Options
	before state.Counters // what earlier runs did
	meter  rateMeter

	mu   sync.Mutex
	last *sample // guarded by mu; set when the run is over, since its parts are closed then
}

// Options are the parts of the crawl that a monitor reads.
type Options struct {
	Settings *config.Settings
	Starts   []datadir.Start
	Dir      datadir.Dir
	Log      *slog.Logger
	Metrics  *metrics.Metrics // may be nil
	Frontier *frontier.Frontier
	Store    *state.Store
	Figures  func() Figures // at this moment; called from any goroutine
}

// Figures are what only the crawl itself counts.
type Figures struct {
	Phase       Phase
	Note        string // what is waited for in this phase, for people
	Began       time.Time
	Elapsed     time.Duration
	MaxPages    int           // 0 is none
	MaxTime     time.Duration // 0 is none
	Counted     time.Duration // what counts towards MaxTime so far
	Pages       int64         // that this run fetched
	Bytes       int64         // of the pages that this run fetched
	Workers     ControlUse
	Parsing     ControlUse
	WorkerWaits int64 // times that a worker had to wait for its permit
	ParserWaits int64
	Generation  uint32
	// what this run finished, by page.Outcome; set only if it visits URLs again, which the store has counted before
	Outcomes    *[32]int64
	Conditional int64         // conditional requests of this run that were answered
	NotModified int64         // of them, those answered 304
	PauseReason string        // why the crawl pauses; empty if it does not
	PauseLeft   time.Duration // how long a pause because this machine fails still lasts
	Pauses      int           // so far

	Cluster  *Cluster       // nil in a crawl of one machine
	Counters state.Counters // of the partitions that this machine has; only in a crawl of several
}

// New makes a monitor. Call it before the run records anything.
func New(o Options) *Monitor { return &Monitor{o: o, before: o.Store.Counters()} }

// sample is a crawl's figures at one moment.
type sample struct {
	Figures
	live     *Live
	frontier frontier.Stats
	store    state.Stats
	finished int64                  // visits that were finished in the crawl's life
	outcomes map[page.Outcome]int64 // URLs that this run finished
	skipped  map[string]int64       // links that this run did not follow, by reason
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

// Freeze takes the last sample. After it nothing of the run is touched.
func (m *Monitor) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = m.take()
	}
}

func (m *Monitor) take() *sample {
	f, now := m.o.Figures(), time.Now()
	s := &sample{Figures: f, frontier: m.o.Frontier.Stats(), store: m.o.Store.Stats()}
	fs, counters := &s.frontier, m.o.Store.Counters()
	s.outcomes = map[page.Outcome]int64{}
	for code, n := range counters.Outcomes {
		s.outcomes[page.Outcome(code)] = int64(n - m.before.Outcomes[code])
		if f.Outcomes != nil {
			s.outcomes[page.Outcome(code)] = f.Outcomes[code]
		}
	}
	s.skipped = scope.SkippedSince(&counters, &m.before)
	// The store's counts are of what it has applied, which may be a moment ago. The frontier's are of now.
	found, done := int64(m.before.Discovered)+fs.Added, int64(m.before.Finished)+fs.Finished
	s.finished = done
	if f.Outcomes != nil { // a finish may be that of a URL that was finished before
		done = max(0, found-fs.Pending)
	}
	live := &Live{
		SchemaVersion: StatusVersion, State: page.Running, Generation: f.Generation, Conditional: f.Conditional,
		NotModified: f.NotModified,
		Phase:       f.Phase, PID: os.Getpid(), Profile: string(m.o.Settings.Profile),
		Insecure:      m.o.Settings.Insecure,
		StartURLCount: len(m.o.Starts), StartedAt: page.Time{Time: f.Began}, Elapsed: f.Counted.Seconds(),
		Found: found, Done: done, Pending: max(0, found-done), GivenUp: fs.GivenUp, InFlight: fs.Leased,
		Outcomes: OutcomeCounts(&counters, fs.GivenUp), Classes: ClassCounts(&counters), Bytes: int64(counters.Bytes),
		PagesPerSec: float64(f.Pages) / max(f.Elapsed.Seconds(), 0.001),
		Memory:      residentMemory(), InMemory: fs.InMemory, OnDisk: fs.OnDisk, Hosts: map[string]int64{},
		CommitMS: milliseconds(s.store.CommitLatency), LogBytes: s.store.LogBytes,
		Robots: fs.Robots, Tickets: fs.Tickets, Violations: fs.Violations, Cluster: f.Cluster,
	}
	if f.Cluster != nil {
		own := &f.Counters
		live.Found, live.Done, live.Pending = int64(own.Discovered), int64(own.Done()), int64(own.Pending())
		live.Outcomes, live.Classes, live.Bytes = OutcomeCounts(own, fs.GivenUp), ClassCounts(own), int64(own.Bytes)
	}
	live.PagesPerSecNow, live.BytesPerSecNow = m.meter.rates(now, f.Pages, f.Bytes)
	for _, st := range m.o.Starts[:min(len(m.o.Starts), maxShownStarts)] {
		live.StartURLs = append(live.StartURLs, st.URL.String())
	}
	for why, n := range fs.Hosts {
		if n > 0 && why != "idle" {
			live.Hosts[why] = n
		}
	}
	// A worker holds its permit while it waits for a lease; it is at work when it has a lease.
	live.Workers = f.Workers
	live.Workers.InUse = max(0, live.Workers.InUse-int(fs.Idle))
	live.Limits = limitUses(&f, fs.Tickets, live.PagesPerSecNow)
	m.hosts(live)
	idle := m.meter.idle(now, work(fs, f.Bytes))
	live.Idle = math.Floor(idle.Seconds())
	live.Waiting = waitingReason(&f, fs, idle)
	s.live = live
	return s
}

// work is a number that grows whenever a URL is found or finished, or bytes of a page came.
func work(fs *frontier.Stats, bytes int64) int64 { return fs.Added + fs.Finished + bytes }

// hosts fills in the hosts that are worth a look.
func (m *Monitor) hosts(live *Live) {
	asked := m.o.Frontier.Busy(math.MaxInt)
	live.Busiest = hostUses(asked)
	slices.SortFunc(asked, func(a, b frontier.HostView) int {
		return cmp.Or(cmp.Compare(b.Latency, a.Latency), cmp.Compare(a.Host, b.Host))
	})
	live.Slowest = hostUses(asked)
	live.Resting = hostUses(m.o.Frontier.Resting(shownHosts))
}

// hostUses are the first few of the hosts.
func hostUses(hosts []frontier.HostView) (uses []HostUse) {
	for _, h := range hosts[:min(len(hosts), shownHosts)] {
		uses = append(uses, HostUse{
			Host: h.Host, InFlight: h.Inflight, Limit: h.Limit, Leases: h.Leases, Pending: h.Pending,
			DelayMS:   milliseconds(h.Delay),
			LatencyMS: milliseconds(h.Latency), Why: h.Why, Left: h.Left.Seconds(), Refusals: h.Refusals,
			Failures: h.Failures,
		})
	}
	return uses
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Keep measures the rates, and writes metrics.jsonl if the settings ask for it. It returns when ctx ends.
func (m *Monitor) Keep(ctx context.Context) {
	tick := time.NewTicker(meterEvery)
	defer tick.Stop()
	var export <-chan time.Time
	if every := m.o.Settings.MetricExportIntervalSecs; every > 0 {
		t := time.NewTicker(time.Duration(every) * time.Second)
		defer t.Stop()
		export = t.C
	}
	for {
		f, fs := m.o.Figures(), m.o.Frontier.Stats()
		m.meter.add(time.Now(), f.Pages, f.Bytes, work(&fs, f.Bytes))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-export:
			m.export()
		}
	}
}

// export writes a line of metrics.jsonl. The crawl goes on if that fails, since nothing in it depends on the file.
func (m *Monitor) export() {
	if err := m.writeSnapshot(); err != nil {
		m.o.Log.Warn("cannot write metrics.jsonl", "error", err)
	}
}

// ExportLast writes the line of a run's end.
func (m *Monitor) ExportLast() {
	if m.o.Settings.MetricExportIntervalSecs > 0 {
		m.export()
	}
}

// writeSnapshot writes a line without the hosts: their names are long, and there is a line each minute for days.
func (m *Monitor) writeSnapshot() (err error) {
	figures, err := m.o.Metrics.Snapshot()
	if err != nil {
		return err
	}
	live := m.Live()
	live.Busiest, live.Slowest, live.Resting = nil, nil, nil
	f, err := disk.OpenAppend(m.o.Dir.MetricsLog())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.NewEncoder(f).Encode(snapshotLine{SchemaVersion: StatusVersion, At: page.Time{Time: time.Now()},
		Status: live, Metrics: figures})
}

// snapshotLine is a line of metrics.jsonl.
type snapshotLine struct {
	SchemaVersion int            `json:"schema_version"`
	At            page.Time      `json:"at"`
	Status        *Live          `json:"status"`
	Metrics       map[string]any `json:"metrics,omitempty"`
}
