package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// walk leads one host through events, at times counted from its beginning.
type walk struct {
	*testing.T
	cfg  Config
	pace Pace
	last Change
	url  uint64
}

func newWalk(t *testing.T, cfg Config) *walk {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &walk{T: t, cfg: cfg.WithDefaults()}
}

func (w *walk) time(d time.Duration) time.Time { return simTime(d) }

// event is a request of its own URL that starts at some time and ends 10 ms later.
func (w *walk) event(at time.Duration, class Class) Event {
	w.url++
	return Event{Class: class, Start: w.time(at), Now: w.time(at + 10*ms), Latency: 10 * ms, URL: w.url, Inflight: 1}
}

func (w *walk) apply(e Event) Change {
	w.pace, w.last = w.pace.Apply(&w.cfg, e)
	return w.last
}

func (w *walk) do(at time.Duration, class Class) Change { return w.apply(w.event(at, class)) }

// refused is a refusal that asks for a wait.
func (w *walk) refused(at time.Duration, class Class, retryAfter time.Duration) Change {
	e := w.event(at, class)
	e.RetryAfter = retryAfter
	return w.apply(e)
}

// successes are so many, a second apart, and return the time after the last.
func (w *walk) successes(at time.Duration, n int) time.Duration {
	for range n {
		w.do(at, ClassOK)
		at += time.Second
	}
	return at
}

func (w *walk) wantDelay(want time.Duration) {
	w.Helper()
	if got := w.pace.Learned().Delay; got != want {
		w.Errorf("learned delay %v, want %v", got, want)
	}
}

func (w *walk) wantFloor(want time.Duration) {
	w.Helper()
	if got := w.pace.Learned().Floor; got != want {
		w.Errorf("floor %v, want %v", got, want)
	}
}

// wantReady checks when the next request may start.
func (w *walk) wantReady(want time.Duration) {
	w.Helper()
	if got := w.pace.ReadyAt(); !got.Equal(w.time(want)) {
		w.Errorf("ready at %v, want %v", got.Sub(w.time(0)), want)
	}
}

func (w *walk) wantNow() {
	w.Helper()
	if got := w.pace.ReadyAt(); !got.IsZero() {
		w.Errorf("ready at %v, want no rest or backoff", got.Sub(w.time(0)))
	}
}

func (w *walk) wantLimit(want int) {
	w.Helper()
	if got := w.pace.Limit(&w.cfg); got != want {
		w.Errorf("%d in flight, want %d", got, want)
	}
}

func (w *walk) wantEffects(want Effect) {
	w.Helper()
	if w.last.Effects != want {
		w.Errorf("effects %q, want %q", w.last.Effects, want)
	}
}

func TestClassOf(t *testing.T) {
	for status, want := range map[int]Class{
		200: ClassOK, 204: ClassOK, 301: ClassOK, 304: ClassOK, 400: ClassOK, 401: ClassOK, 404: ClassOK,
		410: ClassOK, 403: ClassForbidden, 429: ClassThrottled, 500: ClassServerError, 502: ClassServerError,
		503: ClassUnavailable, 504: ClassServerError, 599: ClassServerError,
	} {
		if got := ClassOf(status); got != want {
			t.Errorf("ClassOf(%d) = %d, want %d", status, got, want)
		}
	}
}

