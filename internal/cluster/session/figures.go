package session

import (
	"errors"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Figures are what a session knows of its crawl, for people.
type Figures struct {
	Name      string        // of the crawl
	Away      time.Duration // since when the engine cannot be reached; zero if it can
	Machines  int           // that are alive
	Owned     []uint8       // partitions that this session owns
	Unowned   int           // partitions without a living owner
	Waiting   int           // hand-overs that no machine has received yet
	Batches   uint64        // committed by this session
	Sent      uint64        // hand-overs of this session
	ReadBytes uint64        // of logs, by this session
	Tally     cluster.Tally
}

// Figures returns the figures as of the last beat.
func (s *Session) Figures() Figures {
	f := Figures{Name: s.crawl.Name}
	if since := s.awaySince(); !since.IsZero() {
		f.Away = time.Since(since)
	}
	j := s.journal
	f.Owned = j.owns()
	j.mu.Lock()
	f.Batches, f.Sent, f.ReadBytes = j.batch, j.sent, j.bytesRead
	j.mu.Unlock()
	f.Tally = s.Tally()
	snap, _ := s.latest()
	if snap == nil {
		return f
	}
	alive := living(snap)
	f.Machines, f.Waiting = len(alive), snap.Waiting
	for i := range snap.Parts {
		if !alive[snap.Parts[i].Owner] {
			f.Unowned++
		}
	}
	return f
}

// living are the sessions of the machines that are alive.
func living(snap *cluster.Snapshot) map[cluster.SessionID]bool {
	alive := map[cluster.SessionID]bool{}
	for i := range snap.Members {
		if m := &snap.Members[i]; snap.Alive(m) {
			alive[m.Session] = true
		}
	}
	return alive
}

// Machines is how many machines were alive at the last beat, 0 if there was none.
func (s *Session) Machines() int { return int(s.machines.Load()) }

// Tally is the tally of this session and of the earlier sessions of the process.
func (s *Session) Tally() cluster.Tally {
	t := cluster.Tally{Takeovers: s.earlier.Takeovers, Fenced: s.earlier.Fenced, Pages: s.earlier.Pages}
	if errors.Is(s.Over(), cluster.ErrFenced) {
		t.Fenced++
	}
	snap, _ := s.latest()
	j := s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	t.Takeovers += j.takeovers
	if j.pages != nil {
		t.Pages += uint64(j.pages())
	}
	t.Batch, t.Replaying = j.stats.SyncMean, uint32(len(j.reading))
	for p := range j.reading {
		if snap != nil {
			t.RowsLeft += max(snap.Parts[p].Head.Seq, j.seen[p].Seq) - j.seen[p].Seq
		}
	}
	return t
}
