package crawl

import (
	"context"
	"sync/atomic"
	"time"
)

// lagMeter measures how late goroutines of this process run: how much longer a short sleep takes than it should. On a busy CPU the latency of an answer
// contains that time; it is subtracted before a host is judged by its latency.
type lagMeter struct {
	mean atomic.Int64 // nanoseconds; written by run alone
}

const (
	lagEvery  = 20 * time.Millisecond
	lagWeight = 16 // samples that the moving average looks back
)

// run measures until ctx ends.
func (m *lagMeter) run(ctx context.Context) {
	tick := time.NewTimer(lagEvery)
	defer tick.Stop()
	for due := time.Now().Add(lagEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		mean := m.mean.Load()
		m.mean.Store(mean + (int64(now.Sub(due))-mean)/lagWeight)
		due = now.Add(lagEvery)
		tick.Reset(lagEvery)
	}
}

func (m *lagMeter) value() time.Duration { return time.Duration(max(0, m.mean.Load())) }
