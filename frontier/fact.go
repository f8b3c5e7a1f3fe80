package frontier

import (
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// factOf is what is to be kept of a host.
func (s *shard) factOf(i int32, h *host) HostFact {
	return HostFact{
		Host: h.id, Name: string(s.nameOf(h)), Learned: s.paceOf(i, h).Learned(), Pages: h.counted,
		Blocked: h.flags&hostBlocked != 0, Abandoned: h.flags&hostAbandoned != 0,
	}
}

// saveFact adds a host's fact to those that go with the next record, if what was
// learned deserves it by now.
func (s *shard) saveFact(i int32, h *host) {
	if h.seat < 0 {
		return
	}
	st := s.seats.at(h.seat)
	savedAt := time.Time{}
	if st.savedAt != 0 {
		savedAt = time.Unix(0, st.savedAt)
	}
	if st.pace.WorthSaving(st.saved, savedAt, time.Unix(0, s.time())) {
		s.facts = append(s.facts, s.factOf(i, h))
		st.noteSaved(s.time())
	}
}

func (st *seat) noteSaved(now int64) { st.saved, st.savedAt = st.pace.Saved(), now }

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
	now := time.Unix(0, s.time())
	p := s.paceOf(i, h).Restore(&s.f.o.Pace, fact.Learned, now)
	s.setPace(i, h, p)
	if until := p.RestUntil(); until.Sub(now) > pace.LongRetryAfter && s.f.o.Observe != nil {
		s.note(Notice{
			Kind: NoticePace, Host: string(s.nameOf(h)), Waiting: h.pending,
			Change: pace.Change{Effects: pace.EffectRetryAfterLong, RetryAfter: until.Sub(now).Round(time.Second), RestUntil: until},
		})
	}
	if h.seat >= 0 {
		st := s.seats.at(h.seat)
		st.saved, st.savedAt = st.pace.Saved(), 0
	}
	switch {
	case !fact.Blocked && !fact.Abandoned:
	case s.partitionOf(h).newRun:
		h.flags |= hostFactDirty // it is tried again, so that is over
	default:
		if fact.Blocked {
			h.flags |= hostBlocked
		}
		if fact.Abandoned {
			h.flags |= hostAbandoned
		}
	}
}
