package dedup

import (
	"math"
	"math/bits"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// layer is one bloom filter of a filter's stack.
type layer struct {
	words []uint64 // bloom's own bits, for the first look
	m     uint64   // how many of them count
	bloom *bloom.BloomFilter
	cap   int // keys at which it is full
	n     int // keys in it
}

// locations are the hash values of one key, reduced to a layer's size.
type locations [hashes]uint64

// newLayer makes a layer that has the false-positive rate p when it holds n
// keys.
func newLayer(n int, p float64) layer {
	return wrapLayer(bloom.New(uint(math.Ceil(float64(n)*bitsPerKey(p))), hashes), n, 0)
}

// bitsPerKey is how many bits a key takes at the false-positive rate p, with the given number of hashes.
// bloom.EstimateParameters would choose that number too.
func bitsPerKey(p float64) float64 {
	const k = hashes
	return -k / math.Log1p(-math.Pow(p, 1.0/k))
}

func wrapLayer(b *bloom.BloomFilter, capacity, n int) layer {
	return layer{words: b.BitSet().Words(), m: uint64(b.Cap()), bloom: b, cap: capacity, n: n}
}

func (l *layer) full() bool { return l.n >= l.cap }

func (l *layer) bytes() int { return len(l.words) * 8 }

func (l *layer) has(k weburl.Key) bool {
	locs := l.locate(k)
	return l.bloom.TestLocations(locs[:])
}

func (l *layer) add(k weburl.Key) {
	locs, set := l.locate(k), l.bloom.BitSet()
	for _, i := range locs {
		set.Set(uint(i))
	}
	l.n++
}

// locate derives the key's places. The key is a hash already, so none of it is hashed again; the growing step keeps
// keys whose Lo are related apart. A value is scaled to the layer and not taken modulo: there are dozens of them, and a
// multiplication is cheaper than a division.
func (l *layer) locate(k weburl.Key) (locs locations) {
	h, step := k.Hi, k.Lo
	for i := range locs {
		locs[i], _ = bits.Mul64(h, l.m)
		h += step
		step += uint64(i) + 1
	}
	return locs
}

// bit is the bit at the place of one hash value.
func (l *layer) bit(h uint64) uint64 {
	i, _ := bits.Mul64(h, l.m)
	return l.words[i>>6] >> (i & 63) & 1
}
