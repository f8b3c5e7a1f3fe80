package pace

import (
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

const (
	mostLearned  = 100_000 // hosts that a memory has
	mostOfDomain = 1000    // of them, hosts of one registrable domain, whose owner can make any number of names
)

// memory is what a registry knows of hosts also when no crawl asks them: what crawls have learned, and which hosts have
// changed since the owner of the registry last stored them. It is guarded by the registry's lock.
type memory struct {
	learned map[string]remembered // of hosts about which anything was learned; at most mostLearned
	domains map[string][]string   // those hosts by their registrable domain, in the order in which they were added
	changed map[string]bool       // since the last call of Registry.Changes
}

// remembered is what is known of one host.
type remembered struct {
	Learned
	stored bool // the owner of the registry has it
}

func newMemory() memory {
	return memory{learned: map[string]remembered{}, domains: map[string][]string{}, changed: map[string]bool{}}
}

// put adds or replaces what is known of a host. If there is no room for another host, the one of its domain that was
// added first is forgotten; if the domain has few, any host.
func (m *memory) put(host string, r remembered) {
	if _, known := m.learned[host]; !known {
		domain := weburl.RegistrableDomain(host)
		if hosts := m.domains[domain]; len(hosts) >= mostOfDomain {
			m.forget(hosts[0])
		} else if len(m.learned) >= mostLearned {
			for other := range m.learned {
				m.forget(other)
				break
			}
		}
		m.domains[domain] = append(m.domains[domain], host)
	}
	m.learned[host] = r
}

// forget removes a host. It counts as changed if it was stored.
func (m *memory) forget(host string) {
	if delete(m.changed, host); m.learned[host].stored {
		m.changed[host] = true
	}
	delete(m.learned, host)
	domain := weburl.RegistrableDomain(host)
	hosts := slices.DeleteFunc(m.domains[domain], func(other string) bool { return other == host })
	if m.domains[domain] = hosts; len(hosts) == 0 {
		delete(m.domains, domain)
	}
}

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
	m.put(host, remembered{Pace{facts: *after}.Learned(), m.learned[host].stored})
	m.changed[host] = true
}

// Remember tells the registry what was learned about a host before. It has no effect on a host that a crawl asks
// already.
func (r *Registry) Remember(host string, l Learned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.put(host, remembered{l, true})
}

// Changes returns what was learned about hosts since the last call, by host. A zero delay means that the host has
// recovered, or was forgotten because there are too many others. The registry forgets hosts about which nothing is left
// to know.
func (r *Registry) Changes() map[string]Learned {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Unix(0, r.now())
	nothing := func(l Learned) bool { return l.Delay == 0 && l.Floor == 0 && l.AskedUntil.Before(now) }
	out := make(map[string]Learned, len(r.memory.changed))
	for host := range r.memory.changed {
		l, known := r.memory.learned[host]
		if known {
			if s := r.hosts[host]; s != nil {
				l.LastSuccess = unixOrZero(s.lastSuccess)
			}
			l.stored = !nothing(l.Learned) // an owner does not keep nothing
			r.memory.learned[host] = l
		}
		out[host] = l.Learned
	}
	clear(r.memory.changed)
	for host, l := range r.memory.learned {
		if nothing(l.Learned) {
			r.memory.forget(host)
		}
	}
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
		return HostState{Learned: l.Learned}, known
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
