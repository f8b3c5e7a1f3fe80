package frontier

import "time"

// factOf is what is to be kept of a host.
func (s *shard) factOf(i int32, h *host) HostFact {
	return HostFact{
		Host: h.id, Name: string(s.nameOf(h)), Learned: s.paceOf(i, h).Learned(), Pages: h.counted,
		Blocked: h.flags&hostBlocked != 0, Abandoned: h.flags&hostAbandoned != 0,
	}
}

func (sp savedPace) learned() Learned {
	return Learned{
		Delay: fromMillis(sp.delay), Floor: fromMillis(sp.floor), LastSuccess: unixOrZero(sp.lastSuccess),
	}
}

// saveFact adds a host's fact to those that go with the next record, if what was
// learned deserves it by now.
func (s *shard) saveFact(i int32, h *host) {
	if h.seat < 0 {
		return
	}
	st := s.seats.at(h.seat)
	if st.pace.learned|st.pace.floor|st.saved.delay|st.saved.floor == 0 {
		return // the common case: there was never anything to learn
	}
	savedAt := time.Time{}
	if st.saved.at != 0 {
		savedAt = time.Unix(0, st.saved.at)
	}
	if st.pace.Learned().WorthSaving(st.saved.learned(), savedAt, time.Unix(0, s.time())) {
		s.facts = append(s.facts, s.factOf(i, h))
		st.noteSaved(s.time())
	}
}

// unsaved reports whether a host has learned something that is not written.
func (s *shard) unsaved(st *seat) bool {
	return st.pace.learned != st.saved.delay || st.pace.floor != st.saved.floor ||
		st.pace.learned|st.pace.floor != 0 && st.pace.lastSuccess != st.saved.lastSuccess
}

func (st *seat) noteSaved(now int64) {
	st.saved = savedPace{at: now, lastSuccess: st.pace.lastSuccess, delay: st.pace.learned, floor: st.pace.floor}
}

// takeFacts returns what is to be committed, and forgets it.
func (s *shard) takeFacts() []HostFact {
	facts := s.facts
	s.facts = nil
	return facts
}

// learn takes in what the store knew about a host that is new here.
func (s *shard) learn(i int32, h *host, fact HostFact) {
	h.flags &^= hostUnknown
	h.tickets += fact.Pages
	h.counted += fact.Pages
	s.setPace(i, h, s.paceOf(i, h).Restore(&s.f.o.Pace, fact.Learned, time.Unix(0, s.time())))
	if until := s.paceOf(i, h).restUntil; until-s.time() > int64(LongRetryAfter) && s.f.o.Observe != nil {
		left := time.Duration(until - s.time()).Round(time.Second)
		s.note(Notice{
			Kind: NoticePace, Host: string(s.nameOf(h)), Waiting: h.pending,
			Change: Change{Effects: EffectRetryAfterLong, RetryAfter: left, RestUntil: time.Unix(0, until)},
		})
	}
	if h.seat >= 0 {
		st := s.seats.at(h.seat)
		st.saved = savedPace{delay: st.pace.learned, floor: st.pace.floor, lastSuccess: st.pace.lastSuccess}
	}
	if fact.Blocked || fact.Abandoned {
		h.flags |= hostFactDirty // it is tried again, so that is over
	}
}
