package urlqueue

// An entry is what memory holds of one URL. It has no pointers: the garbage collector does not look into entries.
type entry struct {
	hi, lo uint64 // 128 bits of the URL, under the secret of the directory
	lsn    uint64 // its last put; zero if the entry is free
	offset uint32 // of that record in its segment; zero until the record is durable
	size   uint32 // of that record
	queue  uint32
	due    uint32 // seconds since 1970; later dates than 2106 count as 2106
	since  uint32 // when the URL was first put, in seconds since 1970
	pos    uint32 // in the list of its queue that its state names; of a free entry: the next free one
	state  state
}

// state says which list of its queue an entry is in.
type state uint8

const (
	ready  state = iota // waits until it is due
	leased              // given to a client
	done                // not to be fetched again
)

const (
	chunkBits = 13
	chunkSize = 1 << chunkBits
	tables    = 256
	none      = ^uint32(0) // no entry
)

// index finds the entry of a URL. Entries have numbers and stay where they are.
type index struct {
	chunks [][]entry
	used   uint32 // entries that were ever in use: the next number
	free   uint32 // first free entry, or none
	count  int    // entries in use
	table  [tables]table
}

// table is a hash table with open addressing: numbers of entries, plus one. A part of the whole grows at a time, so
// that no put waits for long.
type table struct {
	slots []uint32
	count int
}

func newIndex() *index { return &index{free: none} }

func (x *index) at(id uint32) *entry { return &x.chunks[id>>chunkBits][id&(chunkSize-1)] }

func tableOf(hi uint64) uint8 { return uint8(hi >> 56) }

// slotOf is where the search for an entry begins. It uses the low half of the hash: the high one chose the table.
func slotOf(lo uint64, queue uint32, mask uint32) uint32 {
	return (uint32(lo) ^ queue*0x9E3779B1) & mask
}

// find returns the entry of a URL, or none.
func (x *index) find(queue uint32, hi, lo uint64) uint32 {
	t := &x.table[tableOf(hi)]
	if len(t.slots) == 0 {
		return none
	}
	mask := uint32(len(t.slots) - 1)
	for i := slotOf(lo, queue, mask); ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return none
		}
		if e := x.at(slot - 1); e.hi == hi && e.lo == lo && e.queue == queue {
			return slot - 1
		}
	}
}

// add makes an entry for a URL that has none. Its list is for the caller to set.
func (x *index) add(queue uint32, hi, lo uint64) uint32 {
	id := x.free
	if id != none {
		x.free = x.at(id).pos
	} else {
		id = x.used
		if int(id>>chunkBits) == len(x.chunks) {
			x.chunks = append(x.chunks, make([]entry, chunkSize))
		}
		x.used++
	}
	*x.at(id) = entry{hi: hi, lo: lo, queue: queue}
	x.count++

	t := &x.table[tableOf(hi)]
	if 4*(t.count+1) > 3*len(t.slots) {
		x.grow(t)
	}
	t.put(id, slotOf(lo, queue, uint32(len(t.slots)-1)))
	return id
}

func (t *table) put(id, slot uint32) {
	mask := uint32(len(t.slots) - 1)
	for t.slots[slot] != 0 {
		slot = (slot + 1) & mask
	}
	t.slots[slot] = id + 1
	t.count++
}

func (x *index) grow(t *table) {
	old := t.slots
	t.slots, t.count = make([]uint32, max(16, 2*len(old))), 0
	mask := uint32(len(t.slots) - 1)
	for _, slot := range old {
		if slot != 0 {
			e := x.at(slot - 1)
			t.put(slot-1, slotOf(e.lo, e.queue, mask))
		}
	}
}

// remove frees an entry. The entries that the search would no longer find behind the gap move into it.
func (x *index) remove(id uint32) {
	e := x.at(id)
	t := &x.table[tableOf(e.hi)]
	mask := uint32(len(t.slots) - 1)
	gap := slotOf(e.lo, e.queue, mask)
	for t.slots[gap] != id+1 {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		moved := x.at(t.slots[i] - 1)
		if home := slotOf(moved.lo, moved.queue, mask); (i-home)&mask >= (i-gap)&mask {
			t.slots[gap], gap = t.slots[i], i
		}
	}
	t.slots[gap] = 0
	t.count--
	*e = entry{pos: x.free}
	x.free = id
	x.count--
}
