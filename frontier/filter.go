package frontier

import (
	"math"

	"github.com/bits-and-blooms/bloom/v3"

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
// for in each, so there should not be many: 20 at ten million keys. At 1 % asked
// for that makes at most 2.5 bytes a key at every size from the first layer's up,
// and false positives of 1 % at half a million keys in one filter and under 3 %
// at any number.
//
// It is not safe for concurrent use: the shard's mutex guards it.
type filter struct {
	fpRate float64
	first  int // capacity of the first layer
	layers []filterLayer
	n      int // keys added
	locs   [filterMaxHashes]uint64
}

// filterLayer is one bloom filter of the stack.
type filterLayer struct {
	bits *bloom.BloomFilter
	cap  int // keys at which it is full
	n    int // keys in it
}

const (
	// filterHashes is two short of the optimum for the sizes used here: that costs
	// a tenth more false positives and saves a fifth of the cache misses.
	filterHashes    = 8
	filterMaxHashes = 32 // of a layer read back

	// filterFirst is the smallest first layer, 28 KiB at 1 %: there may be one
	// filter for each of 256 partitions.
	filterFirst = 1 << 14

	// filterLayers is the number of layers with the same false-positive rate,
	// enough for a hundred million keys. Each further one has half of the one's
	// before, so that their sum stays bounded.
	filterLayers = 26
	// filterShare is a layer's part of the rate asked for: filterLayers of them
	// make less than three times that rate.
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
func (f *filter) Has(k urlnorm.Key) bool {
	f.locate(k, filterHashes)
	for i := range f.layers {
		if f.layers[i].bits.TestLocations(f.locs[:f.layers[i].bits.K()]) {
			return true
		}
	}
	return false
}

// Add puts k in. A key should be added once; a second time costs room.
func (f *filter) Add(k urlnorm.Key) {
	if len(f.layers) == 0 || f.layers[len(f.layers)-1].full() {
		f.grow()
	}
	l := &f.layers[len(f.layers)-1]
	f.locate(k, int(l.bits.K()))
	m, set := uint64(l.bits.Cap()), l.bits.BitSet()
	for _, loc := range f.locs[:l.bits.K()] {
		set.Set(uint(loc % m))
	}
	l.n++
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

// locate derives n hash values from the key, which is one already: no byte is
// hashed again. The square keeps the values of keys with related Lo apart.
func (f *filter) locate(k urlnorm.Key, n int) {
	a, b := k.Hi, k.Lo
	for i := range n {
		f.locs[i] = a
		a += b
		b += uint64(i) + 1
	}
}

func (f *filter) grow() {
	n := f.first
	if f.n > 0 {
		n = max(1, 2*f.n/5)
	}
	p := f.fpRate * filterShare
	if extra := len(f.layers) - filterLayers + 1; extra > 0 {
		p = math.Ldexp(p, -extra)
	}
	f.layers = append(f.layers, filterLayer{bits: bloom.New(filterBits(n, p), filterHashes), cap: n})
}

// filterBits is the size of a bloom filter of n keys that has the false-positive
// rate p when full, given the number of hashes.
func filterBits(n int, p float64) uint {
	const k = filterHashes
	perKey := -k / math.Log1p(-math.Pow(p, 1.0/k))
	return uint(math.Ceil(float64(n) * perKey))
}

func (l *filterLayer) full() bool { return l.n >= l.cap }

func (l *filterLayer) bytes() int { return len(l.bits.BitSet().Words()) * 8 }
