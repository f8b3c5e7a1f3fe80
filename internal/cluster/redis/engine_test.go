//go:build cluster

package redis

import (
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/enginetest"
	"github.com/mapwright/mapwright/internal/test/memory"
)

func TestEngine(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			p := at(t)
			enginetest.Run(t, p.harness)
		})
	}
}

// TestModel compares the engine with the one in memory.
func TestModel(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			p := at(t)
			for seed := range uint64(4) {
				enginetest.Compare(t, p.harness(t), model(), 200, seed)
			}
		})
	}
}

// model is the engine in memory.
func model() *enginetest.Harness {
	m := memory.New()
	var next atomic.Uint32
	m.Fault = func(call string) memory.Fault {
		if call != "Commit" {
			return memory.None
		}
		return memory.Fault(next.Swap(uint32(memory.None)))
	}
	return &enginetest.Harness{Engine: m, Advance: m.Advance, Save: m.Save, Lose: func(done bool) {
		if next.Store(uint32(memory.RequestLost)); done {
			next.Store(uint32(memory.AnswerLost))
		}
	}}
}
