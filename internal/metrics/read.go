package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Figure is a family of values that is kept elsewhere and read when the figures are requested.
type Figure struct {
	Name  string // without the namespace; one that ends with _total is a counter, any other a gauge
	Help  string
	Label string // the name of its one label; empty means none
}

// Put gives one value of a figure. The figure is its index in the list that was given to Read. The label is empty for a
// figure without one.
type Put func(figure int, value float64, label string)

// Read registers figures that NewReader reads.
func (m *Metrics) Read(figures []Figure, read func(Put) error) {
	if m != nil {
		m.registry.MustRegister(NewReader(figures, read))
	}
}

// NewReader makes a collector of figures. For each request it calls read once, which puts all figures, so that they are
// of one moment. read may be called from several goroutines.
func NewReader(figures []Figure, read func(Put) error) prometheus.Collector {
	r := &reader{figures: figures, read: read}
	for _, f := range figures {
		var labels []string
		if f.Label != "" {
			labels = []string{f.Label}
		}
		r.descs = append(r.descs, prometheus.NewDesc(prometheus.BuildFQName(namespace, "", f.Name), f.Help, labels,
			nil))
	}
	return r
}

// reader is a collector that asks read.
type reader struct {
	figures []Figure
	descs   []*prometheus.Desc // by figure
	read    func(Put) error
}

// Describe implements [prometheus.Collector].
func (r *reader) Describe(out chan<- *prometheus.Desc) {
	for _, d := range r.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (r *reader) Collect(out chan<- prometheus.Metric) {
	err := r.read(func(figure int, value float64, label string) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(r.figures[figure].Name, "_total") {
			kind = prometheus.CounterValue
		}
		var labels []string
		if r.figures[figure].Label != "" {
			labels = []string{label}
		}
		out <- prometheus.MustNewConstMetric(r.descs[figure], kind, value, labels...)
	})
	if err != nil {
		out <- prometheus.NewInvalidMetric(r.descs[0], err)
	}
}

// LabelOf turns a name into the value of a label.
func LabelOf(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_", ".", "_").Replace(name)
}
