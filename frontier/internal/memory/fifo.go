package memory

// A Fifo is a queue of record indexes, first in, first out.
type Fifo struct {
	items []int32
	head  int
}

// Push adds an item at the end.
func (q *Fifo) Push(i int32) { q.items = append(q.items, i) }

// Pop removes the first item, and reports whether there was one.
func (q *Fifo) Pop() (int32, bool) {
	if q.head == len(q.items) {
		return 0, false
	}
	i := q.items[q.head]
	q.head++
	if q.head > 64 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return i, true
}

// Len is the number of items.
func (q *Fifo) Len() int { return len(q.items) - q.head }

// Filter keeps the items for which keep returns true. It calls keep once for each
// item, in order.
func (q *Fifo) Filter(keep func(int32) bool) {
	kept := q.items[:0]
	for _, i := range q.items[q.head:] {
		if keep(i) {
			kept = append(kept, i)
		}
	}
	q.items, q.head = kept, 0
}
