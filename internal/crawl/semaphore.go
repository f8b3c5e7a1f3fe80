package crawl

import (
	"context"
	"sync/atomic"
)

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
