package pace

import (
	"math"
	"sync"
	"time"
)

// Never is a time that does not come, in Unix ns.
const Never = math.MaxInt64

const (
	// patience is how long a crawl whose turn it is may leave a host unused while another crawl waits for it.
	patience = int64(10 * time.Millisecond)
	// keepHost is how long a host that no crawl asks any more is remembered after its last request.
	keepHost = int64(time.Minute)
	// mostForOthers bounds how long the settings of a crawl or its failures keep another crawl from a host, and what the
	// host says to a crawl keeps those of other accounts from it: a crawl can choose requests that are refused.
	mostForOthers = time.Minute
	// longRequest is how long a request holds the limit of its crawl for crawls of other accounts.
	longRequest = 5 * time.Second
)

// A Registry holds what the crawls of one process share about the hosts that several of them may ask: facts, and no
// settings. A crawl joins a host, gets a [Handle], and applies its own settings to the facts. What a host has said is
// shared by the crawls of the account that it said it to. Crawls of other accounts obey what follows from it while
// those crawls are active, up to mostForOthers.
//
// The registry's lock is a leaf: under it nothing else is locked, and no other crawl is called. A method that may let
// another crawl go on returns the handle of that crawl, and the caller calls its Wake when it holds no lock.
type Registry struct {
	epoch time.Time

	mu      sync.Mutex // guards everything below, and all hosts and handles
	hosts   map[string]*sharedHost
	unasked []*sharedHost // hosts that had no handle when they were added; each once
	memory  memory
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{epoch: time.Now(), hosts: map[string]*sharedHost{}, memory: newMemory()}
}

// Epoch is the zero of the clock that all crawls of the registry must use: the times that they pass are its Unix
// nanoseconds plus those that have elapsed since, by the monotonic clock.
func (r *Registry) Epoch() time.Time { return r.epoch }

// Len is the number of hosts of which anything is kept.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hosts)
}

func (r *Registry) now() int64 { return r.epoch.UnixNano() + int64(time.Since(r.epoch)) }

// Join gives a crawl of an account its handle of a host. p is what the crawl knows of the host so far; its facts become
// those that all crawls of the account know. wake is called, without any lock, when the crawl may ask the host earlier
// than the handle has said.
func (r *Registry) Join(host, account string, p *Pace, wake func(*Handle)) *Handle {
	h := &Handle{r: r, account: account, wake: wake}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(2)
	s := r.hosts[host]
	if s == nil {
		s = &sharedHost{r: r, name: host}
		r.hosts[host] = s
	}
	s.handles = append(s.handles, h)
	h.host, h.said = s, s.saidTo(account)
	h.said.merge(&p.facts)
	p.facts = h.said.facts
	return h
}

// forgetLocked looks at some of the hosts that no crawl asked when they were last looked at, and forgets those of
// which nothing needs to be kept. Every Join looks at more hosts than it adds, so their number is bounded by that of
// the hosts that were asked within the last minute, or rest.
func (r *Registry) forgetLocked(most int) {
	now := r.now()
	for range min(most, len(r.unasked)) {
		s := r.unasked[0]
		r.unasked = r.unasked[1:]
		switch {
		case len(s.handles) > 0:
			s.listed = false
		case s.keepUntil() <= now:
			delete(r.hosts, s.name)
		default:
			r.unasked = append(r.unasked, s)
		}
	}
}

// A Handle stands for one crawl at one host. The crawl calls its methods one at a time, under a lock of its own; Wake
// is for other crawls.
type Handle struct {
	r       *Registry
	host    *sharedHost
	said    *said // to the account
	account string
	wake    func(*Handle)

	// Guarded by the registry's lock.
	terms  Terms
	slots  int   // requests that the crawl has in flight
	moved  int64 // Unix ns; when it last took or released a slot
	told   int64 // when the crawl will ask by itself, while it is in the queue
	wants  bool  // the crawl has, or may have, a URL that waits for the pace only
	queued bool
	lapsed bool // it had its turn and did not use it; until its next Take it is not queued
	left   bool
}

// Terms are what one crawl demands for a host, by its own settings.
type Terms struct {
	Gap   time.Duration // between the last start and the next one
	Paced bool          // the gap may be over zero, so one request starts at a time
	Limit int           // in flight
}

// isActive reports whether the crawl has requests out, or a URL that waits for the pace.
func (h *Handle) isActive() bool { return h.slots > 0 || h.wants }

// demands reports whether what the crawl demands is in force: it is active, and does not only wait for a rest that the
// host has asked its account for.
func (h *Handle) demands(now int64) bool { return h.slots > 0 || h.wants && h.said.restUntil <= now }

// Wake lets the crawl look at the host again. The caller holds no lock. On a nil handle it does nothing.
func (h *Handle) Wake() {
	if h != nil {
		h.wake(h)
	}
}

// Sync brings p in line with what all crawls of the account know.
func (h *Handle) Sync(p *Pace) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	p.facts = h.said.facts
}

