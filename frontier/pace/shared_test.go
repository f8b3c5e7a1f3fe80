package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// asking is a crawl of a registry that asks one host.
type asking struct {
	t *testing.T
	*Handle
	p     Pace
	c     Config
	terms Terms
	url   uint64
}

func ask(t *testing.T, r *Registry, gap time.Duration) *asking {
	a := &asking{t: t, c: Polite(), terms: Terms{Gap: gap, Paced: true, Limit: 1}}
	a.Handle = r.Join("host.example", &a.p, func(*Handle) {})
	return a
}

// wait sleeps until other crawls let this one ask, and returns how long that took.
func (a *asking) wait() time.Duration {
	a.t.Helper()
	began := a.r.now()
	for {
		now := a.r.now()
		a.Plan(a.terms, true, now, now)
		if ok, _ := a.Take(now); ok {
			if ok, _ := a.Start(now, a.terms.Gap, now); !ok {
				a.t.Fatal("start is refused")
			}
			return time.Duration(now - began)
		}
		if now-began > int64(48*time.Hour) {
			a.t.Fatal("it may not ask the host in two days")
		}
		time.Sleep(time.Second)
	}
}

// answer ends a request after a time. Then the crawl has nothing to ask.
func (a *asking) answer(class Class, after time.Duration) {
	start := a.r.now()
	time.Sleep(after)
	now := a.r.now()
	a.url++
	a.Release(true, now)
	a.p, _, _ = a.Apply(a.p, &a.c, Event{Class: class, Start: time.Unix(0, start), Now: time.Unix(0, now), URL: a.url})
	a.Plan(a.terms, false, now, now)
}

// Neither the delay of a crawl nor its failures keep another crawl from a host for longer than a minute, while the
// crawl runs and after it.
func TestOthersWaitAMinuteAtMost(t *testing.T) {
	t.Run("delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry()
			slow := ask(t, r, 24*time.Hour)
			slow.wait()
			slow.answer(ClassOK, time.Millisecond)
			now := r.now()
			slow.Plan(slow.terms, true, now+int64(24*time.Hour), now) // it has more to ask
			other := ask(t, r, time.Second)
			if got := other.wait(); got < 59*time.Second || got > 61*time.Second {
				t.Errorf("beside it: after %v", got)
			}
			other.answer(ClassOK, time.Millisecond)
			slow.Leave(r.now())
			if got := other.wait(); got > 61*time.Second {
				t.Errorf("after it: after %v", got)
			}
		})
	})
	t.Run("failures", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry()
			hasty := ask(t, r, 0)
			hasty.c.MaxBackoff = 24 * time.Hour
			hasty.c.MaxFailures = 200
			for range 20 {
				hasty.wait()
				hasty.answer(ClassNetwork, time.Second)
			}
			other := ask(t, r, 0)
			if got := other.wait(); got > 61*time.Second {
				t.Errorf("after 20 failures: after %v", got)
			}
			other.answer(ClassOK, time.Millisecond)
			for range 10 { // the host answers one crawl and fails for the other
				hasty.wait()
				hasty.answer(ClassNetwork, time.Second)
				if got := other.wait(); got > 3*time.Second {
					t.Errorf("a host that answers: after %v", got)
				}
				other.answer(ClassOK, time.Millisecond)
			}
		})
	})
}
