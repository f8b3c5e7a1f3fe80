package pace

import (
	"maps"
	"slices"
	"time"
)

// memory is what a registry knows of hosts also when no crawl asks them: what crawls have learned, and which hosts have
// changed since the owner of the registry last stored them. It is guarded by the registry's lock.
type memory struct {
	learned map[string]Learned // of hosts about which anything was learned
	changed map[string]bool    // since the last call of Registry.Changes
}

func newMemory() memory { return memory{learned: map[string]Learned{}, changed: map[string]bool{}} }

// facts is what is known of a host that no crawl of the registry asks yet.
func (m *memory) facts(host string, now int64) (f facts) {
	l, ok := m.learned[host]
	if !ok {
		return f
	}
	f.learned, f.floor = toMillis(l.Delay), toMillis(l.Floor)
	if f.floor > 0 {
		// a time in the future, because the clock was set back since, counts as now
		f.floorAt = min(l.FloorAt.UnixNano(), now)
	}
	if !l.LastSuccess.IsZero() {
		f.lastSuccess = l.LastSuccess.UnixNano()
	}
	if wait := min(l.AskedUntil.Sub(time.Unix(0, now)), maxRest); wait > 0 {
		f.askedUntil = now + int64(wait)
		f.restUntil = f.askedUntil
	}
	return f
}

// note stores what a crawl has learned of a host. A later last success alone is not stored.
func (m *memory) note(host string, before, after *facts) {
	if before.learned == after.learned && before.floor == after.floor && before.askedUntil == after.askedUntil {
		return
	}
	m.learned[host] = Pace{facts: *after}.Learned()
	m.changed[host] = true
}

// Remember tells the registry what was learned about a host before. It has no effect on a host that a crawl asks
// already.
func (r *Registry) Remember(host string, l Learned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.learned[host] = l
}

// Changes returns what was learned about hosts since the last call, by host. A zero delay means that the host has
// recovered. The registry forgets hosts about which nothing is left to know.
func (r *Registry) Changes() map[string]Learned {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]Learned, len(r.memory.changed))
	for host := range r.memory.changed {
		l := r.memory.learned[host]
		if s := r.hosts[host]; s != nil {
			l.LastSuccess = unixOrZero(s.lastSuccess)
			r.memory.learned[host] = l
		}
		out[host] = l
	}
	clear(r.memory.changed)
	now := time.Unix(0, r.now())
	maps.DeleteFunc(r.memory.learned, func(_ string, l Learned) bool {
		return l.Delay == 0 && l.Floor == 0 &&
			l.AskedUntil.Before(now)
	})
	return out
}

// HostState is what a registry knows about a host.
type HostState struct {
	Learned
	RestUntil    time.Time // after a refusal; zero if the host does not rest
	BackoffUntil time.Time // after failures; zero if there is none
	LastStart    time.Time // of the last request; zero if there was none lately
	Refusals     int       // in a row
	Inflight     int       // requests that are under way
	Crawls       int       // crawls that ask the host
	Waiting      int       // of them, those that wait for their turn
}

// Host says what is known about a host, and whether anything is.
func (r *Registry) Host(name string) (HostState, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.memory.learned[name]
	s := r.hosts[name]
	if s == nil {
		return HostState{Learned: l}, known
	}
	state := HostState{
		Learned: Pace{facts: s.facts}.Learned(), LastStart: unixOrZero(s.lastStart), Refusals: int(s.refusals),
		Inflight: s.inflight, Crawls: len(s.handles), Waiting: len(s.queue),
	}
	if s.offeredTo != nil && slices.Contains(s.queue, s.offeredTo) {
		state.Waiting-- // it is its turn
	}
	now := r.now()
	if s.restUntil > now {
		state.RestUntil = time.Unix(0, s.restUntil)
	}
	if s.backoffUntil > now {
		state.BackoffUntil = time.Unix(0, s.backoffUntil)
	}
	return state, true
}
