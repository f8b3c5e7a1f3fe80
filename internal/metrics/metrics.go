package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one crawl.
type Metrics struct {
	registry *prometheus.Registry

	bytes     prometheus.Counter
	failures  series
	refusals  series
	phases    [phaseCount]prometheus.Observer
	robots    series
	changes   []prometheus.Counter // by number; nil for one that has a counter of its own
	rests     prometheus.Counter
	backoffs  prometheus.Counter
	retries   prometheus.Counter
	overrides prometheus.Counter
	blocked   prometheus.Counter
	cancelled prometheus.Counter
	commits   map[string]prometheus.Observer // by stage; never written after New
	saves     prometheus.Observer
	governor  series
}

// Labels are the values of labels that the crawl's other packages name. Outside of these sets there is only "other".
type Labels struct {
	Failures []string // kinds of fetches that ended without a response
	Changes  []string // changes of a host's pace, by number; empty for those that have counters of their own
}

const namespace = "mapwright"

const phaseCount = 5

// phaseNames are the phases of a fetch, in the order of Fetched's arguments.
func phaseNames() [phaseCount]string { return [...]string{"dns", "connect", "tls", "wait", "total"} }

// New makes the metrics in a registry of their own.
func New(l Labels) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.bytes = m.counter("fetched_bytes_total", "Bytes of bodies received, compressed as they came.")
	m.failures = m.series("fetch_failures_total", "Fetches of pages that ended without a whole response, by kind.",
		"kind", l.Failures...)
	m.refusals = m.series("refusals_total",
		"Answers by which a host asked for fewer requests: 429, 503, 403 with Retry-After, "+
			"and each plain 403 from the fifth in a row on; those for robots.txt and sitemaps too.", "status", "403",
		"429",
		"503")
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "fetch_phase_seconds",
		Help: "Time that fetches of pages took, by phase.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)},
		[]string{"phase"})
	for i, name := range phaseNames() {
		m.phases[i] = phases.WithLabelValues(name)
	}
	m.robots = m.series("robots_fetches_total", "Fetches of robots.txt, by whether it could be fetched.", "answer",
		"known", "unknown")
	changes := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "pace_changes_total",
		Help: "Changes of hosts' paces, by kind."}, []string{"change"})
	for _, name := range l.Changes {
		var c prometheus.Counter
		if name != "" {
			c = changes.WithLabelValues(name)
		}
		m.changes = append(m.changes, c)
	}
	m.rests = m.counter("rests_total", "Rests that hosts were given after refusals.")
	m.backoffs = m.counter("backoffs_total", "Backoffs of hosts after failures.")
	m.retries = m.counter("retries_total", "URLs that went back for another try.")
	m.overrides = m.counter("concurrency_overrides_total",
		"Times that a learned delay changed how many requests a host may have in flight.")
	m.blocked = m.counter("hosts_blocked_total", "Hosts blocked because they failed too often in a row.")
	m.cancelled = m.counter("cancellations_total", "Hosts whose domain was abandoned.")
	commits := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "commit_seconds",
		Help:    "Time from a commit until its batch was durable, and until it was applied.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"stage"})
	m.commits = map[string]prometheus.Observer{"durable": commits.WithLabelValues("durable"),
		"applied": commits.WithLabelValues("applied")}
	saves := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "checkpoint_seconds",
		Help: "Time that checkpoints took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)})
	m.saves = saves
	m.governor = m.series("governor_steps_total", "Steps of the governor, by direction.", "direction", "grow", "shrink")
	m.registry.MustRegister(phases, changes, commits, saves, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

// Registry is what to serve.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Fetched takes the times of a page's fetch that had a response. Phases that did not happen, such as the connection of
// a reused one, are zero.
func (m *Metrics) Fetched(dns, connect, tls, wait, total time.Duration, bytes int64) {
	if m == nil {
		return
	}
	m.bytes.Add(float64(max(bytes, 0)))
	for i, took := range [phaseCount]time.Duration{dns, connect, tls, wait, total} {
		if took > 0 {
			m.phases[i].Observe(took.Seconds())
		}
	}
}

// Failed counts a fetch that had no response.
func (m *Metrics) Failed(kind string) {
	if m != nil {
		m.failures.inc(kind)
	}
}

// Refused counts an answer by which a host asked for less.
func (m *Metrics) Refused(status string) {
	if m != nil {
		m.refusals.inc(status)
	}
}

// Robots counts an answer, or the lack of one.
func (m *Metrics) Robots(unknown bool) {
	if m == nil {
		return
	}
	answer := "known"
	if unknown {
		answer = "unknown"
	}
	m.robots.inc(answer)
}

// Changed counts a change of a host's pace, by its number in Labels.Changes.
func (m *Metrics) Changed(change int) {
	if m != nil && change < len(m.changes) && m.changes[change] != nil {
		m.changes[change].Inc()
	}
}

// Rested counts a host's rest after a refusal.
func (m *Metrics) Rested() {
	if m != nil {
		m.rests.Inc()
	}
}

// BackedOff counts a host's backoff after a failure.
func (m *Metrics) BackedOff() {
	if m != nil {
		m.backoffs.Inc()
	}
}

// Retried counts a URL that goes back for another try.
func (m *Metrics) Retried() {
	if m != nil {
		m.retries.Inc()
	}
}

// Overridden counts a change of what a host may have in flight, because of its answers.
func (m *Metrics) Overridden() {
	if m != nil {
		m.overrides.Inc()
	}
}

// Blocked counts a host that failed too often.
func (m *Metrics) Blocked() {
	if m != nil {
		m.blocked.Inc()
	}
}

// Cancelled counts a host whose domain is given up.
func (m *Metrics) Cancelled() {
	if m != nil {
		m.cancelled.Inc()
	}
}

// Commit takes the latency of a batch: durable or applied.
func (m *Metrics) Commit(stage string, latency time.Duration) {
	if m == nil {
		return
	}
	if o := m.commits[stage]; o != nil {
		o.Observe(latency.Seconds())
	}
}

// Checkpoint takes the time of a checkpoint.
func (m *Metrics) Checkpoint(took time.Duration) {
	if m != nil {
		m.saves.Observe(took.Seconds())
	}
}

// Governor counts a step: grow or shrink.
func (m *Metrics) Governor(direction string) {
	if m != nil {
		m.governor.inc(direction)
	}
}
