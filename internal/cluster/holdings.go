package cluster

import "fmt"

// Holdings are what a session knows to be durable, from answers of the engine. The
// engine may have more of it at any time, and never less.
type Holdings struct {
	Batch uint64 // the last one committed
	Parts map[uint8]Held
	Run   uint64
	Plan  uint64 // version
	Level uint32
	Scope int // number of extensions
}

// Held is what a session knows of a partition that it owns.
type Held struct {
	Epoch uint64
	Head  Place
}

// Check compares what a session knew before a beat with the snapshot that the beat
// returned. A session that has nothing to commit finds out by it that it has lost a
// partition, or that the engine has lost data.
func (h *Holdings) Check(s *Snapshot, self SessionID) error {
	m := s.Member(self)
	switch {
	case m == nil:
		return ErrFenced
	case m.Batch < h.Batch:
		return fmt.Errorf("batch %d: %w", h.Batch, ErrRolledBack)
	case s.Crawl.Run < h.Run || s.Crawl.PlanVersion < h.Plan || s.Scopes < h.Scope ||
		s.Crawl.Run == h.Run && s.Crawl.Level < h.Level: // a run of another generation begins with level 0
		return fmt.Errorf("state of the crawl: %w", ErrRolledBack)
	}
	for n, held := range h.Parts {
		p := s.Parts[n]
		if p.Epoch == held.Epoch && p.Owner == self && p.Head.Seq > held.Head.Seq {
			p.Head = held.Head // committed since
		}
		if m.Batch > h.Batch && p.Epoch == held.Epoch && p.Owner == (SessionID{}) {
			continue // closed since
		}
		if err := CheckFence(&p, self, &Write{Partition: n, Epoch: held.Epoch, After: held.Head,
			Granted: p.Granted}); err != nil {
			return err
		}
	}
	return nil
}
