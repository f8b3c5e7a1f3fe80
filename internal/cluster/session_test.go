package cluster

import (
	"testing"

	"github.com/mapwright/mapwright/state"
)

func TestSnapshotCounters(t *testing.T) {
	var s Snapshot
	if c, err := s.Counters(); err != nil || c != (state.Counters{}) {
		t.Errorf("a crawl without batches: %+v, %v", c, err)
	}
	a := state.Counters{Discovered: 7, Finished: 3, Bytes: 100, Generation: 1, Counted: 2}
	a.Outcomes[1], a.Status[2], a.Skips[3] = 3, 3, 4
	b := state.Counters{Discovered: 5, Finished: 5, Sitemaps: 1, Generation: 2, Counted: 1}
	s.Parts[3].Status.Counts, s.Parts[255].Status.Counts = a.Append(nil), b.Append(nil)
	want := a
	want.Discovered, want.Finished, want.Sitemaps, want.Generation, want.Counted = 12, 8, 1, 2, 1
	if c, err := s.Counters(); err != nil || c != want {
		t.Errorf("got %+v, %v\nwant %+v", c, err, want)
	}
	s.Parts[3].Status.Counts = a.Append(nil)[:3]
	if _, err := s.Counters(); err == nil {
		t.Error("counters that are cut off are accepted")
	}
}