// TestPaceRefusals takes one refusal of each kind.
func TestPaceRefusals(t *testing.T) {
	for _, tc := range []struct {
		name       string
		class      Class
		retryAfter time.Duration
		meaning    Meaning
		rest       time.Duration // from the answer on
		delay      time.Duration // learned
	}{
		{"200", ClassOK, 0, MeaningAnswered, 0, 0},
		{"200 with Retry-After", ClassOK, time.Minute, MeaningAnswered, 0, 0},
		{"429", ClassThrottled, 0, MeaningRefused, time.Second, time.Second},
		{"429 with a short Retry-After", ClassThrottled, 500 * ms, MeaningRefused, time.Second, time.Second},
		{"429 with a long Retry-After", ClassThrottled, 90 * time.Second, MeaningRefused, 90 * time.Second,
			time.Second},
		{"429 with an hour", ClassThrottled, time.Hour, MeaningRefused, time.Hour, time.Second},
		{"429 with a day", ClassThrottled, 24 * time.Hour, MeaningRefused, 24 * time.Hour, time.Second},
		{"503 with a week", ClassUnavailable, 7 * 24 * time.Hour, MeaningRefused, 7 * 24 * time.Hour, 0},
		{"403 with a year", ClassForbidden, 365 * 24 * time.Hour, MeaningRefused, maxRest, 0},
		{"429 with no end", ClassThrottled, math.MaxInt64, MeaningRefused, maxRest, time.Second},
		{"503", ClassUnavailable, 0, MeaningRefused, time.Second, 0},
		{"503 with Retry-After", ClassUnavailable, 7 * time.Second, MeaningRefused, 7 * time.Second, 0},
		{"403", ClassForbidden, 0, MeaningAnswered, 0, 0},
		{"403 with Retry-After", ClassForbidden, 7 * time.Second, MeaningRefused, 7 * time.Second, 0},
		{"500", ClassServerError, 0, MeaningFailed, 2 * time.Second, 0},
		{"500 with Retry-After", ClassServerError, time.Minute, MeaningFailed, 2 * time.Second, 0},
		{"no connection", ClassNetwork, 0, MeaningFailed, 2 * time.Second, 0},
		{"no file descriptors", ClassOurs, 0, MeaningNothing, 0, 0},
		{"cancelled", ClassNone, 0, MeaningNothing, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWalk(t, Polite())
			ch := w.refused(0, tc.class, tc.retryAfter)
			if ch.Meaning != tc.meaning {
				t.Errorf("meaning %d, want %d", ch.Meaning, tc.meaning)
			}
			long := tc.meaning == MeaningRefused && tc.retryAfter > time.Hour && tc.retryAfter <= MostPatience
			if ch.Has(EffectRetryAfterLong) != long {
				t.Errorf("effects %q, a warning about the Retry-After should be %v", ch.Effects, long)
			}
			w.wantDelay(tc.delay)
			if tc.rest == 0 {
				w.wantNow()
			} else {
				w.wantReady(10*ms + tc.rest)
			}
		})
	}
}

// A 503 or 403 that names its Retry-After teaches a delay if the host refuses again right after that rest, before a
// success or soon after the first one, and only then does it end a row of successes or undo a probe.
func TestPaceWaitsForRetryAfter(t *testing.T) {
	for _, class := range []Class{ClassUnavailable, ClassForbidden} {
		t.Run(fmt.Sprintf("class %d", class), func(t *testing.T) {
			w := newWalk(t, Polite())
			at := time.Duration(0)
			for range 10 { // an outage of 8 s in every 20
				w.refused(at, class, 8*time.Second)
				w.wantDelay(0)
				w.wantReady(at + 8*time.Second + 10*ms)
				at = w.successes(at+9*time.Second, 11)
			}
			w.refused(at, class, 8*time.Second)
			at += 9 * time.Second
			w.refused(at, class, 8*time.Second)
			w.wantDelay(time.Second) // no success since the rest
			w.wantEffects(EffectRested | EffectSlowed)
			at = w.successes(at+9*time.Second, 1)
			w.refused(at, class, 8*time.Second)
			w.wantDelay(2 * time.Second) // one success, two seconds after the rest

			at = w.successes(at+9*time.Second, 11)
			w.refused(at, class, 8*time.Second)
			at = w.successes(at+9*time.Second, 9)
			w.wantDelay(time.Second) // twenty successes, with an outage between them
			w.wantEffects(EffectProbed)
			w.refused(at, class, 8*time.Second)
			w.wantDelay(time.Second) // the probe is not undone by an outage
			w.wantFloor(0)
			w.refused(at+9*time.Second, class, 8*time.Second)
			w.wantDelay(2 * time.Second)
			w.wantFloor(2 * time.Second)
		})
	}
}

// Of a burst of refusals, those that were on their way when the rest began do not show that the host refuses again.
func TestPaceWaitsForRetryAfterOfABurst(t *testing.T) {
	w := newWalk(t, Polite())
	for _, at := range []time.Duration{0, ms, 2 * ms} {
		w.refused(at, ClassUnavailable, 5*time.Second)
	}
	w.wantDelay(0)
	w.refused(3*ms, ClassThrottled, 5*time.Second)
	w.wantDelay(time.Second) // the host also says that it is the pace
}

