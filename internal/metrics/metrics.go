package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one crawl.
type Metrics struct {
	registry *prometheus.Registry

	pages      *prometheus.CounterVec
	bytes      prometheus.Counter
	failures   *prometheus.CounterVec
	phases     *prometheus.HistogramVec
	links      *prometheus.CounterVec
	robots     *prometheus.CounterVec
	pace       *prometheus.CounterVec
	commits    *prometheus.HistogramVec
	checkpoint prometheus.Histogram
	governor   *prometheus.CounterVec
	pauses     prometheus.Counter
}

const namespace = "mapwright"

// New makes the metrics in a registry of their own.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		pages:    counter("pages_total", "URLs finished by this run, by outcome.", "outcome"),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "fetched_bytes_total", Help: "Bytes of bodies received, compressed as they came."}),
		failures: counter("fetch_failures_total", "Fetches that had no response, by kind.", "kind"),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "fetch_phase_seconds", Help: "Time that fetches took, by phase.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}, []string{"phase"}),
		links:  counter("links_skipped_total", "Links found that do not belong to the crawl, by reason.", "reason"),
		robots: counter("robots_fetches_total", "Fetches of robots.txt, by answer.", "answer"),
		pace:   counter("pace_events_total", "Changes of hosts' paces, by effect.", "effect"),
		commits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "commit_seconds", Help: "Time from a commit until its batch was durable or applied.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"stage"}),
		checkpoint: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "checkpoint_seconds", Help: "Time that checkpoints took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
		governor: counter("governor_steps_total", "Steps of the governor, by direction.", "direction"),
		pauses:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "pauses_total", Help: "Pauses because this machine failed."}),
	}
	m.registry.MustRegister(m.pages, m.bytes, m.failures, m.phases, m.links, m.robots, m.pace, m.commits, m.checkpoint, m.governor, m.pauses,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry is what to serve.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Page counts a finished URL.
func (m *Metrics) Page(outcome string) {
	if m != nil {
		m.pages.WithLabelValues(outcome).Inc()
	}
}

// Fetched takes the times of a fetch that had a response. Phases that did not happen, such as the connection of a reused one, are zero.
func (m *Metrics) Fetched(dns, connect, tls, wait, total time.Duration, bytes int64) {
	if m == nil {
		return
	}
	m.bytes.Add(float64(max(bytes, 0)))
	for _, p := range [...]struct {
		name string
		took time.Duration
	}{{"dns", dns}, {"connect", connect}, {"tls", tls}, {"wait", wait}, {"total", total}} {
		if p.took > 0 {
			m.phases.WithLabelValues(p.name).Observe(p.took.Seconds())
		}
	}
}

// Failed counts a fetch that had no response.
func (m *Metrics) Failed(kind string) {
	if m != nil {
		m.failures.WithLabelValues(kind).Inc()
	}
}

// Skipped counts links that do not belong to the crawl.
func (m *Metrics) Skipped(reason string, n int64) {
	if m != nil {
		m.links.WithLabelValues(reason).Add(float64(n))
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
	m.robots.WithLabelValues(answer).Inc()
}

// Pace counts what happened to a host's pace.
func (m *Metrics) Pace(effect string) {
	if m != nil {
		m.pace.WithLabelValues(effect).Inc()
	}
}

// Commit takes the latency of a batch: durable or applied.
func (m *Metrics) Commit(stage string, latency time.Duration) {
	if m != nil {
		m.commits.WithLabelValues(stage).Observe(latency.Seconds())
	}
}

// Checkpoint takes the time of a checkpoint.
func (m *Metrics) Checkpoint(took time.Duration) {
	if m != nil {
		m.checkpoint.Observe(took.Seconds())
	}
}

// Governor counts a step.
func (m *Metrics) Governor(direction string) {
	if m != nil {
		m.governor.WithLabelValues(direction).Inc()
	}
}

// Pause counts a pause of our own machine's making.
func (m *Metrics) Pause() {
	if m != nil {
		m.pauses.Inc()
	}
}

// Gauge registers a value that is read when somebody asks. Labels come in pairs of name and value.
func (m *Metrics) Gauge(name, help string, read func() float64, labels ...string) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: pairs(labels)}, read))
	}
}

// Counter registers a count that is kept elsewhere.
func (m *Metrics) Counter(name, help string, read func() float64, labels ...string) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: pairs(labels)}, read))
	}
}

func pairs(labels []string) prometheus.Labels {
	out := prometheus.Labels{}
	for i := 0; i+1 < len(labels); i += 2 {
		out[labels[i]] = labels[i+1]
	}
	return out
}
