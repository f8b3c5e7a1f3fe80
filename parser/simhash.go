package parser

import "math/bits"

// A similarity computes a simhash. Each word has a hash of 64 bits. A bit of the result is set if more than half of the
// words have it set.
//
// The features are single words. Features of three words in a row would tell texts apart better, but one changed word
// changes three of them. Then texts of a hundred words that differ in one word are further apart than 3 bits. Words
// with a digit are left out, because what differs at every visit (times, counters, tokens) mostly has digits.
type similarity struct {
	on     bool
	words  int
	counts [32]uint64 // how many words have each bit: the binary digit k of the count for bit i is bit i of counts[k]
}

// addWord adds the word that text begins with, as written, to the similarity. Only its first 16 bytes count.
func (t *textHash) addWord(text []byte) {
	block, mask := t.load(text[:min(len(text), mixSize/2)])
	x, y := block.at(0)&mask.at(0), block.at(8)&mask.at(8)
	n := wordBytes(x)
	if n == 8 {
		n += wordBytes(y)
	}
	x &= 1<<(8*min(n, 8)) - 1
	y &= 1<<(8*max(n-8, 0)) - 1
	if n > 0 && (digits(x&^highs)&^x|digits(y&^highs)&^y)&highs == 0 {
		t.similar.vote(spread(mix(textPrime, x, y)))
	}
}

// wordBytes is how many of the bytes of x, from the first on, belong to a word.
func wordBytes(x uint64) int {
	ascii := x &^ highs
	return bits.TrailingZeros64(^(letters(ascii)|digits(ascii)|x)&highs) / 8
}

// spread makes every bit of the result depend on every bit of h.
func spread(h uint64) uint64 {
	h = (h ^ h>>32) * textPrime
	h = (h ^ h>>29) * textPrime
	return h ^ h>>32
}

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
