package txn

import "github.com/dgraph-io/badger/v4"

const (
	slabChunk   = 256 << 10
	entryChunk  = 1024
	slabsToKeep = 32
)

// A slab is memory for the keys, values and entries of one transaction. Badger does not use them after the commit of
// the transaction; then the memory is used again.
type slab struct {
	chunks  [][]byte
	at      int // chunk in use
	entries [][]badger.Entry
	used    int // entries in use
}

// copy returns a copy of b.
func (s *slab) copy(b []byte) []byte {
	for ; s.at < len(s.chunks); s.at++ {
		c := s.chunks[s.at]
		if cap(c)-len(c) >= len(b) {
			break
		}
	}
	if s.at == len(s.chunks) {
		s.chunks = append(s.chunks, make([]byte, 0, max(slabChunk, len(b))))
	}
	c := s.chunks[s.at]
	n := len(c)
	c = append(c, b...)
	s.chunks[s.at] = c
	return c[n:len(c):len(c)]
}

// entry returns an empty entry.
func (s *slab) entry() *badger.Entry {
	if s.used == len(s.entries)*entryChunk {
		s.entries = append(s.entries, make([]badger.Entry, entryChunk))
	}
	e := &s.entries[s.used/entryChunk][s.used%entryChunk]
	*e = badger.Entry{}
	s.used++
	return e
}

func (s *slab) reset() {
	if len(s.chunks) > slabsToKeep {
		clear(s.chunks[slabsToKeep:])
		s.chunks = s.chunks[:slabsToKeep]
	}
	for i, c := range s.chunks {
		if cap(c) > slabChunk {
			s.chunks[i] = make([]byte, 0, slabChunk)
		} else {
			s.chunks[i] = c[:0]
		}
	}
	s.at, s.used = 0, 0
}
