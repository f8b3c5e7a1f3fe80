package dedup

import (
	"math/bits"
	"unsafe"

	"github.com/mapwright/mapwright/frontier/weburl"
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
// pointers that the garbage collector would have to follow. With each key it keeps two
// marks, which mean what its owner wants, and forgets them with the key.
//
// It is not safe for concurrent use.
type Recent struct {
	segments [][]bucket
	n        int    // buckets in use
	most     int    // buckets within the budget
	mask     uint64 // 2^(L+1)-1, where 2^L <= n < 2^(L+1)
	stats    RecentStats
	touched  uint32 // has no meaning; it keeps the compiler from removing the loads in Prefetch
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
	// ctl holds a bit per way in use, the hand, a bit per way that was hit since the hand
	// passed, a bit per way for each mark.
	ctl uint32
}

const (
	inUse       = 1<<ways - 1
	handShift   = 5 // three bits
	handMask    = 7 << handShift
	hitShift    = 8
	markShift   = 16 // the second mark is in the byte above
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
func (h *Recent) Prefetch(keys []weburl.Key) {
	var x uint32
	for i := range keys {
		x ^= h.bucketOf(keys[i].Hi).ctl
	}
	h.touched = x
}

// Find returns the marks of k, as bits 0 and 1, and reports whether k was added and not
// forgotten since.
func (h *Recent) Find(k weburl.Key) (marks uint8, ok bool) {
	b := h.bucketOf(k.Hi)
	if w := b.find(k.Hi, uint32(k.Lo)); w >= 0 {
		h.stats.Hits++
		return b.marks(w), true
	}
	h.stats.Misses++
	return 0, false
}

// Add puts k into the set, which drops another key if the bucket is full. It adds the marks to those that k has.
func (h *Recent) Add(k weburl.Key, marks uint8) {
	b := h.bucketOf(k.Hi)
	if w := b.find(k.Hi, uint32(k.Lo)); w >= 0 {
		b.mark(w, marks)
		return
	}
	for h.n < h.most && 4*h.stats.Len >= 3*h.n {
		h.split()
		b = h.bucketOf(k.Hi)
	}
	if b.put(k.Hi, uint32(k.Lo), marks) {
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
			to.put(from.hi[w], from.lo[w], from.marks(w))
			from.ctl &^= wayBits << w
		}
	}
}

// wayBits are the bits of ctl for the first way.
const wayBits uint32 = 1 | 1<<hitShift | 1<<markShift | 1<<(markShift+8)

// find looks for a key and notes that it was used. It returns its way, or -1.
func (b *bucket) find(hi uint64, lo uint32) int {
	for w := range ways {
		if b.hi[w] == hi && b.lo[w] == lo && b.ctl>>w&1 == 1 {
			if hit := uint32(1) << (w + hitShift); b.ctl&hit == 0 {
				b.ctl |= hit
			}
			return w
		}
	}
	return -1
}

// marks are those of a way.
func (b *bucket) marks(w int) uint8 {
	m := b.ctl >> (w + markShift)
	return uint8(m&1 | m>>7&2)
}

// mark adds marks to those of a way.
func (b *bucket) mark(w int, marks uint8) {
	m := uint32(marks)
	b.ctl |= (m&1 | m&2<<7) << (w + markShift)
}

// put stores a key that the bucket does not hold, and reports whether another key was dropped for it.
func (b *bucket) put(hi uint64, lo uint32, marks uint8) (evicted bool) {
	w := bits.TrailingZeros32(^(b.ctl & inUse))
	if w == ways {
		w = b.evict()
		evicted = true
	}
	b.hi[w], b.lo[w] = hi, lo
	b.ctl |= 1 << w
	b.mark(w, marks)
	return evicted
}

// evict frees the first way that was not hit since the hand last passed, and moves the hand
// behind it.
func (b *bucket) evict() int {
	w := int(b.ctl & handMask >> handShift)
	for b.ctl>>(w+hitShift)&1 == 1 {
		b.ctl &^= 1 << (w + hitShift)
		w = (w + 1) % ways
	}
	b.ctl &^= wayBits<<w | handMask
	b.ctl |= uint32((w+1)%ways) << handShift
	return w
}
