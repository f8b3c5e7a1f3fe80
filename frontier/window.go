package frontier

import (
	"encoding/binary"
	"strconv"
	"unsafe"

	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// An entry is a queued URL: what a lease needs of it and no more. Host and
// priority are known from where it is queued; the key is computed again.
type entry struct {
	queued
	path []byte // path and query; may lie in the arena
}

// queued is what is kept of a URL in every state: queued, leased and waiting.
type queued struct {
	origin       origin
	depth        uint16
	source, hops uint8
	repeats      uint8
	visit        uint32  // its number if it is over 1, else 0
	before       Summary // how the visit before ended
	index        uint32
	position     Position
}

// place is the URL's place in the queue of its priority.
func (q *queued) place(priority uint8) Cursor {
	return Cursor{Priority: priority, Position: q.position, Index: q.index}
}

// entryOf is the entry of a link whose At is set.
func entryOf(l *Link, o origin) entry {
	e := entry{path: textOf(l.URL.RequestURI()), queued: queued{
		origin: o, depth: l.Depth, source: l.Source, hops: l.Hops, repeats: l.Repeats,
		index: l.At.Index, position: l.At.Position,
	}}
	if l.Visit > 1 {
		e.visit, e.before = l.Visit, l.Before
	}
	return e
}

// append adds e in its encoded form; base is a position that is not greater
// than e's.
func (e *entry) append(dst []byte, base Position) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.path)))
	flags := byte(e.origin)
	if e.visit > 1 {
		flags |= entryVisit
	}
	if e.repeats > 0 {
		flags |= entryRepeats
	}
	dst = append(dst, flags, e.source, e.hops)
	if e.repeats > 0 {
		dst = append(dst, e.repeats)
	}
	if e.origin&originPort != 0 {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(e.origin>>16))
	}
	dst = binary.AppendUvarint(dst, uint64(e.depth))
	dst = binary.AppendUvarint(dst, uint64(e.position-base))
	dst = binary.AppendUvarint(dst, uint64(e.index))
	if flags&entryVisit != 0 {
		counted := byte(0)
		if e.before.Counted {
			counted = 1
		}
		dst = append(binary.AppendUvarint(dst, uint64(e.visit)), e.before.Outcome, counted)
		dst = binary.AppendUvarint(dst, uint64(e.before.Status))
		dst = binary.AppendUvarint(dst, e.before.Bytes)
	}
	return append(dst, e.path...)
}

// read decodes the entry at the start of src and returns its length. The path
// aliases src.
func (e *entry) read(src []byte, base Position) int {
	at := 0
	number := func() uint64 {
		v, n := binary.Uvarint(src[at:])
		at += n
		return v
	}
	size := int(number())
	flags := src[at]
	e.origin, e.source, e.hops = origin(flags&^(entryVisit|entryRepeats)), src[at+1], src[at+2]
	at += 3
	e.repeats = 0
	if flags&entryRepeats != 0 {
		e.repeats = src[at]
		at++
	}
	if e.origin&originPort != 0 {
		e.origin |= origin(binary.LittleEndian.Uint16(src[at:])) << 16
		at += 2
	}
	e.depth = uint16(number())
	e.position = base + Position(number())
	e.index = uint32(number())
	e.visit, e.before = 0, Summary{}
	if flags&entryVisit != 0 {
		e.visit = uint32(number())
		e.before.Outcome, e.before.Counted = src[at], src[at+1] != 0
		at += 2
		e.before.Status, e.before.Bytes = uint16(number()), number()
	}
	e.path = src[at : at+size]
	return at + size
}

// Flags in the first byte of an entry, above those of the origin.
const (
	entryRepeats = 1 << 6 // repeats is not zero
	entryVisit   = 1 << 7 // it is not a first visit
)

// An origin is "scheme://host:port" without the host's name: the scheme, the port if it is not the default one, and
// whether a dot ends the name.
type origin uint32

const (
	originHTTPS origin = 1 << iota
	originDot
	originPort // the upper 16 bits are the port
)

// originOf returns the origin of u, and its host's name without a dot at the end.
func originOf(u weburl.URL) (o origin, name string) {
	if len(u.Scheme()) == len("https") {
		o |= originHTTPS
	}
	name = u.Host()
	if n := len(name) - 1; n > 0 && name[n] == '.' {
		o |= originDot
		name = name[:n]
	}
	if port := u.Port(); port != "" {
		n, _ := strconv.ParseUint(port, 10, 16)
		o |= originPort | origin(n)<<16
	}
	return o, name
}

