package pace_test

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// A host answers 429 twice. Each time it rests for longer, and from then on it is
// asked no more than once in two seconds.
func ExamplePace_Apply() {
	cfg := pace.Polite()
	var host pace.Pace
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 2 {
		var change pace.Change
		host, change = host.Apply(&cfg, pace.Event{
			Class: pace.ClassOf(429), Start: now, Now: now.Add(100 * time.Millisecond), Inflight: 1,
		})
		fmt.Printf("%v: rests for %v\n", change.Effects, change.RestUntil.Sub(now.Add(100*time.Millisecond)))
		now = change.RestUntil
	}
	fmt.Println("delay:", host.Delay(&cfg))
	// Output:
	// rested, slowed: rests for 1s
	// rested, slowed: rests for 2s
	// delay: 2s
}
