package keyset

import "github.com/mapwright/mapwright/frontier/weburl"

// RecentKeys is how many of the last visits a Recent remembers at least.
const RecentKeys = 1 << 16

// A Recent remembers the last visits that were added to it, RecentKeys to twice as many. The zero value is empty.
type Recent struct{ cur, old recentTable }

// A visit stands for one visit of a URL. The host is left out: the other words
// alone are the hash of the whole URL.
type visit struct {
	hi, lo     uint64
	generation uint64 // plus 1, so that no visit is zero
}

// Add adds a visit and reports whether it was not there.
func (s *Recent) Add(k weburl.Key, generation uint32) bool {
	v := visit{k.Hi, k.Lo, uint64(generation) + 1}
	if s.cur.has(v) || s.old.has(v) {
		return false
	}
	if s.cur.n >= RecentKeys {
		s.cur, s.old = s.old, s.cur
		s.cur.clear()
	}
	s.cur.add(v)
	return true
}

// A recentTable is a hash table with open addressing, at most half full. Its keys
// are hashes already.
type recentTable struct {
	slots []visit
	n     int
}

func (t *recentTable) has(v visit) bool { return t.n > 0 && t.slots[t.find(v)] == v }

func (t *recentTable) add(v visit) {
	if t.slots == nil {
		t.slots = make([]visit, 2*RecentKeys)
	}
	t.slots[t.find(v)] = v
	t.n++
}

// find is where a visit is or would be.
func (t *recentTable) find(v visit) uint64 {
	mask := uint64(len(t.slots) - 1)
	i := (v.hi ^ v.lo ^ v.generation) & mask
	for t.slots[i] != v && t.slots[i] != (visit{}) {
		i = (i + 1) & mask
	}
	return i
}

func (t *recentTable) clear() {
	clear(t.slots)
	t.n = 0
}
