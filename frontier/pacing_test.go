package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

func TestDelayCountsFromTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := pace.Config{MinDelay: time.Second, MaxDelay: time.Second, MaxInflight: 2}
		f := newTest(t, Options{Pace: profile, IgnoreRobots: true}, newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2", "http://a.example/3")...)
		start := time.Now()
		l := next(t, f)
		go func() { // looking up the name and connecting take their time
			time.Sleep(700 * time.Millisecond)
			startLease(t, l)
		}()
		l2 := next(t, f)
		if got := time.Since(start); got != 1700*time.Millisecond {
			t.Errorf("second lease after %v, want 1.7s", got)
		}
		time.Sleep(300 * time.Millisecond)
		startLease(t, l2)
		done(t, l, ok())
		next(t, f)
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("third lease after %v, want 3s", got)
		}
	})
}

// A lease that ends without a request does not use up the host's turn.
func TestNothingOnTheWireCostsNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := pace.Config{MinDelay: time.Second, MaxDelay: time.Second, MaxInflight: 1}
		f := newTest(t, Options{Pace: profile}, newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		start := time.Now()
		done(t, next(t, f), Result{RobotsUntil: start.Add(time.Hour)}) // from a cache
		done(t, next(t, f), Result{Finish: &Finish{}})
		done(t, next(t, f), Result{Finish: &Finish{}})
		if got := time.Since(start); got != 0 {
			t.Errorf("took %v", got)
		}
	})
}

// A host that answers 429 three times and then 200 is asked after 1, 2 and 4 s.
func TestRefusedIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notices []Notice
		f := newTest(t, Options{Pace: fast(4), IgnoreRobots: true,
			Observe: func(n Notice) { notices = append(notices, n) }}, newMemStore())
		add(t, f, seeds("http://a.example/")...)
		last := time.Now()
		for i, want := range []time.Duration{0, 1, 2, 4} {
			l := next(t, f)
			if got := time.Since(last); got != want*time.Second {
				t.Errorf("attempt %d after %v, want %ds", i+1, got, want)
			}
			last = time.Now()
			startLease(t, l)
			if l.Attempt() != i+1 {
				t.Errorf("attempt %d is counted as %d", i+1, l.Attempt())
			}
			r, want := Result{Class: pace.ClassThrottled, Finish: &Finish{}}, Retrying
			if i == 3 {
				r, want = ok(), Finished
			}
			if d := done(t, l, r); d != want {
				t.Errorf("attempt %d was %v, want %v", i+1, d, want)
			}
		}
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		kinds := map[NoticeKind]int{}
		for _, n := range notices {
			kinds[n.Kind]++
		}
		if kinds[NoticeRetry] != 3 || kinds[NoticePace] < 3 {
			t.Errorf("notices: %v", kinds)
		}
	})
}

// Every refusal is one notice with its URL, also one that changes nothing: a second one of a burst, and each plain 403
// from the fifth on. A Retry-After of most of a day is honoured and a warning, once for the burst, and again in the run
// that resumes.
func TestEveryRefusalIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 23 * time.Hour
		store := newMemStore()
		var mu sync.Mutex // notices come from several goroutines
		var refused []string
		long := 0
		observe := func(n Notice) {
			mu.Lock()
			defer mu.Unlock()
			if n.Kind == NoticePace && n.Change.Meaning == pace.MeaningRefused {
				refused = append(refused, n.URL)
			}
			if n.Change.Has(pace.EffectRetryAfterLong) {
				long++
			}
		}
		f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, Observe: observe}, store)
		for _, tc := range []struct {
			host  string
			class pace.Class
			after time.Duration
			want  []string // paths of the refusals
			long  int
		}{
			{"burst.example", pace.ClassUnavailable, 0, []string{"/1", "/2", "/3", "/4", "/5", "/6"}, 0},
			{"forbids.example", pace.ClassForbidden, 0, []string{"/5", "/6"}, 0},
			{"day.example", pace.ClassThrottled, day, []string{"/1", "/2", "/3", "/4", "/5", "/6"}, 1},
		} {
			mu.Lock()
			refused, long = nil, 0
			mu.Unlock()
			leases := map[string]*Lease{}
			for i := range 6 {
				add(t, f, seeds(fmt.Sprintf("http://%s/%d", tc.host, i+1))...)
				l := next(t, f)
				startLease(t, l)
				leases[l.URL().String()] = l
			}
			for i := range 6 {
				time.Sleep(time.Millisecond) // each asks for a moment more than the one before
				l := leases[fmt.Sprintf("http://%s/%d", tc.host, i+1)]
				done(t, l, Result{Class: tc.class, RetryAfter: tc.after, Finish: &Finish{}, Final: true})
			}
			for i, path := range tc.want {
				tc.want[i] = "http://" + tc.host + path
			}
			mu.Lock()
			if !slices.Equal(refused, tc.want) || long != tc.long {
				t.Errorf("refusals %q, want %q; %d warnings, want %d", refused, tc.want, long, tc.long)
			}
			long = 0
			mu.Unlock()
		}

		// The next run waits for what is left of the day.
		start := time.Now()
		f = newTest(t, Options{Pace: fast(8), IgnoreRobots: true, Observe: observe}, store)
		add(t, f, seeds("http://day.example/later")...)
		next(t, f)
		mu.Lock()
		defer mu.Unlock()
		if got := time.Since(start); got < day-time.Second || got > day || long != 1 {
			t.Errorf("asked again after %v with %d warnings, want 23 hours and 1", got, long)
		}
	})
}

