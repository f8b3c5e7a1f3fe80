package frontier

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Resume loads the backlogs that earlier runs left: the hosts with queued links, and what is known of them. It is
// called once, right after New. It reads nothing but the backlogs: windows are loaded when hosts get their turn. The
// count of a level is an estimate until the level has been read to its end.
//
// Hosts that were blocked are tried again, unless Options.Continues says otherwise. No host gets a request before one
// delay has passed, even if it becomes known later: the earlier run may have sent it a request just before it ended.
func (f *Frontier) Resume(ctx context.Context, backlogs iter.Seq2[Backlog, error]) error {
	defer f.Source()() // no level is opened before all are known
	// Nothing is leased yet, so loading windows now would only delay the backlogs.
	f.jobs.Hold(true)
	defer f.jobs.Hold(false)
	since := f.o.Continues
	if since == 0 {
		since = f.o.newRun()
	}
	f.parts.beginRun(&f.shards, since)
	for b, err := range backlogs {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		s := f.shards.of(b.Fact.Host)
		s.lock()
		s.resume(&b)
		s.unlock()
	}
	return nil
}

// resume adds a host with its backlog, and applies what was learned about it.
func (s *shard) resume(b *Backlog) {
	i, h := s.hostOf(b.Fact.Host, b.Fact.Name)
	if h.flags&hostUnknown != 0 {
		s.learn(i, h, b.Fact)
	}
	h.saved, h.ended = b.Low, b.Low
	for _, lb := range b.Levels {
		if lb.Links <= 0 {
			continue
		}
		after := Cursor{Priority: lb.Priority}
		if lb.Priority == b.Low.Priority {
			after = b.Low
		}
		lv := s.queues.ensureLevel(&h.hostQueue, lb.Priority, after)
		lv.inexact = true
		s.queues.addOnDisk(&h.hostQueue, lv, lb.Links)
	}
	s.touch(i)
}

// learn applies what the store knows of a host that is new here.
func (s *shard) learn(i int32, h *host, fact HostFact) {
	h.flags &^= hostUnknown
	if fact.PagesGeneration == s.f.o.Generation {
		h.tickets += fact.Pages
		h.counted += fact.Pages
	}
	now := time.Unix(0, s.time())
	p := s.schedule.pace(i, h).Restore(&s.f.o.Pace, fact.Learned, now)
	isOver := fact.Run < s.f.parts.of(h.id).since
	if !isOver && !fact.Row.IsZero() {
		p = p.RestoreRow(&s.f.o.Pace, fact.Row, now)
	}
	s.schedule.setPace(i, h, p, s.time())
	s.sharing.merge(i, h)
	s.noteRest(h, &p, time.Time{})
	if h.active >= 0 {
		s.schedule.stateOf(h).noteSaved(0) // the next change is worth writing at once
	}
	switch {
	case !fact.Blocked && !fact.Abandoned:
	case isOver, (fact.Denied || fact.Away) && !fact.Abandoned:
		h.flags |= hostFactDirty // the stored fact must no longer say that the host is blocked
	default:
		if fact.Blocked && !fact.Denied && !fact.Away {
			h.flags |= hostBlocked
		}
		if fact.Abandoned {
			h.flags |= hostAbandoned
		}
	}
}

// noteRest tells the observer of a rest that a host was asked for in an earlier run or by another crawl of the account,
// if it is long. Before is until when it rested by what was known before.
func (s *shard) noteRest(h *host, p *pace.Pace, before time.Time) {
	until := p.RestUntil()
	if !s.effects.observed || !until.After(before) {
		return
	}
	if now := time.Unix(0, s.time()); p.RestsLonger(before, now) {
		s.effects.note(Notice{
			Kind: NoticePace, Host: string(s.hosts.name(h)), Waiting: h.pages(),
			Change: pace.Change{Effects: pace.EffectRetryAfterLong, RetryAfter: until.Sub(now).Round(time.Second),
				RestUntil: until},
		})
	}
}

// Remember makes keys known that the store has recorded. A caller uses it after Resume, for the keys that are newer
// than the restored filters, or for all keys if no filters were restored. It also warms the hot set; for that, the
// newest keys must come last.
func (f *Frontier) Remember(keys []weburl.Key) {
	for _, k := range keys {
		s := f.shards.of(k.Host)
		s.lock()
		s.known.remember(k)
		s.mu.Unlock()
	}
}

