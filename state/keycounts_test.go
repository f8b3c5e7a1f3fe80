package state

import (
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// TestKeyCounts holds the table against a map, with keys that collide and wrap around its end.
func TestKeyCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var counts keyCounts
	model := map[urlnorm.Key]int{}
	for _, keys := range []uint64{8, 200, 20_000, 50} {
		for range 4 * keys {
			k := urlnorm.Key{Hi: r.Uint64N(keys/4+1) - 2, Lo: r.Uint64N(4)}
			switch {
			case r.IntN(5) > 1:
				counts.add(k)
				model[k]++
			default:
				counts.remove(k)
				if model[k]--; model[k] <= 0 {
					delete(model, k)
				}
			}
			if counts.has(k) != (model[k] > 0) || counts.n != len(model) {
				t.Fatalf("%x: there %v, want %d; %d keys, want %d", k, counts.has(k), model[k], counts.n, len(model))
			}
		}
		for k, n := range model {
			for range n {
				if !counts.has(k) {
					t.Fatalf("%x is gone", k)
				}
				counts.remove(k)
			}
		}
		clear(model)
		if counts.n != 0 || len(counts.slots) > keepCounts {
			t.Fatalf("%d keys left, in %d slots", counts.n, len(counts.slots))
		}
	}
}