func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(4), IgnoreRobots: true}, store)
		add(t, f, seeds("http://a.example/", "http://b.example/final", "http://c.example/ours")...)
		leases, ours := map[string]int{}, 0
		err := crawl(t, f, 1, 0, func(l *Lease) Result {
			leases[l.URL().String()]++
			r := Result{Class: pace.ClassNetwork, Finish: &Finish{},
				Final: l.URL().String() == "http://b.example/final"}
			if l.URL().String() == "http://c.example/ours" {
				if ours++; ours <= 10 { // not its fault, so it is no attempt
					return Result{Class: pace.ClassOurs, Finish: &Finish{}, Delay: time.Minute}
				}
				if l.Attempt() != 1 {
					t.Errorf("attempt %d", l.Attempt())
				}
				return ok()
			}
			return r
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		want := map[string]int{"http://a.example/": 4, "http://b.example/final": 1, "http://c.example/ours": 11}
		if fmt.Sprint(leases) != fmt.Sprint(want) {
			t.Errorf("leases: %v, want %v", leases, want)
		}
		checkEmpty(t, f, store)
	})
}

// A cooperative host without a delay is kept busy with all it may have.
func TestKeepsAHostBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(10), IgnoreRobots: true}, newMemStore())
		for i := range 1000 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		var most, now atomic.Int64
		start := time.Now()
		crawl(t, f, 64, 0, func(l *Lease) Result {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			return ok()
		})
		if most.Load() != 10 {
			t.Errorf("most in flight: %d, want 10", most.Load())
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("1000 pages at 10 per 100ms took %v", got)
		}
	})
}

// A host that is slow, one that rests and one that is full delay no other host.
func TestHostsDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Shards: 1}, newMemStore())
		for i := range 100 {
			for _, h := range []string{"slow", "rests", "quick"} {
				add(t, f, seeds(fmt.Sprintf("http://%s.example/%d", h, i))...)
			}
		}
		start := time.Now()
		var quick atomic.Int64
		var took time.Duration
		crawl(t, f, 4, 0, func(l *Lease) Result {
			switch l.Link().URL.String()[7] {
			case 's':
				time.Sleep(time.Minute)
			case 'r':
				return Result{Class: pace.ClassUnavailable, RetryAfter: time.Hour, Finish: &Finish{}}
			case 'q':
				time.Sleep(time.Second)
				if quick.Add(1) == 100 {
					took = time.Since(start)
				}
			}
			return ok()
		})
		if took != 100*time.Second {
			t.Errorf("the quick host took %v, want 100s", took)
		}
	})
}

// While all hosts rest, nothing runs: the one timer wakes one call of Next, once.
func TestNobodySpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: pace.Config{MinDelay: time.Hour, MaxDelay: time.Hour}, IgnoreRobots: true},
			newMemStore())
		for i := range 500 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/1", i), fmt.Sprintf("http://h%d.example/2", i))...)
		}
		for range 500 {
			l := next(t, f)
			startLease(t, l)
			done(t, l, ok())
		}
		for range 64 {
			go f.Next(t.Context())
		}
		synctest.Wait()
		idle, woken := f.Stats().Idle, f.waiting.Wakeups()
		time.Sleep(59 * time.Minute)
		if got := f.Stats().Idle; got != 64 || idle != 64 {
			t.Errorf("%d, then %d of 64 wait", idle, got)
		}
		if n := f.waiting.Wakeups() - woken; n != 0 {
			t.Errorf("%d were woken for nothing", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.waiting.Wakeups() - woken; got != 64 {
			t.Errorf("%d were woken for 64 leases", got)
		}
	})
}

