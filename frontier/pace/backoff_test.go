package pace

import (
	"testing"
	"time"
)

func TestFailureBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{
		0: 0, 1: 2 * time.Second, 2: 4 * time.Second, 9: 512 * time.Second, 10: 1024 * time.Second,
		11: 2048 * time.Second, 12: time.Hour, 40: time.Hour, 1000: time.Hour,
	} {
		if got := Backoff(n, time.Hour); got != want {
			t.Errorf("Backoff(%d) = %v, want %v", n, got, want)
		}
	}
}

func TestRestStep(t *testing.T) {
	for streak, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 255: time.Minute,
	} {
		if got := restStep(streak); got != want {
			t.Errorf("restStep(%d) = %v, want %v", streak, got, want)
		}
	}
}

func TestFailingRing(t *testing.T) {
	var f failing
	for i := range uint64(25) {
		if f.has(i + 1) {
			t.Errorf("URL %d is there before it was added", i+1)
		}
		f.add(shortURL(i + 1))
		if list := f.list(); len(list) != min(int(i)+1, len(f.urls)) || list[len(list)-1] != shortURL(i+1) ||
			list[0] != shortURL(i+2-uint64(len(list))) {
			t.Errorf("after %d URLs, the list is %v", i+1, list)
		}
		for j := range uint64(25) {
			if want := j <= i && i-j < uint64(len(f.urls)); f.has(j+1) != want {
				t.Errorf("after %d URLs, has(%d) = %v", i+1, j+1, !want)
			}
		}
	}
	if (&failing{}).has(0) {
		t.Error("an empty ring holds the URL 0")
	}
}

// TestPaceBlocksAtTenthFailure gives a dead host a fresh URL after each backoff.
func TestPaceBlocksAtTenthFailure(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for n := 1; n <= 10; n++ {
		if w.pace.Blocked() {
			t.Fatalf("blocked after %d failures", n-1)
		}
		ch := w.do(at, []Class{ClassNetwork, ClassServerError}[n%2])
		if ch.Failures != n || ch.Meaning != MeaningFailed || !ch.Has(EffectBackedOff) ||
			ch.Has(EffectBlocked) != (n == 10) {
			t.Fatalf("failure %d: %+v", n, ch)
		}
		at += 10*ms + Backoff(n, time.Hour)
		w.wantReady(at)
	}
	if !w.pace.Blocked() || !w.last.Has(EffectBlocked) {
		t.Error("not blocked after ten")
	}
	if ch := w.do(at, ClassNetwork); ch.Effects != 0 || ch.Meaning != MeaningFailed {
		t.Errorf("a failure of a blocked host: %+v", ch)
	}
	w.do(at, ClassOK)
	if !w.pace.Blocked() {
		t.Error("a late answer unblocks the host")
	}
}

func TestPaceMaxBackoffAndFailures(t *testing.T) {
	cfg := Polite()
	cfg.MaxBackoff, cfg.MaxFailures = 10*time.Second, 200
	w := newWalk(t, cfg)
	at := time.Duration(0)
	for n := 1; n <= 200; n++ {
		w.do(at, ClassNetwork)
		at += 10*ms + min(10*time.Second, time.Second<<min(n, 10))
		w.wantReady(at)
		if w.pace.Blocked() != (n == 200) {
			t.Fatalf("blocked = %v after %d failures", w.pace.Blocked(), n)
		}
	}
}

func TestPaceFailuresCountOncePerWindow(t *testing.T) {
	w := newWalk(t, Polite())
	for i := range 50 { // a burst: all of them started before the first failed
		e := w.event(time.Duration(i)*100*us, ClassNetwork)
		e.Now = w.time(20*time.Second + time.Duration(i)*ms)
		w.apply(e)
	}
	if got := w.pace.Failures(); got != 1 {
		t.Errorf("%d failures after one burst, want 1", got)
	}
	w.wantReady(22 * time.Second)
	// One of the burst that took much longer still does not count.
	e := w.event(10*ms, ClassNetwork)
	e.Now = w.time(time.Minute)
	if ch := w.apply(e); ch.Effects != 0 {
		t.Errorf("effects %q of a straggler", ch.Effects)
	}
	w.wantReady(22 * time.Second)
	w.do(22*time.Second, ClassNetwork)
	if got := w.pace.Failures(); got != 2 {
		t.Errorf("%d failures, want 2", got)
	}
}

