package session

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// A machine is one in the report, however often and with however many processes it joined.
func TestMachines(t *testing.T) {
	one, two := cluster.MachineID{1}, cluster.MachineID{2}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	got := machines([]cluster.Member{
		{Machine: one, Name: "a:1", Joined: at(1), Beat: at(5), Batch: 10, Ended: true,
			Tally: cluster.Tally{Pages: 100, Takeovers: 3}},
		{Machine: two, Name: "b:1", Joined: at(2), Beat: at(9), Batch: 20, Ended: true, Left: true,
			Tally: cluster.Tally{Pages: 50}},
		// killed before its second beat
		{Machine: one, Name: "a:1", Joined: at(6), Beat: at(6), Ended: true},
		// the same process
		{Machine: one, Name: "a:1", Joined: at(7), Beat: at(8), Batch: 5, Ended: true, Left: true,
			Tally: cluster.Tally{Pages: 120, Takeovers: 4, Fenced: 1}},
		{Machine: one, Name: "a:2", Joined: at(9), Beat: at(11), Batch: 1,
			Tally: cluster.Tally{Pages: 7, Takeovers: 1}},
	})
	want := []Machine{
		{Name: "a:2", ID: one.String(), Joined: at(1), LastBeat: at(11), Sessions: 4, Pages: 127, Batches: 16,
			Takeovers: 5, Fenced: 1, Lost: true},
		{Name: "b:1", ID: two.String(), Joined: at(2), LastBeat: at(9), Sessions: 1, Pages: 50, Batches: 20},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