// TestPaceRetriesAfter1_2_4 is a URL that is refused three times, then served.
func TestPaceRetriesAfter1_2_4(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		e := w.event(at, ClassThrottled)
		w.apply(e)
		retry := w.pace.RetryAt(&w.cfg, e, i+1)
		if got := retry.Sub(e.Now); got != want {
			t.Errorf("retry %d after %v, want %v", i+1, got, want)
		}
		if next := w.pace.NextStart(&w.cfg, e.Start, 0); next.After(retry) {
			t.Errorf("retry %d at %v, but the host may not start before %v", i+1, retry, next)
		}
		at = retry.Sub(w.time(0))
	}
	w.do(at, ClassOK)
	w.wantEffects(EffectRecovered)
	if streak, _ := w.pace.Refusals(); streak != 0 {
		t.Errorf("%d refusals in a row after a success", streak)
	}
	w.wantDelay(3 * time.Second)
}

func TestPaceRestGrowsByStreak(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for _, want := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		w.do(at, ClassUnavailable) // a 503 rests and teaches nothing
		at += 10*ms + time.Duration(want)*time.Second
		w.wantReady(at)
	}
	w.wantDelay(0)
	w.do(at, ClassForbidden) // a plain 403 is no success
	w.do(at, ClassUnavailable)
	at += 10*ms + time.Minute
	w.wantReady(at)
	w.do(at, ClassOK)
	w.do(at, ClassUnavailable)
	w.wantReady(at + 10*ms + time.Second)
}

// TestPaceGrowth refuses until the learned delay is at its cap: from then on it
// is the longest part of the rest.
func TestPaceGrowth(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for i := range 70 {
		ch := w.do(at, ClassThrottled)
		learned := time.Duration(min(i+1, 60)) * time.Second
		w.wantDelay(learned)
		if ch.DelayTo != learned || ch.Has(EffectSlowed) != (i < 60) {
			t.Fatalf("refusal %d: %+v", i+1, ch)
		}
		at += 10*ms + max(learned, restStep(i+1))
		w.wantReady(at)
	}
	if streak, atCap := w.pace.Refusals(); streak != 70 || atCap != 10 {
		t.Errorf("%d refusals in a row, %d at the cap, want 70 and 10", streak, atCap)
	}
	w.successes(at, 1)
	if streak, atCap := w.pace.Refusals(); streak != 0 || atCap != 0 {
		t.Errorf("%d refusals in a row, %d at the cap after a success", streak, atCap)
	}
}

// TestPaceCountsOncePerRest has several requests on their way when one is refused.
func TestPaceCountsOncePerRest(t *testing.T) {
	started := func(w *walk, at, now time.Duration, class Class, retryAfter time.Duration) Change {
		e := w.event(at, class)
		e.Now, e.RetryAfter = w.time(now), retryAfter
		return w.apply(e)
	}
	t.Run("refusals", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.do(0, ClassThrottled)
		for range 5 {
			if ch := started(w, 5*ms, 500*ms, ClassThrottled, 0); ch.Meaning != MeaningRefused || ch.Effects != 0 {
				t.Errorf("meaning %d, effects %q", ch.Meaning, ch.Effects)
			}
		}
		// One that took long: its start, not its end, is before the rest's end.
		started(w, 6*ms, 30*time.Second, ClassThrottled, 0)
		w.wantDelay(time.Second)
		w.wantReady(1010 * ms)
		w.do(1010*ms, ClassThrottled)
		w.wantDelay(2 * time.Second)
		w.wantReady(1020*ms + 2*time.Second)
	})
	t.Run("a longer Retry-After is honoured", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.refused(0, ClassThrottled, 5*time.Second)
		started(w, 5*ms, 100*ms, ClassThrottled, 20*time.Second)
		w.wantEffects(EffectRested)
		w.wantReady(100*ms + 20*time.Second)
		started(w, 6*ms, 200*ms, ClassThrottled, 3*time.Second)
		w.wantEffects(0)
		w.wantReady(100*ms + 20*time.Second)
		w.wantDelay(time.Second)
		if streak, _ := w.pace.Refusals(); streak != 1 {
			t.Errorf("streak %d, want 1", streak)
		}
	})
	t.Run("what the first did not teach a later one does", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.do(0, ClassUnavailable)
		w.wantDelay(0)
		started(w, 5*ms, 20*ms, ClassThrottled, 0)
		w.wantDelay(time.Second)
		started(w, 6*ms, 30*ms, ClassThrottled, 0)
		w.wantDelay(time.Second)
	})
	t.Run("successes", func(t *testing.T) {
		w := newWalk(t, Polite())
		w.do(0, ClassThrottled)
		for range 50 {
			started(w, 5*ms, 500*ms, ClassOK, 0)
		}
		if streak, _ := w.pace.Refusals(); streak != 1 {
			t.Errorf("streak %d after answers to older requests, want 1", streak)
		}
		w.wantDelay(time.Second)
		w.wantReady(1010 * ms)
	})
}

