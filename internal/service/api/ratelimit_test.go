package api

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A key gets its rate, and others are not affected.
func TestRateOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimits(10)
		taken := 0
		for range 100 {
			if _, ok := l.keys.take("a"); ok {
				taken++
			}
		}
		if taken != 20 {
			t.Errorf("%d requests at once, want twice the rate", taken)
		}
		if wait, ok := l.keys.take("a"); ok || wait != 100*time.Millisecond {
			t.Errorf("wait %s", wait)
		}
		if _, ok := l.keys.take("b"); !ok {
			t.Error("another key has to wait")
		}
		time.Sleep(time.Second)
		for taken = 0; ; taken++ {
			if _, ok := l.keys.take("a"); !ok {
				break
			}
		}
		if taken != 10 {
			t.Errorf("%d requests after a second, want 10", taken)
		}
	})
}

// Any number of names takes a bounded number of limiters.
func TestLimitersAreBounded(t *testing.T) {
	l := newRateLimits(0)
	for i := range 3 * mostLimiters {
		l.failures.take(strconv.Itoa(i))
	}
	if n := len(l.failures.all); n > mostLimiters {
		t.Errorf("%d limiters", n)
	}
}
