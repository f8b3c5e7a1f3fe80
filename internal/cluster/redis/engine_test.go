//go:build cluster

package redis

import (
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/enginetest"
	"github.com/mapwright/mapwright/internal/test/memory"
)

func TestEngine(t *testing.T) {
	number := database(t)
	enginetest.Run(t, func(t *testing.T) *enginetest.Harness { return harness(t, number) })
}

// TestModel compares the engine with the one in memory.
func TestModel(t *testing.T) {
	number := database(t)
	for seed := range uint64(4) {
		m := memory.New()
		var next atomic.Uint32
		m.Fault = func(call string) memory.Fault {
			if call != "Commit" {
				return memory.None
			}
			return memory.Fault(next.Swap(uint32(memory.None)))
		}
		model := &enginetest.Harness{Engine: m, Advance: m.Advance, Save: m.Save, Lose: func(done bool) {
			if next.Store(uint32(memory.RequestLost)); done {
				next.Store(uint32(memory.AnswerLost))
			}
		}}
		enginetest.Compare(t, harness(t, number), model, 200, seed)
	}
}
