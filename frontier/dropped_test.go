package frontier

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// A request over a kept connection that the host closed is an attempt: it waits for the host's pace and counts, but the
// host has not failed.
func TestDroppedConnectionIsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := pace.Config{MinDelay: 5 * time.Second, MaxDelay: 5 * time.Second, MaxInflight: 1}
		f := newTest(t, Options{Pace: profile, IgnoreRobots: true, MaxRetries: 3}, newMemStore())
		add(t, f, seeds("http://a.example/1")...)
		for attempt := 1; attempt <= 4; attempt++ {
			start := time.Now()
			l := next(t, f)
			if gap := time.Since(start); attempt > 1 && gap != 5*time.Second {
				t.Errorf("attempt %d came %v after the one before, want the delay of 5 s", attempt, gap)
			}
			if l.Attempt() != attempt {
				t.Errorf("attempt %d, want %d", l.Attempt(), attempt)
			}
			startLease(t, l)
			want := Retrying
			if attempt == 4 {
				want = Finished
			}
			if d := done(t, l, Result{Class: pace.ClassDropped, Finish: &Finish{}}); d != want {
				t.Errorf("attempt %d: %v, want %v", attempt, d, want)
			}
		}
	})
}

// A URL counts towards the limit of pages when its host cannot be connected to. It does not if nothing is known of its
// request.
func TestFailedConnectionsCount(t *testing.T) {
	for class, counts := range map[pace.Class]bool{pace.ClassNetwork: true, pace.ClassOK: true, pace.ClassNone: false} {
		synctest.Test(t, func(t *testing.T) {
			f := newTest(t, Options{IgnoreRobots: true, MaxRetries: Off, MaxURLs: 1}, newMemStore())
			add(t, f, seeds("http://a.example/1", "http://b.example/2")...)
			done(t, next(t, f), Result{Class: class, Finish: &Finish{}, Final: true})
			_, err := f.Next(t.Context())
			if got := err == ErrLimit; got != counts {
				t.Errorf("class %d: the next lease has the error %v, want the limit: %v", class, err, counts)
			}
		})
	}
}