// TestPaceOneBadPageCannotBlock tries one page for ever on a host that has no
// other left.
func TestPaceOneBadPageCannotBlock(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for i := range 100 {
		e := w.event(at, ClassServerError)
		e.URL = 77
		ch := w.apply(e)
		if want := EffectFailedAgain; i > 0 && ch.Effects != want {
			t.Fatalf("try %d: effects %q", i, ch.Effects)
		}
		at += 10*ms + 2*time.Second
		w.wantReady(at)
	}
	if w.pace.Blocked() || w.pace.Failures() != 1 {
		t.Errorf("blocked = %v after %d failures of one page", w.pace.Blocked(), w.pace.Failures())
	}
}

func TestPaceFailuresEndWithAnAnswer(t *testing.T) {
	t.Run("to a later request", func(t *testing.T) {
		for _, class := range []Class{ClassOK, ClassForbidden} {
			w := newWalk(t, Polite())
			w.do(0, ClassNetwork)
			w.do(2010*ms, ClassNetwork)
			w.do(6020*ms, class)
			w.wantEffects(EffectRecovered)
			w.wantNow()
			if got := w.pace.Failures(); got != 0 {
				t.Errorf("%d failures in a row after an answer", got)
			}
			e := w.event(7*time.Second, ClassNetwork)
			e.URL = 1 // of the row before: it counts anew
			w.apply(e)
			w.wantReady(9*time.Second + 10*ms)
		}
	})
	t.Run("to one that was on its way, too", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.do(0, ClassServerError)
		w.wantReady(2010 * ms)
		w.do(5*ms, ClassOK) // started after the failed one did: the host answers
		w.wantNow()
	})
	t.Run("but not to an older request", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.do(5*ms, ClassNetwork)
		e := w.event(0, ClassOK)
		e.Now = w.time(time.Second)
		w.apply(e)
		w.wantReady(2015 * ms)
		if got := w.pace.Failures(); got != 1 {
			t.Errorf("%d failures, want 1", got)
		}
	})
	t.Run("and not with a refusal or a failure of ours", func(t *testing.T) {
		for _, class := range []Class{ClassThrottled, ClassUnavailable, ClassOurs, ClassNone} {
			w := newWalk(t, Polite())
			w.do(0, ClassNetwork)
			w.do(3*time.Second, class)
			if got := w.pace.Failures(); got != 1 {
				t.Errorf("class %d: %d failures, want 1", class, got)
			}
		}
	})
}

// TestPaceOursNeverCounts leaves a pace exactly as it was.
func TestPaceOursNeverCounts(t *testing.T) {
	w := newWalk(t, OwnSite())
	w.do(0, ClassThrottled)
	w.do(10*time.Second, ClassNetwork)
	before := w.pace
	for i := range 100 {
		w.do(time.Duration(20+i)*time.Second, ClassOurs)
		w.do(time.Duration(20+i)*time.Second, ClassNone)
	}
	if w.pace != before {
		t.Errorf("pace %+v, was %+v", w.pace, before)
	}
}

// TestPaceUnstarted takes failures of requests that never reached the wire.
func TestPaceUnstarted(t *testing.T) {
	w := newWalk(t, Polite())
	for i := range 5 {
		w.url++
		w.apply(Event{Class: ClassNetwork, Now: w.time(time.Duration(i) * ms), URL: w.url})
	}
	if got := w.pace.Failures(); got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
	w.wantReady(2 * time.Second)
}

func TestPaceRetryAt(t *testing.T) {
	for _, tc := range []struct {
		name    string
		pace    Pace
		class   Class
		attempt int
		want    time.Duration
	}{
		{"refused: when the rest is over", Pace{facts: facts{restUntil: simTime(5 * time.Second).UnixNano()}},
			ClassThrottled, 3, 5 * time.Second},
		{"refused by one whose rest is over", Pace{facts: facts{restUntil: 1}}, ClassUnavailable, 1, 0},
		{"failed once", Pace{}, ClassNetwork, 1, 2 * time.Second},
		{"failed twice", Pace{}, ClassServerError, 2, 4 * time.Second},
		{"failed thrice", Pace{}, ClassServerError, 3, 8 * time.Second},
		{"failed, and the host backs off longer", Pace{outage: outage{backoffUntil: simTime(time.Minute).UnixNano()}},
			ClassNetwork, 1, time.Minute},
		{"failed on a resting host", Pace{facts: facts{restUntil: simTime(time.Minute).UnixNano()}}, ClassNetwork, 1,
			time.Minute},
		{"ours: as soon as the host may", Pace{}, ClassOurs, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Polite()
			got := tc.pace.RetryAt(&cfg, Event{Class: tc.class, Now: simTime(0)}, tc.attempt)
			if got.Sub(simTime(0)) != tc.want {
				t.Errorf("after %v, want %v", got.Sub(simTime(0)), tc.want)
			}
		})
	}
}
