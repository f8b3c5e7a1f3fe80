package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSessionLease(t *testing.T) {
	var now time.Duration
	l := NewSessionLease(func() time.Duration { return now })
	if l.Valid() {
		t.Error("valid before the first beat")
	}
	beat := func(takes time.Duration, err error) {
		t.Helper()
		got := l.Beat(t.Context(), func(context.Context) error {
			now += takes
			return err
		})
		if !errors.Is(got, err) {
			t.Errorf("beat: %v, want %v", got, err)
		}
	}
	beat(3*time.Second, nil)
	if left := l.left(); left != StartWithin-3*time.Second {
		t.Errorf("%v left: it counts from before the beat was sent", left)
	}
	beat(time.Second, ErrAway)
	if left := l.left(); left != StartWithin-4*time.Second {
		t.Errorf("%v left after a beat that failed", left)
	}
	now += StartWithin - 4*time.Second - 1
	if !l.Valid() {
		t.Error("not valid a moment before its end")
	}
	if now++; l.Valid() {
		t.Error("valid at its end")
	}
	beat(StartWithin, nil)
	if l.Valid() {
		t.Error("valid by a beat whose answer took as long as the lease")
	}
	beat(0, nil)
	if l.End(); l.Valid() {
		t.Error("valid after End")
	}
}

func TestCheckClock(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }
	for _, c := range []struct {
		before, engine, after int
		ok                    bool
	}{
		{0, 0, 0, true}, {0, 5, 10, true}, {0, 1010, 10, true}, {0, 1011, 10, false}, {0, -1000, 10, true},
		{0, -1001, 10, false}, {0, 5000, 6000, true},
	} {
		if err := CheckClock(at(c.before), at(c.engine), at(c.after)); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestUptimeClock(t *testing.T) {
	clock := UptimeClock()
	last := clock()
	for began := time.Now(); time.Since(began) < time.Millisecond; {
		now := clock()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
	first := last
	for began := time.Now(); last == first; last = clock() {
		if time.Since(began) > time.Minute {
			t.Fatal("the clock stands still")
		}
	}
}
