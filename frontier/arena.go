package frontier

import "math/bits"

// An arena hands out chunks of memory from pages of 64 KiB, by reference, so that
// millions of queued URLs are a few thousand objects to the garbage collector.
// Chunks come in sizes of which neighbours are a third apart or less. A freed
// chunk is used again for its size; pages are never given back, so an arena stays
// as large as it once had to be, which Options.MaxInMemory bounds.
type arena struct {
	pages [][]byte
	sizes []uint8 // by page: index of the size its chunks have
	open  [arenaSizes]arenaOpen
	free  [arenaSizes][]chunkRef
	bytes int // in chunks that are handed out
}

// A chunkRef is where a chunk begins: page and offset in units of arenaUnit. Zero
// is no chunk.
type chunkRef uint32

// arenaOpen is the page that new chunks of a size are cut from.
type arenaOpen struct{ page, off int }

const (
	arenaUnit  = 16
	arenaPage  = 1 << 16
	arenaSizes = 22 // arenaClass(chunkMax) + 1
	chunkMax   = 1 << 15
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

// alloc returns a chunk of at least n bytes, which are not zeroed.
func (a *arena) alloc(n int) chunkRef {
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
	ref := chunkRef(o.page*(arenaPage/arenaUnit) + o.off/arenaUnit)
	o.off += size
	return ref
}

func (a *arena) release(r chunkRef) {
	class := int(a.sizes[r/(arenaPage/arenaUnit)])
	a.bytes -= arenaSize(class)
	a.free[class] = append(a.free[class], r)
}

// at is the whole chunk.
func (a *arena) at(r chunkRef) []byte {
	page := r / (arenaPage / arenaUnit)
	off := int(r%(arenaPage/arenaUnit)) * arenaUnit
	return a.pages[page][off : off+arenaSize(int(a.sizes[page]))]
}
