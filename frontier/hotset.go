package frontier

import (
	"math/bits"
	"unsafe"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// hotSet is a cache of exact URL identities: it answers "seen before" for most
// repeated links without a look at the filter or the store. It may forget, and
// never invents: 96 bits of a key's 128 are kept and compared.
//
// It is an array of buckets of one cache line, five keys each, so that a lookup
// costs one cache miss. The array grows a bucket at a time by linear hashing, so
// that no growth stops its shard and a small crawl stays small. While it grows it
// has four buckets for three keys: with one for each, one repeat in five hundred
// was forgotten, because buckets not yet split have twice as many. Once at its
// budget, a bucket makes room by the clock algorithm among its five. It holds no
// pointers that the garbage collector would have to follow.
//
// It is not safe for concurrent use: the shard's mutex guards it.
type hotSet struct {
	segments [][]hotBucket
	n        int    // buckets in use
	most     int    // buckets within the budget
	mask     uint64 // 2^(L+1)-1, where 2^L <= n < 2^(L+1)
	stats    hotStats
	touched  uint32 // means nothing; so that touch is not optimised away
}

// hotStats counts what a hotSet did since it was made.
type hotStats struct {
	Len       int // keys held
	Cap       int // keys that the budget has room for
	Bytes     int // memory allocated
	Hits      uint64
	Misses    uint64
	Evictions uint64
}

const (
	hotWays = 5
	// hotSegment is how many buckets are allocated at once: 1 MiB.
	hotSegment = 1 << 14
	// hotFirst is how many buckets a new set has: 32 KiB.
	hotFirst = 1 << 9
)

type hotBucket struct {
	hi [hotWays]uint64
	lo [hotWays]uint32
	// ctl holds, from the lowest byte up: a bit per way in use, a bit per way that
	// was hit since the hand passed, the hand.
	ctl uint32
}

const (
	hotHitShift = 8
	hotHand     = 16
	hotBytes    = int(unsafe.Sizeof(hotBucket{}))
)

func newHotSet(maxBytes int) *hotSet {
	most := max(hotFirst, maxBytes/hotBytes)
	h := &hotSet{most: most}
	h.segments = make([][]hotBucket, 0, (most+hotSegment-1)/hotSegment)
	h.segments = append(h.segments, make([]hotBucket, hotFirst))
	h.stats.Cap = most * hotWays
	h.stats.Bytes = hotFirst * hotBytes
	h.setLen(hotFirst)
	return h
}

func (h *hotSet) setLen(n int) {
	h.n = n
	h.mask = 1<<bits.Len(uint(n)) - 1
}

// bucket returns where a key with this hi lies: at its low bits, with the highest
// of them dropped where that bucket does not exist yet.
func (h *hotSet) bucket(hi uint64) *hotBucket {
	i := hi & h.mask
	if i >= uint64(h.n) {
		i &= h.mask >> 1
	}
	return &h.segments[i/hotSegment][i%hotSegment]
}

// touch brings the buckets of keys into the processor's cache. The loads do not
// wait for each other, as those of one lookup after the other would.
func (h *hotSet) touch(keys []urlnorm.Key) {
	var x uint32
	for i := range keys {
		x ^= h.bucket(keys[i].Hi).ctl
	}
	h.touched = x
}

// Has reports whether k was added and not forgotten since.
func (h *hotSet) Has(k urlnorm.Key) bool {
	if h.bucket(k.Hi).hit(k.Hi, uint32(k.Lo)) {
		h.stats.Hits++
		return true
	}
	h.stats.Misses++
	return false
}

// Add puts k into the set, at the cost of another one when its bucket is full.
func (h *hotSet) Add(k urlnorm.Key) {
	b := h.bucket(k.Hi)
	if b.hit(k.Hi, uint32(k.Lo)) {
		return
	}
	for h.n < h.most && 4*h.stats.Len >= 3*h.n {
		h.split()
		b = h.bucket(k.Hi)
	}
	if b.put(k.Hi, uint32(k.Lo)) {
		h.stats.Evictions++
	} else {
		h.stats.Len++
	}
}

// Stats returns the counters.
func (h *hotSet) Stats() hotStats { return h.stats }

// split adds one bucket and moves into it what now belongs there, all of which
// lies in one other bucket.
func (h *hotSet) split() {
	i := h.n
	seg := i / hotSegment
	if seg == len(h.segments) {
		h.segments = append(h.segments, nil)
	}
	s := h.segments[seg]
	if len(s) == cap(s) {
		s = make([]hotBucket, len(s), min(max(2*len(s), hotSegment*min(seg, 1)), hotSegment, len(s)+h.most-i))
		copy(s, h.segments[seg])
		h.stats.Bytes += (cap(s) - len(s)) * hotBytes
	}
	h.segments[seg] = s[:len(s)+1]
	h.setLen(i + 1)

	high := uint64(1) << (bits.Len(uint(i)) - 1)
	j := uint64(i) - high
	from, to := &h.segments[j/hotSegment][j%hotSegment], &h.segments[seg][i%hotSegment]
	for w := range hotWays {
		if from.ctl>>w&1 == 1 && from.hi[w]&high != 0 {
			to.put(from.hi[w], from.lo[w])
			from.ctl &^= 1<<w | 1<<(w+hotHitShift)
		}
	}
}

// hit looks for a key and marks it as recently used.
func (b *hotBucket) hit(hi uint64, lo uint32) bool {
	for w := range hotWays {
		if b.hi[w] == hi && b.lo[w] == lo && b.ctl>>w&1 == 1 {
			if mark := uint32(1) << (w + hotHitShift); b.ctl&mark == 0 {
				b.ctl |= mark
			}
			return true
		}
	}
	return false
}

// put stores a key that the bucket does not hold, and reports whether another had
// to go for it.
func (b *hotBucket) put(hi uint64, lo uint32) (evicted bool) {
	w := bits.TrailingZeros32(^b.ctl)
	if w >= hotWays {
		w = b.victim()
		evicted = true
	}
	b.hi[w], b.lo[w] = hi, lo
	b.ctl |= 1 << w
	return evicted
}

// victim moves the hand to the first way that was not hit since it last passed.
func (b *hotBucket) victim() int {
	w := int(b.ctl >> hotHand)
	for b.ctl>>(w+hotHitShift)&1 == 1 {
		b.ctl &^= 1 << (w + hotHitShift)
		w = (w + 1) % hotWays
	}
	b.ctl = b.ctl&(1<<hotHand-1) | uint32((w+1)%hotWays)<<hotHand
	return w
}
