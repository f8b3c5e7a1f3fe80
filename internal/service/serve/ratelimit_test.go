package serve

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

// The keys of an account have a rate together, however many there are. Without a limit there is none.
func TestRateOfAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for perKey, want := range map[float64]int{10: 2 * keysOfAccount * 10, -1: 400} {
			s := &Server{limits: newRateLimits(perKey)}
			taken := 0
			for range 400 {
				if _, ok := s.limits.accounts.take("a"); ok {
					taken++
				}
			}
			if taken != want {
				t.Errorf("rate %v: %d requests at once, want %d", perKey, taken, want)
			}
			if _, ok := s.limits.accounts.take("b"); !ok {
				t.Error("another account has to wait")
			}
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
