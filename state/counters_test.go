package state

import (
	"bytes"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

func TestCountersRoundTrip(t *testing.T) {
	var c Counters
	c.Discovered = 5
	for i := range 300 {
		c.finished(&frontier.Finish{Outcome: uint8(i), Counted: i%2 == 0, Status: uint16(i * 10), Bytes: 3})
	}
	c.Skips = [numSkipReasons]uint64{1: 7, numSkipReasons - 1: 9}
	r := record.Reader{B: c.Append(nil)}
	if got := readCounters(&r); r.Bad || got != c {
		t.Errorf("got %+v\nwant %+v", got, c)
	}
	// Codes 31 to 255, once each, and those of 256 to 299 that are over 30.
	if got := c.Outcomes[numOutcomes-1]; got != 225+13 {
		t.Errorf("%d in the last place of outcomes", got)
	}
	if c.Finished != 300 || c.Counted != 150 || c.Pending() != 0 {
		t.Errorf("finished %d, pending %d", c.Finished, c.Pending())
	}
}

// FuzzCounters decodes anything as counters.
func FuzzCounters(f *testing.F) {
	c := Counters{Discovered: 5, Bytes: 7}
	f.Add(c.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := record.Reader{B: bytes.Clone(b)}
		c := readCounters(&r)
		if r.Bad {
			return
		}
		again := record.Reader{B: c.Append(nil)}
		if got := readCounters(&again); again.Bad || got != c {
			t.Errorf("got %+v, want %+v", got, c)
		}
	})
}
