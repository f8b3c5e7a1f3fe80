package crawl

import (
	"encoding/json"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// snapshotLine is a line of metrics.jsonl.
type snapshotLine struct {
	SchemaVersion int            `json:"schema_version"`
	At            page.Time      `json:"at"`
	Status        *Live          `json:"status"`
	Metrics       map[string]any `json:"metrics,omitempty"`
}

// snapshot is the line of this moment. The hosts are left out: a line each minute for days is for figures, and names are long.
func (m *Monitor) snapshot() ([]byte, error) {
	figures, err := m.r.metrics.Snapshot()
	if err != nil {
		return nil, err
	}
	live := m.Live()
	live.Busiest, live.Slowest, live.Resting = nil, nil, nil
	line, err := json.Marshal(snapshotLine{SchemaVersion: StatusVersion, At: page.Time{Time: time.Now()}, Status: live, Metrics: figures})
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}
