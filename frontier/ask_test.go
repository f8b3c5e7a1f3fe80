package frontier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// redirected leases the robots.txt of an origin and has it redirected.
func redirected(t *testing.T, f *Frontier, origin, to string) {
	t.Helper()
	l := next(t, f)
	if task := l.Robots(); l.Kind() != KindRobots || task.Origins[0] != origin || task.Hops != 0 || task.Late {
		t.Fatalf("a %v for %+v, want the first robots lease of %s", l.Kind(), task, origin)
	}
	startLease(t, l)
	done(t, l, Result{Class: pace.ClassOK, RobotsAt: mustURL(to)})
}

// wantRobots takes the next lease and compares it.
func wantRobots(t *testing.T, f *Frontier, after time.Duration, since time.Time, url string, task RobotsTask) *Lease {
	t.Helper()
	l := next(t, f)
	if got := time.Since(since); got != after || l.URL().String() != url || l.Kind() != KindRobots ||
		fmt.Sprint(l.Robots()) != fmt.Sprint(task) {
		t.Fatalf("after %v %v %s for %+v, want after %v %s for %+v", got, l.Kind(), l.URL(), l.Robots(), after, url,
			task)
	}
	startLease(t, l)
	return l
}

func perSecond() pace.Config {
	return pace.Config{MinDelay: time.Second, MaxDelay: time.Second, MaxInflight: 1}
}

// Two origins that are redirected to one URL wait for one request. Their hosts get no lease meanwhile, and the crawl is
// not drained.
func TestRobotsQuestionIsSharedByItsOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: perSecond(), Shards: 4, KeepTurn: 1}, store)
		start := time.Now()
		add(t, f, seeds("http://a.example/")...)
		a := next(t, f)
		add(t, f, seeds("http://b.example/")...)
		b := next(t, f)
		for _, l := range []*Lease{a, b} {
			startLease(t, l)
			done(t, l, Result{Class: pace.ClassOK, RobotsAt: mustURL("http://rules.example/r")})
		}
		origins := []string{"http://a.example", "http://b.example"}
		l := wantRobots(t, f, 0, start, "http://rules.example/r", RobotsTask{Origins: origins, Hops: 1})
		checkInvariants(t, f)
		if st := f.Stats(); st.Hosts["robots.txt"] != 2 || st.Robots != 1 {
			t.Errorf("%d hosts wait for robots.txt, %d robots leases, want 2 and 1", st.Hosts["robots.txt"], st.Robots)
		}
		done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour)})
		if err := crawl(t, f, 1, 0, func(l *Lease) Result { return ok() }); err != ErrDrained {
			t.Error(err)
		}
		// each origin has a robots lease of its own again, then its page
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("the pages were fetched after %v", got)
		}
		checkEmpty(t, f, store)
	})
}

// A request that failed is repeated as a lease of its own, which counts the attempts; the origin waits for its own host
// as long as it takes.
func TestRobotsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: perSecond()}, newMemStore())
		add(t, f, seeds("http://a.example/")...)
		for attempt := 1; attempt <= 3; attempt++ {
			l := next(t, f)
			if l.Attempt() != attempt || l.URL().String() != "http://a.example/robots.txt" ||
				l.Robots().Origins[0] != "http://a.example" {
				t.Fatalf("attempt %d for %s, want %d", l.Attempt(), l.URL(), attempt)
			}
			startLease(t, l)
			if attempt < 3 {
				if d := done(t, l, Result{Class: pace.ClassNetwork}); d != Retrying {
					t.Error(d)
				}
				continue
			}
			done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour)})
		}
		l := next(t, f) // it finds the stored answer
		if task := l.Robots(); l.Kind() != KindRobots || l.Attempt() != 1 || task.Late {
			t.Errorf("%v #%d, %+v", l.Kind(), l.Attempt(), task)
		}
		done(t, l, Result{RobotsUntil: time.Now().Add(time.Hour)})
		if l := next(t, f); l.Kind() != KindPage {
			t.Error(l.Kind())
		}
	})
}

// If the host that is to be asked is blocked, before the question comes or after, the wait ends at once and is late.
func TestRobotsOfABlockedHost(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore()
				o := Options{Pace: perSecond(), Shards: 4}
				o.Pace.MaxFailures = 1
				f := newTest(t, o, store)
				add(t, f, seeds("http://dead.example/")...)
				dead := next(t, f)
				startLease(t, dead)
				add(t, f, seeds("http://a.example/")...)
				fail := func() {
					done(t, dead, Result{Class: pace.ClassNetwork,
						RobotsUntil: time.Now().Add(time.Hour)})
				}
				if before {
					fail()
				}
				redirected(t, f, "http://a.example", "http://dead.example/r")
				if !before {
					checkInvariants(t, f)
					fail()
				}
				start := time.Now()
				l := wantRobots(t, f, time.Second, start, "http://a.example/robots.txt",
					RobotsTask{Origins: []string{"http://a.example"}, Late: true})
				done(t, l, Result{RobotsUntil: time.Now().Add(time.Hour)})
				checkInvariants(t, f)
				if l := next(t, f); l.URL().String() != "http://a.example/" {
					t.Error(l.URL())
				} else {
					startLease(t, l)
					done(t, l, ok())
				}
				if _, err := f.Next(t.Context()); err != ErrDrained {
					t.Error(err)
				}
			})
		})
	}
}

// A host that rests longer than the patience of an origin: the origin goes on, and its question is not asked any more.
func TestRobotsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: perSecond(), Shards: 4}, newMemStore())
		add(t, f, seeds("http://rests.example/")...)
		rests := next(t, f)
		startLease(t, rests)
		done(t, rests, Result{Class: pace.ClassThrottled, RetryAfter: 5 * time.Minute,
			RobotsUntil: time.Now().Add(time.Hour)})
		add(t, f, seeds("http://a.example/")...)
		start := time.Now()
		redirected(t, f, "http://a.example", "http://rests.example/r")
		l := wantRobots(t, f, robotsPatience, start, "http://a.example/robots.txt",
			RobotsTask{Origins: []string{"http://a.example"}, Late: true})
		done(t, l, Result{RobotsUntil: time.Now().Add(time.Hour)})
		for _, want := range []string{"http://a.example/", "http://rests.example/"} {
			l := next(t, f)
			if l.URL().String() != want {
				t.Errorf("%v %s, want the page %s", l.Kind(), l.URL(), want)
			}
			startLease(t, l)
			done(t, l, ok())
		}
		if got := time.Since(start); got != 5*time.Minute {
			t.Errorf("the host rested for %v", got)
		}
		checkInvariants(t, f)
	})
}
