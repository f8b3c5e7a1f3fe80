package keyset

import (
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// TestCounts compares the table with a map, with keys that collide and wrap around its end.
func TestCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var counts Counts
	model := map[weburl.Key]int{}
	for _, keys := range []uint64{8, 200, 5_000, 50} {
		for range 4 * keys {
			k := weburl.Key{Hi: r.Uint64N(keys/4+1) - 2, Lo: r.Uint64N(4)}
			switch {
			case r.IntN(5) > 1:
				counts.Add(k)
				model[k]++
			default:
				counts.Remove(k)
				if model[k]--; model[k] <= 0 {
					delete(model, k)
				}
			}
			if counts.Has(k) != (model[k] > 0) || counts.n != len(model) {
				t.Fatalf("%x: there %v, want %d; %d keys, want %d", k, counts.Has(k), model[k], counts.n, len(model))
			}
		}
		for k, n := range model {
			for range n {
				if !counts.Has(k) {
					t.Fatalf("%x is gone", k)
				}
				counts.Remove(k)
			}
		}
		clear(model)
		if counts.n != 0 || len(counts.slots) > keepCounts {
			t.Fatalf("%d keys left, in %d slots", counts.n, len(counts.slots))
		}
	}
}