func TestPaceProbes(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for range 3 {
		w.do(at, ClassThrottled)
		at += 10 * time.Second
	}
	w.wantDelay(3 * time.Second)

	// Each 20 successes earn a second, and prove the one before.
	at = w.successes(at, 19)
	w.wantDelay(3 * time.Second)
	at = w.successes(at, 1)
	w.wantEffects(EffectProbed)
	w.wantDelay(2 * time.Second)
	at = w.successes(at, 19)
	w.wantDelay(2 * time.Second)
	at = w.successes(at, 1)
	w.wantEffects(EffectProbeHeld | EffectProbed)
	w.wantDelay(time.Second)

	// The second one fails, which is the raise: no second on top.
	at = w.successes(at, 19)
	w.do(at, ClassThrottled)
	w.wantEffects(EffectRested | EffectProbeFailed)
	w.wantDelay(2 * time.Second)
	w.wantFloor(2 * time.Second)
	found := at
	at += 10 * time.Second

	// Below the floor there is no probing.
	at = w.successes(at, 100)
	w.wantDelay(2 * time.Second)

	// A refusal at the floor is an ordinary one.
	w.do(at, ClassThrottled)
	w.wantDelay(3 * time.Second)
	w.wantFloor(2 * time.Second)
	at = w.successes(at+10*time.Second, 20)
	w.wantDelay(2 * time.Second)
	w.successes(at, 20)
	w.wantEffects(EffectProbeHeld)
	w.wantDelay(2 * time.Second)

	// After a day the floor is forgotten, not before.
	at = found + 24*time.Hour
	w.do(at, ClassOK)
	w.wantFloor(2 * time.Second)
	w.do(at+20*ms, ClassOK)
	w.wantEffects(EffectFloorForgotten)
	w.wantFloor(0)
	at = w.successes(at+time.Second, 18)
	w.wantEffects(EffectProbed)
	w.wantDelay(time.Second)
	at = w.successes(at, 20)
	w.wantDelay(0)
	at = w.successes(at, 20)
	w.wantEffects(EffectProbeHeld)

	// A probe that held is over: a later refusal finds no floor.
	w.do(at, ClassThrottled)
	w.wantEffects(EffectRested | EffectSlowed)
	w.wantDelay(time.Second)
	w.wantFloor(0)
}

func TestPaceProbeFailsByAnyRefusal(t *testing.T) {
	for _, class := range []Class{ClassThrottled, ClassUnavailable} {
		w := newWalk(t, Polite())
		w.do(0, ClassThrottled)
		at := w.successes(10*time.Second, 20)
		w.wantDelay(0)
		w.do(at, class)
		w.wantDelay(time.Second)
		w.wantFloor(time.Second)
	}
}

// TestPaceStreakOfSuccesses names what breaks a row of successes.
func TestPaceStreakOfSuccesses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		class  Class
		breaks bool
	}{
		{"403", ClassForbidden, false},
		{"ours", ClassOurs, false},
		{"cancelled", ClassNone, false},
		{"500", ClassServerError, true},
		{"network", ClassNetwork, true},
		{"503", ClassUnavailable, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWalk(t, Polite())
			w.do(0, ClassThrottled)
			at := w.successes(10*time.Second, 19)
			w.do(at, tc.class)
			w.successes(at+10*time.Second, 1)
			want := time.Duration(0)
			if tc.breaks {
				want = time.Second
			}
			w.wantDelay(want)
		})
	}
}

