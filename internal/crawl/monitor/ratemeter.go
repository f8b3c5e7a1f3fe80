package monitor

import (
	"sync"
	"time"
)

// rateMeter knows how much a run did in the last seconds, and since when nothing has moved.
type rateMeter struct {
	mu     sync.Mutex
	points [meterPoints]point // guarded by mu; a ring
	n      int                // guarded by mu; points so far
	moved  time.Time          // guarded by mu; when work was last seen to have grown
	work   int64              // guarded by mu; as of the last look
}

type point struct {
	at           time.Time
	pages, bytes int64
}

const (
	meterEvery  = time.Second
	meterPoints = 5
)

// add notes how far the run is. It is called once each meterEvery, whether or not the crawl is looked at: otherwise the
// first look would not know since when nothing has moved.
func (m *rateMeter) add(now time.Time, pages, bytes, work int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.points[m.n%meterPoints] = point{now, pages, bytes}
	m.n++
	m.noteLocked(now, work)
}

// rates are pages and bytes per second since the oldest point.
func (m *rateMeter) rates(now time.Time, pages, bytes int64) (pagesPerSec, bytesPerSec float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == 0 {
		return 0, 0
	}
	old := m.points[max(0, m.n-meterPoints)%meterPoints]
	seconds := max(now.Sub(old.at).Seconds(), 0.001)
	return float64(pages-old.pages) / seconds, float64(bytes-old.bytes) / seconds
}

// idle is how long nothing has moved. Work is any number that grows whenever something does.
func (m *rateMeter) idle(now time.Time, work int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked(now, work)
	return now.Sub(m.moved)
}

func (m *rateMeter) noteLocked(now time.Time, work int64) {
	if work != m.work || m.moved.IsZero() {
		m.work, m.moved = work, now
	}
}
