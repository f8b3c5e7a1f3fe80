package weburl

import (
	"cmp"
	"encoding/binary"

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
	if c := cmp.Compare(k.Host, o.Host); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Hi, o.Hi); c != 0 {
		return c
	}
	return cmp.Compare(k.Lo, o.Lo)
}
