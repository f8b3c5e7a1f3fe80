package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Name is a metric that is updated by a call when something happens.
type Name int

// The metrics. Their labels are in definitions.
const (
	bytes Name = iota
	Failures
	Refusals
	phases
	Robots
	Changes
	Rests
	Backoffs
	Retries
	Overrides
	Blocked
	Abandoned
	Commits
	Checkpoints
	Governor
)

// definition is a metric with one label, or without labels if label is empty. With buckets it is a histogram of
// seconds, else a counter.
type definition struct {
	name, help string
	label      string
	values     []string // of the label
	others     bool     // other values are counted as "other"; else they are not counted
	buckets    []float64
}

// Labels holds label values that other packages of the crawl define. Another value is counted as "other" for Failures,
// and not counted for Changes.
type Labels struct {
	Failures []string // kinds of fetches that ended without a response
	Changes  []string // changes of a host's pace that have no counter of their own
}

func definitions(l Labels) map[Name]definition {
	return map[Name]definition{
		bytes: {name: "fetched_bytes_total", help: "Bytes of bodies received, compressed as they came."},
		Failures: {name: "fetch_failures_total", help: "Fetches of pages that ended without a whole response, by kind.",
			label: "kind", values: l.Failures, others: true},
		Refusals: {name: "refusals_total",
			help: "Answers by which a host asked for fewer requests: 429, 503, 403 with Retry-After, and each plain " +
				"403 " +
				"from the fifth in a row on; those for robots.txt and sitemaps too.",
			label: "status", values: []string{"403", "429", "503"}, others: true},
		phases: {name: "fetch_phase_seconds", help: "Time that fetches of pages took, by phase.",
			label: "phase", values: phaseNames(), buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)},
		Robots: {name: "robots_fetches_total", help: "Fetches of robots.txt, by whether it could be fetched.",
			label: "answer", values: []string{"known", "unknown"}, others: true},
		Changes: {name: "pace_changes_total", help: "Changes of hosts' paces, by kind.",
			label: "change", values: l.Changes},
		Rests:    {name: "rests_total", help: "Rests that hosts were given after refusals."},
		Backoffs: {name: "backoffs_total", help: "Backoffs of hosts after failures."},
		Retries:  {name: "retries_total", help: "URLs that went back for another try."},
		Overrides: {name: "concurrency_overrides_total",
			help: "Times that a learned delay changed how many requests a host may have in flight."},
		Blocked:   {name: "hosts_blocked_total", help: "Hosts blocked because they failed too often in a row."},
		Abandoned: {name: "cancellations_total", help: "Hosts whose domain was abandoned."},
		Commits: {name: "commit_seconds", help: "Time from a commit until its batch was durable, and until it was " +
			"applied.",
			label: "stage", values: []string{"durable", "applied"}, buckets: prometheus.ExponentialBuckets(0.001, 2,
				14)},
		Checkpoints: {name: "checkpoint_seconds", help: "Time that checkpoints took.",
			buckets: prometheus.ExponentialBuckets(0.001, 2, 16)},
		Governor: {name: "governor_steps_total", help: "Steps of the governor, by direction.",
			label: "direction", values: []string{"grow", "shrink"}, others: true},
	}
}

// Metrics are the metrics of one crawl. New looks every series up once, and the maps are not written after that.
type Metrics struct {
	registry *prometheus.Registry
	counters map[Name]map[string]prometheus.Counter // by the value of the label
	times    map[Name]map[string]prometheus.Observer
	bytes    prometheus.Counter
	phases   []prometheus.Observer // in the order of phaseNames
}

const namespace = "mapwright"

// phaseNames are the phases of a fetch, in the order of Fetched's arguments.
func phaseNames() []string { return []string{"dns", "connect", "tls", "wait", "total"} }

// New makes the metrics in a registry of their own.
func New(l Labels) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), counters: map[Name]map[string]prometheus.Counter{},
		times: map[Name]map[string]prometheus.Observer{}}
	for name, d := range definitions(l) {
		var label []string
		values := []string{""} // without a label there is one series
		if d.label != "" {
			label, values = []string{d.label}, d.values
		}
		if d.others {
			values = append(slices.Clone(values), "other")
		}
		if d.buckets == nil {
			vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: d.name, Help: d.help},
				label)
			m.registry.MustRegister(vec)
			m.counters[name] = map[string]prometheus.Counter{}
			for _, v := range values {
				m.counters[name][v] = vec.WithLabelValues([]string{LabelOf(v)}[:len(label)]...)
			}
			continue
		}
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: d.name, Help: d.help,
			Buckets: d.buckets}, label)
		m.registry.MustRegister(vec)
		m.times[name] = map[string]prometheus.Observer{}
		for _, v := range values {
			m.times[name][v] = vec.WithLabelValues([]string{LabelOf(v)}[:len(label)]...)
		}
	}
	m.bytes = m.counters[bytes][""]
	for _, phase := range phaseNames() {
		m.phases = append(m.phases, m.times[phases][phase])
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry returns the registry, for a server that serves it.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Count counts something that happened. The label is empty for a metric without one.
func (m *Metrics) Count(name Name, label string) {
	if m == nil {
		return
	}
	c, known := m.counters[name][label]
	if !known {
		c, known = m.counters[name]["other"]
	}
	if known {
		c.Inc()
	}
}

// Observe records how long something took.
func (m *Metrics) Observe(name Name, label string, took time.Duration) {
	if m == nil {
		return
	}
	if o := m.times[name][label]; o != nil {
		o.Observe(took.Seconds())
	}
}

// Fetched records the times and the size of a page's fetch that had a response. A phase that did not happen is zero,
// such as connect on a reused connection.
func (m *Metrics) Fetched(dns, connect, tls, wait, total time.Duration, size int64) {
	if m == nil {
		return
	}
	m.bytes.Add(float64(max(size, 0)))
	for i, took := range [...]time.Duration{dns, connect, tls, wait, total} {
		if took > 0 {
			m.phases[i].Observe(took.Seconds())
		}
	}
}
