package frontier

import (
	"github.com/mapwright/mapwright/frontier/internal/memory"
)

// queues hold the queued URLs of a shard's hosts: for each host a level for each
// priority, and a list of waits. They know nothing of when a host may be asked.
//
// The pending URLs of a host are those of its levels: in the window, on disk, leased
// and waiting. A URL holds a permit while it is in a window, leased, or in a wait
// with text.
type queues struct {
	levels memory.Slab[level]
	waits  memory.Slab[wait]
	text   memory.Arena // the windows, and the paths of waits

	pending, sitemaps, checks int64 // the sums of the hosts'
	disk                      int64 // the sum of the levels'
}

// A hostQueue is one host's part of the queues.
type hostQueue struct {
	pending  int64  // URLs not finished: in windows, on disk, leased, waiting
	sitemaps int64  // of them, sitemaps
	checks   int64  // of them, checks
	ended    Cursor // no URL of a dropped level lies after it
	saved    Cursor // the last cursor committed
	levels   int32  // first level, in the order of priority; -1 for none
	wait     int32  // first wait, in the order of time; -1 for none
	waitLast int32
	waiting  uint32 // waits
	ticketed uint32 // of them, with a ticket
	inMemory uint32 // permits held, without those of leases: entries in windows and waits with text
}

// pages are the pages not finished.
func (h *hostQueue) pages() int64 { return h.pending - h.sitemaps - h.checks }

// emptyQueue is the queue of a new host. The cursor says how far an earlier queue of
// the host was finished.
func emptyQueue(ended Cursor) hostQueue {
	return hostQueue{levels: -1, wait: -1, waitLast: -1, ended: ended}
}

// A level is a host's queue of one priority. Everything up to the load cursor is in the window, leased, waiting or
// finished; everything after it is on disk only, and counted. A new link has the greatest position of all, so it can go
// into the window only while nothing is on disk only.
type level struct {
	window
	disk     uint32 // links after the load cursor
	leased   uint32
	waiting  uint32
	ticketed uint32 // of the waiting, those with a ticket
	gated    uint32 // what the level adds to the gate's count of its depth
	next     int32  // the host's next level; -1 for none
	priority uint8
	inexact  bool // disk came from the store's estimate and may be too large

	loadIndex    uint32
	loadPosition Position
}

func (l *level) pending() uint32 { return l.n + l.disk + l.leased + l.waiting }

// hasNext reports whether the level has anything to lease, in memory or on disk.
func (l *level) hasNext() bool { return l.n > 0 || l.disk > 0 }

func (l *level) load() Cursor {
	return Cursor{Priority: l.priority, Position: l.loadPosition, Index: l.loadIndex}
}

func (l *level) setLoad(c Cursor) { l.loadPosition, l.loadIndex = c.Position, c.Index }

// depthOf is the depth that all links of a priority have.
func depthOf(priority uint8) int { return max(0, int(priority)-int(PriorityDepth)) }

func (q *queues) level(i int32) *level { return q.levels.At(i) }

// ensureLevel finds a host's level of a priority, or makes it. In a level that it makes, everything up to and including
// the cursor counts as finished.
func (q *queues) ensureLevel(h *hostQueue, priority uint8, after Cursor) *level {
	link := &h.levels
	for *link >= 0 {
		l := q.level(*link)
		if l.priority == priority {
			return l
		}
		if l.priority > priority {
			break
		}
		link = &l.next
	}
	i := q.levels.Alloc()
	l := q.level(i)
	l.priority, l.next = priority, *link
	l.setLoad(after)
	*link = i
	return l
}

// add queues a new link in memory, for which the caller has a permit. The level must
// have nothing on disk.
func (q *queues) add(h *hostQueue, l *level, e *entry) {
	q.count(h, l, 1)
	q.put(h, l, e)
}

// count changes the number of unfinished URLs of a level.
func (q *queues) count(h *hostQueue, l *level, by int64) {
	h.pending += by
	q.pending += by
	switch kindOf(l.priority) {
	case KindSitemap:
		h.sitemaps += by
		q.sitemaps += by
	case KindCheck:
		h.checks += by
		q.checks += by
	}
}

// addOnDisk counts links that are in the store only.
func (q *queues) addOnDisk(h *hostQueue, l *level, n int) {
	q.count(h, l, int64(n))
	l.disk += uint32(n)
	q.disk += int64(n)
}

