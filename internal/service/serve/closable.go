package serve

import (
	"container/heap"
	"slices"
)

// closable is a connection that may be closed to make room, or a group of them: those of a network, of a client or all.
// In each group, the member with the most connections comes first. If several have as many, the first is the one whose
// first connection has waited longest. The mutex of connections guards it.
type closable struct {
	in    *closable // nil if the connection is in no group
	n     int       // connections
	place int       // in the order of the group that it is in
	name  string
	below map[string]*closable // networks in a group, by name
	order closableHeap         // members of a group
	conn  *connection          // nil for a group
}

// first is the connection that is closed first, or nil.
func (e *closable) first() *connection {
	for e != nil && e.conn == nil {
		if len(e.order) == 0 {
			return nil
		}
		e = e.order[0]
	}
	if e == nil {
		return nil
	}
	return e.conn
}

// waiting is the first connection if it waits for its client, or nil.
func (e *closable) waiting() *connection {
	if c := e.first(); c != nil && !c.here {
		return c
	}
	return nil
}

func (e *closable) count() int {
	if e == nil {
		return 0
	}
	return e.n
}

// add puts a connection into the group of its client. Remove takes it out.
func (e *closable) add(c *connection) {
	for _, name := range c.client {
		next := e.below[name]
		if next == nil {
			next = &closable{in: e, name: name}
			if e.below == nil {
				e.below = map[string]*closable{}
			}
			e.below[name] = next
		}
		e = next
	}
	c.closable = closable{in: e, conn: c}
	c.closable.change(1)
}

func (e *closable) remove() {
	e.change(-1)
	e.in = nil
}

// change counts a connection in all groups that it is in.
func (e *closable) change(by int) {
	for ; e.in != nil; e = e.in {
		e.n += by
		switch e.n {
		case 0:
			heap.Remove(&e.in.order, e.place)
			delete(e.in.below, e.name)
		case by:
			heap.Push(&e.in.order, e)
		default:
			heap.Fix(&e.in.order, e.place)
		}
	}
	e.n += by
}

type closableHeap []*closable

func (h closableHeap) Len() int { return len(h) }

func (h closableHeap) Less(i, j int) bool {
	if h[i].n != h[j].n {
		return h[i].n > h[j].n
	}
	c, d := h[i].first(), h[j].first()
	if h[i].conn != nil && c.here != d.here {
		return d.here
	}
	return c.since < d.since
}

func (h closableHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *closableHeap) Push(e any) {
	one := e.(*closable)
	one.place = len(*h)
	*h = append(*h, one)
}

func (h *closableHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	*h = slices.Delete(*h, last, last+1)
	return one
}
