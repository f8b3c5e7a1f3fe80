package session

import (
	"testing"

	"github.com/mapwright/mapwright/internal/cluster"
)

// A session of the same machine that goes on beating is found, once. One that was killed is not, nor are other
// machines.
func TestTwins(t *testing.T) {
	self := &cluster.Session{ID: cluster.SessionID{1}, Machine: cluster.MachineID{1}}
	look := func(tw *twins, killed, copied, other uint64) string {
		return tw.look(&cluster.Snapshot{Members: []cluster.Member{
			{Session: self.ID, Machine: self.Machine, Beats: 9},
			{Session: cluster.SessionID{2}, Machine: self.Machine, Name: "killed", Beats: killed},
			{Session: cluster.SessionID{3}, Machine: self.Machine, Name: "copied", Beats: copied},
			{Session: cluster.SessionID{4}, Machine: cluster.MachineID{4}, Beats: other},
		}}, self)
	}
	var tw twins
	for i, c := range []struct {
		killed, copied, other uint64
		want                  string
	}{{5, 1, 1, ""}, {6, 2, 2, ""}, {6, 3, 3, "copied"}, {6, 4, 4, ""}} {
		if got := look(&tw, c.killed, c.copied, c.other); got != c.want {
			t.Errorf("look %d: %q, want %q", i, got, c.want)
		}
	}
}
