package dedup

import (
	"math/bits"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Filter answers "certainly new" for a URL, or "perhaps seen". It is a stack of
// bloom filters: keys go into the last one until that is full, then a new one is
// put on top and the old one never changes again.
//
// The sizes of layers balance three costs. A layer takes its memory when it is opened, so it must be small compared
// with the others: it holds two fifths of all keys so far. Every layer adds its false positives to the others', so each
// must have few: about a ninth of the rate asked for. And a new key is looked for in every layer, so there should be
// few: 20 at ten million keys. With 1 % asked for that makes at most 2.5 bytes a key from fifty thousand keys on, and
// false positives of 1 % at a quarter of a million keys in one filter, 2.3 % at ten million and 3 % at a hundred
// million.
//
// It is not safe for concurrent use.
type Filter struct {
	fpRate float64
	first  int // capacity of the first layer
	layers []layer
	n      int // keys added
}

const (
	// hashes is two less than the optimum for the sizes used here: that costs a tenth more false positives and saves a
	// fifth of the cache misses.
	hashes = 8

	// firstLayer is the smallest first layer, 28 KiB at 1 %: there may be one
	// filter for each of 256 partitions.
	firstLayer = 1 << 14

	// layerShare is a layer's part of the rate asked for.
	layerShare = 0.115
)

// NewFilter makes an empty filter. fpRate is about its rate of false positives at capacity keys. The filter grows
// beyond that by itself, and at first takes memory for few keys.
func NewFilter(capacity int, fpRate float64) *Filter {
	return &Filter{
		fpRate: fpRate,
		first:  min(max(capacity/64, firstLayer), 1<<20),
	}
}

// Has reports false only if k was never added.
//
// A new key has to be looked for in every layer, and each look is a cache miss. So the first three bits are read in all
// layers with no branch between, which lets the processor wait for many misses together; that excludes nine layers in
// ten, and only the others are tested fully.
func (f *Filter) Has(k weburl.Key) bool {
	h0, h1, h2 := k.Hi, k.Hi+k.Lo, k.Hi+2*k.Lo+1 // as layer.locate has them
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

// Add puts k in. A key should be added once; a second time wastes memory.
func (f *Filter) Add(k weburl.Key) {
	if len(f.layers) == 0 || f.layers[len(f.layers)-1].full() {
		f.grow()
	}
	f.layers[len(f.layers)-1].add(k)
	f.n++
}

// Len is the number of keys added.
func (f *Filter) Len() int { return f.n }

// Bytes is the memory taken by the layers.
func (f *Filter) Bytes() int {
	n := 0
	for i := range f.layers {
		n += f.layers[i].bytes()
	}
	return n
}

// Layers is the number of layers. All but the last are sealed: they never change.
func (f *Filter) Layers() int { return len(f.layers) }

func (f *Filter) grow() {
	f.layers = append(f.layers, newLayer(f.nextLayer(f.n), f.fpRate*layerShare))
}

// AddLayer puts a stored layer on top. The layers of a filter are added in order, before any key; all but the last must
// be sealed, and the last must not be: so a missing or outdated one is noticed. Any error is a [*LayerError].
func (f *Filter) AddLayer(blob []byte, tag uint64, sealed bool) error {
	l, reason := decodeLayer(blob, tag, len(f.layers), sealed)
	if reason != "" {
		return &LayerError{Layer: len(f.layers), Reason: reason}
	}
	f.layers = append(f.layers, l)
	f.n += l.n
	return nil
}

// nextLayer is the capacity of a layer that is added when the filter has so many keys.
func (f *Filter) nextLayer(keys int) int { return max(f.first, 2*keys/5) }