func TestPaceForbidden(t *testing.T) {
	t.Run("the fifth in a row and each after it", func(t *testing.T) {
		w := newWalk(t, Polite())
		for i := range 4 {
			if ch := w.do(time.Duration(i)*time.Second, ClassForbidden); ch.Meaning != MeaningAnswered ||
				ch.Effects != 0 {
				t.Errorf("403 number %d: meaning %d, effects %q", i+1, ch.Meaning, ch.Effects)
			}
		}
		w.wantNow()
		if ch := w.do(4*time.Second, ClassForbidden); ch.Meaning != MeaningRefused {
			t.Errorf("fifth 403: meaning %d", ch.Meaning)
		}
		w.wantReady(5*time.Second + 10*ms)
		w.do(6*time.Second, ClassForbidden)
		w.wantReady(8*time.Second + 10*ms)
		w.wantDelay(0)
		w.do(10*time.Second, ClassOK)
		if ch := w.do(11*time.Second, ClassForbidden); ch.Meaning != MeaningAnswered {
			t.Errorf("403 after a success: meaning %d", ch.Meaning)
		}
	})
	for _, tc := range []struct {
		name   string
		class  Class
		breaks bool
	}{
		{"404 between", ClassOK, true},
		{"500 between", ClassServerError, true},
		{"429 between", ClassThrottled, true},
		{"time-out between", ClassNetwork, false},
		{"ours between", ClassOurs, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWalk(t, Polite())
			for i := range 4 {
				w.do(time.Duration(i)*time.Second, ClassForbidden)
			}
			w.do(10*time.Second, tc.class)
			want := MeaningRefused
			if tc.breaks {
				want = MeaningAnswered
			}
			if ch := w.do(20*time.Second, ClassForbidden); ch.Meaning != want {
				t.Errorf("meaning %d, want %d", ch.Meaning, want)
			}
		})
	}
	t.Run("with Retry-After it refuses, and stays in the row", func(t *testing.T) {
		w := newWalk(t, Polite())
		for i := range 4 {
			w.do(time.Duration(i)*time.Second, ClassForbidden)
		}
		w.refused(10*time.Second, ClassForbidden, time.Second)
		if ch := w.do(20*time.Second, ClassForbidden); ch.Meaning != MeaningRefused {
			t.Errorf("meaning %d", ch.Meaning)
		}
	})
}

func TestPaceLimitSteps(t *testing.T) {
	cfg := Polite()
	cfg.MaxInflight = 4
	for _, tc := range []struct {
		learned, crawl time.Duration
		want           int
	}{
		{0, 0, 4},
		{5 * time.Second, 0, 4}, // 4.5 s over the baseline of 500 ms
		{5400 * ms, 0, 4},
		{5500 * ms, 0, 3},
		{10500 * ms, 0, 2},
		{15500 * ms, 0, 1},
		{60 * time.Second, 0, 1},
		{20 * time.Second, 30 * time.Second, 4}, // the baseline is the Crawl-delay
		{40 * time.Second, 30 * time.Second, 2},
	} {
		w := newWalk(t, cfg)
		w.pace, _ = w.pace.WithCrawlDelay(&w.cfg, tc.crawl)
		w.pace.learned = toMillis(tc.learned)
		w.wantLimit(tc.want)
	}
	t.Run("a change is told, both ways", func(t *testing.T) {
		w := newWalk(t, cfg)
		at := time.Duration(0)
		for range 6 {
			w.do(at, ClassThrottled)
			at += time.Minute
		}
		w.wantLimit(3)
		if !w.last.Has(EffectLimitChanged) || w.last.LimitFrom != 4 || w.last.LimitTo != 3 {
			t.Errorf("change %+v", w.last)
		}
		w.successes(at, 20)
		w.wantLimit(4)
		if !w.last.Has(EffectLimitChanged) || w.last.LimitFrom != 3 || w.last.LimitTo != 4 {
			t.Errorf("change %+v", w.last)
		}
	})
}

