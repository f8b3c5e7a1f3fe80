package pace

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Config is what a crawl's profile says about the pace of every host. It is
// read-only once in use; one value serves all hosts.
type Config struct {
	// MinDelay and MaxDelay bound the delay between two request starts, which is
	// drawn anew for each. Zero for both means no delay.
	MinDelay, MaxDelay time.Duration
	// BaseDelay is a delay that no draw goes below. Zero means none.
	BaseDelay time.Duration
	// FollowLatency makes the delay at least the host's smoothed response time.
	FollowLatency bool

	// MaxInflight is how many requests of one host may be in flight. Zero means
	// 2, or 150 when Adaptive.
	MaxInflight int
	// Adaptive lets the number in flight follow what the host copes with, from
	// MinInflight up to MaxInflight, and makes a refusal cut it before it teaches
	// a delay.
	Adaptive bool
	// MinInflight is what an adaptive host is allowed after its first answers. Latency alone never brings it below
	// that. Zero means 2.
	MinInflight int

	// Step is how much one refusal adds to the learned delay and one probe takes
	// off. Zero means 1 s.
	Step time.Duration
	// MaxLearned bounds the learned delay. Zero means 60 s.
	MaxLearned time.Duration
	// ProbeAfter is how many successes in a row earn a probe, and how many more
	// prove it. Zero means 20.
	ProbeAfter int

	// MaxBackoff bounds the backoff after host failures. Zero means 3600 s.
	MaxBackoff time.Duration
	// MaxFailures is how many host failures in a row block the host. Zero
	// means 10; at most 255.
	MaxFailures int
}

const (
	// floorTTL is how long a failed probe is remembered.
	floorTTL = 24 * time.Hour
	// inflightStep is how much learned delay over the baseline costs one request in flight.
	inflightStep = 5 * time.Second
	// forbiddenStreak is how many plain 403 in a row are a refusal.
	forbiddenStreak = 5
)

// Polite is the default profile: 2 in flight, 200 to 500 ms between starts
// and never less than the host takes to answer.
func Polite() Config {
	return Config{
		MinDelay: 200 * time.Millisecond, MaxDelay: 500 * time.Millisecond,
		FollowLatency: true, MaxInflight: 2,
	}.WithDefaults()
}

// OwnSite is for a server whose owner crawls it: no delay while the host
// copes, and as many in flight as it copes with.
func OwnSite() Config { return Config{Adaptive: true}.WithDefaults() }

// WithDefaults returns c with every zero that means a default replaced by it.
func (c Config) WithDefaults() Config {
	if c.MaxInflight == 0 {
		c.MaxInflight = 2
		if c.Adaptive {
			c.MaxInflight = 150
		}
	}
	c.MinInflight = cmp.Or(c.MinInflight, max(1, min(2, c.MaxInflight)))
	c.Step = cmp.Or(c.Step, time.Second)
	c.MaxLearned = cmp.Or(c.MaxLearned, time.Minute)
	c.ProbeAfter = cmp.Or(c.ProbeAfter, 20)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, time.Hour)
	c.MaxFailures = cmp.Or(c.MaxFailures, 10)
	return c
}

// Validate names everything that is wrong with c, joined into one error. Zeros
// that mean a default are right.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	const mostDelay = 24 * time.Hour // fits the 32 bits of milliseconds a Pace keeps
	bad(c.MinDelay < 0, "min delay %v is negative", c.MinDelay)
	bad(c.MaxDelay < c.MinDelay, "max delay %v is below min delay %v", c.MaxDelay, c.MinDelay)
	bad(c.MaxDelay > mostDelay, "max delay %v is over %v", c.MaxDelay, mostDelay)
	bad(c.BaseDelay < 0 || c.BaseDelay > mostDelay, "base delay %v is not within 0 and %v", c.BaseDelay, mostDelay)
	bad(c.MaxInflight < 1 || c.MaxInflight > 10_000, "max in flight %d is not within 1 and 10000", c.MaxInflight)
	bad(c.MinInflight < 1 || c.MinInflight > max(1, c.MaxInflight), "min in flight %d is not within 1 and %d",
		c.MinInflight, c.MaxInflight)
	bad(c.Step < time.Millisecond, "adaptive step %v is under 1ms", c.Step)
	bad(c.MaxLearned < 0 || c.MaxLearned > mostDelay, "max learned delay %v is not within 0 and %v", c.MaxLearned,
		mostDelay)
	bad(c.ProbeAfter < 1 || c.ProbeAfter > 60_000, "probe after %d successes is not within 1 and 60000", c.ProbeAfter)
	bad(c.MaxBackoff < 0, "max host backoff %v is negative", c.MaxBackoff)
	bad(c.MaxFailures < 1 || c.MaxFailures > 255, "max host failures %d is not within 1 and 255", c.MaxFailures)
	return errors.Join(errs...)
}
