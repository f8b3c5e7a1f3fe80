package memory

import (
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/enginetest"
)

// harness makes an engine that fails when it is told to.
func harness() *enginetest.Harness {
	e := New()
	var next atomic.Uint32 // the Fault of the next Commit
	e.Fault = func(call string) Fault {
		if call != "Commit" {
			return None
		}
		return Fault(next.Swap(uint32(None)))
	}
	return &enginetest.Harness{Engine: e, Advance: e.Advance, Save: e.Save, Lose: func(done bool) {
		if done {
			next.Store(uint32(AnswerLost))
		} else {
			next.Store(uint32(RequestLost))
		}
	}}
}

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(*testing.T) *enginetest.Harness { return harness() })
}

// TestCompare tests the comparison: two engines of one kind must not differ.
func TestCompare(t *testing.T) {
	for seed := range uint64(5) {
		enginetest.Compare(t, harness(), harness(), 300, seed)
	}
}
