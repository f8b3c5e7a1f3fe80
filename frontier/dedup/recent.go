package dedup

import (
	"math/bits"
	"unsafe"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Recent is a cache of exact URL identities: it answers "seen before" for most
// repeated links without a look at the filter or the store. It may forget, and
// never invents: 96 bits of a key's 128 are kept and compared.
//
// It is an array of buckets of one cache line, five keys each, so that a lookup
// costs one cache miss. The array grows a bucket at a time by linear hashing, so
// that no growth stops its shard and a small crawl stays small. While it grows it
// has four buckets for three keys: with one for each, one repeat in five hundred
// was forgotten, because buckets not yet split have twice as many. Once at its
// budget, a bucket drops a key by the clock algorithm among its five. It holds no
// pointers that the garbage collector would have to follow.
//
// It is not safe for concurrent use.
type Recent struct {
	segments [][]bucket
	n        int    // buckets in use
	most     int    // buckets within the budget
	mask     uint64 // 2^(L+1)-1, where 2^L <= n < 2^(L+1)
	stats    RecentStats
	touched  uint32 // means nothing; so that Prefetch is not optimised away
}

// RecentStats counts what a Recent did since it was made.
type RecentStats struct {
	Len       int // keys held
	Cap       int // keys that fit into the budget
	Bytes     int // memory allocated
	Hits      uint64
	Misses    uint64
	Evictions uint64
}

const (
	ways = 5
	// segmentSize is how many buckets are allocated at once: 1 MiB.
	segmentSize = 1 << 14
	// firstBuckets is how many buckets a new set has: 32 KiB.
	firstBuckets = 1 << 9
)

type bucket struct {
	hi [ways]uint64
	lo [ways]uint32
	// ctl holds, from the lowest byte up: a bit per way in use, a bit per way that
	// was hit since the hand passed, the hand.
	ctl uint32
}

const (
	hitShift    = 8
	handShift   = 16
	bucketBytes = int(unsafe.Sizeof(bucket{}))
)

// NewRecent makes an empty set that takes at most maxBytes, and 32 KiB at least.
func NewRecent(maxBytes int) *Recent {
	most := max(firstBuckets, maxBytes/bucketBytes)
	h := &Recent{most: most}
	h.segments = make([][]bucket, 0, (most+segmentSize-1)/segmentSize)
	h.segments = append(h.segments, make([]bucket, firstBuckets))
	h.stats.Cap = most * ways
	h.stats.Bytes = firstBuckets * bucketBytes
	h.setLen(firstBuckets)
	return h
}

func (h *Recent) setLen(n int) {
	h.n = n
	h.mask = 1<<bits.Len(uint(n)) - 1
}

// bucketOf returns where a key with this hi lies: at its low bits, with the highest
// of them dropped where that bucket does not exist yet.
func (h *Recent) bucketOf(hi uint64) *bucket {
	i := hi & h.mask
	if i >= uint64(h.n) {
		i &= h.mask >> 1
	}
	return &h.segments[i/segmentSize][i%segmentSize]
}

// Prefetch brings the buckets of keys into the processor's cache. The loads do not
// wait for each other, as those of one lookup after the other would.
func (h *Recent) Prefetch(keys []urlnorm.Key) {
	var x uint32
	for i := range keys {
		x ^= h.bucketOf(keys[i].Hi).ctl
	}
	h.touched = x
}

// Has reports whether k was added and not forgotten since.
func (h *Recent) Has(k urlnorm.Key) bool {
	if h.bucketOf(k.Hi).hit(k.Hi, uint32(k.Lo)) {
		h.stats.Hits++
		return true
	}
	h.stats.Misses++
	return false
}

// Add puts k into the set, at the cost of another one when its bucket is full.
func (h *Recent) Add(k urlnorm.Key) {
	b := h.bucketOf(k.Hi)
	if b.hit(k.Hi, uint32(k.Lo)) {
		return
	}
	for h.n < h.most && 4*h.stats.Len >= 3*h.n {
		h.split()
		b = h.bucketOf(k.Hi)
	}
	if b.put(k.Hi, uint32(k.Lo)) {
		h.stats.Evictions++
	} else {
		h.stats.Len++
	}
}

// Stats returns the counters.
func (h *Recent) Stats() RecentStats { return h.stats }

// split adds one bucket and moves into it what now belongs there, all of which
// lies in one other bucket.
func (h *Recent) split() {
	i := h.n
	seg := i / segmentSize
	if seg == len(h.segments) {
		h.segments = append(h.segments, nil)
	}
	s := h.segments[seg]
	if len(s) == cap(s) {
		s = make([]bucket, len(s), min(max(2*len(s), segmentSize*min(seg, 1)), segmentSize, len(s)+h.most-i))
		copy(s, h.segments[seg])
		h.stats.Bytes += (cap(s) - len(s)) * bucketBytes
	}
	h.segments[seg] = s[:len(s)+1]
	h.setLen(i + 1)

	high := uint64(1) << (bits.Len(uint(i)) - 1)
	j := uint64(i) - high
	from, to := &h.segments[j/segmentSize][j%segmentSize], &h.segments[seg][i%segmentSize]
	for w := range ways {
		if from.ctl>>w&1 == 1 && from.hi[w]&high != 0 {
			to.put(from.hi[w], from.lo[w])
			from.ctl &^= 1<<w | 1<<(w+hitShift)
		}
	}
}

// hit looks for a key and marks it as recently used.
func (b *bucket) hit(hi uint64, lo uint32) bool {
	for w := range ways {
		if b.hi[w] == hi && b.lo[w] == lo && b.ctl>>w&1 == 1 {
			if mark := uint32(1) << (w + hitShift); b.ctl&mark == 0 {
				b.ctl |= mark
			}
			return true
		}
	}
	return false
}

// put stores a key that the bucket does not hold, and reports whether another had
// to go for it.
func (b *bucket) put(hi uint64, lo uint32) (evicted bool) {
	w := bits.TrailingZeros32(^b.ctl)
	if w >= ways {
		w = b.evicted()
		evicted = true
	}
	b.hi[w], b.lo[w] = hi, lo
	b.ctl |= 1 << w
	return evicted
}

// evicted moves the hand to the first way that was not hit since it last passed.
func (b *bucket) evicted() int {
	w := int(b.ctl >> handShift)
	for b.ctl>>(w+hitShift)&1 == 1 {
		b.ctl &^= 1 << (w + hitShift)
		w = (w + 1) % ways
	}
	b.ctl = b.ctl&(1<<handShift-1) | uint32((w+1)%ways)<<handShift
	return w
}
