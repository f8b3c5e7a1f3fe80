package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A SessionLease says whether a session may start requests. It counts from before a
// beat was sent: the engine cannot have received the beat earlier, so the engine's
// lease ends later.
type SessionLease struct {
	clock func() time.Duration
	until atomic.Int64 // time of clock, in ns; written by Beat
}

// NewSessionLease makes a lease that is not valid yet. The clock must run while the
// machine is suspended: [UptimeClock]; tests may give another.
func NewSessionLease(clock func() time.Duration) *SessionLease {
	l := &SessionLease{clock: clock}
	l.until.Store(int64(clock()) - 1)
	return l
}

// Beat sends a beat, and renews the lease if that succeeds. Only one goroutine calls it.
func (l *SessionLease) Beat(ctx context.Context, send func(context.Context) error) error {
	sent := l.clock()
	if err := send(ctx); err != nil {
		return err
	}
	l.until.Store(int64(sent + StartWithin))
	return nil
}

// Valid reports whether a request may be started now.
func (l *SessionLease) Valid() bool { return l.left() > 0 }

// left is how long requests may still be started; zero or less if the lease has ended.
func (l *SessionLease) left() time.Duration { return time.Duration(l.until.Load()) - l.clock() }

// End ends the lease. Only a later Beat makes it valid again.
func (l *SessionLease) End() { l.until.Store(int64(l.clock()) - 1) }

// CheckClock compares the clocks of a machine and an engine, from the machine's times before and after a call and the
// engine's time in the answer. The engine's time can be any moment between the two, so only a difference beyond them
// counts.
func CheckClock(before, engine, after time.Time) error {
	var off time.Duration
	switch {
	case engine.Before(before):
		off = before.Sub(engine)
	case engine.After(after):
		off = engine.Sub(after)
	}
	if off > ClockTolerance {
		return fmt.Errorf("the clock of this machine differs from the engine's by %v, at most %v is allowed: "+
			"synchronise both", off.Round(time.Millisecond), ClockTolerance)
	}
	return nil
}
