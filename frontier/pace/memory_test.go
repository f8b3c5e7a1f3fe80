package pace

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A registry knows what was learned before it was made, and says what its crawls have learned since, each change once.
func TestRegistryRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := NewRegistry(), Polite()
		now := time.Now()
		r.Remember(Learner{Host: "slow.example"}, Learned{Delay: 5 * time.Second, Floor: 2 * time.Second, FloorAt: now,
			LastSuccess: now.Add(-time.Hour)}, now)
		r.Remember(Learner{Host: "asked.example"}, Learned{AskedUntil: now.Add(time.Hour)}, now)
		join := func(host string) (*Handle, Pace) {
			var p Pace
			return r.Join(host, "", &p, func(*Handle) {}), p
		}
		h, p := join("slow.example")
		if got := p.Learned(); got.Delay != 5*time.Second || got.Floor != 2*time.Second {
			t.Errorf("slow.example begins with %+v", got)
		}
		if _, p := join("asked.example"); !p.RestUntil().Equal(now.Add(time.Hour)) {
			t.Errorf("asked.example rests until %v", p.RestUntil())
		}
		if got := r.Changes(); len(got) != 0 {
			t.Errorf("changes %v before any answer", got)
		}
		time.Sleep(time.Second)
		p, _, _ = h.Apply(p, &c, Event{Class: ClassOK, Now: time.Now()})
		if got := r.Changes(); len(got) != 0 {
			t.Errorf("a success alone is a change: %v", got)
		}
		_, _, _ = h.Apply(p, &c, Event{Class: ClassThrottled, Now: time.Now(), RetryAfter: 10 * time.Second})
		got := r.Changes()
		if l := got[Learner{Host: "slow.example"}]; len(got) != 1 || l.Delay != 6*time.Second ||
			!l.LastSuccess.Equal(now.Add(time.Second)) || !l.AskedUntil.Equal(time.Now().Add(10*time.Second)) {
			t.Errorf("changes %+v", got)
		}
		if got := r.Changes(); len(got) != 0 {
			t.Errorf("changes %v a second time", got)
		}
		state, ok := r.Host("slow.example")
		if !ok || state.Delay != 6*time.Second || state.Refusals != 1 || state.Crawls != 1 ||
			state.RestUntil.IsZero() || state.Inflight != 0 {
			t.Errorf("state %+v", state)
		}
		h.Leave(r.now())
		time.Sleep(time.Hour)
		for range 10 { // each looks at hosts to forget
			join("other.example")
		}
		if state, ok := r.Host("slow.example"); !ok || state.Delay != 6*time.Second || state.Crawls != 0 {
			t.Errorf("after it was forgotten: %+v, %v", state, ok)
		}
		if _, p := join("slow.example"); p.Learned().Delay != 6*time.Second {
			t.Errorf("the next crawl begins with %+v", p.Learned())
		}
		if _, ok := r.Host("unknown.example"); ok {
			t.Error("unknown.example is known")
		}
	})
}

// What was learned is forgotten a month after its last change, also by the owner of the registry, and also if it is a
// Retry-After of years. A host that is not asked any more is not kept for its rest.
func TestMemoryFades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := NewRegistry(), Polite()
		begin := time.Now()
		r.Remember(Learner{Host: "old.example"}, Learned{Delay: time.Second}, begin.Add(-KeepLearned/2))
		join := func(host string) (*Handle, Pace) {
			var p Pace
			return r.Join(host, "", &p, func(*Handle) {}), p
		}
		for _, host := range []string{"old.example", "years.example"} {
			h, p := join(host)
			if host == "years.example" {
				h.Apply(p, &c, Event{Class: ClassUnavailable, Now: time.Now(), RetryAfter: 100 * KeepLearned})
			}
			h.Leave(r.now())
		}
		r.Changes()
		time.Sleep(2 * time.Hour)
		for range 4 { // each looks at hosts to forget
			h, _ := join("other.example")
			h.Leave(r.now())
		}
		if n := r.Len(); n != 1 {
			t.Errorf("%d hosts are kept, want the one of now", n)
		}
		for _, tc := range []struct {
			after     time.Duration
			forgotten []string
			left      bool // the rest of years.example
		}{
			{KeepLearned/2 - time.Hour, nil, true},
			{KeepLearned/2 + time.Hour, []string{"old.example"}, true},
			{KeepLearned - time.Hour, nil, true},
			{KeepLearned + time.Hour, []string{"years.example"}, false},
		} {
			time.Sleep(time.Until(begin.Add(tc.after)))
			r.Changes() // forgets
			var forgotten []string
			for l, is := range r.Changes() {
				if is == (Learned{}) {
					forgotten = append(forgotten, l.Host)
				}
			}
			h, p := join("years.example")
			h.Leave(r.now())
			if left := p.RestUntil().After(time.Now()); !slices.Equal(forgotten, tc.forgotten) || left != tc.left {
				t.Errorf("after %v: forgotten %q, want %q; rests %v, want %v", tc.after, forgotten, tc.forgotten, left,
					tc.left)
			}
		}
	})
}

