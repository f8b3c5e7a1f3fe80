package frontier

import "encoding/binary"

// A window is the part of a queue that is in memory: a chain of chunks with
// encoded entries, first in, first out.
//
// A chunk begins with the next chunk's reference, the offsets at which to read
// and to write, and the record number that its entries' numbers are counted from.
type window struct {
	head, tail chunkRef
	n          uint32 // entries
	chunks     uint32
}

const (
	chunkHeader = 16
	chunkLeast  = 128     // the size of a window's first chunk
	chunkMost   = 4 << 10 // and of its later ones, if no entry needs more
)

type chunk []byte

func (c chunk) next() chunkRef     { return chunkRef(binary.LittleEndian.Uint32(c)) }
func (c chunk) setNext(r chunkRef) { binary.LittleEndian.PutUint32(c, uint32(r)) }
func (c chunk) rd() int            { return int(binary.LittleEndian.Uint16(c[4:])) }
func (c chunk) setRd(n int)        { binary.LittleEndian.PutUint16(c[4:], uint16(n)) }
func (c chunk) wr() int            { return int(binary.LittleEndian.Uint16(c[6:])) }
func (c chunk) setWr(n int)        { binary.LittleEndian.PutUint16(c[6:], uint16(n)) }
func (c chunk) base() Position     { return Position(binary.LittleEndian.Uint64(c[8:])) }
func (c chunk) init(base Position) {
	c.setNext(0)
	c.setRd(chunkHeader)
	c.setWr(chunkHeader)
	binary.LittleEndian.PutUint64(c[8:], uint64(base))
}

// push adds an entry at the end. Entries come in the order of their numbers.
func (w *window) push(a *arena, e *entry) {
	const most = 6*binary.MaxVarintLen64 + 18 // more than the numbers of an entry take
	if w.tail != 0 {
		c := chunk(a.at(w.tail))
		if c.wr()+most+len(e.path) <= len(c) {
			c.setWr(len(e.append(c[:c.wr()], c.base())))
			w.n++
			return
		}
	}
	size := min(chunkLeast<<min(w.chunks, 8), chunkMost)
	ref := a.alloc(max(size, chunkHeader+most+len(e.path)))
	c := chunk(a.at(ref))
	c.init(e.position)
	c.setWr(len(e.append(c[:chunkHeader], e.position)))
	if w.tail != 0 {
		chunk(a.at(w.tail)).setNext(ref)
	} else {
		w.head = ref
	}
	w.tail = ref
	w.chunks++
	w.n++
}

// peek decodes the first entry of a window that has one.
func (w *window) peek(a *arena, e *entry) (size int) {
	c := chunk(a.at(w.head))
	return e.read(c[c.rd():], c.base())
}

// drop removes the first entry, of the size that peek returned. Its path is void.
func (w *window) drop(a *arena, size int) {
	c := chunk(a.at(w.head))
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
	a.release(ref)
}

// cut keeps the first n entries and frees the others. It returns how many those
// are, and the place of the first of them.
func (w *window) cut(a *arena, n uint32, priority uint8) (freed uint32, first Cursor) {
	if w.n <= n {
		return 0, Cursor{}
	}
	freed = w.n - n
	var e entry
	ref, last, kept := w.head, chunkRef(0), uint32(0)
	var c chunk
	at := 0
	for {
		c = a.at(ref)
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
	first = Cursor{Priority: priority, Position: e.position, Index: e.index}
	rest := ref
	if at > c.rd() { // the chunk keeps a part of its entries
		rest = c.next()
		c.setWr(at)
		c.setNext(0)
		last = ref
	} else if last != 0 {
		chunk(a.at(last)).setNext(0)
	}
	for rest != 0 {
		next := chunk(a.at(rest)).next()
		a.release(rest)
		w.chunks--
		rest = next
	}
	if w.tail = last; last == 0 {
		w.head = 0
	}
	w.n = n
	return freed, first
}
