package frontier

// A level is a host's queue of one priority. Everything up to the load cursor is
// in the window, leased, waiting or finished; everything after it is on disk
// only, and counted. New links have the greatest number of all, so as long as
// nothing is on disk only they can go into the window, and else they cannot.
type level struct {
	window
	disk     uint32 // links after the load cursor
	leased   uint32
	waiting  uint32
	ticketed uint32 // of the waiting, those with a ticket
	gated    uint32 // what the level adds to the gate's count of its depth
	next     int32  // the host's next level; -1 for none
	class    uint8
	inexact  bool // disk came from the store's estimate and may be too large

	loadIndex    uint32
	loadPosition Position
}

func (l *level) pending() uint32 { return l.n + l.disk + l.leased + l.waiting }

func (l *level) load() Cursor {
	return Cursor{Priority: l.class, Position: l.loadPosition, Index: l.loadIndex}
}

func (l *level) setLoad(c Cursor) { l.loadPosition, l.loadIndex = c.Position, c.Index }

// depth is the depth that all links of a class have.
func depthOf(class uint8) int { return max(0, int(class)-int(PriorityDepth)) }

// level finds a host's level of a class, or makes it: then everything up to and
// including the cursor counts as dealt with.
func (s *shard) level(h *host, class uint8, after Cursor) (int32, *level) {
	link := &h.levels
	for *link >= 0 {
		l := s.levels.at(*link)
		if l.class == class {
			return *link, l
		}
		if l.class > class {
			break
		}
		link = &l.next
	}
	i := s.levels.alloc()
	l := s.levels.at(i)
	l.class, l.next = class, *link
	l.setLoad(after)
	*link = i
	return i, l
}

// bestLevel is the first level that has anything to lease and is open, or -1.
func (s *shard) bestLevel(h *host) int32 {
	open := s.f.gate.open.Load()
	for i := h.levels; i >= 0; {
		l := s.levels.at(i)
		if int32(l.class) > open {
			break
		}
		if l.n > 0 || l.disk > 0 {
			return i
		}
		i = l.next
	}
	return -1
}

// dropLevels frees levels that have nothing pending, and remembers how far the
// host's queue is finished.
func (s *shard) dropLevels(h *host) {
	for link := &h.levels; *link >= 0; {
		l := s.levels.at(*link)
		if l.pending() > 0 {
			link = &l.next
			continue
		}
		if l.load().Compare(h.ended) > 0 {
			h.ended = l.load()
		}
		i := *link
		*link = l.next
		s.levels.release(i)
	}
}

// lowWater is the cursor up to which all of a host's queue is finished. Levels
// without anything pending are gone, so the first one decides.
func (s *shard) lowWater(h *host, leased map[int32]Cursor) Cursor {
	if h.levels < 0 {
		return h.ended
	}
	lv := s.levels.at(h.levels)
	low := lv.load()
	lower := func(c Cursor) {
		if c = c.before(); c.Compare(low) < 0 {
			low = c
		}
	}
	if lv.n > 0 {
		var e entry
		lv.peek(&s.arena, &e)
		lower(Cursor{Priority: lv.class, Position: e.position, Index: e.index})
	}
	if lv.leased > 0 {
		lower(leased[h.levels])
	}
	if lv.waiting > 0 {
		for i := h.wait; i >= 0; i = s.waits.at(i).next {
			if w := s.waits.at(i); w.level == h.levels {
				lower(w.place(lv.class))
			}
		}
	}
	return low
}
