package e2e

import (
	"fmt"
	"math/rand/v2"
)

// KillsAnywhere is how many kills of one crawl may come before what the run has done is on disk. Before later kills the
// crawl is settled, so that few pages have to wait: see Process.Settle.
const KillsAnywhere = 2

// Whim are settings that a resume may change without changing the result.
func Whim(rnd *rand.Rand) []string {
	flags := []string{"--shards", fmt.Sprint(1 + rnd.IntN(5))}
	for _, f := range [][2]string{
		{"--bloom-capacity", fmt.Sprint(100 + rnd.IntN(100_000))},
		{"--bloom-fp-rate", fmt.Sprint(0.001 + 0.4*rnd.Float64())},
		{"--global-frontier-size-limit", fmt.Sprint(50 + rnd.IntN(500))},
		{"--save-interval", fmt.Sprint(50+rnd.IntN(500), "ms")},
		{"--workers", fmt.Sprint(1 + rnd.IntN(64))},
	} {
		if rnd.IntN(2) == 0 {
			flags = append(flags, f[0], f[1])
		}
	}
	return flags
}
