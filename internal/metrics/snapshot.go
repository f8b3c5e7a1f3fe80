package metrics

import (
	"fmt"
	"strings"
)

// Snapshot is every figure of the crawl and its process at one moment, by name: a number, or, for a figure with a
// label, numbers by the label's value. A histogram is its count and its sum. Figures of the Go runtime are shown by the
// server only.
func (m *Metrics) Snapshot() (map[string]any, error) {
	if m == nil {
		return nil, nil
	}
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	all := map[string]any{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") {
			continue
		}
		byLabel := map[string]any{}
		for _, one := range f.GetMetric() {
			var value any
			switch {
			case one.GetHistogram() != nil:
				value = map[string]any{"count": one.GetHistogram().GetSampleCount(),
					"sum": one.GetHistogram().GetSampleSum()}
			case one.GetCounter() != nil:
				value = one.GetCounter().GetValue()
			default:
				value = one.GetGauge().GetValue()
			}
			if labels := one.GetLabel(); len(labels) > 0 {
				byLabel[labels[0].GetValue()] = value
				all[f.GetName()] = byLabel
			} else {
				all[f.GetName()] = value
			}
		}
	}
	return all, nil
}