// appendOrigin writes an origin of the named host.
func appendOrigin(dst []byte, o origin, name []byte) []byte {
	if o&originHTTPS != 0 {
		dst = append(dst, "https://"...)
	} else {
		dst = append(dst, "http://"...)
	}
	dst = append(dst, name...)
	if o&originDot != 0 {
		dst = append(dst, '.')
	}
	if o&originPort != 0 {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(o>>16), 10)
	}
	return dst
}

// textOf is s as bytes that must not be written to, without a copy.
func textOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf is b as a string without a copy; b must not be written to any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// A window is the part of a queue that is in memory: a chain of chunks with
// encoded entries, first in, first out.
//
// A chunk begins with the next chunk's reference, the offsets at which to read and to write, and the base: the position
// from which the positions of its entries are counted.
type window struct {
	head, tail memory.Ref
	n          uint32 // entries
	chunks     uint32
}

const (
	chunkHeader = 16
	chunkLeast  = 128     // the size of a window's first chunk
	chunkMost   = 4 << 10 // and of its later ones, if no entry needs more
)

type chunk []byte

func (c chunk) next() memory.Ref     { return memory.Ref(binary.LittleEndian.Uint32(c)) }
func (c chunk) setNext(r memory.Ref) { binary.LittleEndian.PutUint32(c, uint32(r)) }
func (c chunk) rd() int              { return int(binary.LittleEndian.Uint16(c[4:])) }
func (c chunk) setRd(n int)          { binary.LittleEndian.PutUint16(c[4:], uint16(n)) }
func (c chunk) wr() int              { return int(binary.LittleEndian.Uint16(c[6:])) }
func (c chunk) setWr(n int)          { binary.LittleEndian.PutUint16(c[6:], uint16(n)) }
func (c chunk) base() Position       { return Position(binary.LittleEndian.Uint64(c[8:])) }
func (c chunk) init(base Position) {
	c.setNext(0)
	c.setRd(chunkHeader)
	c.setWr(chunkHeader)
	binary.LittleEndian.PutUint64(c[8:], uint64(base))
}

// push adds an entry at the end. Entries come in the order of their positions.
func (w *window) push(a *memory.Arena, e *entry) {
	const most = 6*binary.MaxVarintLen64 + 18 // more than the numbers of an entry take
	if w.tail != 0 {
		c := chunk(a.At(w.tail))
		if c.wr()+most+len(e.path) <= len(c) {
			c.setWr(len(e.append(c[:c.wr()], c.base())))
			w.n++
			return
		}
	}
	size := min(chunkLeast<<min(w.chunks, 8), chunkMost)
	ref := a.Alloc(max(size, chunkHeader+most+len(e.path)))
	c := chunk(a.At(ref))
	c.init(e.position)
	c.setWr(len(e.append(c[:chunkHeader], e.position)))
	if w.tail != 0 {
		chunk(a.At(w.tail)).setNext(ref)
	} else {
		w.head = ref
	}
	w.tail = ref
	w.chunks++
	w.n++
}

// peek decodes the first entry of a window that has one.
func (w *window) peek(a *memory.Arena, e *entry) (size int) {
	c := chunk(a.At(w.head))
	return e.read(c[c.rd():], c.base())
}

// drop removes the first entry, of the size that peek returned. The path that peek returned becomes invalid.
func (w *window) drop(a *memory.Arena, size int) {
	c := chunk(a.At(w.head))
	c.setRd(c.rd() + size)
	w.n--
	if c.rd() < c.wr() {
		return
	}
	ref := w.head
	w.head = c.next()
	w.chunks--
	if w.head == 0 {
		w.tail = 0
	}
	a.Free(ref)
}

// cut keeps the first n entries and frees the others. It returns how many those
// are, and the place of the first of them.
func (w *window) cut(a *memory.Arena, n uint32, priority uint8) (freed uint32, first Cursor) {
	if w.n <= n {
		return 0, Cursor{}
	}
	freed = w.n - n
	var e entry
	ref, last, kept := w.head, memory.Ref(0), uint32(0)
	var c chunk
	at := 0
	for {
		c = a.At(ref)
		at = c.rd()
		for kept < n && at < c.wr() {
			at += e.read(c[at:], c.base())
			kept++
		}
		if at < c.wr() {
			break
		}
		last, ref = ref, c.next()
	}
	e.read(c[at:], c.base())
	first = e.place(priority)
	rest := ref
	if at > c.rd() { // the chunk keeps a part of its entries
		rest = c.next()
		c.setWr(at)
		c.setNext(0)
		last = ref
	} else if last != 0 {
		chunk(a.At(last)).setNext(0)
	}
	for rest != 0 {
		next := chunk(a.At(rest)).next()
		a.Free(rest)
		w.chunks--
		rest = next
	}
	if w.tail = last; last == 0 {
		w.head = 0
	}
	w.n = n
	return freed, first
}
