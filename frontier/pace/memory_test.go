package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// A registry knows what was learned before it was made, and says what its crawls have learned since, each change once.
func TestRegistryRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := NewRegistry(), Polite()
		now := time.Now()
		r.Remember("slow.example", Learned{Delay: 5 * time.Second, Floor: 2 * time.Second, FloorAt: now,
			LastSuccess: now.Add(-time.Hour)})
		r.Remember("asked.example", Learned{AskedUntil: now.Add(time.Hour)})
		join := func(host string) (*Handle, Pace) {
			var p Pace
			return r.Join(host, &p, func(*Handle) {}), p
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
		if l := got["slow.example"]; len(got) != 1 || l.Delay != 6*time.Second ||
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
