package pace

import (
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

const (
	// KeepLearned is how long a registry remembers what was learned about a host after its last change. Later the host
	// may have recovered without any crawl finding out.
	KeepLearned = 30 * 24 * time.Hour

	mostLearned = 100_000 // learners that a memory has
	// hosts of one registrable domain that an account has learned about: the owner of a domain can make any number of
	// names
	mostOfDomain = 1000
)

// A Learner is an account whose crawls have learned the pace of a host.
type Learner struct{ Host, Account string }

// memory is what a registry knows of hosts also when no crawl asks them: what crawls have learned, and what of it has
// changed since the owner of the registry last stored it. It is guarded by the registry's lock.
type memory struct {
	learned  map[string]map[string]remembered // by host and account, where anything was learned
	size     int                              // of all maps in learned; at most mostLearned
	accounts map[string]*learnedHosts         // that have learned anything
	changed  map[Learner]bool                 // since the last call of Registry.Changes
}

// learnedHosts are the hosts about which an account has learned.
type learnedHosts struct {
	n       int
	domains map[string][]string // by their registrable domain, in the order of their addition
}

// remembered is what is known of one host by one account.
type remembered struct {
	Learned
	at     int64 // Unix ns; of its last change
	stored bool  // the owner of the registry has it
}

func newMemory() memory {
	return memory{learned: map[string]map[string]remembered{}, accounts: map[string]*learnedHosts{},
		changed: map[Learner]bool{}}
}

// put adds or replaces what an account knows of a host. An account that knows too many hosts of the domain forgets the
// one that it learned about first. If there are too many hosts in all, the account that knows most forgets one.
func (m *memory) put(l Learner, r remembered) {
	if _, known := m.learned[l.Host][l.Account]; !known {
		domain := weburl.RegistrableDomain(l.Host)
		if own := m.accounts[l.Account]; own != nil && len(own.domains[domain]) >= mostOfDomain {
			m.forget(Learner{own.domains[domain][0], l.Account})
		} else if m.size >= mostLearned {
			m.forgetOne()
		}
		own := m.accounts[l.Account]
		if own == nil {
			own = &learnedHosts{domains: map[string][]string{}}
			m.accounts[l.Account] = own
		}
		own.domains[domain] = append(own.domains[domain], l.Host)
		own.n++
		m.size++
	}
	if m.learned[l.Host] == nil {
		m.learned[l.Host] = map[string]remembered{}
	}
	m.learned[l.Host][l.Account] = r
}

// forgetOne forgets any host of the account that knows most.
func (m *memory) forgetOne() {
	account, most := "", 0
	for name, own := range m.accounts {
		if own.n > most {
			account, most = name, own.n
		}
	}
	for _, hosts := range m.accounts[account].domains {
		m.forget(Learner{hosts[0], account})
		return
	}
}

// forget removes what a learner knows. It counts as changed if it was stored.
func (m *memory) forget(l Learner) {
	if delete(m.changed, l); m.learned[l.Host][l.Account].stored {
		m.changed[l] = true
	}
	m.size--
	if delete(m.learned[l.Host], l.Account); len(m.learned[l.Host]) == 0 {
		delete(m.learned, l.Host)
	}
	domain, own := weburl.RegistrableDomain(l.Host), m.accounts[l.Account]
	hosts := slices.DeleteFunc(own.domains[domain], func(other string) bool { return other == l.Host })
	if own.domains[domain] = hosts; len(hosts) == 0 {
		delete(own.domains, domain)
	}
	if own.n--; own.n == 0 {
		delete(m.accounts, l.Account)
	}
}

// facts is what is known to a learner whose crawls do not ask the host yet.
func (m *memory) facts(by Learner, now int64) (f facts) {
	l, ok := m.learned[by.Host][by.Account]
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
	f.askedUntil = l.restsUntil(time.Unix(0, now))
	f.restUntil = f.askedUntil
	return f
}

// note stores what a crawl has learned of a host now. A later last success alone is not stored.
func (m *memory) note(l Learner, before, after *facts, now int64) {
	if before.learned == after.learned && before.floor == after.floor && before.askedUntil == after.askedUntil {
		return
	}
	m.put(l, remembered{Pace{facts: *after}.Learned(), now, m.learned[l.Host][l.Account].stored})
	m.changed[l] = true
}

// Remember tells the registry what was learned about a host before, at the given time. It has no effect on a host that
// a crawl of the account asks already.
func (r *Registry) Remember(by Learner, l Learned, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.put(by, remembered{l, at.UnixNano(), true})
}

// Changes returns what was learned about hosts since the last call. A zero delay means that the host has recovered, or
// was forgotten because there are too many others. The registry forgets hosts about which nothing is left to know, or
// nothing that is newer than [KeepLearned].
func (r *Registry) Changes() map[Learner]Learned {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Unix(0, r.now())
	nothing := func(l Learned) bool { return l.Delay == 0 && l.Floor == 0 && l.AskedUntil.Before(now) }
	out := make(map[Learner]Learned, len(r.memory.changed))
	for by := range r.memory.changed {
		l, known := r.memory.learned[by.Host][by.Account]
		if known {
			if s := r.hosts[by.Host]; s != nil {
				if to := s.find(by.Account); to != nil {
					l.LastSuccess = unixOrZero(to.lastSuccess)
				}
			}
			l.stored = !nothing(l.Learned) // an owner does not keep nothing
			r.memory.learned[by.Host][by.Account] = l
		}
		out[by] = l.Learned
	}
	clear(r.memory.changed)
	for host, accounts := range r.memory.learned {
		for account, l := range accounts {
			if nothing(l.Learned) || now.Sub(time.Unix(0, l.at)) > KeepLearned {
				r.memory.forget(Learner{host, account})
			}
		}
	}
	return out
}

// HostState is what a registry knows about a host. What differs by account is that of the one that waits longest.
type HostState struct {
	Learned
	RestUntil    time.Time // after a refusal; zero if no account rests
	BackoffUntil time.Time // after failures; zero if there is none
	LastStart    time.Time // of the last request; zero if there was none lately
	Refusals     int       // in a row
	Inflight     int       // requests that are under way
	Crawls       int       // crawls that ask the host
	Waiting      int       // of them, those that wait for their turn
}

// Host says what is known about a host, and whether anything is.
func (r *Registry) Host(name string) (state HostState, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	learned := func(l Learned) {
		if l.Delay > state.Delay || state.Learned == (Learned{}) {
			state.Learned = l
		}
	}
	s := r.hosts[name]
	if s != nil {
		for _, to := range s.said {
			learned(Pace{facts: to.facts}.Learned())
			state.Refusals = max(state.Refusals, int(to.refusals))
			if rest := to.RestUntil(); to.restUntil > now && rest.After(state.RestUntil) {
				state.RestUntil = rest
			}
		}
	}
	for _, l := range r.memory.learned[name] {
		learned(l.Learned)
	}
	if s == nil {
		return state, len(r.memory.learned[name]) > 0
	}
	state.LastStart, state.Inflight = unixOrZero(s.lastStart), s.inflight
	state.Crawls, state.Waiting = len(s.handles), len(s.queue)
	if s.offeredTo != nil && slices.Contains(s.queue, s.offeredTo) {
		state.Waiting-- // it is its turn
	}
	if s.backoffUntil > now {
		state.BackoffUntil = time.Unix(0, s.backoffUntil)
	}
	return state, true
}
