package weburl

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A Hasher computes identities under one crawl's seed. What it computes lies on
// disk and is part of the format there. It is safe to share and to copy; make
// it with NewHasher.
type Hasher struct {
	host, hi, lo secret
	partitions   *partitionCache
}

// NewHasher derives a Hasher from seed, which is drawn at random once per crawl
// and kept with its data.
func NewHasher(seed uint64) Hasher {
	next := func() uint64 { // SplitMix64
		seed += 0x9e3779b97f4a7c15
		x := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return Hasher{
		host:       secret{next(), next() | 1},
		hi:         secret{next(), next() | 1},
		lo:         secret{next(), next() | 1},
		partitions: new(partitionCache),
	}
}

// HostID returns the identity of a canonical host name. A dot at the end does not count: "example.com." is the same
// server, and must not get twice the load because it has two names.
func (h Hasher) HostID(host string) HostID {
	host = strings.TrimSuffix(host, ".")
	sum := h.host.sum(host)
	return HostID(uint64(h.partitions.of(host, sum))<<56 | sum>>8)
}

// Key returns the identity of u.
func (h Hasher) Key(u URL) Key {
	return h.KeyOn(h.HostID(u.Host()), u)
}

// KeyOn returns the identity of u, on a host whose identity the caller already
// knows.
func (h Hasher) KeyOn(host HostID, u URL) Key {
	return Key{Host: host, Hi: h.hi.sum(u.text), Lo: h.lo.sum(u.text)}
}

// KeyOf returns the identity of the URL with this canonical text, on a host
// whose identity the caller already knows.
func (h Hasher) KeyOf(host HostID, canonical []byte) Key {
	text := unsafe.String(unsafe.SliceData(canonical), len(canonical)) // not kept
	return Key{Host: host, Hi: h.hi.sum(text), Lo: h.lo.sum(text)}
}

// A secret selects one of many hash functions.
//
// Seeding xxhash is not enough to prevent URLs that are made to have equal keys, of which a crawl would then see one
// only: pairs of texts that collide under every seed are easily written down. They collide because a difference between
// two input words is known inside the hash, where another difference can be made to cancel it. So each word of the text
// is multiplied by a secret odd number before xxhash sees it. That loses nothing, and leaves the difference of two
// words unknown to the author of the URLs.
type secret struct {
	seed   uint64
	factor uint64 // odd
}

// sum hashes s, which holds no zero byte, in words of eight bytes. The last one
// is filled up with zeros. It is the XXH64 of these words, each times the factor,
// under the seed, without a buffer between them and the hash.
func (k secret) sum(s string) uint64 {
	whole := s
	n := uint64(len(s)+7) &^ 7
	var acc uint64
	if n >= 32 {
		v1, v2, v3, v4 := k.seed+prime1+prime2, k.seed+prime2, k.seed, k.seed-prime1
		for ; len(s) >= 32; s = s[32:] {
			v1 = round(v1, word(s)*k.factor)
			v2 = round(v2, word(s[8:])*k.factor)
			v3 = round(v3, word(s[16:])*k.factor)
			v4 = round(v4, word(s[24:])*k.factor)
		}
		if len(s) > 24 { // with the zeros that fill it up, another four words
			v1 = round(v1, word(s)*k.factor)
			v2 = round(v2, word(s[8:])*k.factor)
			v3 = round(v3, word(s[16:])*k.factor)
			v4 = round(v4, lastWord(whole, len(s)-24)*k.factor)
			s = ""
		}
		acc = bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) +
			bits.RotateLeft64(v4, 18)
		acc = merge(merge(merge(merge(acc, v1), v2), v3), v4)
	} else {
		acc = k.seed + prime5
	}
	acc += n
	for ; len(s) >= 8; s = s[8:] {
		acc = bits.RotateLeft64(acc^round(0, word(s)*k.factor), 27)*prime1 + prime4
	}
	if len(s) > 0 {
		acc = bits.RotateLeft64(acc^round(0, lastWord(whole, len(s))*k.factor), 27)*prime1 + prime4
	}
	acc = (acc ^ acc>>33) * prime2
	acc = (acc ^ acc>>29) * prime3
	return acc ^ acc>>32
}

// The primes of XXH64.
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

func round(acc, word uint64) uint64 { return bits.RotateLeft64(acc+word*prime2, 31) * prime1 }

func merge(acc, v uint64) uint64 { return (acc^round(0, v))*prime1 + prime4 }

// word reads the first eight bytes of s, little-endian.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// lastWord reads the last n bytes of s, eight at most, with zeros behind them. If s has fewer than eight bytes, n is
// its length.
func lastWord(s string, n int) uint64 {
	if len(s) >= 8 {
		return word(s[len(s)-8:]) >> (64 - 8*n)
	}
	var w uint64
	for i := len(s) - 1; i >= 0; i-- {
		w = w<<8 | uint64(s[i])
	}
	return w
}

// A partitionCache remembers the partitions of hosts. Finding the registrable
// domain costs ten times what the hash of the host does, and the links of a
// crawl name the same hosts over and over.
//
// A host belongs in the slot that the low bits of its hash number. The slot holds the rest of the hash, its partition
// in the low byte, and one bit to tell it from an empty one; so a hit means that all 64 bits agree. Any goroutine may
// overwrite any slot: the host that was there is computed again.
type partitionCache [1 << cacheBits]atomic.Uint64

const cacheBits = 15

func (c *partitionCache) of(host string, sum uint64) uint8 {
	const filled = 1 << 8
	slot := &c[sum%(1<<cacheBits)]
	tag := sum>>cacheBits<<cacheBits | filled
	if v := slot.Load(); v&^0xff == tag {
		return uint8(v)
	}
	p := Partition(RegistrableDomain(host))
	slot.Store(tag | uint64(p))
	return p
}