// Merge adds what the crawl has read of an earlier run, and brings p in line.
func (h *Handle) Merge(p *Pace) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	before := h.said.facts
	h.said.merge(&p.facts)
	h.r.memory.note(h.learner(), &before, &h.said.facts, h.r.now())
	p.facts = h.said.facts
}

// Plan sets what the crawl demands now (t), whether it has or may have a URL that waits for the pace only (wants), and
// when it could ask for that URL if it were alone (at). It returns when the crawl may ask: Never means that the crawl
// will be woken, zero that at holds.
func (h *Handle) Plan(t Terms, wants bool, at, now int64) (ready int64, wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	was := h.isActive()
	h.terms, h.wants = t, wants && !h.left
	if was && !h.isActive() {
		s.deactivate(h)
	}
	// A crawl whose own delay ends no later than the gap that is in force waits for the others, not for its delay. In the
	// queue it holds them, so a longer delay than they must obey does not count.
	force := s.inForce(h, now)
	force.Gap = min(force.Gap, mostForOthers)
	switch {
	case !h.wants || at > max(now, s.restsUntil(force)):
		s.dequeue(h)
	case !h.lapsed:
		s.enqueue(h)
	}
	if h.queued {
		ready = Never
		if s.first(now) == h {
			ready = s.readyAt(h, now)
		}
		h.told = ready
	}
	return ready, s.offer(h, now)
}

// Take takes a slot, if the host may be asked now and it is the crawl's turn. If not, the crawl is in the queue for
// it, and Plan says when it may try again.
func (h *Handle) Take(now int64) (ok bool, wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	h.lapsed = false
	if first := s.first(now); h.left || s.readyAt(h, now) > now || first != nil && first != h {
		if !h.left {
			s.enqueue(h)
		}
		return false, s.offer(h, now)
	}
	s.endTurn(h)
	h.slots++
	h.moved = now
	s.inflight++
	s.unstarted++
	return true, s.offer(h, now)
}

// Start starts the first request of a slot that was taken at the given time, and reports whether it may. It was allowed
// by Take. It is refused only if another request has started since, and the gap after it that other crawls demand is
// not over: a crawl that demands one has joined meanwhile. The gap after the request is drawn by the crawl.
func (h *Handle) Start(taken int64, gap time.Duration, now int64) (ok bool, wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	if s.lastStart >= taken && s.lastStart+int64(s.ofOthers(h, now).Gap) > now {
		return false, nil
	}
	s.unstarted--
	s.start(h, gap, now)
	return true, s.offer(h, now)
}

// Repeat starts a further request of a slot, and reports whether it may. The rules are those of Take, without the turn
// and the limit.
func (h *Handle) Repeat(gap time.Duration, now int64) (ok bool, wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	force := s.inForce(h, now)
	if force.Paced && s.unstarted > 0 || max(s.restsUntil(force), h.said.restUntil) > now {
		return false, nil
	}
	s.start(h, gap, now)
	return true, s.offer(h, now)
}

// Inflight is how many requests of all crawls have a slot, and how many of them have started.
func (h *Handle) Inflight() (slots, wire int) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	return h.host.inflight, h.host.inflight - h.host.unstarted
}

// Release frees a slot; started says whether a request of it has started.
func (h *Handle) Release(started bool, now int64) (wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	h.slots--
	h.moved = now
	s.inflight--
	if !started {
		s.unstarted--
	}
	h.wants = !h.left // until the next Plan, which follows before the crawl's own lock is released
	if h.left && h.slots == 0 {
		s.remove(h)
	}
	return s.offer(h, now)
}

// Apply is [Pace.Apply] on what all crawls of the account know.
func (h *Handle) Apply(p Pace, c *Config, e Event) (Pace, Change, *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	s := h.host
	p.facts = h.said.facts
	p, ch := p.Apply(c, e)
	h.r.memory.note(h.learner(), &h.said.facts, &p.facts, h.r.now())
	h.said.facts = p.facts
	if ch.Has(EffectRested) {
		s.restUntil = max(s.restUntil, min(p.restUntil, e.Now.Add(mostForOthers).UnixNano()))
	}
	switch {
	case ch.Has(EffectBackedOff | EffectFailedAgain):
		s.fail(&p, ch.Has(EffectBackedOff), e.Now.UnixNano())
	case ch.Meaning == MeaningAnswered && e.Start.UnixNano() > s.failStart:
		s.backoffUntil, s.failStart, s.failures = 0, 0, 0
	}
	return p, ch, s.offer(h, e.Now.UnixNano())
}

func (h *Handle) learner() Learner { return Learner{h.host.name, h.account} }

// Waits reports whether the crawl waits for its turn.
func (h *Handle) Waits() bool {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	return h.queued
}

// Leave takes the crawl away from the host. As long as requests of it are out, their slots stay taken and its demands
// in force; each slot must be released as before. Leave may be called again.
func (h *Handle) Leave(now int64) (wake *Handle) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	if h.left {
		return nil
	}
	s := h.host
	h.left, h.wants = true, false
	s.dequeue(h)
	if h.slots == 0 {
		s.remove(h)
	}
	return s.offer(h, now)
}
