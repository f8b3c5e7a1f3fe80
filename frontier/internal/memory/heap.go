package memory

import (
	"fmt"
	"math"
)

// A Heap is a min-heap of items by time. Each node holds its key, so that comparing
// does not touch the items' records, and four nodes, the children of one, fill a
// cache line. Places lie in an array of their own for the same reason. Heaps may
// share it if an item is in one of them at most.
type Heap struct {
	nodes  []Node
	places *Places
}

// A Node is an item and its time.
type Node struct {
	At   int64
	Item int32
}

// Places are the places of items in their heaps.
type Places struct {
	of []int32 // by item: index in nodes plus 1, 0 if the item is in no heap
}

const heapArity = 4

// NewHeap returns an empty heap.
func NewHeap(p *Places) Heap { return Heap{places: p} }

// Grow prepares memory for items below n.
func (p *Places) Grow(n int32) {
	for int(n) > len(p.of) {
		p.of = append(p.of, 0)
	}
}

// Len is the number of items.
func (h *Heap) Len() int { return len(h.nodes) }

// Top is the earliest time, or math.MaxInt64 if the heap is empty.
func (h *Heap) Top() int64 {
	if len(h.nodes) == 0 {
		return math.MaxInt64
	}
	return h.nodes[0].At
}

// First is an item of the earliest time. The heap must not be empty.
func (h *Heap) First() int32 { return h.nodes[0].Item }

// Nodes returns the first n nodes as they lie in the heap: the first one has the
// earliest time, the others are in no exact order. They are valid until the heap is
// changed, and must not be written to.
func (h *Heap) Nodes(n int) []Node { return h.nodes[:min(n, len(h.nodes))] }

// Time is the time of an item, or math.MaxInt64 if it is not in the heap. It must
// not be in another heap that shares the places.
func (h *Heap) Time(item int32) int64 {
	i := h.places.of[item]
	if i == 0 {
		return math.MaxInt64
	}
	return h.nodes[i-1].At
}

// Set puts an item in, or moves it to another time. Time math.MaxInt64 takes it out.
func (h *Heap) Set(item int32, at int64) {
	i := int(h.places.of[item]) - 1
	switch {
	case at == math.MaxInt64:
		h.Remove(item)
	case i < 0:
		i = len(h.nodes)
		h.nodes = append(h.nodes, Node{})
		h.up(i, Node{at, item})
	case at < h.nodes[i].At:
		h.up(i, Node{at, item})
	case at > h.nodes[i].At:
		h.down(i, Node{at, item})
	}
}

// Remove takes an item out, if it is in.
func (h *Heap) Remove(item int32) {
	i := int(h.places.of[item]) - 1
	if i < 0 {
		return
	}
	h.places.of[item] = 0
	last := len(h.nodes) - 1
	moved := h.nodes[last]
	h.nodes = h.nodes[:last]
	if i == last {
		return
	}
	if i > 0 && moved.At < h.nodes[(i-1)/heapArity].At {
		h.up(i, moved)
	} else {
		h.down(i, moved)
	}
}

// up puts n at i or above.
func (h *Heap) up(i int, n Node) {
	for i > 0 {
		parent := (i - 1) / heapArity
		if h.nodes[parent].At <= n.At {
			break
		}
		h.put(i, h.nodes[parent])
		i = parent
	}
	h.put(i, n)
}

// down puts n at i or below.
func (h *Heap) down(i int, n Node) {
	for {
		first := heapArity*i + 1
		if first >= len(h.nodes) {
			break
		}
		least := first
		for c := first + 1; c < min(first+heapArity, len(h.nodes)); c++ {
			if h.nodes[c].At < h.nodes[least].At {
				least = c
			}
		}
		if n.At <= h.nodes[least].At {
			break
		}
		h.put(i, h.nodes[least])
		i = least
	}
	h.put(i, n)
}

func (h *Heap) put(i int, n Node) {
	h.nodes[i] = n
	h.places.of[n.Item] = int32(i) + 1
}

// Check returns an error if a node is earlier than its parent, or if an item is not
// at its place. It looks at all nodes, and is for tests.
func (h *Heap) Check() error {
	for i, n := range h.nodes {
		if int(h.places.of[n.Item]) != i+1 {
			return fmt.Errorf("item %d is at %d, its place says %d", n.Item, i, h.places.of[n.Item]-1)
		}
		if i > 0 && n.At < h.nodes[(i-1)/heapArity].At {
			return fmt.Errorf("node %d is earlier than its parent", i)
		}
	}
	return nil
}
