package metrics

import "github.com/prometheus/client_golang/prometheus"

// series is a counter by one label, whose values are known from the start. The counters are looked up once, here, and
// not each time that something is counted.
type series struct {
	by    map[string]prometheus.Counter // never written after it is made
	other prometheus.Counter
}

func (m *Metrics) series(name, help, label string, values ...string) series {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help},
		[]string{label})
	m.registry.MustRegister(vec)
	s := series{by: make(map[string]prometheus.Counter, len(values)), other: vec.WithLabelValues("other")}
	for _, v := range values {
		s.by[v] = vec.WithLabelValues(v)
	}
	return s
}

func (s series) inc(value string) {
	c, known := s.by[value]
	if !known {
		c = s.other
	}
	c.Inc()
}
