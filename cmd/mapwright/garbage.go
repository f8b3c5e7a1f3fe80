package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go lets garbage grow to as much as is alive before it collects. That is much for a crawl that keeps half a gigabyte
// of caches and queues, in which the collector has nothing to look at, and little for one that keeps ten megabytes and
// makes as much garbage with every thousand pages. So garbage may grow to as much as is alive, but to 32 MB at least
// and to 256 MB at most. A collection of a small heap takes five milliseconds of CPU: with 32 MB that is one in a
// hundred of what the pages take that made the garbage.
const (
	leastGarbage = 32 << 20
	mostGarbage  = 256 << 20
)

// gcPercent is the GOGC by which garbage is bounded so, for what is alive.
func gcPercent(live uint64) int {
	live = max(live, 4<<20)
	return max(1, int(min(max(live, leastGarbage), mostGarbage)*100/live))
}

// tuneGarbage bounds garbage until the process ends, unless the user has set GOGC: it sets GOGC anew after each
// collection, by what that has found alive.
func tuneGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	set := gcPercent(0)
	debug.SetGCPercent(set)
	type sentinel struct{ _ *sentinel } // one is dead at the next collection
	var collected func(struct{})
	collected = func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// Setting it stops all goroutines for a moment: not for nothing.
		if want := gcPercent(live[0].Value.Uint64()); want < set*9/10 || want > set*11/10 {
			debug.SetGCPercent(want)
			set = want
		}
		runtime.AddCleanup(new(sentinel), collected, struct{}{})
	}
	runtime.AddCleanup(new(sentinel), collected, struct{}{})
}
