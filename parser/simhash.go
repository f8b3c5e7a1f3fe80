package parser

import "math/bits"

// A similarity computes a simhash: of each word a hash of 64 bits, and of the result each bit is
// the one that most words have there.
//
// The features are single words. A feature of three words in a row would tell texts apart
// better, but one changed word changes three of them, and then texts of a hundred words with one other
// word are further apart than 3 bits. Words with a digit are left out, because what
// differs at every visit (times, counters, tokens) mostly has digits.
type similarity struct {
	words  int
	counts [32]uint64 // how many words have each bit: the binary digit k of the count for bit i is bit i of counts[k]
}

// maxWordBytes is how much of a word counts.
const maxWordBytes = 64

// add takes a piece of text as written. A word that markup divides counts as two.
func (s *similarity) add(text []byte) {
	for i := 0; i < len(text); {
		start, seen := i, byte(0)
		for i < len(text) && wordBytes[text[i]] != 0 {
			seen |= wordBytes[text[i]]
			i++
		}
		switch word := text[start:i]; {
		case len(word) == 0:
			i++
		case seen == letterByte:
			h, _ := mixText(textPrime, word[:min(len(word), maxWordBytes)])
			s.vote(spread(h))
		}
	}
}

// spread makes every bit of the result depend on every bit of h.
func spread(h uint64) uint64 {
	h = (h ^ h>>32) * textPrime
	h = (h ^ h>>29) * textPrime
	return h ^ h>>32
}

// What a byte of a word is; 0 of other bytes.
const (
	letterByte = 1 << iota
	digitByte
)

var wordBytes = func() (table [256]byte) {
	for c := range table {
		switch {
		case isDigit(byte(c)):
			table[c] = digitByte
		case c >= 0x80 || 'a' <= c|0x20 && c|0x20 <= 'z':
			table[c] = letterByte
		}
	}
	return table
}()

func (s *similarity) vote(h uint64) {
	s.words++
	for k := 0; h != 0 && k < len(s.counts); k++ {
		s.counts[k], h = s.counts[k]^h, s.counts[k]&h
	}
}

// sum is the simhash of what was added.
func (s *similarity) sum() uint64 {
	var sum uint64
	for i := range 64 {
		count := 0
		for k, digits := range s.counts {
			count |= int(digits>>i&1) << k
		}
		if 2*count > s.words {
			sum |= 1 << i
		}
	}
	return sum
}

// Distance is the number of bits in which two values of [Page.SimHash] differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }
