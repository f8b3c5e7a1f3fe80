package session

import "github.com/mapwright/mapwright/internal/cluster"

// twins finds other living sessions of the same machine. There are some if a data directory was copied, with the
// identity in it. An earlier session of this data directory has ended, and one beat of it at most can reach the engine
// after that.
type twins struct {
	beats map[cluster.SessionID]uint64 // number of beats when the session was first seen
	found bool
}

// look returns the name of the process of such a session, once, and else nothing.
func (t *twins) look(snap *cluster.Snapshot, self *cluster.Session) string {
	for i := range snap.Members {
		m := &snap.Members[i]
		if t.found || m.Machine != self.Machine || m.Session == self.ID {
			continue
		}
		first, known := t.beats[m.Session]
		if !known {
			if t.beats == nil {
				t.beats = map[cluster.SessionID]uint64{}
			}
			t.beats[m.Session] = m.Beats
		}
		if t.found = known && m.Beats > first+1; t.found {
			return m.Name
		}
	}
	return ""
}
