//go:build !linux

package cluster

import (
	"sync"
	"time"
)

// UptimeClock returns a clock that runs while the system is suspended and never goes
// back. The monotonic clock may stop then, and the clock of the day may be set; so from
// one call to the next the clock adds the greater of the two differences. It may be
// fast, which ends a lease too early.
func UptimeClock() func() time.Duration {
	var (
		mu    sync.Mutex
		last  = time.Now() // guarded by mu
		total time.Duration
	)
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		total += max(0, now.Sub(last), now.Round(0).Sub(last.Round(0)))
		last = now
		return total
	}
}
