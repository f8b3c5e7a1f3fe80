package record

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Families of keys in Badger, by their first byte. All but m and k continue with a
// HostID, k with the partition: a partition is one range of each family.
const (
	FamCursor   = 'c' // c HostID: low-water cursor of a host's queue
	FamChange   = 'd' // d Key generation: what a visit changed
	FamFinish   = 'f' // f Key: what became of a URL
	FamHost     = 'h' // h HostID: what is known of a host
	FamCrawl    = 'k' // k partition name: a fact of the crawl
	FamMeta     = 'm' // m name: about the view as a whole
	FamNamed    = 'n' // n Key flag: when a URL was last linked or listed after generation 0
	FamOrigin   = 'o' // o HostID origin: what is known of an origin
	FamQueue    = 'q' // q HostID priority position index: links of a host, in order
	FamSitemap  = 's' // s Key: a sitemap as it was found
	FamRead     = 't' // t Key: what became of a sitemap
	FamURL      = 'u' // u Key: a URL as it was found
	FamVisit    = 'v' // v Key: the last finish that kept the facts of an earlier one
	FamInFlight = 'x' // x Key: how many unclean ends found it in flight
	FamVoucher  = 'y' // y Key HostID: a voucher of a sitemap
)

// MetaApplied names the position that the view has reached.
const MetaApplied = "applied"

// factPrefix begins the names of facts among the k entries of a partition,
// markPrefix those of marks of other sessions.
const (
	factPrefix = "fact/"
	markPrefix = "mark/"
)

const (
	keySize      = weburl.KeySize
	URLKeySize   = 1 + keySize
	QueueKeySize = 1 + 8 + 1 + 8 + 4
)

// AppendURLKey appends the key of a URL in a family.
func AppendURLKey(dst []byte, family byte, k weburl.Key) []byte {
	return k.Append(append(dst, family))
}

// ParseURLKey is the inverse of AppendURLKey.
func ParseURLKey(b []byte) (weburl.Key, bool) {
	if len(b) != URLKeySize {
		return weburl.Key{}, false
	}
	return weburl.ParseKey(b[1:])
}

// AppendVoucherKey appends the key of a voucher.
func AppendVoucherKey(dst []byte, k weburl.Key, h weburl.HostID) []byte {
	return binary.BigEndian.AppendUint64(AppendURLKey(dst, FamVoucher, k), uint64(h))
}

// ParseVoucherKey is the inverse of AppendVoucherKey.
func ParseVoucherKey(b []byte) (v frontier.Voucher, ok bool) {
	if len(b) != URLKeySize+8 {
		return v, false
	}
	v.Key, ok = ParseURLKey(b[:URLKeySize])
	v.Host = weburl.HostID(binary.BigEndian.Uint64(b[URLKeySize:]))
	return v, ok
}

// AppendChangeKey appends the key of what a visit of a generation changed.
func AppendChangeKey(dst []byte, k weburl.Key, generation uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendURLKey(dst, FamChange, k), generation)
}

// ParseChangeKey is the inverse of AppendChangeKey.
func ParseChangeKey(b []byte) (k weburl.Key, generation uint32, ok bool) {
	if len(b) != URLKeySize+4 {
		return k, 0, false
	}
	k, ok = ParseURLKey(b[:URLKeySize])
	return k, binary.BigEndian.Uint32(b[URLKeySize:]), ok
}

// The flags of what names a URL, in records and in keys.
const (
	NamedListed = 1 // a sitemap lists it
	NamedLinked = 2 // a page links to it
)

// AppendNamedKey appends the key that says when a URL was last linked or listed.
func AppendNamedKey(dst []byte, k weburl.Key, flag byte) []byte {
	return append(AppendURLKey(dst, FamNamed, k), flag)
}

// ParseNamedKey is the inverse of AppendNamedKey.
func ParseNamedKey(b []byte) (k weburl.Key, flag byte, ok bool) {
	if len(b) != URLKeySize+1 {
		return k, 0, false
	}
	k, ok = ParseURLKey(b[:URLKeySize])
	return k, b[URLKeySize], ok
}

// Families returns the families of a URL as it was found and of what became of it.
func Families(sitemap bool) (found, finished byte) {
	if sitemap {
		return FamSitemap, FamRead
	}
	return FamURL, FamFinish
}

// AppendHostKey appends the key of a host in a family.
func AppendHostKey(dst []byte, family byte, h weburl.HostID) []byte {
	return binary.BigEndian.AppendUint64(append(dst, family), uint64(h))
}

// AppendOriginKey appends the key of an origin fact.
func AppendOriginKey[T string | []byte](dst []byte, h weburl.HostID, origin T) []byte {
	return append(AppendHostKey(dst, FamOrigin, h), origin...)
}

// ParseOriginKey is the inverse of AppendOriginKey.
func ParseOriginKey(b []byte) (h weburl.HostID, origin string, ok bool) {
	if len(b) < 9 {
		return 0, "", false
	}
	return weburl.HostID(binary.BigEndian.Uint64(b[1:])), string(b[9:]), true
}

// MetaKey is the key of a value about the view as a whole.
func MetaKey(name string) []byte { return append([]byte{FamMeta}, name...) }

// FactKey is the key of a fact of the crawl.
func FactKey(partition uint8, name string) []byte {
	return append(append([]byte{FamCrawl, partition}, factPrefix...), name...)
}

// MarkKey is the key of a mark.
func MarkKey(m *frontier.Mark) []byte {
	return append(append([]byte{FamCrawl, m.Partition}, markPrefix...), m.Session[:]...)
}

// IsMark reports whether a key of the family k is that of a mark.
func IsMark(b []byte) bool {
	const head = 2 + len(markPrefix)
	return len(b) > head && string(b[2:head]) == markPrefix
}

// ParseFactKey returns the partition and the name of a fact.
func ParseFactKey(b []byte) (partition uint8, name string, ok bool) {
	const head = 2 + len(factPrefix)
	if len(b) < head || string(b[2:head]) != factPrefix {
		return 0, "", false
	}
	return b[1], string(b[head:]), true
}

// AppendQueueKey appends the key of a block of links. The cursor is the place
// of the block's last link, so that a block lies wholly at or before a cursor
// exactly if its key does.
func AppendQueueKey(dst []byte, h weburl.HostID, last frontier.Cursor) []byte {
	dst = append(AppendHostKey(dst, FamQueue, h), last.Priority)
	dst = binary.BigEndian.AppendUint64(dst, uint64(last.Position))
	return binary.BigEndian.AppendUint32(dst, last.Index)
}

// ParseQueueKey is the inverse of AppendQueueKey.
func ParseQueueKey(b []byte) (h weburl.HostID, last frontier.Cursor, ok bool) {
	if len(b) != QueueKeySize {
		return 0, frontier.Cursor{}, false
	}
	h = weburl.HostID(binary.BigEndian.Uint64(b[1:]))
	last = frontier.Cursor{
		Priority: b[9], Position: frontier.Position(binary.BigEndian.Uint64(b[10:])),
		Index: binary.BigEndian.Uint32(b[18:]),
	}
	return h, last, true
}
