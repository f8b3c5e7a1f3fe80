package crawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// governor is the global worker cap, and a small controller over it: while commits are slow, fewer workers may run, so that
// the queue in front of the disk does not grow to seconds. A permit spans fetch and parse.
//
// The cap falls by a quarter at each step above the upper threshold, at least to one, and grows by an eighth below the lower
// one; in between it stays. Steps are taken once per interval, which is longer than the moving average of commit latency
// takes to show what the last step did.
type governor struct {
	most    int
	high    time.Duration
	low     time.Duration
	enabled bool

	mu      sync.Mutex
	limit   int           // guarded by mu
	used    int           // guarded by mu
	waiting int           // guarded by mu
	waits   int64         // guarded by mu; how many ever had to wait
	room    chan struct{} // guarded by mu; closed and replaced when room appears while a worker waits
}

// governorEvery is the time between two steps.
const governorEvery = 500 * time.Millisecond

func newGovernor(s *config.Settings) *governor {
	return &governor{
		most:    s.MaxWorkers,
		high:    time.Duration(s.ThrottleThresholdMS) * time.Millisecond,
		low:     time.Duration(s.UnthrottleThresholdMS) * time.Millisecond,
		enabled: s.GovernorEnabled,
		limit:   s.MaxWorkers,
		room:    make(chan struct{}),
	}
}

// acquire waits for a worker's permit.
func (g *governor) acquire(ctx context.Context) error {
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		g.mu.Lock()
		if g.used < g.limit {
			g.used++
			g.mu.Unlock()
			return nil
		}
		room := g.room
		g.waiting++
		if first {
			g.waits++
		}
		g.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}
}

// release releases a permit.
func (g *governor) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used--
	g.wakeLocked()
}

func (g *governor) wakeLocked() {
	if g.waiting > 0 && g.used < g.limit {
		close(g.room)
		g.room = make(chan struct{})
	}
}

// step moves the cap by what commits take, and says whether it moved.
func (g *governor) step(latency time.Duration) (from, to int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from = g.limit
	switch {
	case !g.enabled:
	case latency > g.high:
		// The load comes from the permits in use. If the cap is far above them, many steps would change nothing.
		g.limit = max(1, min(g.limit, max(g.used, 1))*3/4)
	case latency < g.low && g.limit < g.most:
		g.limit = min(g.most, g.limit+max(1, g.limit/8))
		g.wakeLocked()
	}
	return from, g.limit
}

// state is the cap, the permits in use and the workers that wait for one.
func (g *governor) state() (limit, used, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit, g.used, g.waiting
}

// waited is how often a worker had to wait for its permit.
func (g *governor) waited() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits
}

// semaphore bounds how many goroutines do something at the same time.
type semaphore struct {
	room   chan struct{}
	queued atomic.Int64 // how many wait
	waits  atomic.Int64 // how many ever had to
}

func newSemaphore(n int) *semaphore { return &semaphore{room: make(chan struct{}, n)} }

func (s *semaphore) acquire(ctx context.Context) error {
	select {
	case s.room <- struct{}{}:
		return nil
	default:
	}
	s.waits.Add(1)
	s.queued.Add(1)
	defer s.queued.Add(-1)
	select {
	case s.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *semaphore) release()      { <-s.room }
func (s *semaphore) used() int     { return len(s.room) }
func (s *semaphore) limit() int    { return cap(s.room) }
func (s *semaphore) waiting() int  { return int(s.queued.Load()) }
func (s *semaphore) waited() int64 { return s.waits.Load() }
