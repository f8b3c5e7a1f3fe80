package crawl

import (
	"context"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
)

// semaphore bounds how many goroutines do something at the same time.
type semaphore struct {
	room   chan struct{}
	queued atomic.Int64 // how many wait
	waits  atomic.Int64 // how many had to wait, in all
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

func (s *semaphore) release() { <-s.room }

// use returns the limit, how many goroutines hold the semaphore, and how many wait.
func (s *semaphore) use() monitor.ControlUse {
	return monitor.ControlUse{Limit: cap(s.room), InUse: len(s.room), Waiting: int(s.queued.Load())}
}