// Checkpoint commits what need not be committed all the time: cursors, up to
// which the store may throw queue entries away, and what was learned about hosts.
func (f *Frontier) Checkpoint(ctx context.Context) error {
	for _, s := range f.shards.all {
		for from := int32(0); from >= 0; {
			if err := f.store.Ready(ctx); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
			var err error
			if from, err = s.checkpoint(from); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return nil
}

// checkpoint commits cursors and facts of some hosts, from the given index on. It
// returns the index to go on with, or -1.
func (s *shard) checkpoint(from int32) (int32, error) {
	const stride = 1024
	s.lock()
	defer s.unlock()
	now := s.time()
	rec := Record{Cursors: s.hosts.takeGone()}
	out := s.leases.lowest()
	to := min(from+stride, s.hosts.end())
	for i := from; i < to; i++ {
		h := s.hosts.at(i)
		if h.id == 0 || h.flags&hostClosed != 0 {
			continue
		}
		s.queues.dropLevels(&h.hostQueue)
		if low := s.queues.lowWater(&h.hostQueue, out); low.Compare(h.saved) > 0 {
			h.saved = low
			rec.Cursors = append(rec.Cursors, HostCursor{Host: h.id, Low: low})
		}
		if s.isFactDue(h) {
			h.flags &^= hostFactDirty
			rec.Hosts = append(rec.Hosts, s.factOf(i, h))
			if h.active >= 0 {
				s.schedule.stateOf(h).noteSaved(now)
			}
		}
		if h.active < 0 {
			s.touch(i) // it may be forgettable by now
		}
	}
	if len(rec.Cursors) > 0 || len(rec.Hosts) > 0 {
		if err := s.commit(rec); err != nil {
			return -1, err
		}
	}
	if to == s.hosts.end() {
		return -1, nil
	}
	return to, nil
}

// factOf is the fact to store about a host.
func (s *shard) factOf(i int32, h *host) HostFact {
	p := s.schedule.pace(i, h)
	return HostFact{
		Host: h.id, Name: string(s.hosts.name(h)), Learned: p.Learned(), Pages: h.counted,
		PagesGeneration: s.f.o.Generation, Run: s.f.o.Run, Row: p.Row(),
		Blocked:   h.flags&hostBlocked != 0,
		Denied:    h.flags&hostBlocked != 0 && s.hosts.excluded[h.id] == NoticeDenied,
		Away:      h.flags&hostBlocked != 0 && s.hosts.excluded[h.id] == NoticeAway,
		Abandoned: h.flags&hostAbandoned != 0,
	}
}

// addFact adds the fact about a host.
func (s *shard) addFact(i int32, h *host) { s.facts = append(s.facts, s.factOf(i, h)) }

// addPaceFact adds the fact about an active host whose pace must be kept.
func (s *shard) addPaceFact(i int32, h *host, now int64) {
	s.addFact(i, h)
	s.schedule.stateOf(h).noteSaved(now)
}

// addFactIfWorth adds the fact about an active host, if what was learned about its pace is
// worth a record by now.
func (s *shard) addFactIfWorth(i int32, h *host, now int64) {
	st := s.schedule.stateOf(h)
	savedAt := time.Time{}
	if st.savedAt != 0 {
		savedAt = time.Unix(0, st.savedAt)
	}
	if st.pace.WorthSaving(st.saved, savedAt, time.Unix(0, now)) {
		s.addPaceFact(i, h, now)
	}
}

// isFactDue reports whether the fact about a host must be committed at a checkpoint.
func (s *shard) isFactDue(h *host) bool {
	if h.flags&hostFactDirty != 0 || h.active < 0 {
		return h.flags&hostFactDirty != 0
	}
	st := s.schedule.stateOf(h)
	return st.pace.Unsaved(st.saved)
}

// takeFacts returns the facts, and forgets them.
func (s *shard) takeFacts() []HostFact {
	facts := s.facts
	s.facts = nil
	return facts
}

// commit commits a record that names no links.
func (s *shard) commit(rec Record) error {
	s.rec[0] = rec
	_, err := s.f.store.Commit(s.rec[:]...)
	if err != nil {
		return s.f.fail(commitError(err))
	}
	return nil
}

// commitFacts commits the facts, if there are any.
func (s *shard) commitFacts() error {
	if len(s.facts) == 0 {
		return nil
	}
	return s.commit(Record{Hosts: s.takeFacts()})
}

// commitLeased commits that the URL of a lease is in flight.
func (s *shard) commitLeased(l *Lease) error {
	s.key[0] = l.key
	if err := s.commit(Record{Leased: s.key[:]}); err != nil {
		return err
	}
	l.marked = true
	return nil
}

// commitReturned commits that the URL of a lease is not in flight any more, if it was, and
// the facts.
func (s *shard) commitReturned(l *Lease) error {
	if !l.marked {
		return s.commitFacts()
	}
	s.key[0] = l.key
	return s.commit(Record{Hosts: s.takeFacts(), Returned: s.key[:]})
}
