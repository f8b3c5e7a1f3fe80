// Package limit holds the counters that bound how much of something is in use at once: URLs in memory, page tickets,
// robots leases, keys being looked up. They are safe for concurrent use and know nothing of what they count.
package limit

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Permits are a bounded number of permits that are taken and released in any quantity. At most limit of them are in use
// at any time.
type Permits struct {
	limit int64
	used  atomic.Int64
	peak  atomic.Int64
}

// Init sets the limit. It is called before anything else.
func (p *Permits) Init(limit int64) { p.limit = limit }

// Take takes up to n permits and returns how many. It never waits.
func (p *Permits) Take(n int64) int64 {
	for {
		used := p.used.Load()
		got := min(n, p.limit-used)
		if got <= 0 {
			return 0
		}
		if p.used.CompareAndSwap(used, used+got) {
			for {
				peak := p.peak.Load()
				if used+got <= peak || p.peak.CompareAndSwap(peak, used+got) {
					return got
				}
			}
		}
	}
}

// Release gives n permits back.
func (p *Permits) Release(n int64) { p.used.Add(-n) }

// Used is how many permits are in use, Peak the most that ever were.
func (p *Permits) Used() int64 { return p.used.Load() }
func (p *Permits) Peak() int64 { return p.peak.Load() }

// Left is how many permits are not in use.
func (p *Permits) Left() int64 { return p.limit - p.used.Load() }

// Plenty reports whether more than a quarter of all permits is not in use.
func (p *Permits) Plenty() bool { return p.used.Load() < p.limit-p.limit/4 }

// Slots are a bounded number of slots that are taken one by one, and the number of hosts that wait for one. Only the
// caller knows which hosts these are.
type Slots struct {
	limit   atomic.Int64 // 0 for none; written by Init and SetLimit
	used    atomic.Int64
	waiting atomic.Int64
}

// Init sets the limit, 0 for none, and how many slots are in use. It is called before anything else.
func (s *Slots) Init(limit, used int64) {
	s.limit.Store(limit)
	s.used.Store(used)
}

// SetLimit changes the limit: 0 is none, and a negative one allows no slot. More slots than it allows may be in use
// already.
func (s *Slots) SetLimit(limit int64) { s.limit.Store(limit) }

// Take takes a slot, if there is one.
func (s *Slots) Take() bool {
	limit := s.limit.Load()
	if limit == 0 {
		s.used.Add(1)
		return true
	}
	for {
		used := s.used.Load()
		if used >= limit {
			return false
		}
		if s.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

// Release gives a slot back.
func (s *Slots) Release() { s.used.Add(-1) }

// Used is how many slots are in use.
func (s *Slots) Used() int64 { return s.used.Load() }

// Exhausted reports whether all slots are in use.
func (s *Slots) Exhausted() bool {
	limit := s.limit.Load()
	return limit != 0 && s.used.Load() >= limit
}

// Queue counts a host that waits for a slot, and Dequeue one that no longer does.
func (s *Slots) Queue()   { s.waiting.Add(1) }
func (s *Slots) Dequeue() { s.waiting.Add(-1) }

// CanServe reports whether a host waits and a slot is free.
func (s *Slots) CanServe() bool { return s.waiting.Load() > 0 && !s.Exhausted() }

// Lookups bound how many keys are looked up at once. Callers wait for their turn.
type Lookups struct {
	free    *semaphore.Weighted
	used    atomic.Int64
	waiting atomic.Int64
	waited  atomic.Int64
}

// NewLookups returns a bound of limit keys.
func NewLookups(limit int) *Lookups { return &Lookups{free: semaphore.NewWeighted(int64(limit))} }

// Acquire waits until n more keys may be looked up; n is at most the limit.
func (l *Lookups) Acquire(ctx context.Context, n int64) error {
	if !l.free.TryAcquire(n) {
		l.waited.Add(1)
		l.waiting.Add(n)
		err := l.free.Acquire(ctx, n)
		l.waiting.Add(-n)
		if err != nil {
			return err
		}
	}
	l.used.Add(n)
	return nil
}

// Release ends the lookup of n keys.
func (l *Lookups) Release(n int64) {
	l.used.Add(-n)
	l.free.Release(n)
}

// Counts returns how many keys are being looked up, how many wait for that, and how often a caller had to wait.
func (l *Lookups) Counts() (used, waiting, waited int64) {
	return l.used.Load(), l.waiting.Load(), l.waited.Load()
}