// The failure that blocks a host announces no retry of its URL: only a later run will try it.
func TestBlockedHostIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := map[NoticeKind]int{}
		o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: 3, FailureThreshold: Off,
			Observe: func(n Notice) { kinds[n.Kind]++ }}
		f := newTest(t, o, newMemStore())
		for i := range 20 {
			add(t, f, seeds(fmt.Sprintf("http://down.example/%d", i))...)
		}
		requests := 0
		err := crawl(t, f, 1, 0, func(*Lease) Result {
			requests++
			return Result{Class: pace.ClassNetwork, Finish: &Finish{}}
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		finished := 20 - int(f.Stats().Pending)
		if want := requests - finished - 1; kinds[NoticeBlocked] != 1 || kinds[NoticeRetry] != want {
			t.Errorf("%d requests, %d URLs finished, notices %v: want %d retries", requests, finished, kinds, want)
		}
	})
}

// Host failures back off by 2, 4, 8... seconds; the tenth in a row blocks, and
// its URLs stay pending without holding the crawl open.
func TestBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		var blocked []Notice
		o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: Off,
			Observe: func(n Notice) {
				if n.Kind != NoticePace {
					blocked = append(blocked, n)
				}
			}}
		f := newTest(t, o, store)
		for i := range 100 {
			add(t, f, seeds(fmt.Sprintf("http://down.example/%d", i))...)
		}
		start := time.Now()
		var at []int
		err := crawl(t, f, 8, 0, func(l *Lease) Result {
			at = append(at, int(time.Since(start).Seconds()))
			return Result{Class: pace.ClassNetwork, Finish: &Finish{}}
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		if want := []int{0, 2, 6, 14, 30, 62, 126, 254, 510, 1022}; !slices.Equal(at, want) {
			t.Errorf("asked after %v seconds, want %v", at, want)
		}
		st := f.Stats()
		if st.Pending != 90 || st.Held != 90 || st.GivenUp != 90 || st.InMemory != 0 || st.Hosts["blocked"] != 1 {
			t.Errorf("%+v", st)
		}
		if len(blocked) != 1 || blocked[0].Kind != NoticeBlocked || blocked[0].Host != "down.example" ||
			blocked[0].Change.Failures != 10 || blocked[0].Waiting != 90 {
			t.Errorf("notices: %+v", blocked)
		}
		if fact, _, _ := store.Host(t.Context(), f.hasher.HostID("down.example")); !fact.Blocked {
			t.Errorf("fact: %+v", fact)
		}

		// More URLs of it are recorded and wait with the others.
		add(t, f, seeds("http://down.example/more")...)
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
	})
}

// Twenty URLs in a row that fail for good abandon all hosts of the domain.
func TestAbandonedDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off}, newMemStore())
		for i := range 100 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.bad.example/", i), fmt.Sprintf("http://h%d.good.example/", i))...)
		}
		bad, good := 0, 0
		err := crawl(t, f, 1, 0, func(l *Lease) Result {
			if strings.Contains(l.URL().String(), "bad") {
				bad++
				return Result{Class: pace.ClassServerError, Finish: &Finish{}}
			}
			good++
			if good%20 != 0 {
				return Result{Class: pace.ClassServerError, Finish: &Finish{}}
			}
			return ok()
		})
		if !errors.Is(err, ErrDrained) || bad+good != 120 || min(bad, good) != 20 {
			t.Errorf("%d of the bad domain, %d of the good one: %v", bad, good, err)
		}
		add(t, f, seeds("http://new.bad.example/", "http://new.good.example/")...)
		if st := f.Stats(); st.Held != 81 || st.Hosts["abandoned"] != 101 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLearnedPaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: fast(1), IgnoreRobots: true}
		f := newTest(t, o, store)
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		l := next(t, f)
		startLease(t, l)
		done(t, l, Result{Class: pace.ClassThrottled, Finish: &Finish{}})
		l = next(t, f)
		startLease(t, l)
		done(t, l, ok())
		l = next(t, f)
		startLease(t, l)
		done(t, l, ok())
		if err := f.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Close()

		f = newTest(t, o, store)
		add(t, f, seeds("http://a.example/3", "http://a.example/4")...)
		l = next(t, f)
		startLease(t, l)
		start := time.Now()
		done(t, l, ok())
		next(t, f)
		if got := time.Since(start); got != time.Second {
			t.Errorf("delay of %v, want the 1s that the earlier run learned", got)
		}
	})
}

