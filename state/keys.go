package state

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Families of keys in Badger, by their first byte.
const (
	famCursor  = 'c' // c HostID: low-water cursor of a host's queue
	famFinish  = 'f' // f Key: what became of a URL
	famHost    = 'h' // h HostID: what is known of a host
	famMeta    = 'm' // m name: about the view as a whole
	famQueue   = 'q' // q HostID priority seq index: links of a host, in order
	famRobots  = 'r' // r origin: robots.txt
	famURL     = 'u' // u Key: a URL as it was found
	famCrashed = 'x' // x Key: how many unclean ends found it in flight
)

const (
	metaApplied  = "applied"  // position that the view has reached
	metaCounters = "counters" // Counters at that position
	metaRun      = "run/"     // run/name: a run fact
)

const (
	urlKeySize   = 1 + urlnorm.KeySize
	queueKeySize = 1 + 8 + 1 + 8 + 4
)

func appendURLKey(dst []byte, family byte, k urlnorm.Key) []byte {
	return k.Append(append(dst, family))
}

func parseURLKey(b []byte) (urlnorm.Key, bool) {
	if len(b) != urlKeySize {
		return urlnorm.Key{}, false
	}
	return urlnorm.ParseKey(b[1:])
}

func appendHostKey(dst []byte, family byte, h urlnorm.HostID) []byte {
	return binary.BigEndian.AppendUint64(append(dst, family), uint64(h))
}

func metaKey(name string) []byte { return append([]byte{famMeta}, name...) }

// appendQueueKey appends the key of a block of links. The cursor is the place
// of the block's last link, so that a block lies wholly at or before a cursor
// exactly if its key does.
func appendQueueKey(dst []byte, h urlnorm.HostID, last Cursor) []byte {
	dst = append(appendHostKey(dst, famQueue, h), last.Priority)
	dst = binary.BigEndian.AppendUint64(dst, last.Seq)
	return binary.BigEndian.AppendUint32(dst, last.Index)
}

func parseQueueKey(b []byte) (h urlnorm.HostID, last Cursor, ok bool) {
	if len(b) != queueKeySize {
		return 0, Cursor{}, false
	}
	h = urlnorm.HostID(binary.BigEndian.Uint64(b[1:]))
	last = Cursor{Priority: b[9], Seq: binary.BigEndian.Uint64(b[10:]), Index: binary.BigEndian.Uint32(b[18:])}
	return h, last, true
}
