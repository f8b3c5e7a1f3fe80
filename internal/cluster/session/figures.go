package session

import (
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
	Takeovers uint64        // partitions whose last owner did not close them, claimed by this session
	Latency   time.Duration // of a commit, moving average
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
	f.Batches, f.Sent, f.Takeovers, f.Latency = j.batch, j.sent, j.takeovers, j.stats.SyncMean
	j.mu.Unlock()
	snap, _ := s.latest()
	if snap == nil {
		return f
	}
	alive := map[cluster.SessionID]bool{}
	for i := range snap.Members {
		if m := &snap.Members[i]; snap.Alive(m) {
			alive[m.Session] = true
		}
	}
	f.Machines, f.Waiting = len(alive), snap.Waiting
	for i := range snap.Parts {
		if !alive[snap.Parts[i].Owner] {
			f.Unowned++
		}
	}
	return f
}
