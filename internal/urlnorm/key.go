package urlnorm

import (
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Partition returns which of the 256 partitions a registrable domain belongs
// to. It takes no seed: a domain keeps its partition for ever.
func Partition(domain string) uint8 {
	return uint8(xxhash.Sum64String(domain) >> 56)
}

// A HostID stands for a host name within one crawl. Its top byte is the host's
// partition, so that a partition's hosts lie together in key order.
type HostID uint64

// Partition returns the partition the host belongs to.
func (h HostID) Partition() uint8 { return uint8(h >> 56) }

// A Key identifies a URL within one crawl. Keys order by host first.
type Key struct {
	Host   HostID
	Hi, Lo uint64
}

// KeySize is the length of a stored Key.
const KeySize = 24

// Append appends the stored form: the three words, big-endian, so that the
// order of bytes is the order of Compare.
func (k Key) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.Host))
	dst = binary.BigEndian.AppendUint64(dst, k.Hi)
	return binary.BigEndian.AppendUint64(dst, k.Lo)
}

// ParseKey reads the stored form of a Key. It reports false if b is not KeySize
// bytes long.
func ParseKey(b []byte) (Key, bool) {
	if len(b) != KeySize {
		return Key{}, false
	}
	return Key{
		Host: HostID(binary.BigEndian.Uint64(b)),
		Hi:   binary.BigEndian.Uint64(b[8:]),
		Lo:   binary.BigEndian.Uint64(b[16:]),
	}, true
}

// Compare orders keys by host, then by URL.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Host, o.Host), cmp.Compare(k.Hi, o.Hi), cmp.Compare(k.Lo, o.Lo))
}

// A Hasher computes identities under one crawl's seed. It is a value, and safe
// to share.
type Hasher struct {
	host, hi, lo uint64 // seeds
}

// NewHasher derives a Hasher from seed, which is drawn at random once per crawl
// and kept with its data.
func NewHasher(seed uint64) Hasher {
	var h Hasher
	for _, s := range []*uint64{&h.host, &h.hi, &h.lo} {
		seed += golden
		*s = splitmix(seed)
	}
	return h
}

const golden = 0x9e3779b97f4a7c15

// splitmix is the output function of SplitMix64, which turns neighbouring
// inputs into unrelated seeds.
func splitmix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HostID returns the identity of a canonical host name. A dot at the end is not
// counted: "example.com." is the same server.
func (h Hasher) HostID(host string) HostID {
	host = strings.TrimSuffix(host, ".")
	var d xxhash.Digest
	d.ResetWithSeed(h.host)
	d.WriteString(host)
	return HostID(uint64(Partition(RegistrableDomain(host)))<<56 | d.Sum64()>>8)
}

// Key returns the identity of u.
func (h Hasher) Key(u URL) Key {
	k := Key{Host: h.HostID(u.Host())}
	var d xxhash.Digest
	d.ResetWithSeed(h.hi)
	d.WriteString(u.text)
	k.Hi = d.Sum64()
	d.ResetWithSeed(h.lo)
	d.WriteString(u.text)
	k.Lo = d.Sum64()
	return k
}

// KeyOf returns the identity of the URL with this canonical text, on a host
// whose identity the caller already knows.
func (h Hasher) KeyOf(host HostID, canonical []byte) Key {
	k := Key{Host: host}
	var d xxhash.Digest
	d.ResetWithSeed(h.hi)
	d.Write(canonical)
	k.Hi = d.Sum64()
	d.ResetWithSeed(h.lo)
	d.Write(canonical)
	k.Lo = d.Sum64()
	return k
}
