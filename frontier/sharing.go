package frontier

import "github.com/mapwright/mapwright/frontier/pace"

// sharing connects a shard with the registry, so that all crawls of the process together keep the pace of a host.
// Without a registry it does nothing, and a host is leased at its own time.
//
// Only active hosts have handles. Other crawls that must be woken are noted in the shard's effects, and woken when no
// shard is locked.
type sharing struct {
	registry *pace.Registry // nil for a crawl alone
	s        *shard
	handles  map[int32]*pace.Handle // by host
}

func (sh *sharing) init(s *shard, r *pace.Registry) {
	sh.s, sh.registry = s, r
	if r != nil {
		sh.handles = map[int32]*pace.Handle{}
	}
}

// of is the handle of a host, or nil.
func (sh *sharing) of(i int32) *pace.Handle {
	if sh.registry == nil {
		return nil
	}
	return sh.handles[i]
}

// join registers the crawl for an active host.
func (sh *sharing) join(i int32, h *host) *pace.Handle {
	s := sh.s
	wake := func(handle *pace.Handle) {
		s.lock()
		if sh.handles[i] == handle { // else the host was parked or removed since
			s.touch(i)
		}
		s.unlock()
	}
	p := &s.schedule.stateOf(h).pace
	before := p.RestUntil()
	handle := sh.registry.Join(string(s.hosts.name(h)), s.f.o.Account, p, wake)
	sh.handles[i] = handle
	s.noteRest(h, p, before)
	return handle
}

// sync brings the pace of a host in line with what all crawls of the account know.
func (sh *sharing) sync(i int32, h *host) {
	if handle := sh.of(i); handle != nil {
		p := &sh.s.schedule.stateOf(h).pace
		before := p.RestUntil()
		handle.Sync(p)
		sh.s.noteRest(h, p, before)
	}
}

// merge tells the other crawls of the account what was read about an active host.
func (sh *sharing) merge(i int32, h *host) {
	if handle := sh.of(i); handle != nil {
		handle.Merge(&sh.s.schedule.stateOf(h).pace)
	}
}

// plan takes the time of a host's next lease and the reason for it, as they would be without other crawls. It returns
// both as they are with other crawls.
func (sh *sharing) plan(i int32, h *host, at int64, why reason, now int64) (int64, reason) {
	if sh.registry == nil || h.active < 0 || sh.s.f.closed() {
		return at, why
	}
	wants := h.leases > 0 // a page that is being read may have links to its host
	due := int64(never)
	switch why {
	case whyNothing, whyDelay, whyRest, whyBackoff:
		wants, due = true, at
	case whyFull, whyStarting:
		wants = true
	case whyLoading:
		wants = wants || at != never // if it is never, the host's facts are not known
	}
	handle := sh.of(i)
	if handle == nil {
		if !wants || h.nameSize == 0 {
			return at, why
		}
		handle = sh.join(i, h)
	}
	ready, wake := handle.Plan(sh.terms(h), wants, due, now)
	sh.s.effects.wake(wake)
	if ready <= now || at != never && ready <= at { // its own reason lasts as long
		return at, why
	}
	return max(at, ready), whyOtherCrawl
}

// terms are what the crawl demands for an active host.
func (sh *sharing) terms(h *host) pace.Terms {
	c, st := sh.s.schedule.config, sh.s.schedule.stateOf(h)
	return pace.Terms{Gap: st.pace.Drawn(c, st.rnd), Paced: st.pace.Delay(c) > 0, Limit: sh.s.schedule.limit(h, st)}
}

// take takes a slot of an active host for a lease, if other crawls allow it. If not,
// settling the host moves it out of the way.
func (sh *sharing) take(i int32, h *host, now int64) bool {
	if sh.registry == nil {
		return true
	}
	handle := sh.of(i)
	if handle == nil {
		handle = sh.join(i, h)
		_, wake := handle.Plan(sh.terms(h), true, now, now)
		sh.s.effects.wake(wake)
	}
	ok, wake := handle.Take(now)
	sh.s.effects.wake(wake)
	return ok
}

// start starts a request of a lease, and reports whether other crawls allow it. rnd is
// drawn for the delay after it.
func (sh *sharing) start(l *Lease, st *activeState, rnd uint64) (ok bool) {
	handle := sh.of(l.host)
	if handle == nil {
		return true
	}
	gap, now := st.pace.Drawn(sh.s.schedule.config, rnd), sh.s.time()
	var wake *pace.Handle
	if l.started == 0 {
		ok, wake = handle.Start(l.granted, gap, now)
	} else {
		ok, wake = handle.Repeat(gap, now)
	}
	sh.s.effects.wake(wake)
	return ok
}

// inflight is how many slots of an active host are taken by all crawls, and how many
// requests are on the wire.
func (sh *sharing) inflight(i int32, st *activeState) (slots, wire int) {
	if handle := sh.of(i); handle != nil {
		return handle.Inflight()
	}
	return int(st.inflight), int(st.wire)
}

// release frees the slot of a lease.
func (sh *sharing) release(i int32, started bool, now int64) {
	if handle := sh.of(i); handle != nil {
		sh.s.effects.wake(handle.Release(started, now))
	}
}

// apply lets the pace of an active host know how a request went.
func (sh *sharing) apply(i int32, st *activeState, e pace.Event) (ch pace.Change) {
	c := sh.s.schedule.config
	handle := sh.of(i)
	if handle == nil {
		st.pace, ch = st.pace.Apply(c, e)
		return ch
	}
	var wake *pace.Handle
	st.pace, ch, wake = handle.Apply(st.pace, c, e)
	sh.s.effects.wake(wake)
	return ch
}

// waits reports whether a host waits for its turn.
func (sh *sharing) waits(i int32) bool {
	handle := sh.of(i)
	return handle != nil && handle.Waits()
}

// leave ends the registration for a host, which has no leases.
func (sh *sharing) leave(i int32, now int64) {
	if handle := sh.of(i); handle != nil {
		sh.s.effects.wake(handle.Leave(now))
		delete(sh.handles, i)
	}
}

// leaveAll ends the registration for all hosts. Leases that are out keep their slots until they end.
func (sh *sharing) leaveAll(now int64) {
	for _, handle := range sh.handles {
		sh.s.effects.wake(handle.Leave(now))
	}
}
