package crawl

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// breaker pauses the crawl while this machine fails: no file descriptors, no route, no resolver. Such failures say nothing about hosts,
// and further requests would fail too.
type breaker struct {
	log *slog.Logger

	mu     sync.Mutex
	until  time.Time     // guarded by mu; workers wait until then
	pause  time.Duration // guarded by mu; how long the last pause was
	reason string        // guarded by mu
	trips  int           // guarded by mu
}

// The first pause, and the longest.
const (
	breakerFirst = time.Second
	breakerMost  = 30 * time.Second
)

// trip starts a pause, unless one is under way. Each is twice as long as the one before, until something succeeds.
func (b *breaker) trip(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(b.until) {
		return
	}
	b.pause = min(max(2*b.pause, breakerFirst), breakerMost)
	b.until, b.reason = now.Add(b.pause), err.Error()
	b.trips++
	b.log.Warn("pausing: this machine fails, not the hosts", "error", err, "pause", b.pause)
}

// ok is called when a request succeeds: the next pause is a first one again.
func (b *breaker) ok() {
	b.mu.Lock()
	b.pause, b.reason = 0, ""
	b.mu.Unlock()
}

// wait returns when no pause is under way.
func (b *breaker) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		until := b.until
		b.mu.Unlock()
		if until.IsZero() {
			return nil // almost always; the clock is not read then
		}
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// state says why and for how long the crawl is paused; the reason is empty if it is not.
func (b *breaker) state() (reason string, left time.Duration, trips int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left = time.Until(b.until); left <= 0 {
		return "", 0, b.trips
	}
	return b.reason, left, b.trips
}