func TestPaceNextStart(t *testing.T) {
	polite, own := Polite(), OwnSite()
	based := own
	based.BaseDelay = 300 * ms
	spread := uint64(polite.MaxDelay - polite.MinDelay)
	for _, tc := range []struct {
		name string
		cfg  Config
		pace Pace
		rnd  uint64
		want time.Duration
	}{
		{"polite, smallest draw", polite, Pace{}, 0, 200 * ms},
		{"polite, some draw", polite, Pace{}, uint64(100 * ms), 300 * ms},
		{"polite, largest draw", polite, Pace{}, spread, 500 * ms},
		{"polite, draw over the edge", polite, Pace{}, spread + 1, 200 * ms},
		{"own site", own, Pace{}, 12345, 0},
		{"base delay", based, Pace{}, 12345, 300 * ms},
		{"crawl delay", polite, Pace{crawl: 2000}, spread, 2 * time.Second},
		{"crawl delay, own site", own, Pace{crawl: 2000}, 0, 2 * time.Second},
		{"learned", polite, Pace{facts: facts{lesson: lesson{learned: 3000}}, crawl: 2000}, spread, 3 * time.Second},
		{"slow host, polite", polite, Pace{latency: 900_000}, spread, 900 * ms},
		{"slow host, own site", own, Pace{latency: 900_000}, 0, 0},
		{"slow host, safe", safe(), Pace{latency: 900_000}, spread, 500 * ms},
		{"resting", polite, Pace{facts: facts{restUntil: simTime(time.Minute).UnixNano()}}, 0, time.Minute},
		{"backing off", own, Pace{outage: outage{backoffUntil: simTime(time.Minute).UnixNano()},
			facts: facts{restUntil: simTime(time.Second).UnixNano()}}, 0, time.Minute},
		{"rest is over sooner than the delay", polite, Pace{facts: facts{lesson: lesson{learned: 3000},
			restUntil: simTime(time.Second).UnixNano()}}, 0, 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.pace.NextStart(&tc.cfg, simTime(0), tc.rnd).Sub(simTime(0)); got != tc.want {
				t.Errorf("after %v, want %v", got, tc.want)
			}
		})
	}
	if got := (Pace{}).NextStart(&polite, time.Time{}, 7); !got.IsZero() {
		t.Errorf("the first request waits until %v", got)
	}
	if got := (Pace{facts: facts{restUntil: 5}}).NextStart(&polite, time.Time{}, 7); got.UnixNano() != 5 {
		t.Errorf("the first request of a resting host may start at %v", got)
	}
}

func TestPaceSmoothsLatency(t *testing.T) {
	w := newWalk(t, Polite())
	answer := func(latency time.Duration, class Class) {
		e := w.event(0, class)
		e.Latency = latency
		w.apply(e)
	}
	answer(800*ms, ClassOK)
	if got := w.pace.Latency(); got != 800*ms {
		t.Errorf("first latency smoothed to %v", got)
	}
	answer(1600*ms, ClassOK)
	if got := w.pace.Latency(); got != 900*ms {
		t.Errorf("latency %v, want an eighth of the way from 800ms to 1.6s", got)
	}
	answer(ms, ClassThrottled)
	answer(ms, ClassForbidden)
	answer(time.Minute, ClassNetwork)
	if got := w.pace.Latency(); got != 900*ms {
		t.Errorf("latency %v after answers that are no pages", got)
	}
	if got := w.pace.Delay(&w.cfg); got != time.Second { // the refusal above taught one
		t.Errorf("delay %v", got)
	}
}

func TestPaceCrawlDelay(t *testing.T) {
	w := newWalk(t, Polite())
	set := func(d time.Duration, want Effect) {
		t.Helper()
		w.pace, w.last = w.pace.WithCrawlDelay(&w.cfg, d)
		w.wantEffects(want)
		if got := w.pace.CrawlDelay(); got < d {
			t.Errorf("crawl delay %v, want %v", got, d)
		}
	}
	set(0, 0)
	set(time.Second, EffectCrawlDelaySet)
	set(time.Second, 0)
	set(time.Minute, EffectCrawlDelaySet)
	set(time.Minute+ms, EffectCrawlDelaySet|EffectCrawlDelayLong)
	set(1500*us, EffectCrawlDelaySet)
	if got := w.pace.CrawlDelay(); got != 2*ms {
		t.Errorf("crawl delay %v, want it rounded up to 2ms", got)
	}
	// A probe or a success never goes below it, nor does a rest.
	set(10*time.Second, EffectCrawlDelaySet)
	w.do(0, ClassUnavailable)
	w.wantReady(10*time.Second + 10*ms)
	w.successes(20*time.Second, 200)
	if got := w.pace.Delay(&w.cfg); got != 10*time.Second {
		t.Errorf("delay %v, want 10s", got)
	}
}

