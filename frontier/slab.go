package frontier

// A slab is a growing array of records without pointers, addressed by index. It
// grows by pages, so that a record never moves and growth copies nothing, and the
// garbage collector sees one object per page, which it need not look into.
type slab[T any] struct {
	pages [][]T
	free  []int32
	n     int32 // records ever used
}

const (
	slabBits = 8
	slabPage = 1 << slabBits
)

func (s *slab[T]) at(i int32) *T { return &s.pages[i>>slabBits][i&(slabPage-1)] }

// alloc returns the index of a zero record.
func (s *slab[T]) alloc() int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	i := s.n
	if int(i)>>slabBits == len(s.pages) {
		s.pages = append(s.pages, make([]T, slabPage))
	}
	s.n++
	return i
}

func (s *slab[T]) release(i int32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}

// len is how many records are in use.
func (s *slab[T]) len() int { return int(s.n) - len(s.free) }
