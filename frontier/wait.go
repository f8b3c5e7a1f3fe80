package frontier

// A wait is a URL that was leased before and will be again, not before its time.
// When memory is short its text is given back, and read from the store again.
type wait struct {
	at         int64
	prev, next int32
	level      int32
	text       chunkRef // the path; 0 if given back
	origin     origin
	index      uint32
	position   Position
	size       uint16 // of the path
	depth      uint16
	source     uint8
	hops       uint8
	visit      laterVisit
	attempts   uint8
	ticket     bool
}

func (w *wait) place(class uint8) Cursor {
	return Cursor{Priority: class, Position: w.position, Index: w.index}
}

// addWait puts a URL back to wait until the given time. It keeps the permit that
// the lease had.
func (s *shard) addWait(l *Lease, at int64, attempts int, ticket bool) {
	h := s.hosts.at(l.host)
	i := s.waits.alloc()
	w := s.waits.at(i)
	*w = wait{
		at: at, level: l.level, origin: l.origin, index: l.at.Index, position: l.at.Position,
		depth: l.depth, source: l.source, hops: l.hops, visit: l.visit, attempts: uint8(min(attempts, 255)), ticket: ticket,
	}
	s.setWaitText(w, l.path())
	h.inMemory++
	h.waiting++
	lv := s.levels.at(l.level)
	lv.waiting++
	if ticket {
		h.ticketed++
		lv.ticketed++
	}

	// Most waits end later than all that are there.
	after := h.waitLast
	for after >= 0 && s.waits.at(after).at > at {
		after = s.waits.at(after).prev
	}
	w.prev = after
	if after >= 0 {
		w.next = s.waits.at(after).next
		s.waits.at(after).next = i
	} else {
		w.next = h.wait
		h.wait = i
	}
	if w.next >= 0 {
		s.waits.at(w.next).prev = i
	} else {
		h.waitLast = i
	}
}

func (s *shard) setWaitText(w *wait, path []byte) {
	w.text = s.arena.alloc(max(1, len(path)))
	w.size = uint16(copy(s.arena.at(w.text), path))
}

// removeWait takes a wait out of its host's list; its text and its permit are the
// caller's to free.
func (s *shard) removeWait(h *host, i int32) {
	w := s.waits.at(i)
	if w.prev >= 0 {
		s.waits.at(w.prev).next = w.next
	} else {
		h.wait = w.next
	}
	if w.next >= 0 {
		s.waits.at(w.next).prev = w.prev
	} else {
		h.waitLast = w.prev
	}
	h.waiting--
	lv := s.levels.at(w.level)
	lv.waiting--
	if w.ticket {
		h.ticketed--
		lv.ticketed--
	}
	s.waits.release(i)
}

// firstWait is the first wait in time, or of those with a ticket; -1 for none.
func (s *shard) firstWait(h *host, ticketed bool) int32 {
	if ticketed && h.ticketed == 0 {
		return -1
	}
	i := h.wait
	for ticketed && i >= 0 && !s.waits.at(i).ticket {
		i = s.waits.at(i).next
	}
	return i
}
