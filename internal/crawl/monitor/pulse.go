package monitor

import (
	"sync"
	"time"
)

// pulse remembers how far a run had come in the last seconds: what it does now, as against what it did overall, and since when
// nothing has moved.
type pulse struct {
	mu    sync.Mutex
	beats [pulseBeats]beat // guarded by mu; a ring
	n     int              // guarded by mu; beats so far
	moved time.Time        // guarded by mu; when work was last seen to have grown
	work  int64            // guarded by mu; as of the last look
}

type beat struct {
	at           time.Time
	pages, bytes int64
}

const (
	pulseEvery = time.Second
	pulseBeats = 5
)

// beat notes how far the run is. It is called once each pulseEvery, whether or not the crawl is looked at: otherwise the first look
// would not know since when nothing has moved.
func (p *pulse) beat(now time.Time, pages, bytes, work int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats[p.n%pulseBeats] = beat{now, pages, bytes}
	p.n++
	p.noteLocked(now, work)
}

// rates are pages and bytes per second since the oldest beat.
func (p *pulse) rates(now time.Time, pages, bytes int64) (pagesPerSec, bytesPerSec float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		return 0, 0
	}
	old := p.beats[max(0, p.n-pulseBeats)%pulseBeats]
	seconds := max(now.Sub(old.at).Seconds(), 0.001)
	return float64(pages-old.pages) / seconds, float64(bytes-old.bytes) / seconds
}

// idle is how long nothing has moved. Work is any number that grows whenever something does.
func (p *pulse) idle(now time.Time, work int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(now, work)
	return now.Sub(p.moved)
}

func (p *pulse) noteLocked(now time.Time, work int64) {
	if work != p.work || p.moved.IsZero() {
		p.work, p.moved = work, now
	}
}
