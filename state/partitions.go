package state

import (
	"iter"
	"math/bits"

	"github.com/mapwright/mapwright/frontier"
)

// partitions is how many partitions there are.
const partitions = 256

// A partitionSet is a set of partitions.
type partitionSet [partitions / 64]uint64

// allPartitions is the set of all of them.
func allPartitions() (s partitionSet) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

func (s *partitionSet) add(p uint8) { s[p/64] |= 1 << (p % 64) }

func (s *partitionSet) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// all goes through the partitions in order.
func (s *partitionSet) all() iter.Seq[uint8] {
	return func(yield func(uint8) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(uint8(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// touched is which partitions a record has something to say about.
func touched(r *frontier.Record) (s partitionSet) {
	if r.Finish != nil {
		s.add(r.Finish.Key.Host.Partition())
	}
	for i := range r.Links {
		s.add(r.Links[i].Key.Host.Partition())
	}
	for i := range r.Visits {
		s.add(r.Visits[i].Key.Host.Partition())
	}
	for _, k := range r.Leased {
		s.add(k.Host.Partition())
	}
	for _, k := range r.Returned {
		s.add(k.Host.Partition())
	}
	for i := range r.Hosts {
		s.add(r.Hosts[i].Host.Partition())
	}
	for i := range r.Cursors {
		s.add(r.Cursors[i].Host.Partition())
	}
	for i := range r.Origins {
		s.add(r.Origins[i].Host.Partition())
	}
	for i := range r.Facts {
		s.add(r.Facts[i].Partition)
	}
	return s
}
