package frontier

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// permits bound how many URLs are in memory. A permit is taken for every URL in a
// window, goes with it into its lease and into its wait for a retry, and is given
// back when it leaves memory.
type permits struct {
	limit int64
	used  atomic.Int64
	peak  atomic.Int64
}

// take takes up to n permits and returns how many.
func (p *permits) take(n int64) int64 {
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

// plenty reports whether there are so many permits left that windows may be filled
// before they are empty.
func (p *permits) plenty() bool { return p.used.Load() < p.limit-p.limit/4 }

// tickets bound how many pages the crawl fetches.
type tickets struct {
	limit int64 // 0 for none
	used  atomic.Int64
}

func (t *tickets) reserve() bool {
	if t.limit == 0 {
		t.used.Add(1)
		return true
	}
	for {
		used := t.used.Load()
		if used >= t.limit {
			return false
		}
		if t.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

func (t *tickets) giveBack() { t.used.Add(-1) }

func (t *tickets) exhausted() bool { return t.limit > 0 && t.used.Load() >= t.limit }

// slots bound how many robots leases are out.
type slots struct {
	limit int64
	used  atomic.Int64
}

func (s *slots) take() bool {
	for {
		used := s.used.Load()
		if used >= s.limit {
			return false
		}
		if s.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

func (s *slots) giveBack() { s.used.Add(-1) }

func (s *slots) free() bool { return s.used.Load() < s.limit }

// lookups bound how many keys are looked up in the store at once.
type lookups struct {
	room    *semaphore.Weighted
	used    atomic.Int64 // keys being looked up
	waiting atomic.Int64 // keys that wait for room
	waited  atomic.Int64 // times that somebody had to
}

func newLookups(limit int) *lookups { return &lookups{room: semaphore.NewWeighted(int64(limit))} }

// acquire waits until n more keys may be looked up.
func (l *lookups) acquire(ctx context.Context, n int64) error {
	if !l.room.TryAcquire(n) {
		l.waited.Add(1)
		l.waiting.Add(n)
		err := l.room.Acquire(ctx, n)
		l.waiting.Add(-n)
		if err != nil {
			return err
		}
	}
	l.used.Add(n)
	return nil
}

func (l *lookups) release(n int64) {
	l.used.Add(-n)
	l.room.Release(n)
}
