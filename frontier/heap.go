package frontier

import "math"

// never is a time that does not come.
const never = math.MaxInt64

// A hostHeap is a min-heap of hosts by time. Each node holds its key, so that
// comparing does not touch the hosts, and four nodes, the children of one, fill a
// cache line. Places are kept in an array of their own for the same reason; the
// heaps of one shard share it, for a host is in one of them at most.
type hostHeap struct {
	nodes []heapNode
	place *[]int32 // by host: index in nodes plus 1, 0 if in none
}

type heapNode struct {
	at   int64
	host int32
}

const heapArity = 4

// top is the earliest time, or never.
func (h *hostHeap) top() int64 {
	if len(h.nodes) == 0 {
		return never
	}
	return h.nodes[0].at
}

// set puts a host in, or moves it to another time.
func (h *hostHeap) set(host int32, at int64) {
	i := int((*h.place)[host]) - 1
	if i < 0 {
		i = len(h.nodes)
		h.nodes = append(h.nodes, heapNode{})
		h.up(i, heapNode{at, host})
		return
	}
	switch old := h.nodes[i].at; {
	case at < old:
		h.up(i, heapNode{at, host})
	case at > old:
		h.down(i, heapNode{at, host})
	}
}

// remove takes a host out, if it is in.
func (h *hostHeap) remove(host int32) {
	i := int((*h.place)[host]) - 1
	if i < 0 {
		return
	}
	(*h.place)[host] = 0
	last := len(h.nodes) - 1
	moved := h.nodes[last]
	h.nodes = h.nodes[:last]
	if i == last {
		return
	}
	if i > 0 && moved.at < h.nodes[(i-1)/heapArity].at {
		h.up(i, moved)
	} else {
		h.down(i, moved)
	}
}

// up puts n at i or above.
func (h *hostHeap) up(i int, n heapNode) {
	for i > 0 {
		parent := (i - 1) / heapArity
		if h.nodes[parent].at <= n.at {
			break
		}
		h.put(i, h.nodes[parent])
		i = parent
	}
	h.put(i, n)
}

// down puts n at i or below.
func (h *hostHeap) down(i int, n heapNode) {
	for {
		first := heapArity*i + 1
		if first >= len(h.nodes) {
			break
		}
		least := first
		for c := first + 1; c < min(first+heapArity, len(h.nodes)); c++ {
			if h.nodes[c].at < h.nodes[least].at {
				least = c
			}
		}
		if n.at <= h.nodes[least].at {
			break
		}
		h.put(i, h.nodes[least])
		i = least
	}
	h.put(i, n)
}

func (h *hostHeap) put(i int, n heapNode) {
	h.nodes[i] = n
	(*h.place)[n.host] = int32(i) + 1
}
