package pace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A host that no crawl asks is forgotten a minute after its last request, or when its rest is over, and not before.
func TestRegistryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := NewRegistry(), Polite()
		none := func(*Handle) {}
		ask := func(host string, class Class, retry time.Duration) {
			var p Pace
			h := r.Join(host, "", &p, none)
			now := r.now()
			h.Plan(Terms{Limit: 1}, true, now, now)
			if ok, _ := h.Take(now); !ok {
				t.Fatalf("%s may not be asked", host)
			}
			if ok, _ := h.Start(now, 0, now); !ok {
				t.Fatalf("%s: start is refused", host)
			}
			h.Release(true, now)
			h.Apply(p, &c, Event{Class: class, Now: time.Unix(0, now), RetryAfter: retry})
			h.Leave(now)
			h.Leave(now)
		}
		ask("rests.example", ClassThrottled, time.Hour)
		for i := range 100 {
			ask(fmt.Sprintf("h%d.example", i), ClassOK, 0)
		}
		if n := r.Len(); n != 101 {
			t.Errorf("%d hosts are known, want 101", n)
		}
		time.Sleep(2 * time.Minute)
		for i := range 60 {
			ask(fmt.Sprintf("late%d.example", i), ClassOK, 0)
		}
		if n := r.Len(); n != 61 {
			t.Errorf("%d hosts are known, want the 60 of the last minute and the one that rests", n)
		}
		var p Pace
		r.Join("rests.example", "", &p, none)
		if left := p.RestUntil().Sub(time.Unix(0, r.now())); left != time.Hour-2*time.Minute {
			t.Errorf("the host rests for %v, want 58m", left)
		}
	})
}

// Of two crawls that know a host from earlier runs, the one with the later answer knows what it has learned; a rest
// holds from either.
func TestFactsMerge(t *testing.T) {
	older := facts{lastSuccess: 1, restUntil: 9, lesson: lesson{learned: 5000}}
	newer := facts{lastSuccess: 2, restUntil: 3, lesson: lesson{learned: 1000}}
	for _, tc := range []struct {
		name       string
		f, other   facts
		learned    uint32
		rest, last int64
		refusals   uint8
	}{
		{"newer comes", older, newer, 1000, 9, 2, 0},
		{"older comes", newer, older, 1000, 9, 2, 0},
		{"first", facts{}, facts{refusals: 3, restUntil: 4}, 0, 4, 0, 3},
		{"never answered", facts{lesson: lesson{learned: 1}}, facts{lesson: lesson{learned: 7}}, 7, 0, 0, 0},
		{"a row of refusals that the registry has forgotten", facts{lesson: lesson{learned: 7}},
			facts{refusals: 2, lesson: lesson{learned: 7}}, 7, 0, 0, 2},
		{"a shorter row of refusals comes", facts{refusals: 4, lesson: lesson{learned: 7}},
			facts{refusals: 2, lesson: lesson{learned: 7}}, 7, 0, 0, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.f
			f.merge(&tc.other)
			if f.learned != tc.learned || f.restUntil != tc.rest || f.lastSuccess != tc.last ||
				f.refusals != tc.refusals {
				t.Errorf("learned %d, rest until %d, last success %d, %d refusals; want %d, %d, %d, %d", f.learned,
					f.restUntil, f.lastSuccess, f.refusals, tc.learned, tc.rest, tc.last, tc.refusals)
			}
		})
	}
}
