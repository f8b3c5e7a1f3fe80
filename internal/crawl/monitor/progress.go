package monitor

import (
	"sync"
	"time"
)

// progress remembers how far a run had come in the last seconds: what it does now, as against what it did overall, and since when
// nothing has moved.
type progress struct {
	mu     sync.Mutex
	points [progressPoints]point // guarded by mu; a ring
	n      int                   // guarded by mu; points so far
	moved  time.Time             // guarded by mu; when work was last seen to have grown
	work   int64                 // guarded by mu; as of the last look
}

type point struct {
	at           time.Time
	pages, bytes int64
}

const (
	progressEvery  = time.Second
	progressPoints = 5
)

// add notes how far the run is. It is called once each progressEvery, whether or not the crawl is looked at: otherwise the first look
// would not know since when nothing has moved.
func (p *progress) add(now time.Time, pages, bytes, work int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points[p.n%progressPoints] = point{now, pages, bytes}
	p.n++
	p.noteLocked(now, work)
}

// rates are pages and bytes per second since the oldest point.
func (p *progress) rates(now time.Time, pages, bytes int64) (pagesPerSec, bytesPerSec float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		return 0, 0
	}
	old := p.points[max(0, p.n-progressPoints)%progressPoints]
	seconds := max(now.Sub(old.at).Seconds(), 0.001)
	return float64(pages-old.pages) / seconds, float64(bytes-old.bytes) / seconds
}

// idle is how long nothing has moved. Work is any number that grows whenever something does.
func (p *progress) idle(now time.Time, work int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(now, work)
	return now.Sub(p.moved)
}

func (p *progress) noteLocked(now time.Time, work int64) {
	if work != p.work || p.moved.IsZero() {
		p.work, p.moved = work, now
	}
}
