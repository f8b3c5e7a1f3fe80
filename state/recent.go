package state

import "github.com/mapwright/mapwright/internal/urlnorm"

// recentKeys is how many of the last keys a recent set remembers at least.
const recentKeys = 1 << 16

// A recentSet remembers the last keys that were added to it, recentKeys to
// twice as many. The zero value is empty.
type recentSet struct {
	cur, old map[visit]struct{}
}

// A visit stands for one visit of a URL. The host is left out: the other words
// alone are the hash of the whole URL.
type visit struct {
	hi, lo     uint64
	generation uint32
}

// add reports whether the visit was not there.
func (s *recentSet) add(k urlnorm.Key, generation uint32) bool {
	v := visit{k.Hi, k.Lo, generation}
	if _, ok := s.cur[v]; ok {
		return false
	}
	if _, ok := s.old[v]; ok {
		return false
	}
	if s.cur == nil || len(s.cur) >= recentKeys {
		s.cur, s.old = s.old, s.cur
		clear(s.cur)
	}
	if s.cur == nil {
		s.cur = make(map[visit]struct{})
	}
	s.cur[v] = struct{}{}
	return true
}
