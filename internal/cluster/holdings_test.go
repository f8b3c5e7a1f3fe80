package cluster

import (
	"errors"
	"testing"
)

func TestHoldings(t *testing.T) {
	me := SessionID{1}
	head := Place{}.Next([]byte("row"))
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		want   error
	}{
		{"as known", func(*Snapshot) {}, nil},
		{"a batch since", func(s *Snapshot) { s.Members[0].Batch, s.Parts[7].Head = 4, head.Next([]byte("more")) },
			nil},
		{"closed since", func(s *Snapshot) { s.Members[0].Batch, s.Parts[7].Owner = 4, SessionID{} }, nil},
		{"more of the crawl", func(s *Snapshot) {
			s.Crawl.Run, s.Crawl.PlanVersion, s.Crawl.Level, s.Scopes = 9, 9, 9,
				9
		}, nil},
		{"ended", func(s *Snapshot) { s.Members = nil }, ErrFenced},
		{"claimed by another", func(s *Snapshot) { s.Parts[7].Owner, s.Parts[7].Epoch = SessionID{2}, 6 }, ErrFenced},
		{"not owned, and not closed by this session", func(s *Snapshot) { s.Parts[7].Owner = SessionID{} }, ErrFenced},
		{"a batch is gone", func(s *Snapshot) { s.Members[0].Batch = 2 }, ErrRolledBack},
		{"a row is gone", func(s *Snapshot) { s.Parts[7].Head = Place{} }, ErrRolledBack},
		{"a claim is gone", func(s *Snapshot) { s.Parts[7].Epoch, s.Parts[7].Owner = 4, SessionID{} }, ErrRolledBack},
		{"another has the epoch", func(s *Snapshot) { s.Parts[7].Owner = SessionID{2} }, ErrRolledBack},
		{"the run is gone", func(s *Snapshot) { s.Crawl.Run = 1 }, ErrRolledBack},
		{"the plan is gone", func(s *Snapshot) { s.Crawl.PlanVersion = 1 }, ErrRolledBack},
		{"the level is gone", func(s *Snapshot) { s.Crawl.Level = 1 }, ErrRolledBack},
		{"an extension is gone", func(s *Snapshot) { s.Scopes = 1 }, ErrRolledBack},
	} {
		h := &Holdings{Batch: 3, Run: 2, Plan: 2, Level: 2, Scope: 2, Parts: map[uint8]Held{7: {Epoch: 5, Head: head}}}
		s := &Snapshot{Members: []Member{{Session: me, Batch: 3}}, Crawl: Crawl{Run: 2, PlanVersion: 2, Level: 2},
			Scopes: 2}
		s.Parts[7] = Part{Owner: me, Epoch: 5, Head: head}
		c.change(s)
		if err := h.Check(s, me); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