// What a host asked for by Retry-After holds for a run that begins before it is
// over, though the earlier one had no chance to write anything down at its end.
func TestRetryAfterOutlivesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		add(t, f, seeds("http://a.test/")...)
		l := next(t, f)
		startLease(t, l)
		if d := done(t, l, Result{Class: pace.ClassThrottled, RetryAfter: time.Minute,
			Finish: &Finish{}}); d != Retrying {
			t.Fatalf("disposition %v", d)
		}
		asked := time.Now()
		time.Sleep(20 * time.Second)

		f = newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		next(t, f).Abandon()
		if got := time.Since(asked); got != time.Minute {
			t.Errorf("asked again after %v, want 1m", got)
		}
	})
}

// It holds for a parked host too, of which nothing else has to be
// kept: a refusal of several in flight teaches no delay where they adapt.
func TestRetryAfterOfAParkedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: pace.Config{Adaptive: true}.WithDefaults(), IgnoreRobots: true, Shards: 1}
		f := newTest(t, o, store)
		asked := time.Now()
		for _, host := range []string{"a", "b", "c"} {
			for i := range 20 {
				add(t, f, seeds(fmt.Sprintf("http://%s.test/%d", host, i))...)
			}
			for range 8 { // the answers that make a first round of the adaptive window
				l := next(t, f)
				startLease(t, l)
				done(t, l, ok())
			}
			startLease(t, next(t, f))
			l := next(t, f)
			startLease(t, l)
			done(t, l, Result{Class: pace.ClassThrottled, RetryAfter: time.Minute, Finish: &Finish{}})
		}
		f.Close()

		o.MaxHosts = 1
		f = newTest(t, o, store)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		err := crawl(t, f, 1, 0, func(l *Lease) Result {
			if got := time.Since(asked); got < time.Minute {
				t.Errorf("%s after %v, want 1m", l.URL().String(), got)
			}
			return ok()
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
	})
}

// A host without a delay keeps its turn for some leases; then the others have
// theirs.
func TestKeepTurn(t *testing.T) {
	for keep, want := range map[int]string{1: "abababababab", 3: "aaabbbaaabbb"} {
		synctest.Test(t, func(t *testing.T) {
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, KeepTurn: keep, Shards: 1}, newMemStore())
			for _, h := range "ab" {
				for i := range 6 {
					add(t, f, seeds(fmt.Sprintf("http://%c.example/%d", h, i))...)
				}
				synctest.Wait()
				time.Sleep(time.Nanosecond)
			}
			got := ""
			for range 12 {
				l := next(t, f)
				got += l.URL().String()[7:8]
				time.Sleep(time.Nanosecond)
				startLease(t, l)
				done(t, l, ok())
			}
			if got != want {
				t.Errorf("turns of %d: %s, want %s", keep, got, want)
			}
		})
	}
}

func TestCloseWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{IgnoreRobots: true}, newMemStore())
		add(t, f, seeds("http://a.example/")...)
		l := next(t, f)
		ended := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := f.Next(t.Context())
				ended <- err
			}()
		}
		synctest.Wait()
		f.Close()
		f.Close() // does nothing
		for range 10 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if d, err := l.Done(ok()); d != Returned || !errors.Is(err, ErrClosed) {
			t.Errorf("Done after Close: %v, %v", d, err)
		}
	})
}

// A call of Next that is cancelled while it is being woken passes the lease on.
func TestCancelledNextPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, newMemStore())
		release := f.Source()
		var taken, cancelled atomic.Int64
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%3)*time.Second)
			go func() {
				defer cancel()
				if l, err := f.Next(ctx); err == nil {
					taken.Add(1)
					done(t, l, ok())
				} else {
					cancelled.Add(1)
				}
			}()
		}
		time.Sleep(time.Second) // the first third gives up just as links come
		for i := range 50 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/", i))...)
		}
		synctest.Wait()
		if taken.Load() != 50 {
			t.Errorf("%d of 50 were leased", taken.Load())
		}
		time.Sleep(time.Minute)
		if taken.Load()+cancelled.Load() != 100 {
			t.Errorf("%d leased, %d cancelled", taken.Load(), cancelled.Load())
		}
		release()
	})
}