// fill puts the next link that was on disk into memory, for which the caller has a
// permit.
func (q *queues) fill(h *hostQueue, l *level, e *entry) {
	if l.disk > 0 {
		l.disk--
		q.disk--
	} else { // the estimate was too low
		q.count(h, l, 1)
	}
	q.put(h, l, e)
}

// put adds an entry at the end of a window and moves the load cursor there.
func (q *queues) put(h *hostQueue, l *level, e *entry) {
	l.push(&q.text, e)
	l.setLoad(e.place(l.priority))
	h.inMemory++
}

// correct sets how many links a level has on disk, where its count was an estimate.
func (q *queues) correct(h *hostQueue, l *level, disk uint32) {
	by := int64(disk) - int64(l.disk)
	q.count(h, l, by)
	q.disk += by
	l.disk, l.inexact = disk, disk > 0
}

// kindOf is the kind of what a level of a priority holds.
func kindOf(priority uint8) Kind {
	switch priority {
	case PrioritySitemap:
		return KindSitemap
	case PriorityCheck:
		return KindCheck
	}
	return KindPage
}

// best is the first level of a kind that has anything to lease and whose priority is not worse than open, or -1.
func (q *queues) best(h *hostQueue, open int32, kind Kind) int32 {
	if kind == KindSitemap && h.sitemaps == 0 || kind == KindCheck && h.checks == 0 {
		return -1
	}
	for i := h.levels; i >= 0; {
		l := q.level(i)
		if int32(l.priority) > open {
			break
		}
		if l.hasNext() && kindOf(l.priority) == kind {
			return i
		}
		i = l.next
	}
	return -1
}

// peek decodes the first entry of a level's window, which must not be empty.
func (q *queues) peek(i int32, e *entry) (size int) { return q.level(i).peek(&q.text, e) }

// take leases the first entry of a level's window, of the size that peek returned.
// Its permit goes with the lease. What peek returned as its path becomes invalid.
func (q *queues) take(h *hostQueue, i int32, size int) {
	l := q.level(i)
	l.drop(&q.text, size)
	l.leased++
	h.inMemory--
}

// endLease says that a URL of a level is not leased any more.
func (q *queues) endLease(i int32) { q.level(i).leased-- }

// finish counts a URL of a level as finished.
func (q *queues) finish(h *hostQueue, i int32) { q.count(h, q.level(i), -1) }

// giveBack frees a host's windows except for the first keep entries. If keep is 0, it frees the text of its waits too.
// All of it is in the store. It returns how many permits became free.
func (q *queues) giveBack(h *hostQueue, keep uint32) (freed uint32) {
	everything := keep == 0
	for i := h.levels; i >= 0; {
		l := q.level(i)
		if n, first := l.cut(&q.text, keep, l.priority); n > 0 {
			l.disk += n
			l.setLoad(first.before())
			freed += n
			q.disk += int64(n)
		}
		keep -= min(keep, l.n)
		i = l.next
	}
	if everything && h.inMemory > freed {
		for i := h.wait; i >= 0; {
			w := q.wait(i)
			if w.text != 0 {
				q.text.Free(w.text)
				w.text = 0
				freed++
			}
			i = w.next
		}
	}
	h.inMemory -= freed
	return freed
}

// clear forgets all that is queued of a host. Nothing of it may be in memory or
// leased.
func (q *queues) clear(h *hostQueue) {
	for h.wait >= 0 {
		q.removeWait(h, h.wait)
	}
	for h.levels >= 0 {
		l := q.level(h.levels)
		q.disk -= int64(l.disk)
		next := l.next
		q.levels.Free(h.levels)
		h.levels = next
	}
	q.pending -= h.pending
	q.sitemaps -= h.sitemaps
	q.checks -= h.checks
	h.pending, h.sitemaps, h.checks, h.ended, h.saved = 0, 0, 0, Cursor{}, Cursor{}
}

// dropLevels frees levels that have nothing pending, and remembers how far the
// host's queue is finished.
func (q *queues) dropLevels(h *hostQueue) {
	for link := &h.levels; *link >= 0; {
		l := q.level(*link)
		if l.pending() > 0 {
			link = &l.next
			continue
		}
		if l.load().Compare(h.ended) > 0 {
			h.ended = l.load()
		}
		i := *link
		*link = l.next
		q.levels.Free(i)
	}
}

