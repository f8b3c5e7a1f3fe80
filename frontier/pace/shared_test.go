package pace

import (
	"context"
	"fmt"
	"sync"
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
	woken chan struct{}
}

func ask(t *testing.T, r *Registry, gap time.Duration) *asking {
	return askAs(t, r, "", Terms{Gap: gap, Paced: true, Limit: 1})
}

func askAs(t *testing.T, r *Registry, account string, terms Terms) *asking {
	a := &asking{t: t, c: Polite(), terms: terms, woken: make(chan struct{}, 1)}
	a.Handle = r.Join("host.example", account, &a.p, func(*Handle) {
		select {
		case a.woken <- struct{}{}:
		default:
		}
	})
	return a
}

// take takes a slot as soon as it may, and returns how long that took; within says whether it did in time.
func (a *asking) take(within time.Duration) (waited time.Duration, ok bool) {
	a.t.Helper()
	began := a.r.now()
	end := time.After(within)
	for {
		now := a.r.now()
		ready, wake := a.Plan(a.terms, true, now, now)
		wake.Wake()
		ok, wake := a.Take(now)
		wake.Wake()
		if ok {
			_, wake := a.Start(now, a.terms.Gap, now)
			wake.Wake()
			return time.Duration(now - began), true
		}
		later := make(<-chan time.Time)
		if ready != Never && ready > now {
			later = time.After(time.Duration(ready - now))
		}
		select {
		case <-a.woken:
		case <-later:
		case <-end:
			return 0, false
		}
	}
}

// release ends a request. The crawl has more to ask.
func (a *asking) release() {
	now := a.r.now()
	a.Release(true, now).Wake()
	_, wake := a.Plan(a.terms, true, now, now)
	wake.Wake()
	a.wake(a.Handle) // it looks at the host itself
}

// However long the requests of one account take, a crawl of another account that asks the same host has one of its
// slots once it got it, and it does not wait for long requests of a crawl with a smaller limit.
func TestLongRequestsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		two := Terms{Limit: 2}
		first, second := askAs(t, r, "slow", two), askAs(t, r, "slow", two)
		for _, a := range []*asking{first, second} {
			if _, ok := a.take(time.Second); !ok {
				t.Fatal("no slot is free at a host without requests")
			}
		}
		time.AfterFunc(2*time.Minute, first.release)
		other := askAs(t, r, "other", two)
		if got, ok := other.take(time.Hour); !ok || got != 2*time.Minute {
			t.Fatalf("the first slot: %v, %t", got, ok)
		}
		for range 100 {
			time.AfterFunc(time.Second, other.release)
			if _, ok := first.take(500 * time.Millisecond); ok {
				t.Fatal("an account has both slots while another asks the host")
			}
			if got, ok := other.take(time.Hour); !ok || got != 500*time.Millisecond {
				t.Fatalf("a further request waits for %v, %t", got, ok)
			}
		}
		// alone, the account has both again
		other.release()
		other.Leave(r.now()).Wake()
		if got, ok := first.take(time.Minute); !ok || got != 0 {
			t.Fatalf("alone: %v, %t", got, ok)
		}
		first.release()
		second.release()
		first.Leave(r.now())
		second.Leave(r.now())

		narrow := askAs(t, r, "narrow", Terms{Limit: 1})
		if _, ok := narrow.take(time.Second); !ok {
			t.Fatal("no slot is free, though all were released")
		}
		same := askAs(t, r, "narrow", two)
		if _, ok := same.take(10 * time.Minute); ok {
			t.Fatal("a limit of the same account is exceeded")
		}
		same.Leave(r.now())
		narrow.release()
		narrow.take(time.Second)
		wide := askAs(t, r, "wide", two)
		if got, ok := wide.take(time.Hour); !ok || got != longRequest {
			t.Errorf("beside a long request of a crawl with limit 1: %v, %t", got, ok)
		}
		if _, ok := wide.take(10 * time.Minute); ok {
			t.Error("its own limit is exceeded")
		}
		// The crawl with limit 1 gets its turn when the other one has nothing in flight.
		narrow.release()
		wide.release()
		if _, ok := narrow.take(time.Second); !ok {
			t.Error("a crawl with a small limit gets no turn")
		}
		if got, ok := wide.take(time.Hour); !ok || got != longRequest {
			t.Errorf("beside its next long request: %v, %t", got, ok)
		}
	})
}

