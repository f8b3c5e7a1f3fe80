package crawl

import (
	"sync/atomic"
	"time"
)

// clock measures how long a run crawls. A safe crawl that waits for another one to end has not begun: its seconds do not count.
type clock struct {
	opened time.Time                 // when the data directory was opened; written before the run is shared
	start  atomic.Pointer[time.Time] // when the crawl began; nil before. Written by begin
}

// begin starts the clock.
func (c *clock) begin() {
	now := time.Now()
	c.start.Store(&now)
}

// elapsed is the time since begin; zero before.
func (c *clock) elapsed() time.Duration {
	if start := c.start.Load(); start != nil {
		return time.Since(*start)
	}
	return 0
}

// began is when the crawl began, or, as long as it has not, when it was opened.
func (c *clock) began() time.Time {
	if start := c.start.Load(); start != nil {
		return *start
	}
	return c.opened
}