func TestPaceValue(t *testing.T) {
	cfg := Polite()
	before := Pace{}
	after, _ := before.Apply(&cfg, Event{Class: ClassThrottled, Now: simTime(0)})
	if before != (Pace{}) {
		t.Error("Apply changed its receiver")
	}
	if after == before {
		t.Error("Apply returned its receiver")
	}
}

// TestPaceInvariants throws random events at every profile.
func TestPaceInvariants(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := []Config{Polite(), OwnSite(), safe()}[seed%3]
		var p Pace
		now := simTime(0)
		for i := range 3000 {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
			e := Event{
				Class: Class(rng.IntN(int(ClassOurs) + 1)),
				Start: now.Add(-time.Duration(rng.Int64N(int64(2 * time.Second)))), Now: now,
				Latency: time.Duration(rng.Int64N(int64(time.Second))), URL: rng.Uint64N(100), Inflight: 1 +
					rng.IntN(5),
			}
			if rng.IntN(10) == 0 {
				e.RetryAfter = time.Duration(rng.Int64N(int64(2 * time.Hour)))
			}
			if rng.IntN(4) > 0 {
				e.Class = ClassOK
			}
			was := p
			var ch Change
			p, ch = p.Apply(&cfg, e)
			l := p.Learned()
			switch {
			case p.Limit(&cfg) < 1 || p.Limit(&cfg) > cfg.MaxInflight:
				t.Fatalf("seed %d, event %d: limit %d", seed, i, p.Limit(&cfg))
			case l.Delay > cfg.MaxLearned || l.Floor > cfg.MaxLearned:
				t.Fatalf("seed %d, event %d: learned %+v", seed, i, l)
			case p.restUntil < was.restUntil:
				t.Fatalf("seed %d, event %d: a rest got shorter", seed, i)
			case p.ReadyAt().Sub(now) > 2*time.Hour: // the longest Retry-After here
				t.Fatalf("seed %d, event %d: not ready before %v", seed, i, p.ReadyAt().Sub(now))
			case was.Blocked() && !p.Blocked():
				t.Fatalf("seed %d, event %d: unblocked", seed, i)
			case ch.Meaning == MeaningRefused && e.RetryAfter > 0 && p.ReadyAt().Before(now.Add(e.RetryAfter)):
				t.Fatalf("seed %d, event %d: ready at %v with a Retry-After of %v", seed, i, p.ReadyAt().Sub(now),
					e.RetryAfter)
			case p.RetryAt(&cfg, e, 1).Before(p.ReadyAt()):
				t.Fatalf("seed %d, event %d: retry before the host is ready", seed, i)
			case l.Delay < was.Learned().Delay && !ch.Has(EffectProbed):
				t.Fatalf("seed %d, event %d: delay fell without a probe", seed, i)
			case ch.DelayFrom != ch.DelayTo && ch.Effects == 0:
				t.Fatalf("seed %d, event %d: silent change", seed, i)
			}
		}
	}
}

func BenchmarkPaceApply(b *testing.B) {
	for _, profile := range []struct {
		name string
		cfg  Config
	}{{"polite", Polite()}, {"own-site", OwnSite()}} {
		b.Run("profile="+profile.name, func(b *testing.B) {
			b.ReportAllocs()
			var p Pace
			e := Event{Class: ClassOK, Start: simTime(0), Now: simTime(10 * ms), Latency: 10 * ms, Inflight: 2}
			for b.Loop() {
				e.Start, e.Now = e.Start.Add(ms), e.Now.Add(ms)
				p, _ = p.Apply(&profile.cfg, e)
			}
		})
	}
	b.Run("op=next-start", func(b *testing.B) {
		b.ReportAllocs()
		cfg := Polite()
		var p Pace
		last := simTime(0)
		for i := uint64(0); b.Loop(); i++ {
			last = p.NextStart(&cfg, last, i)
		}
	})
}
