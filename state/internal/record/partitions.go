package record

import (
	"iter"
	"math/bits"
)

// Partitions is how many partitions there are.
const Partitions = 256

// A PartitionSet is a set of partitions.
type PartitionSet [Partitions / 64]uint64

// AllPartitions is the set of all of them.
func AllPartitions() (s PartitionSet) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Add adds a partition.
func (s *PartitionSet) Add(p uint8) { s[p/64] |= 1 << (p % 64) }

// Has reports whether a partition is in the set.
func (s *PartitionSet) Has(p uint8) bool { return s[p/64]&(1<<(p%64)) != 0 }

func (s *PartitionSet) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All goes through the partitions in order.
func (s *PartitionSet) All() iter.Seq[uint8] {
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
