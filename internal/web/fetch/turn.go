package fetch

import (
	"context"
	"time"
)

const (
	// turnAfter is how long a call computes before it takes its turn. Most bodies are decompressed in less.
	turnAfter = 5 * time.Millisecond

	// shortText is how long a page is whose encoding is found without a turn, and shortBody how long a body that is
	// archived.
	shortText = 256 << 10
	shortBody = 16 << 10

	// maxPaused is how much longer than its time limit a call takes because it waits for its turn.
	maxPaused = time.Minute
)

// A turn is the turn to compute that a call takes of its account (Options.Compute) when its body takes long. Hundreds of
// calls are under way at once, and together they would take the processors from other accounts. It is left while the
// call waits for something. A Stream has none: its reader computes.
type turn struct {
	compute func(ctx context.Context) (done func()) // nil if there are no turns
	began   time.Duration                           // of the computing, since the start of the call
	done    func()                                  // ends the turn; nil if it is not taken
}

// compute begins the computing of a body, which endTurn ends.
func (c *call) compute(turns func(ctx context.Context) (done func())) {
	if c.waits == nil {
		c.turn.compute, c.turn.began = turns, time.Since(c.start)
	}
}

// step is called in all that computes. It takes the turn if that is due, and reports why the call must end, or nil.
func (c *call) step() error {
	if t := &c.turn; t.compute != nil && t.done == nil && time.Since(c.start)-t.began > turnAfter {
		c.takeTurn()
	}
	return c.cause()
}

// takeTurn waits for the turn. The time of the wait is not the host's, and up to maxPaused does not count towards the
// request's: meanwhile the request has its place at the host.
func (c *call) takeTurn() {
	if c.turn.compute == nil || c.turn.done != nil {
		return
	}
	c.mu.Lock()
	c.pausedAt.set(time.Since(c.start))
	c.mu.Unlock()
	c.turn.done = c.turn.compute(c.Context())
	c.mu.Lock()
	c.paused = c.pausedLocked()
	c.pausedAt.clear()
	c.mu.Unlock()
}

func (c *call) endTurn() {
	if done := c.turn.done; done != nil {
		c.turn.done = nil
		done()
	}
}

// wait is called before the call waits for something, and what it returns after.
func (c *call) wait() (goOn func()) {
	switch {
	case c.waits != nil:
		return c.waits()
	case c.turn.done != nil:
		c.endTurn()
		return c.takeTurn
	}
	return func() {}
}

// pausedLocked is how long the call has waited for its turn, up to maxPaused.
func (c *call) pausedLocked() time.Duration {
	paused := c.paused
	if since, waits := c.pausedAt.get(); waits {
		paused += time.Since(c.start) - since
	}
	return min(paused, maxPaused)
}
