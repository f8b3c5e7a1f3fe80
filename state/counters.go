package state

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/frontier"
)

// NumOutcomes is how many outcomes are counted apart. Codes from NumOutcomes-1
// on share the last place.
const NumOutcomes = 32

// Counters count what was applied, over the whole life of the crawl.
type Counters struct {
	Discovered uint64 // links
	Finished   uint64 // pages
	Bytes      uint64 // sum of Finish.Bytes
	Counted    uint64 // finished pages that count towards page limits
	// Outcomes counts finished pages by Finish.Outcome.
	Outcomes [NumOutcomes]uint64
	// Status counts finished pages by the first digit of their status; those
	// without one are in the first place.
	Status [6]uint64
}

// Pending is how many links wait to be finished.
func (c *Counters) Pending() uint64 {
	// A page that is finished without ever being named is counted as one only.
	return c.Discovered - min(c.Finished, c.Discovered)
}

func (c *Counters) finished(f *frontier.Finish) {
	c.Finished++
	if f.Counted {
		c.Counted++
	}
	c.Bytes += f.Bytes
	c.Outcomes[min(int(f.Outcome), NumOutcomes-1)]++
	class := int(f.Status / 100)
	if class >= len(c.Status) {
		class = 0
	}
	c.Status[class]++
}

func (c *Counters) append(dst []byte) []byte {
	for _, v := range []uint64{c.Discovered, c.Finished, c.Bytes, c.Counted} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, list := range [][]uint64{c.Outcomes[:], c.Status[:]} {
		n := len(list)
		for n > 0 && list[n-1] == 0 {
			n--
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for _, v := range list[:n] {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return dst
}

func (r *reader) counters() Counters {
	c := Counters{Discovered: r.uvarint(), Finished: r.uvarint(), Bytes: r.uvarint(), Counted: r.uvarint()}
	for _, list := range [][]uint64{c.Outcomes[:], c.Status[:]} {
		n := r.upTo(uint64(len(list)))
		for i := range n {
			list[i] = r.uvarint()
		}
	}
	return c
}
