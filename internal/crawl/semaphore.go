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

// turn is the place of one goroutine in a semaphore, which it leaves while it waits for something else.
type turn struct {
	of    *semaphore
	ctx   context.Context
	taken bool
}

// take waits for the place. It returns without it if ctx ends.
func (t *turn) take() { t.taken = t.of.acquire(t.ctx) == nil }

func (t *turn) end() {
	if t.taken {
		t.of.release()
		t.taken = false
	}
}

// waits leaves the place, if it is taken, until goOn.
func (t *turn) waits() (goOn func()) {
	if !t.taken {
		return func() {}
	}
	t.end()
	return t.take
}

// use returns the limit, how many goroutines hold the semaphore, and how many wait.
func (s *semaphore) use() monitor.ControlUse {
	return monitor.ControlUse{Limit: cap(s.room), InUse: len(s.room), Waiting: int(s.queued.Load())}
}
