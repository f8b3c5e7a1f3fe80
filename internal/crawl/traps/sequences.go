package traps

import (
	"math"

	"github.com/mapwright/mapwright/frontier"
)

// sequences counts, for each host, the pages that repeated a text and had new links, and the pages with new texts that
// such links led to.
type sequences struct {
	pages fifo[struct{}] // by host, page and kind
	hosts fifo[*sequenceHost]
}

type sequenceHost struct {
	barren   uint32 // pages that repeated a text and led to new links
	fruitful uint32 // pages with a new text that were found on such pages
}

// Kinds of pages, in evidence of kind EvidenceSequence.
const (
	barrenPage   = 0
	fruitfulPage = 1
)

const (
	maxSequencePages = 1 << 18
	maxSequenceHosts = 1 << 16

	// barrenPerFruitful is how many barren pages of a host there must be for each fruitful one before there is a
	// limit.
	barrenPerFruitful = 4
)

func newSequences() sequences {
	return sequences{newFIFO[struct{}](maxSequencePages), newFIFO[*sequenceHost](maxSequenceHosts)}
}

// pageKey is the key of a page of a host in pages.
func pageKey(host, page, kind uint64) uint64 { return host ^ page*3 ^ kind }

func sequenceEvidence(partition uint8, host, page, kind uint64) frontier.Evidence {
	return frontier.Evidence{Partition: partition, Kind: EvidenceSequence, Subject: host, Words: []uint64{page, kind}}
}

// observe takes evidence of kind EvidenceSequence.
func (s *sequences) observe(host, page, kind uint64) {
	if !s.pages.add(pageKey(host, page, kind)) {
		return
	}
	h, ok := s.hosts.get(host)
	if !ok {
		h = &sequenceHost{}
		s.hosts.put(host, h)
	}
	if kind == fruitfulPage {
		h.fruitful++
	} else {
		h.barren++
	}
}

// limit returns how many pages in a row of a host may repeat a text. There is no limit if such pages lead to new texts
// often enough: then they are lists, and not endless. A tree of such pages grows exponentially, so the limit falls with
// their number.
func (s *sequences) limit(host uint64) int {
	h, ok := s.hosts.get(host)
	if !ok {
		return MaxBarren
	}
	switch {
	case h.fruitful*barrenPerFruitful >= h.barren:
		return math.MaxUint8
	case h.barren >= 500:
		return 0
	case h.barren >= 250:
		return 3
	case h.barren >= 100:
		return 10
	}
	return MaxBarren
}
