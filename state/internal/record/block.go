package record

import (
	"encoding/binary"
	"math"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A block is a run of links of one host and priority, as stored under a q key.
// It holds what is needed to lease them. Its size is bounded so that a refill
// reads little more than it needs, and its count fits the byte that Badger
// keeps beside the key.
const (
	blockLinks = 128
	blockBytes = 16 << 10
)

// A BlockBuilder collects the links of a block. The zero value is empty.
type BlockBuilder struct {
	Buf   []byte
	Count int
	Last  frontier.Cursor
	url   []byte // of the last link
}

// Full reports whether no further link belongs into the block.
func (b *BlockBuilder) Full() bool { return b.Count >= blockLinks || len(b.Buf) >= blockBytes }

// Reset makes the block empty and keeps its memory.
func (b *BlockBuilder) Reset() {
	b.Buf, b.url, b.Count, b.Last = b.Buf[:0], b.url[:0], 0, frontier.Cursor{}
}

// Add adds a link of the part at a position.
func (b *BlockBuilder) Add(at frontier.Position, l *LinkView) {
	if b.Count == 0 {
		b.Buf = append(b.Buf, Version)
	}
	var body int
	b.Buf, body = BeginSized(b.Buf)
	b.Buf = binary.AppendUvarint(b.Buf, uint64(at-b.Last.Position))
	b.Buf = binary.AppendUvarint(b.Buf, uint64(l.Index))
	b.Buf = binary.BigEndian.AppendUint64(b.Buf, l.Key.Hi)
	b.Buf = binary.BigEndian.AppendUint64(b.Buf, l.Key.Lo)
	b.Buf = binary.AppendUvarint(b.Buf, uint64(l.depth))
	b.Buf = append(b.Buf, l.source)
	n := 0
	for n < min(len(b.url), len(l.url)) && b.url[n] == l.url[n] {
		n++
	}
	b.Buf = binary.AppendUvarint(b.Buf, uint64(n))
	b.Buf = appendBytes(b.Buf, l.url[n:])
	b.Buf = append(b.Buf, l.hops)
	b.Buf = binary.AppendUvarint(b.Buf, uint64(l.Visit))
	if l.Visit > 1 {
		b.Buf = appendSummary(b.Buf, l.before)
	}
	if l.repeats > 0 {
		b.Buf = append(b.Buf, l.repeats)
	}
	b.Buf = EndSized(b.Buf, body)

	b.url = append(b.url[:n], l.url[n:]...)
	b.Last = frontier.Cursor{Priority: l.Priority, Position: at, Index: uint32(l.Index)}
	b.Count++
}

// ReadBlock calls fn for the links of a block in order, until it returns
// false. Of a link, Key, URL, Depth, Priority, Sitemap, Check, Source, Hops, Repeats, Visit, Before and At are
// set.
func ReadBlock(h weburl.HostID, priority uint8, b []byte, fn func(*frontier.Link) bool) error {
	const what = "queue block"
	r := ValueReader(b)
	at := frontier.Cursor{Priority: priority}
	var url []byte
	for len(r.B) > 0 {
		e := r.Sized()
		at.Position += frontier.Position(e.Uvarint())
		at.Index = uint32(e.UpTo(math.MaxUint32))
		l := frontier.Link{Key: weburl.Key{Host: h, Hi: e.U64(), Lo: e.U64()}, Priority: priority,
			Sitemap: isSitemap(priority), Check: priority == frontier.PriorityCheck, At: at}
		l.Depth = uint16(e.UpTo(math.MaxUint16))
		l.Source = e.U8()
		url = append(url[:e.UpTo(uint64(len(url)))], e.Bytes()...)
		l.URL = urlOf(&e, string(url))
		l.Hops = e.U8()
		if l.Visit = uint32(e.UpTo(math.MaxUint32)); l.Visit > 1 {
			l.Before = e.summary()
		}
		l.Repeats = e.lastU8()
		if e.Bad {
			return e.Done(what)
		}
		if !fn(&l) {
			return nil
		}
	}
	return r.Done(what)
}
