package pace

import (
	"math"
	"testing"
	"time"
)

func TestLearnedRoundTrip(t *testing.T) {
	w := newWalk(t, Polite())
	at := time.Duration(0)
	for range 3 {
		w.do(at, ClassThrottled)
		at += 10 * time.Second
	}
	at = w.successes(at, 20)
	w.do(at, ClassThrottled)
	at = w.successes(at+10*time.Second, 1)
	l := w.pace.Learned()
	want := Learned{
		Delay: 3 * time.Second, Floor: 3 * time.Second,
		FloorAt: w.time(at - 11*time.Second + 10*ms), LastSuccess: w.time(at - time.Second + 10*ms),
	}
	if l.Delay != want.Delay || l.Floor != want.Floor || !l.FloorAt.Equal(want.FloorAt) ||
		!l.LastSuccess.Equal(want.LastSuccess) {
		t.Fatalf("learned %+v, want %+v", l, want)
	}

	next := newWalk(t, Polite())
	next.pace = next.pace.Restore(&next.cfg, l, w.time(time.Hour))
	if got := next.pace.Learned(); got != l {
		t.Errorf("restored %+v, want %+v", got, l)
	}
	next.wantNow() // the rest does not persist
	if got := next.pace.NextStart(&next.cfg, w.time(0), 0).Sub(w.time(0)); got != 3*time.Second {
		t.Errorf("the next crawl starts requests %v apart, want 3s", got)
	}
	next.successes(2*time.Hour, 100)
	next.wantDelay(3 * time.Second) // the floor holds
	next.successes(25*time.Hour, 20)
	next.wantDelay(2 * time.Second)
}

func TestRestore(t *testing.T) {
	now := simTime(0)
	day := 24 * time.Hour
	for _, tc := range []struct {
		name     string
		in, want Learned
	}{
		{"nothing", Learned{}, Learned{}},
		{"delay over today's cap", Learned{Delay: time.Hour}, Learned{Delay: time.Minute}},
		{"negative delay", Learned{Delay: -time.Second}, Learned{}},
		{"absurd delay", Learned{Delay: math.MaxInt64}, Learned{Delay: time.Minute}},
		{"old floor", Learned{Delay: time.Second, Floor: time.Second, FloorAt: now.Add(-day - ms)},
			Learned{Delay: time.Second}},
		{"floor without a time", Learned{Delay: time.Second, Floor: time.Second}, Learned{Delay: time.Second}},
		{"floor within a day", Learned{Floor: time.Second, FloorAt: now.Add(-day)},
			Learned{Floor: time.Second, FloorAt: now.Add(-day)}},
		{"floor of the future", Learned{Floor: time.Second, FloorAt: now.Add(day)},
			Learned{Floor: time.Second, FloorAt: now}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Polite()
			got := Pace{}.Restore(&cfg, tc.in, now).Learned()
			if got.Delay != tc.want.Delay || got.Floor != tc.want.Floor || !got.FloorAt.Equal(tc.want.FloorAt) {
				t.Errorf("restored %+v, want %+v", got, tc.want)
			}
		})
	}
}

// What a host asked for is honoured by the next crawl, unless it is longer than a host can ask for.
func TestRestoreRetryAfter(t *testing.T) {
	now := simTime(0)
	for asked, want := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Minute: time.Minute,
		1000 * time.Hour: 1000 * time.Hour, maxRest + time.Hour: maxRest + time.Hour, 365 * 24 * time.Hour: 0,
		math.MaxInt64: 0} {
		cfg := Polite()
		p := Pace{}.Restore(&cfg, Learned{AskedUntil: now.Add(asked)}, now)
		got := time.Duration(0)
		if at := p.ReadyAt(); !at.IsZero() {
			got = at.Sub(now)
		}
		if got != want {
			t.Errorf("asked for another %v: nothing for %v, want %v", asked, got, want)
		}
	}
	w := newWalk(t, Polite())
	w.do(0, ClassThrottled)
	if got := w.pace.Learned().AskedUntil; !got.IsZero() {
		t.Errorf("a rest that the host did not ask for is kept until %v", got)
	}
}

func TestWorthSaving(t *testing.T) {
	now := simTime(0)
	cfg := Polite()
	restored := func(l Learned) *Pace {
		l.FloorAt = now
		p := Pace{}.Restore(&cfg, l, now)
		return &p
	}
	slow := Learned{Delay: time.Second, LastSuccess: now}
	for _, tc := range []struct {
		name    string
		l       Learned
		saved   Learned
		savedAt time.Time
		want    bool
	}{
		{"nothing learned", Learned{LastSuccess: now}, Learned{}, time.Time{}, false},
		{"first delay", slow, Learned{}, time.Time{}, true},
		{"first floor", Learned{Floor: time.Second}, Learned{}, time.Time{}, true},
		{"another delay, just written", slow, Learned{Delay: 2 * time.Second}, now.Add(-9 * time.Second), false},
		{"another delay", slow, Learned{Delay: 2 * time.Second}, now.Add(-10 * time.Second), true},
		{"delay unlearned", Learned{}, Learned{Delay: time.Second}, now.Add(-time.Minute), true},
		{"a success since", slow, Learned{Delay: time.Second, LastSuccess: now.Add(-4 * time.Minute)},
			now.Add(-4 * time.Minute), false},
		{"a success long since", slow, Learned{Delay: time.Second, LastSuccess: now.Add(-5 * time.Minute)},
			now.Add(-5 * time.Minute), true},
		{"the same", slow, slow, now.Add(-time.Hour), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := restored(tc.l).WorthSaving(restored(tc.saved).Saved(), tc.savedAt, now); got != tc.want {
				t.Errorf("WorthSaving = %v", got)
			}
		})
	}
	p := restored(slow)
	if p.Unsaved(p.Saved()) || !p.Unsaved(restored(Learned{Delay: time.Second}).Saved()) ||
		!p.Unsaved(restored(Learned{LastSuccess: now}).Saved()) {
		t.Error("Unsaved is wrong")
	}
}

// TestSavesAreFew counts the writes for a host that is refused once a second for
// an hour: the learned delay is written at most each ten seconds.
func TestSavesAreFew(t *testing.T) {
	w := newWalk(t, Polite())
	var saved Saved
	var delay time.Duration
	var savedAt time.Time
	writes := 0
	for s := range 3600 {
		at := time.Duration(s) * time.Second
		w.pace.restUntil = 0
		w.do(at, ClassThrottled)
		if w.pace.WorthSaving(saved, savedAt, w.time(at)) {
			saved, savedAt, delay = w.pace.Saved(), w.time(at), w.pace.Learned().Delay
			writes++
		}
	}
	if writes == 0 || writes > 7 {
		t.Errorf("%d writes for a minute of growth", writes)
	}
	if delay != time.Minute {
		t.Errorf("last written delay %v", delay)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-1: 0, 0: 0, 1: 1, ms: 1, ms + 1: 2, time.Second: 1000, math.MaxInt64: math.MaxUint32,
	} {
		if got := toMillis(d); got != want {
			t.Errorf("toMillis(%v) = %d, want %d", d, got, want)
		}
	}
	if got := toMicros(-5); got != 0 {
		t.Errorf("toMicros(-5ns) = %d", got)
	}
	if got := toMicros(math.MaxInt64); got != math.MaxUint32 {
		t.Errorf("toMicros of for ever = %d", got)
	}
}
