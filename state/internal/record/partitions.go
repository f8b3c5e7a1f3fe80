package record

import (
	"iter"
	"math/bits"

	"github.com/mapwright/mapwright/frontier"
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

// touched is which partitions a record has something to say about.
func touched(r *frontier.Record) (s PartitionSet) {
	if r.Finish != nil {
		s.Add(r.Finish.Key.Host.Partition())
	}
	for i := range r.Links {
		s.Add(r.Links[i].Key.Host.Partition())
	}
	for i := range r.Visits {
		s.Add(r.Visits[i].Key.Host.Partition())
	}
	for _, k := range r.Leased {
		s.Add(k.Host.Partition())
	}
	for _, k := range r.Alone {
		s.Add(k.Host.Partition())
	}
	for _, k := range r.Returned {
		s.Add(k.Host.Partition())
	}
	for i := range r.Hosts {
		s.Add(r.Hosts[i].Host.Partition())
	}
	for i := range r.Cursors {
		s.Add(r.Cursors[i].Host.Partition())
	}
	for i := range r.Origins {
		s.Add(r.Origins[i].Host.Partition())
	}
	for i := range r.Vouchers {
		s.Add(r.Vouchers[i].Key.Host.Partition())
	}
	for i := range r.Facts {
		s.Add(r.Facts[i].Partition)
	}
	for i := range r.Skips {
		s.Add(r.Skips[i].Partition)
	}
	for i := range r.Evidence {
		s.Add(r.Evidence[i].Partition)
	}
	for i := range r.Named {
		s.Add(r.Named[i].Key.Host.Partition())
	}
	for i := range r.Marks {
		s.Add(r.Marks[i].Partition)
	}
	for i := range r.Asked {
		s.Add(r.Asked[i].Host.Partition())
	}
	for i := range r.Sent {
		s.Add(r.Sent[i].Key.Host.Partition())
	}
	return s
}
