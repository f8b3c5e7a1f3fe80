package report

import (
	"errors"
	"testing"

	"github.com/mapwright/mapwright/state"
)

// TestPagesMissing: an export that reads fewer pages than were recorded is an error, not a shorter file.
func TestPagesMissing(t *testing.T) {
	recorded := &state.Counters{Discovered: 10, Finished: 7}
	cases := []struct {
		found, finished uint64
		whole           bool
	}{
		{10, 7, true},
		{12, 9, true}, // recorded while the export read
		{9, 7, false},
		{10, 6, false},
		{0, 0, false},
	}
	for _, c := range cases {
		err := checkCounts(recorded, c.found, c.finished)
		_, damage := errors.AsType[*state.CorruptError](err)
		if damage == c.whole {
			t.Errorf("%d found and %d finished of %+v: %v", c.found, c.finished, recorded, err)
		}
	}
}
