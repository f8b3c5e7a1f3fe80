package frontier

import (
	"context"
	"fmt"
	"iter"
)

// Resume takes in what earlier runs left pending: every host that has queued
// links, or of which more is known than its name. It is called once, right after
// New. Nothing is read but the backlogs: windows are loaded as hosts get their
// turn, and until a level has been read to its end its count is an estimate.
//
// Hosts that were blocked are tried again. No host is asked before one delay has
// passed, also none that becomes known later: the earlier run may have asked it
// just before it ended.
func (f *Frontier) Resume(ctx context.Context, backlogs iter.Seq2[Backlog, error]) error {
	defer f.Source()() // no level is opened before all are known
	// Nobody leases yet: what is loaded now would only take the processor from the backlogs.
	f.loader.hold(true)
	defer f.loader.hold(false)
	f.reopened()
	for b, err := range backlogs {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		s := f.shardOf(b.Fact.Host)
		s.lock()
		s.resume(&b)
		s.unlock()
	}
	return nil
}

// reopened notes that all partitions were opened just now, by a new run.
func (f *Frontier) reopened() {
	for p := range f.parts {
		s := f.shardOfPartition(uint8(p))
		s.lock()
		f.parts[p].openedAt, f.parts[p].newRun = s.time(), true
		s.mu.Unlock()
	}
}

func (s *shard) resume(b *Backlog) {
	i, h := s.restore(b.Fact)
	h.saved, h.ended = b.Low, b.Low
	for _, lb := range b.Levels {
		if lb.Links <= 0 {
			continue
		}
		after := Cursor{Priority: lb.Priority}
		if lb.Priority == b.Low.Priority {
			after = b.Low
		}
		_, lv := s.level(h, lb.Priority, after)
		lv.disk += uint32(lb.Links)
		lv.inexact = true
		h.pending += int64(lb.Links)
		s.count.pending += int64(lb.Links)
		s.count.disk += int64(lb.Links)
	}
	s.touch(i)
}

// restore makes a host of what is known of it.
func (s *shard) restore(fact HostFact) (int32, *host) {
	i, h := s.hostOf(fact.Host, fact.Name)
	if h.flags&hostUnknown != 0 {
		s.learn(i, h, fact)
	}
	return i, h
}

// Remember makes keys known that the store has recorded. A caller uses it after
// Resume for what the restored filters are too old for, or for all keys if there
// are none; and to warm the hot set, for which the newest keys come last.
func (f *Frontier) Remember(keys []Key) {
	for _, k := range keys {
		s := f.shardOf(k.Host)
		s.lock()
		s.remember(k)
		s.mu.Unlock()
	}
}

func (s *shard) remember(k Key) {
	if !s.suspects(k) {
		s.claim(k)
	} else {
		s.recent.Add(k)
	}
}

// Checkpoint commits what need not be committed all the time: cursors, up to
// which the store may throw queue entries away, and what was learned about hosts.
func (f *Frontier) Checkpoint(ctx context.Context) error {
	for _, s := range f.shards {
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

// checkpoint commits what has to be said of some hosts, from the given one on. It
// returns where to go on, or -1.
func (s *shard) checkpoint(from int32) (int32, error) {
	const stride = 1024
	s.lock()
	defer s.unlock()
	now := s.time()
	var rec Record
	for id, c := range s.gone {
		rec.Cursors = append(rec.Cursors, HostCursor{Host: id, Low: c})
	}
	clear(s.gone)
	out := s.lowestLeased()
	to := min(from+stride, s.hosts.n)
	for i := from; i < to; i++ {
		h := s.hosts.at(i)
		if h.id == 0 || h.flags&hostClosed != 0 {
			continue
		}
		s.dropLevels(h)
		if low := s.lowWater(h, out); low.Compare(h.saved) > 0 {
			h.saved = low
			rec.Cursors = append(rec.Cursors, HostCursor{Host: h.id, Low: low})
		}
		if s.factDue(h) {
			h.flags &^= hostFactDirty
			rec.Hosts = append(rec.Hosts, s.factOf(i, h))
			if h.seat >= 0 {
				s.seats.at(h.seat).noteSaved(now)
			}
		}
		if h.seat < 0 {
			s.touch(i) // it may be forgettable by now
		}
	}
	if len(rec.Cursors) > 0 || len(rec.Hosts) > 0 {
		if _, err := s.f.store.Commit(rec); err != nil {
			return -1, s.f.fail(commitError(err))
		}
	}
	if to == s.hosts.n {
		return -1, nil
	}
	return to, nil
}

func (s *shard) factDue(h *host) bool {
	if h.flags&hostFactDirty != 0 || h.seat < 0 {
		return h.flags&hostFactDirty != 0
	}
	st := s.seats.at(h.seat)
	return st.pace.Unsaved(st.saved)
}

// lowestLeased is, by level, the first place in the queue that is leased.
func (s *shard) lowestLeased() map[int32]Cursor {
	out := make(map[int32]Cursor, len(s.leases))
	for _, l := range s.leases {
		if l.kind != KindPage {
			continue
		}
		if low, ok := out[l.level]; !ok || l.at.Compare(low) < 0 {
			out[l.level] = l.at
		}
	}
	return out
}
