package state

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// MaxRecordSize bounds the encoded size of one record. A page within the
// usual limits needs a small part of it; lists of seeds must be committed in
// pieces.
const MaxRecordSize = 16 << 20

// MaxName bounds the names of run facts and the origins of robots facts, which
// are keys in Badger.
const MaxName = 60_000

// Kinds of log entries.
const (
	kindEvents = 0 // a Record
	kindStart  = 1 // a run began
	kindEnd    = 2 // a run ended cleanly
)

// Sections of a record. Each is its tag, the number of elements, and the
// elements. A tag that a reader does not know is an error, so a new one needs a
// new format version; a field added to an element does not.
const (
	tagFinish   = 1
	tagLinks    = 2
	tagLeased   = 3
	tagReturned = 4
	tagHosts    = 5
	tagCursors  = 6
	tagRobots   = 7
	tagRun      = 8
	tagCrashed  = 9
)

// Flags of a link within a record.
const (
	linkSameHost   = 1 << 0 // as the link before
	linkSameParent = 1 << 1 // as the link before
	linkDiscovered = 1 << 2
	linkLastMod    = 1 << 3
	linkExtra      = 1 << 4
)

func appendHead(dst []byte, kind byte, epoch uint64) []byte {
	dst = append(dst, formatVersion, kind)
	return binary.AppendUvarint(dst, epoch)
}

func appendSection(dst []byte, tag byte, n int) []byte {
	dst = append(dst, tag)
	return binary.AppendUvarint(dst, uint64(n))
}

// appendRecord appends the stored form of r.
func appendRecord(dst []byte, epoch uint64, r *Record) []byte {
	dst = appendHead(dst, kindEvents, epoch)
	if r.Finish != nil {
		dst = appendSection(dst, tagFinish, 1)
		var body int
		dst, body = beginSized(dst)
		dst = r.Finish.Key.Append(dst)
		dst = appendFinish(dst, r.Finish)
		dst = endSized(dst, body)
	}
	if len(r.Links) > 0 {
		dst = appendSection(dst, tagLinks, len(r.Links))
		prev := &Link{}
		for i := range r.Links {
			dst = appendLink(dst, prev, &r.Links[i])
			prev = &r.Links[i]
		}
	}
	dst = appendKeys(dst, tagLeased, r.Leased)
	dst = appendKeys(dst, tagReturned, r.Returned)
	if len(r.Hosts) > 0 {
		dst = appendSection(dst, tagHosts, len(r.Hosts))
		for i := range r.Hosts {
			var body int
			dst, body = beginSized(dst)
			dst = binary.BigEndian.AppendUint64(dst, uint64(r.Hosts[i].Host))
			dst = appendHost(dst, &r.Hosts[i])
			dst = endSized(dst, body)
		}
	}
	if len(r.Cursors) > 0 {
		dst = appendSection(dst, tagCursors, len(r.Cursors))
		for _, c := range r.Cursors {
			var body int
			dst, body = beginSized(dst)
			dst = binary.BigEndian.AppendUint64(dst, uint64(c.Host))
			dst = appendCursor(dst, c.Low)
			dst = endSized(dst, body)
		}
	}
	if len(r.Robots) > 0 {
		dst = appendSection(dst, tagRobots, len(r.Robots))
		for i := range r.Robots {
			var body int
			dst, body = beginSized(dst)
			dst = appendString(dst, r.Robots[i].Origin)
			dst = appendRobots(dst, &r.Robots[i])
			dst = endSized(dst, body)
		}
	}
	if len(r.Run) > 0 {
		dst = appendSection(dst, tagRun, len(r.Run))
		for _, f := range r.Run {
			var body int
			dst, body = beginSized(dst)
			dst = appendString(dst, f.Name)
			dst = append(dst, flag(f.Value != nil, 1))
			dst = appendBytes(dst, f.Value)
			dst = endSized(dst, body)
		}
	}
	return dst
}

func appendKeys(dst []byte, tag byte, keys []urlnorm.Key) []byte {
	if len(keys) == 0 {
		return dst
	}
	dst = appendSection(dst, tag, len(keys))
	for _, k := range keys {
		dst = k.Append(dst)
	}
	return dst
}

// appendLink appends l, leaving out what it shares with the link before: the
// links of a page have their parent, most of the time their host, and much of
// their text in common.
func appendLink(dst []byte, prev, l *Link) []byte {
	dst, body := beginSized(dst)
	sameHost := l.Key.Host == prev.Key.Host
	sameParent := l.Parent == prev.Parent
	dst = append(dst, flag(sameHost, linkSameHost)|flag(sameParent, linkSameParent)|
		flag(!l.DiscoveredAt.IsZero(), linkDiscovered)|flag(!l.LastMod.IsZero(), linkLastMod)|
		flag(len(l.Extra) > 0, linkExtra))
	if !sameHost {
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.Key.Host))
	}
	dst = binary.BigEndian.AppendUint64(dst, l.Key.Hi)
	dst = binary.BigEndian.AppendUint64(dst, l.Key.Lo)
	dst = append(dst, l.Priority, l.Source)
	dst = binary.AppendUvarint(dst, uint64(l.Depth))
	n := shared(prev.URL, l.URL)
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = appendString(dst, l.URL[n:])
	if !sameParent {
		dst = appendString(dst, l.Parent)
	}
	if !l.DiscoveredAt.IsZero() {
		dst = binary.AppendUvarint(dst, zigzag(l.DiscoveredAt.UnixMilli()-unixMilli(prev.DiscoveredAt)))
	}
	if !l.LastMod.IsZero() {
		dst = binary.AppendUvarint(dst, millis(l.LastMod))
	}
	if len(l.Extra) > 0 {
		dst = appendBytes(dst, l.Extra)
	}
	return endSized(dst, body)
}

// appendStart appends the entry that begins a run: which pages were in flight
// when the run before it ended uncleanly, with how often that has happened to
// each by now.
func appendStart(dst []byte, epoch uint64, crashed map[urlnorm.Key]int) []byte {
	dst = appendHead(dst, kindStart, epoch)
	if len(crashed) == 0 {
		return dst
	}
	dst = appendSection(dst, tagCrashed, len(crashed))
	for k, n := range crashed {
		var body int
		dst, body = beginSized(dst)
		dst = k.Append(dst)
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = endSized(dst, body)
	}
	return dst
}
