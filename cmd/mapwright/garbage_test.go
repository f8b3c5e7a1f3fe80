package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
)

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live uint64
		want int
	}{{0, 800}, {10 * mb, 320}, {16 * mb, 200}, {32 * mb, 100}, {256 * mb, 100}, {512 * mb, 50}, {1024 * mb, 25},
		{30 << 30, 1}} {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("with %d MB alive GOGC is %d, want %d", tt.live/mb, got, tt.want)
		}
	}
}

// After a collection that finds 512 MB alive, garbage may grow to half of that.
func TestGarbageIsTuned(t *testing.T) {
	t.Setenv("GOGC", "") // what is set here lasts, as in the program
	tuneGarbage()
	alive := make([]byte, 512<<20)
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 100_000 { // collections, each of which lets the cleanup run; the first is enough as a rule
		runtime.GC()
		runtime.Gosched()
		if metrics.Read(percent); math.Abs(float64(percent[0].Value.Uint64())-50) < 5 {
			runtime.KeepAlive(alive)
			return
		}
	}
	t.Errorf("GOGC is %d%% with 512 MB alive", percent[0].Value.Uint64())
}
