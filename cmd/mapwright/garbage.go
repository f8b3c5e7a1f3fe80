package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go lets garbage grow to as much as is alive before it collects. That is much for a crawl that keeps half a gigabyte of caches and queues, in
// which the collector has nothing to look at, and little for one that keeps ten megabytes and makes as much garbage with every thousand
// pages. So garbage may grow to as much as is alive, but to 64 MB at least and to 256 MB at most.
const (
	leastGarbage = 64 << 20
	mostGarbage  = 256 << 20
)

// gcPercent is the GOGC by which garbage is bounded so, for what is alive.
func gcPercent(live uint64) int {
	live = max(live, 16<<20)
	return int(min(max(live, leastGarbage), mostGarbage) * 100 / live)
}

// tuneGarbage sets GOGC by what is alive, as long as the process lives. Who has set it by hand has chosen.
func tuneGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(0))
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		set := gcPercent(0)
		for range time.Tick(time.Second) {
			metrics.Read(live)
			// Setting it stops all goroutines for a moment: not for nothing.
			if want := gcPercent(live[0].Value.Uint64()); want < set*9/10 || want > set*11/10 {
				debug.SetGCPercent(want)
				set = want
			}
		}
	}()
}
