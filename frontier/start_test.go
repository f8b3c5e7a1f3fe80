package frontier

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// A lease that has ended, and one of a frontier that is closed, send nothing.
func TestStartAfterTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(f *Frontier, l *Lease)
		want error
	}{
		"done":    {func(_ *Frontier, l *Lease) { done(t, l, ok()) }, ErrDone},
		"abandon": {func(_ *Frontier, l *Lease) { l.Abandon() }, ErrDone},
		"close":   {func(f *Frontier, _ *Lease) { f.Close() }, ErrClosed},
	} {
		for _, before := range []bool{false, true} { // the lease has sent a request
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, newMemStore())
			add(t, f, seeds("http://a.example/1")...)
			l := next(t, f)
			if before {
				startLease(t, l)
			}
			tt.end(f, l)
			if err := l.Start(); err != tt.want {
				t.Errorf("start after %s: %v, want %v", name, err, tt.want)
			}
		}
	}
}

// A further request of a lease is allowed when the host's pace would allow a new lease, and counts for the delay like
// any other.
func TestFurtherStartWaitsForThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Second
		profile := pace.Config{MinDelay: delay, MaxDelay: delay, MaxInflight: 2}
		f := newTest(t, Options{Pace: profile, IgnoreRobots: true}, newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		l := next(t, f)
		startLease(t, l)
		time.Sleep(delay - 1)
		if err := l.Start(); err != ErrTooSoon {
			t.Errorf("start before the delay is over: %v, want %v", err, ErrTooSoon)
		}
		time.Sleep(time.Nanosecond)
		startLease(t, l)

		// The refused start has changed nothing, the allowed one counts.
		began := time.Now()
		other := next(t, f)
		if got := time.Since(began); got != delay {
			t.Errorf("the next lease came %v after the second start, want %v", got, delay)
		}
		if err := l.Start(); err != ErrTooSoon {
			t.Errorf("start while another lease is about to send its request: %v, want %v", err, ErrTooSoon)
		}
		startLease(t, other)
		time.Sleep(delay)
		done(t, other, Result{Class: pace.ClassThrottled, Finish: &Finish{}})
		if err := l.Start(); err != ErrTooSoon {
			t.Errorf("start while the host rests: %v, want %v", err, ErrTooSoon)
		}
	})
}

// A host that is blocked gets no further request of a lease that is out, however long it waits.
func TestFurtherStartOfABlockedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := fast(2)
		profile.MaxFailures = 1
		f := newTest(t, Options{Pace: profile, IgnoreRobots: true, MaxRetries: Off, FailureThreshold: Off},
			newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		l, other := next(t, f), next(t, f)
		startLease(t, l)
		startLease(t, other)
		startLease(t, l) // the host has no delay
		done(t, other, Result{Class: pace.ClassServerError, Finish: &Finish{}})
		time.Sleep(24 * time.Hour)
		if err := l.Start(); err != ErrTooSoon {
			t.Errorf("start of a blocked host: %v, want %v", err, ErrTooSoon)
		}
	})
}

// A lease whose request was refused returns its URL: no attempt is used, the ticket is free again, and the host's pace
// is as before.
func TestRefusedStartReturnsTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Second
		var notices []Notice
		profile := pace.Config{MinDelay: delay, MaxDelay: delay, MaxInflight: 1}
		o := Options{Pace: profile, IgnoreRobots: true, MaxURLs: 1,
			Observe: func(n Notice) { notices = append(notices, n) }}
		f := newTest(t, o, newMemStore())
		add(t, f, seeds("http://a.example/1")...)
		paceOf := func(l *Lease) pace.Pace {
			l.s.lock()
			defer l.s.unlock()
			return l.s.schedule.stateOf(l.s.hosts.at(l.host)).pace
		}

		l := next(t, f)
		before, began := paceOf(l), time.Now()
		if d := done(t, l, Result{}); d != Returned { // its first request was refused by the caller
			t.Errorf("disposition %v, want %v", d, Returned)
		}
		l = next(t, f)
		if l.Attempt() != 1 || time.Since(began) != 0 {
			t.Errorf("attempt %d after %v, want the first one at once", l.Attempt(), time.Since(began))
		}

		startLease(t, l)
		if err := l.Start(); err != ErrTooSoon {
			t.Fatalf("second start: %v, want %v", err, ErrTooSoon)
		}
		if d := done(t, l, Result{}); d != Returned {
			t.Errorf("disposition %v, want %v", d, Returned)
		}
		l = next(t, f)
		if l.Attempt() != 1 || time.Since(began) != delay {
			t.Errorf("attempt %d after %v, want the first one after %v", l.Attempt(), time.Since(began), delay)
		}
		if after := paceOf(l); after != before {
			t.Errorf("pace %+v, want it as before: %+v", after, before)
		}
		startLease(t, l)
		done(t, l, ok())
		if st := f.Stats(); st.Finished != 1 || st.Pending != 0 || st.Violations != 0 || len(notices) != 0 {
			t.Errorf("%+v, notices %v", st, notices)
		}
	})
}

// A lease of every kind is given out again after a request that was not sent.
func TestEveryKindIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1)}, newMemStore())
		add(t, f, Link{URL: mustURL("http://a.example/sitemap.xml"), Sitemap: true})
		add(t, f, seeds("http://a.example/")...)
		for _, kind := range []Kind{KindRobots, KindPage, KindSitemap} {
			for again := range 3 {
				l := next(t, f)
				if l.Kind() != kind || l.Attempt() != 1 {
					t.Fatalf("%v, attempt %d; want the first of the %v", l.Kind(), l.Attempt(), kind)
				}
				r, want := Result{}, Returned
				if again == 2 {
					r, want = ok(), Finished
					r.RobotsUntil = time.Now().Add(time.Hour)
				}
				if d := done(t, l, r); d != want {
					t.Errorf("%v: %v, want %v", kind, d, want)
				}
			}
		}
		if _, err := f.Next(t.Context()); err != ErrDrained {
			t.Errorf("%v, want %v", err, ErrDrained)
		}
	})
}
