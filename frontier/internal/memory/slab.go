package memory

// A Slab is a growing array of records without pointers, addressed by index. It
// grows by pages, so that a record never moves and growth copies nothing, and the
// garbage collector sees one object per page, which it need not look into.
type Slab[T any] struct {
	pages [][]T
	free  []int32
	n     int32 // records ever used
}

const (
	slabBits = 8
	slabPage = 1 << slabBits
)

// At is the record of an index that Alloc returned. A freed record is zero.
func (s *Slab[T]) At(i int32) *T { return &s.pages[i>>slabBits][i&(slabPage-1)] }

// Alloc returns the index of a zero record.
func (s *Slab[T]) Alloc() int32 {
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

// Free makes a record zero, and its index free for Alloc.
func (s *Slab[T]) Free(i int32) {
	var zero T
	*s.At(i) = zero
	s.free = append(s.free, i)
}

// Len is the number of records in use.
func (s *Slab[T]) Len() int { return int(s.n) - len(s.free) }

// End is the index after the last one that was ever in use.
func (s *Slab[T]) End() int32 { return s.n }
