package memory

import "math/bits"

// An Arena hands out chunks of bytes from pages of 64 KiB, by reference, so that millions of queued URLs are a few
// thousand objects to the garbage collector. There are few sizes of chunks (see arenaClass); less than a third of a
// chunk of 48 bytes or more is unused. A freed chunk is used again for its size. Pages are never freed: an arena stays
// as large as it once had to be.
type Arena struct {
	pages [][]byte
	sizes []uint8 // by page: index of the size its chunks have
	open  [arenaSizes]arenaOpen
	free  [arenaSizes][]Ref
	bytes int // in chunks that are handed out
}

// A Ref is where a chunk begins: page and offset in units of arenaUnit. Zero is no
// chunk.
type Ref uint32

// arenaOpen is the page that new chunks of a size are cut from.
type arenaOpen struct{ page, off int }

const (
	arenaUnit  = 16
	arenaPage  = 1 << 16
	arenaSizes = 22 // arenaClass(MaxChunk) + 1

	// MaxChunk is the size of the largest chunk.
	MaxChunk = 1 << 15
)

// arenaClass is the index of the smallest size for n bytes: sizes go 16, 32, 48,
// 64, 96, 128, 192 and so on, a power of two and one and a half of it.
func arenaClass(n int) int {
	units := uint(n+arenaUnit-1) / arenaUnit
	if units <= 1 {
		return 0
	}
	top := bits.Len(units - 1) // 2^(top-1) < units <= 2^top
	class := 2*top - 1
	if top >= 2 && units <= 3<<(top-2) {
		class--
	}
	return class
}

// arenaSize is the size in bytes of a class.
func arenaSize(class int) int {
	if class == 0 {
		return arenaUnit
	}
	top := (class + 1) / 2
	if class%2 == 1 {
		return arenaUnit << top
	}
	return 3 * arenaUnit << (top - 1)
}

// Alloc returns a chunk of at least n bytes, which are not zeroed. n is at most
// MaxChunk.
func (a *Arena) Alloc(n int) Ref {
	class := arenaClass(n)
	size := arenaSize(class)
	a.bytes += size
	if free := a.free[class]; len(free) > 0 {
		a.free[class] = free[:len(free)-1]
		return free[len(free)-1]
	}
	o := &a.open[class]
	if o.page == 0 || o.off+size > arenaPage {
		if len(a.pages) == 0 { // page 0 stands for no chunk
			a.pages, a.sizes = append(a.pages, nil), append(a.sizes, 0)
		}
		*o = arenaOpen{page: len(a.pages)}
		a.pages, a.sizes = append(a.pages, make([]byte, arenaPage)), append(a.sizes, uint8(class))
	}
	ref := Ref(o.page*(arenaPage/arenaUnit) + o.off/arenaUnit)
	o.off += size
	return ref
}

// Free makes a chunk free for Alloc.
func (a *Arena) Free(r Ref) {
	class := int(a.sizes[r/(arenaPage/arenaUnit)])
	a.bytes -= arenaSize(class)
	a.free[class] = append(a.free[class], r)
}

// At is the whole chunk. It is valid until the chunk is freed.
func (a *Arena) At(r Ref) []byte {
	page := r / (arenaPage / arenaUnit)
	off := int(r%(arenaPage/arenaUnit)) * arenaUnit
	return a.pages[page][off : off+arenaSize(int(a.sizes[page]))]
}

// Bytes is the size of all chunks that are handed out.
func (a *Arena) Bytes() int { return a.bytes }
