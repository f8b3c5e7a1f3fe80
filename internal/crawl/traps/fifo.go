package traps

import (
	"maps"
	"slices"
)

// A fifo is a map of bounded size. If it is full, a new key takes the place of the one that was
// put in first.
type fifo[V any] struct {
	most   int
	values map[uint64]V
	order  []uint64 // keys, the oldest at first
	first  int
}

func newFIFO[V any](most int) fifo[V] { return fifo[V]{most: most, values: map[uint64]V{}} }

func (f *fifo[V]) get(k uint64) (V, bool) {
	v, ok := f.values[k]
	return v, ok
}

func (f *fifo[V]) has(k uint64) bool {
	_, ok := f.values[k]
	return ok
}

func (f *fifo[V]) put(k uint64, v V) {
	if _, known := f.values[k]; !known {
		if len(f.order) < f.most {
			f.order = append(f.order, k)
		} else {
			delete(f.values, f.order[f.first])
			f.order[f.first] = k
			f.first = (f.first + 1) % f.most
		}
	}
	f.values[k] = v
}

// add puts in a key without a value, and reports whether it is new.
func (f *fifo[V]) add(k uint64) bool {
	if f.has(k) {
		return false
	}
	var none V
	f.put(k, none)
	return true
}

func (f *fifo[V]) len() int { return len(f.order) }

func (f *fifo[V]) clone() *fifo[V] {
	return &fifo[V]{f.most, maps.Clone(f.values), slices.Clone(f.order), f.first}
}

// all goes through the entries, the oldest first.
func (f *fifo[V]) all(yield func(uint64, V) bool) {
	for i := range f.order {
		k := f.order[(f.first+i)%len(f.order)]
		if !yield(k, f.values[k]) {
			return
		}
	}
}
