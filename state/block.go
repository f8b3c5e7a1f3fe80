package state

import (
	"encoding/binary"
	"math"

	"github.com/mapwright/mapwright/frontier"
)

// A block is a run of links of one host and priority, as stored under a q key.
// It holds what is needed to lease them. Its size is bounded so that a refill
// reads little more than it needs, and its count fits the byte that Badger
// keeps beside the key.
const (
	blockLinks = 128
	blockBytes = 16 << 10
)

// A blockBuilder collects the links of a block. The zero value is empty.
type blockBuilder struct {
	buf   []byte
	count int
	last  frontier.Cursor
	url   []byte // of the last link
}

func (b *blockBuilder) full() bool { return b.count >= blockLinks || len(b.buf) >= blockBytes }

func (b *blockBuilder) reset() {
	b.buf, b.url, b.count, b.last = b.buf[:0], b.url[:0], 0, frontier.Cursor{}
}

func (b *blockBuilder) add(at frontier.Position, index int, l *linkView) {
	if b.count == 0 {
		b.buf = append(b.buf, formatVersion)
	}
	var body int
	b.buf, body = beginSized(b.buf)
	b.buf = binary.AppendUvarint(b.buf, uint64(at-b.last.Position))
	b.buf = binary.AppendUvarint(b.buf, uint64(index))
	b.buf = binary.BigEndian.AppendUint64(b.buf, l.key.Hi)
	b.buf = binary.BigEndian.AppendUint64(b.buf, l.key.Lo)
	b.buf = binary.AppendUvarint(b.buf, uint64(l.depth))
	b.buf = append(b.buf, l.source)
	n := 0
	for n < min(len(b.url), len(l.url)) && b.url[n] == l.url[n] {
		n++
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(n))
	b.buf = appendBytes(b.buf, l.url[n:])
	b.buf = append(b.buf, l.hops)
	b.buf = binary.AppendUvarint(b.buf, uint64(l.visit))
	if l.visit > 1 {
		b.buf = appendSummary(b.buf, l.before)
	}
	b.buf = endSized(b.buf, body)

	b.url = append(b.url[:n], l.url[n:]...)
	b.last = frontier.Cursor{Priority: l.priority, Position: at, Index: uint32(index)}
	b.count++
}

// readBlock calls fn for the links of a block in order, until it returns
// false. Of a link, Key, URL, Depth, Priority, Source, Hops, Visit, Before and At are set.
func readBlock(h frontier.HostID, priority uint8, b []byte, fn func(*frontier.Link) bool) error {
	const what = "queue block"
	r, err := valueReader(what, b)
	if err != nil {
		return err
	}
	at := frontier.Cursor{Priority: priority}
	var url []byte
	for len(r.b) > 0 {
		e := r.sized()
		at.Position += frontier.Position(e.uvarint())
		at.Index = uint32(e.upTo(math.MaxUint32))
		l := frontier.Link{Key: frontier.Key{Host: h, Hi: e.u64(), Lo: e.u64()}, Priority: priority, At: at}
		l.Depth = uint16(e.upTo(math.MaxUint16))
		l.Source = e.u8()
		url = append(url[:e.upTo(uint64(len(url)))], e.bytes()...)
		l.URL = urlOf(&e, string(url))
		l.Hops = e.u8()
		if l.Visit = uint32(e.upTo(math.MaxUint32)); l.Visit > 1 {
			l.Before = e.summary()
		}
		if e.bad {
			return &CorruptError{What: what, Reason: "it does not decode"}
		}
		if !fn(&l) {
			return nil
		}
	}
	return r.done(what)
}
