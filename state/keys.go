package state

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Families of keys in Badger, by their first byte. All but m and k continue with a
// HostID, k with the partition: a partition is one range of each family.
const (
	famCursor   = 'c' // c HostID: low-water cursor of a host's queue
	famFinish   = 'f' // f Key: what became of a URL
	famHost     = 'h' // h HostID: what is known of a host
	famCrawl    = 'k' // k partition name: a fact of the crawl
	famMeta     = 'm' // m name: about the view as a whole
	famOrigin   = 'o' // o HostID origin: what is known of an origin
	famQueue    = 'q' // q HostID priority position index: links of a host, in order
	famURL      = 'u' // u Key: a URL as it was found
	famInFlight = 'x' // x Key: how many unclean ends found it in flight
)

const metaApplied = "applied" // position that the view has reached

// factPrefix begins the names of facts among the k entries of a partition.
const factPrefix = "fact/"

const (
	keySize      = urlnorm.KeySize
	urlKeySize   = 1 + keySize
	queueKeySize = 1 + 8 + 1 + 8 + 4
)

func appendURLKey(dst []byte, family byte, k frontier.Key) []byte {
	return k.Append(append(dst, family))
}

func parseURLKey(b []byte) (frontier.Key, bool) {
	if len(b) != urlKeySize {
		return frontier.Key{}, false
	}
	return urlnorm.ParseKey(b[1:])
}

func appendHostKey(dst []byte, family byte, h frontier.HostID) []byte {
	return binary.BigEndian.AppendUint64(append(dst, family), uint64(h))
}

func appendOriginKey[T string | []byte](dst []byte, h frontier.HostID, origin T) []byte {
	return append(appendHostKey(dst, famOrigin, h), origin...)
}

func metaKey(name string) []byte { return append([]byte{famMeta}, name...) }

func factKey(partition uint8, name []byte) []byte {
	return append(append([]byte{famCrawl, partition}, factPrefix...), name...)
}

// parseFactKey returns the partition and the name of a fact.
func parseFactKey(b []byte) (partition uint8, name string, ok bool) {
	const head = 2 + len(factPrefix)
	if len(b) < head || string(b[2:head]) != factPrefix {
		return 0, "", false
	}
	return b[1], string(b[head:]), true
}

// appendQueueKey appends the key of a block of links. The cursor is the place
// of the block's last link, so that a block lies wholly at or before a cursor
// exactly if its key does.
func appendQueueKey(dst []byte, h frontier.HostID, last frontier.Cursor) []byte {
	dst = append(appendHostKey(dst, famQueue, h), last.Priority)
	dst = binary.BigEndian.AppendUint64(dst, uint64(last.Position))
	return binary.BigEndian.AppendUint32(dst, last.Index)
}

func parseQueueKey(b []byte) (h frontier.HostID, last frontier.Cursor, ok bool) {
	if len(b) != queueKeySize {
		return 0, frontier.Cursor{}, false
	}
	h = frontier.HostID(binary.BigEndian.Uint64(b[1:]))
	last = frontier.Cursor{
		Priority: b[9], Position: frontier.Position(binary.BigEndian.Uint64(b[10:])), Index: binary.BigEndian.Uint32(b[18:]),
	}
	return h, last, true
}
