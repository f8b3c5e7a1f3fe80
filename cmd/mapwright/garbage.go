package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Garbage may grow to the size of the live heap before the next collection, which is Go's default, but to at least 32
// MB and at most 256 MB. The default alone is too much for a crawl that keeps half a gigabyte of caches and queues,
// which the collector need not scan. It is too little for a crawl that keeps ten megabytes: every thousand pages make
// as much garbage. A collection of a small heap takes five milliseconds of CPU. With 32 MB of garbage, that is one
// percent of the CPU time of the pages that made it.
const (
	leastGarbage = 32 << 20
	mostGarbage  = 256 << 20
)

// gcPercent is the value of GOGC that keeps garbage within these bounds, for a heap of live bytes.
func gcPercent(live uint64) int {
	live = max(live, 4<<20)
	return max(1, int(min(max(live, leastGarbage), mostGarbage)*100/live))
}

// tuneGarbage bounds garbage until the process ends, unless the user has set GOGC. It sets GOGC again after each
// collection, by the live heap that the collection found.
func tuneGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	set := gcPercent(0)
	debug.SetGCPercent(set)
	type sentinel struct{ _ *sentinel } // unreachable at once: the next collection runs its cleanup
	var collected func(struct{})
	collected = func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// SetGCPercent stops all goroutines for a moment, so it is not called for a small difference.
		if want := gcPercent(live[0].Value.Uint64()); want < set*9/10 || want > set*11/10 {
			debug.SetGCPercent(want)
			set = want
		}
		runtime.AddCleanup(new(sentinel), collected, struct{}{})
	}
	runtime.AddCleanup(new(sentinel), collected, struct{}{})
}