// At a host, accounts take turns, and then the crawls of an account: eight crawls of one account have as many turns
// together as one of another account, and one that joins later goes behind those that wait.
func TestTurnsOfAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		terms := Terms{Gap: time.Second, Paced: true, Limit: 1}
		var mu sync.Mutex
		var served []string
		ctx, cancel := context.WithCancel(t.Context())
		var crawls sync.WaitGroup
		crawl := func(account, name string) {
			a := askAs(t, r, account, terms)
			crawls.Go(func() {
				defer func() { a.Leave(r.now()).Wake() }()
				for ctx.Err() == nil {
					if _, ok := a.take(time.Hour); ok {
						mu.Lock()
						served = append(served, name)
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						a.release()
					}
				}
			})
		}
		for i := range 8 {
			crawl("many", fmt.Sprint("many ", i))
		}
		time.Sleep(10 * time.Second)
		crawl("one", "one")
		mu.Lock()
		served = nil
		mu.Unlock()
		time.Sleep(160 * time.Second)
		mu.Lock()
		counts, turns := map[string]int{}, len(served)
		for _, name := range served {
			counts[name]++
		}
		mu.Unlock()
		cancel()
		crawls.Wait()
		if got := counts["one"]; got < turns/2-1 || got > turns/2+1 || turns < 150 {
			t.Errorf("the crawl of one account had %d of %d turns: %v", got, turns, counts)
		}
		for i := range 8 {
			if got := counts[fmt.Sprint("many ", i)]; got < 9 || got > 11 {
				t.Errorf("turns of the crawls of an account: %v", counts)
				break
			}
		}
	})
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

// refuse ends a request with a refusal. Then the crawl has nothing to ask.
func (a *asking) refuse(e Event) {
	now := a.r.now()
	e.Now = time.Unix(0, now)
	a.Release(true, now)
	a.p, _, _ = a.Apply(a.p, &a.c, e)
	a.Plan(a.terms, false, now, now)
}

// Neither the delay of a crawl nor its failures keep another crawl from a host for longer than a minute, while the
// crawl runs and after it; nor does what the host says to a crawl keep one of another account from it.
func TestOthersWaitAMinuteAtMost(t *testing.T) {
	t.Run("delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry()
			slow := ask(t, r, 24*time.Hour)
			slow.wait()
			slow.answer(ClassOK, time.Millisecond)
			now := r.now()
			// it has more to ask, a day after its last request, as the crawl itself counts
			slow.Plan(slow.terms, true, now-int64(time.Millisecond)+int64(24*time.Hour), now)
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
	for name, e := range map[string]Event{
		"a rest":         {Class: ClassThrottled, RetryAfter: 24 * time.Hour},
		"an outage":      {Class: ClassUnavailable, RetryAfter: 24 * time.Hour},
		"without an end": {Class: ClassThrottled, RetryAfter: 1 << 62},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry()
				terms := Terms{Gap: time.Second, Paced: true, Limit: 2}
				refused, same := askAs(t, r, "refused", terms), askAs(t, r, "refused", terms)
				early := askAs(t, r, "early", terms)
				refused.wait()
				refused.refuse(e)
				resting := r.now()
				now := r.now()
				refused.Plan(refused.terms, true, now, now) // it has more to ask, and is in the queue
				same.Plan(same.terms, true, now, now)
				if got := early.wait(); got < 59*time.Second || got > 61*time.Second {
					t.Errorf("another account: after %v", got)
				}
				early.answer(ClassOK, time.Millisecond)
				late := askAs(t, r, "late", terms)
				for range 100 {
					for _, a := range []*asking{early, late} {
						if got := a.wait(); got > 2*time.Second {
							t.Fatalf("other accounts, when one has had an answer: after %v", got)
						}
						a.answer(ClassOK, time.Millisecond)
					}
				}
				state, ok := r.Host("host.example")
				if until := min(e.RetryAfter, maxRest); !ok || state.RestUntil.UnixNano() != resting+int64(until) {
					t.Errorf("%+v", state)
				}
				if e.RetryAfter > 24*time.Hour {
					return
				}
				if got := same.wait(); got < 23*time.Hour {
					t.Errorf("its own account: after %v", got)
				}
			})
		})
	}
	t.Run("a learned delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := NewRegistry()
			refused := ask(t, r, 0)
			for range 70 {
				time.Sleep(2 * time.Minute)
				refused.wait()
				refused.refuse(Event{Class: ClassThrottled})
			}
			refused.Leave(r.now())
			if got := refused.p.Learned().Delay; got != time.Minute {
				t.Fatalf("%v was learned", got)
			}
			other := askAs(t, r, "other", Terms{})
			if got := other.p.Learned(); got != (Learned{}) {
				t.Errorf("another account begins with %+v", got)
			}
			if got := ask(t, r, 0).p.Learned().Delay; got != time.Minute {
				t.Errorf("its own account begins with %v", got)
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
