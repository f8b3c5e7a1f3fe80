package crawl

import "context"

// semaphore bounds how many may do something at once.
type semaphore chan struct{}

func newSemaphore(n int) semaphore { return make(semaphore, n) }

func (s semaphore) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) release()  { <-s }
func (s semaphore) used() int { return len(s) }