// lowWater is the cursor up to which all of a host's queue is finished. leased has the first leased place of each
// level. Levels without anything pending must have been dropped, so the first one decides.
func (q *queues) lowWater(h *hostQueue, leased map[int32]Cursor) Cursor {
	if h.levels < 0 {
		return h.ended
	}
	l := q.level(h.levels)
	low := l.load()
	lower := func(c Cursor) {
		if c = c.before(); c.Compare(low) < 0 {
			low = c
		}
	}
	if l.n > 0 {
		var e entry
		q.peek(h.levels, &e)
		lower(e.place(l.priority))
	}
	if l.leased > 0 {
		lower(leased[h.levels])
	}
	if l.waiting > 0 {
		for i := h.wait; i >= 0; i = q.wait(i).next {
			if w := q.wait(i); w.level == h.levels {
				lower(w.place(l.priority))
			}
		}
	}
	return low
}

// A wait is a URL that was leased, and will be leased again after its time. When memory is short its text is given
// back, and read from the store again.
type wait struct {
	queued
	until      int64 // clock
	prev, next int32
	level      int32
	text       memory.Ref // the path; 0 if given back
	size       uint16     // of the path
	attempts   uint8
	ticket     bool // a page ticket was used for it
}

func (q *queues) wait(i int32) *wait { return q.waits.At(i) }

// addWait puts a URL back that was leased, to wait. It keeps the permit that the
// lease had.
func (q *queues) addWait(h *hostQueue, w wait, path []byte) {
	i := q.waits.Alloc()
	at := q.wait(i)
	*at = w
	q.setText(at, path)
	h.inMemory++
	h.waiting++
	l := q.level(w.level)
	l.waiting++
	if w.ticket {
		h.ticketed++
		l.ticketed++
	}

	// Most waits end later than all that are there.
	after := h.waitLast
	for after >= 0 && q.wait(after).until > w.until {
		after = q.wait(after).prev
	}
	at.prev = after
	if after >= 0 {
		at.next = q.wait(after).next
		q.wait(after).next = i
	} else {
		at.next = h.wait
		h.wait = i
	}
	if at.next >= 0 {
		q.wait(at.next).prev = i
	} else {
		h.waitLast = i
	}
}

func (q *queues) setText(w *wait, path []byte) {
	w.text = q.text.Alloc(max(1, len(path)))
	w.size = uint16(copy(q.text.At(w.text), path))
}

// fillWait gives a wait its text again, for which the caller has a permit.
func (q *queues) fillWait(h *hostQueue, w *wait, e *entry) {
	w.origin = e.origin
	q.setText(w, e.path)
	h.inMemory++
}

// peekWait is the entry of a wait with text.
func (q *queues) peekWait(w *wait) entry {
	return entry{path: q.text.At(w.text)[:w.size], queued: w.queued}
}

// takeWait leases the URL of a wait with text. Its permit goes with the lease. What
// peekWait returned as its path becomes invalid.
func (q *queues) takeWait(h *hostQueue, i int32) {
	w := q.wait(i)
	q.text.Free(w.text)
	q.level(w.level).leased++
	h.inMemory--
	q.removeWait(h, i)
}

// removeWait takes a wait out of its host's list. Its text must have been freed.
func (q *queues) removeWait(h *hostQueue, i int32) {
	w := q.wait(i)
	if w.prev >= 0 {
		q.wait(w.prev).next = w.next
	} else {
		h.wait = w.next
	}
	if w.next >= 0 {
		q.wait(w.next).prev = w.prev
	} else {
		h.waitLast = w.prev
	}
	h.waiting--
	l := q.level(w.level)
	l.waiting--
	if w.ticket {
		h.ticketed--
		l.ticketed--
	}
	q.waits.Free(i)
}

// firstWait is the first wait in time; -1 for none. If noPages is set, pages without a
// ticket are left out, and if noSitemaps is set, sitemaps. Checks never are.
func (q *queues) firstWait(h *hostQueue, noPages, noSitemaps bool) int32 {
	if noPages && h.ticketed == 0 && (noSitemaps || h.sitemaps == 0) && h.checks == 0 {
		return -1
	}
	i := h.wait
	for ; i >= 0 && (noPages || noSitemaps); i = q.wait(i).next {
		w := q.wait(i)
		switch kind := kindOf(q.level(w.level).priority); {
		case kind == KindCheck, kind == KindSitemap && !noSitemaps, kind == KindPage && (w.ticket || !noPages):
			return i
		}
	}
	return i
}
