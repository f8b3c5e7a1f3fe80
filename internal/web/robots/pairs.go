package robots

// A pairSet is a set of pairs of neighbouring bytes, by a hash of seven bits. A
// path that lacks a pair of a pattern cannot match it, which rules most patterns
// out at the cost of two comparisons each.
type pairSet [2]uint64

func (s *pairSet) add(text string) {
	for i := 1; i < len(text); i++ {
		h := (uint32(text[i-1])<<8 | uint32(text[i])) * 0x9e3779b1 >> 25
		s[h>>6] |= 1 << (h & 63)
	}
}

// holds reports whether all of other is in s.
func (s *pairSet) holds(other *pairSet) bool {
	return other[0]&^s[0] == 0 && other[1]&^s[1] == 0
}

// pairsOf collects the pairs that a path must hold to match a pattern in normal
// form.
func pairsOf(pattern string) (s pairSet) {
	start := 0
	for i := 0; i <= len(pattern); i++ {
		if i == len(pattern) || pattern[i] == '*' || pattern[i] == '$' {
			s.add(pattern[start:i])
			start = i + 1
		}
	}
	return s
}
