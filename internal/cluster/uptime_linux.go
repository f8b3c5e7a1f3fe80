package cluster

import (
	"time"

	"golang.org/x/sys/unix"
)

// UptimeClock returns a clock that runs while the system is suspended, unlike Go's
// monotonic clock, and that cannot be set.
func UptimeClock() func() time.Duration {
	return func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic(err) // the clock exists since Linux 2.6.39
		}
		return time.Duration(ts.Nano())
	}
}
