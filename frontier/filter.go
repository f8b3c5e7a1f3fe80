package frontier

import (
	"math/bits"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// filter answers "certainly new" for a URL, or "perhaps seen". It is a stack of
// bloom filters: keys go into the last one until that is full, then a new one is
// put on top and the old one never changes again.
//
// Three things are held in balance. A layer takes its memory when it is opened,
// so it must be small against what there is already: it holds two fifths of all
// keys so far. Every layer adds its false positives to the others', so each must
// have few: about a ninth of the rate asked for. And a key that is new is looked
// for in each, so there should not be many: 20 at ten million keys. With 1 % asked
// for that makes at most 2.5 bytes a key from fifty thousand keys on, and false
// positives of 1 % at a quarter of a million keys in one filter, 2.3 % at ten
// million and 3 % at a hundred million.
//
// It is not safe for concurrent use: the shard's mutex guards it.
type filter struct {
	fpRate float64
	first  int // capacity of the first layer
	layers []filterLayer
	n      int // keys added
}

const (
	// filterHashes is two short of the optimum for the sizes used here: that costs
	// a tenth more false positives and saves a fifth of the cache misses.
	filterHashes = 8

	// filterFirst is the smallest first layer, 28 KiB at 1 %: there may be one
	// filter for each of 256 partitions.
	filterFirst = 1 << 14

	// filterShare is a layer's part of the rate asked for.
	filterShare = 0.115
)

// newFilter makes an empty filter. fpRate is about what it will have at capacity
// keys; it grows beyond by itself, and takes memory for few keys at first.
func newFilter(capacity int, fpRate float64) *filter {
	return &filter{
		fpRate: fpRate,
		first:  min(max(capacity/64, filterFirst), 1<<20),
	}
}

// Has reports false only if k was never added.
//
// A new key has to be looked for in every layer, and each look is a cache miss.
// So the first three bits are read in all layers with no branch between, which
// lets the processor wait for many misses together; nine in ten layers drop out,
// and only the rest are asked properly.
func (f *filter) Has(k urlnorm.Key) bool {
	h0, h1, h2 := k.Hi, k.Hi+k.Lo, k.Hi+2*k.Lo+1 // as filterLayer.locate has them
	for end := len(f.layers); end > 0; end -= 64 {
		layers := f.layers[max(0, end-64):end]
		var maybe uint64
		for i := range layers {
			l := &layers[i]
			maybe |= (l.bit(h0) & l.bit(h1) & l.bit(h2)) << i
		}
		for maybe != 0 {
			newest := bits.Len64(maybe) - 1 // it holds most
			if layers[newest].has(k) {
				return true
			}
			maybe &^= 1 << newest
		}
	}
	return false
}

// Add puts k in. A key should be added once; a second time costs room.
func (f *filter) Add(k urlnorm.Key) {
	if len(f.layers) == 0 || f.layers[len(f.layers)-1].full() {
		f.grow()
	}
	f.layers[len(f.layers)-1].add(k)
	f.n++
}

// Len is the number of keys added.
func (f *filter) Len() int { return f.n }

// Bytes is the memory taken by the layers.
func (f *filter) Bytes() int {
	n := 0
	for i := range f.layers {
		n += f.layers[i].bytes()
	}
	return n
}

// Layers is the number of layers. All but the last are sealed: they never change.
func (f *filter) Layers() int { return len(f.layers) }

func (f *filter) grow() {
	f.layers = append(f.layers, newFilterLayer(f.nextLayer(f.n), f.fpRate*filterShare))
}

// nextLayer is the number of keys of the layer that comes after so many keys.
func (f *filter) nextLayer(keys int) int { return max(f.first, 2*keys/5) }