// A domain that has any number of names takes a bounded part of the memory, and so do all domains together. What is
// forgotten is reported once, if it was reported before, so that its owner forgets it too.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := NewRegistry(), Polite()
		refuse := func(host string) {
			var p Pace
			h := r.Join(host, "", &p, func(*Handle) {})
			_, _, _ = h.Apply(p, &c, Event{Class: ClassThrottled, Now: time.Now(), RetryAfter: time.Hour})
			h.Leave(r.now())
		}
		stored := map[string]Learned{}
		store := func() (changes int) {
			all := r.Changes()
			for by, l := range all {
				if stored[by.Host] = l; l == (Learned{}) {
					delete(stored, by.Host)
				}
			}
			return len(all)
		}
		refuse("www.other.example")
		for part := range 3 {
			for i := range 2 * mostOfDomain {
				refuse(fmt.Sprintf("h%d.part%d.many.example", i, part))
			}
			if got := store(); got > 2*mostOfDomain+1 {
				t.Errorf("%d changes at once", got)
			}
		}
		if _, ok := r.Host("www.other.example"); len(stored) != mostOfDomain+1 || !ok {
			t.Errorf("%d hosts of a domain are stored; another one is known: %v", len(stored)-1, ok)
		}
		if _, ok := stored[fmt.Sprintf("h%d.part2.many.example", 2*mostOfDomain-1)]; !ok {
			t.Error("the last host is not stored")
		}
		for i := range mostLearned + 100 {
			r.Remember(Learner{Host: fmt.Sprintf("[2001:db8::%x]", i)}, Learned{Delay: time.Second}, time.Now())
		}
		if got := len(r.memory.learned); got != mostLearned {
			t.Errorf("%d hosts are known", got)
		}
		if store(); store() != 0 {
			t.Error("what was forgotten is reported twice")
		}
		for host := range stored {
			if _, ok := r.memory.learned[host]; !ok {
				t.Fatalf("%s is stored and not known", host)
			}
		}
	})
}

// Whatever an account learns, another one keeps what it has learned: about hosts of the same domain, and about others.
func TestMemoryOfAccounts(t *testing.T) {
	r := NewRegistry()
	mine := []Learner{{"www.shared.example", "b"}, {"www.own.test", "b"}}
	for _, l := range mine {
		r.Remember(l, Learned{Delay: time.Second}, time.Now())
	}
	for i := range 2 * mostOfDomain {
		r.Remember(Learner{fmt.Sprintf("h%d.shared.example", i), "a"}, Learned{Delay: time.Second}, time.Now())
	}
	for i := range mostLearned + 100 {
		r.Remember(Learner{fmt.Sprintf("[2001:db8::%x]", i), "a"}, Learned{Delay: time.Second}, time.Now())
	}
	for _, l := range mine {
		if _, ok := r.memory.learned[l.Host][l.Account]; !ok {
			t.Errorf("%s is forgotten", l.Host)
		}
	}
	if r.memory.size != mostLearned {
		t.Errorf("%d are known", r.memory.size)
	}
}
