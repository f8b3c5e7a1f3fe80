package urlqueue

import "math"

// never is a time that does not come, in milliseconds.
const never = math.MaxInt64

// queue holds the URLs of one key in one crawl. Every URL is in one of its three lists. All of it is guarded by the
// mutex of the store.
type queue struct {
	id    uint32
	crawl *crawl // nil while a replay has not met the record that names the queue
	key   string
	lsn   uint64 // the last record that describes the queue
	size  int    // of that record

	ready  []uint32 // a heap by due date, then by number
	leased []lease  // a heap by the end of the lease
	done   []uint32

	delay    int64 // seconds between two answers with URLs of the queue; -1 is the default of the store
	blocked  int64 // seconds since 1970 until which nothing is given
	limit    int   // nothing is given once so many URLs are done; 0 is no limit
	produced int64 // when URLs were last given, in milliseconds since 1970

	call uint64 // the last call of Take that got URLs of the queue

	at    int64 // when the queue may give a URL, in milliseconds since 1970, or never: the order of crawl.heap
	pos   int   // in crawl.heap
	place int   // in crawl.queues
}

// lease says until when a URL is in the hands of a client, in milliseconds since 1970.
type lease struct {
	until int64
	id    uint32
}

// crawl is the queues of one crawl id.
type crawl struct {
	id     string
	byKey  map[string]*queue
	queues []*queue // in no order that means anything; it changes only where a queue is removed
	heap   []*queue // by at
}

func (q *queue) urls() int { return len(q.ready) + len(q.leased) + len(q.done) }

// sooner is the order of ready. Numbers of entries grow, so that URLs of the same second come in the order of their
// puts unless an entry is used again.
func (x *index) sooner(a, b uint32) bool {
	if da, db := x.at(a).due, x.at(b).due; da != db {
		return da < db
	}
	return a < b
}

// link puts an entry into the list that its state names. A lease needs its end.
func (x *index) link(q *queue, id uint32, until int64) {
	e := x.at(id)
	switch e.state {
	case ready:
		q.ready = append(q.ready, id)
		x.readyUp(q, len(q.ready)-1)
	case leased:
		q.leased = append(q.leased, lease{until, id})
		x.leasedUp(q, len(q.leased)-1)
	case done:
		e.pos = uint32(len(q.done))
		q.done = append(q.done, id)
	}
}

// unlink takes an entry out of its list.
func (x *index) unlink(q *queue, id uint32) {
	e := x.at(id)
	i := int(e.pos)
	switch e.state {
	case ready:
		last := len(q.ready) - 1
		q.ready[i] = q.ready[last]
		q.ready = q.ready[:last]
		if i < last {
			x.at(q.ready[i]).pos = uint32(i)
			x.readyDown(q, x.readyUp(q, i))
		}
	case leased:
		last := len(q.leased) - 1
		q.leased[i] = q.leased[last]
		q.leased = q.leased[:last]
		if i < last {
			x.at(q.leased[i].id).pos = uint32(i)
			x.leasedDown(q, x.leasedUp(q, i))
		}
	case done:
		last := len(q.done) - 1
		q.done[i] = q.done[last]
		q.done = q.done[:last]
		if i < last {
			x.at(q.done[i]).pos = uint32(i)
		}
	}
}

func (x *index) readyUp(q *queue, i int) int {
	id := q.ready[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.sooner(id, q.ready[parent]) {
			break
		}
		q.ready[i] = q.ready[parent]
		x.at(q.ready[i]).pos = uint32(i)
		i = parent
	}
	q.ready[i] = id
	x.at(id).pos = uint32(i)
	return i
}

func (x *index) readyDown(q *queue, i int) {
	id := q.ready[i]
	for {
		child := 2*i + 1
		if child >= len(q.ready) {
			break
		}
		if child+1 < len(q.ready) && x.sooner(q.ready[child+1], q.ready[child]) {
			child++
		}
		if !x.sooner(q.ready[child], id) {
			break
		}
		q.ready[i] = q.ready[child]
		x.at(q.ready[i]).pos = uint32(i)
		i = child
	}
	q.ready[i] = id
	x.at(id).pos = uint32(i)
}

func (x *index) leasedUp(q *queue, i int) int {
	l := q.leased[i]
	for i > 0 {
		parent := (i - 1) / 2
		if l.until >= q.leased[parent].until {
			break
		}
		q.leased[i] = q.leased[parent]
		x.at(q.leased[i].id).pos = uint32(i)
		i = parent
	}
	q.leased[i] = l
	x.at(l.id).pos = uint32(i)
	return i
}

func (x *index) leasedDown(q *queue, i int) {
	l := q.leased[i]
	for {
		child := 2*i + 1
		if child >= len(q.leased) {
			break
		}
		if child+1 < len(q.leased) && q.leased[child+1].until < q.leased[child].until {
			child++
		}
		if q.leased[child].until >= l.until {
			break
		}
		q.leased[i] = q.leased[child]
		x.at(q.leased[i].id).pos = uint32(i)
		i = child
	}
	q.leased[i] = l
	x.at(l.id).pos = uint32(i)
}

// expire ends the leases that are over: their URLs are ready again.
func (x *index) expire(q *queue, now int64) {
	for len(q.leased) > 0 && q.leased[0].until <= now {
		id := q.leased[0].id
		x.unlink(q, id)
		x.at(id).state = ready
		x.link(q, id, 0)
	}
}

// remove takes a queue out of its crawl.
func (c *crawl) remove(q *queue) {
	delete(c.byKey, q.key)
	last := len(c.queues) - 1
	c.queues[q.place] = c.queues[last]
	c.queues[q.place].place = q.place
	c.queues[last] = nil
	c.queues = c.queues[:last]

	last = len(c.heap) - 1
	moved, i := c.heap[last], q.pos
	c.heap[last] = nil
	c.heap = c.heap[:last]
	if i < last {
		c.heap[i] = moved
		moved.pos = i
		c.fix(moved)
	}
}

// add puts a queue into its crawl.
func (c *crawl) add(q *queue) {
	q.crawl = c
	c.byKey[q.key] = q
	q.place = len(c.queues)
	c.queues = append(c.queues, q)
	q.at, q.pos = never, len(c.heap)
	c.heap = append(c.heap, q)
}

// fix moves a queue to its place in the heap after its time has changed.
func (c *crawl) fix(q *queue) {
	i := q.pos
	for i > 0 {
		parent := (i - 1) / 2
		if q.at >= c.heap[parent].at {
			break
		}
		c.heap[i] = c.heap[parent]
		c.heap[i].pos = i
		i = parent
	}
	for {
		child := 2*i + 1
		if child >= len(c.heap) {
			break
		}
		if child+1 < len(c.heap) && c.heap[child+1].at < c.heap[child].at {
			child++
		}
		if c.heap[child].at >= q.at {
			break
		}
		c.heap[i] = c.heap[child]
		c.heap[i].pos = i
		i = child
	}
	c.heap[i] = q
	q.pos = i
}
