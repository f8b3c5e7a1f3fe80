// Package extsort sorts more values than memory should hold: those that are too many are written to a temporary file in sorted runs, which are merged at the end.
package extsort

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// Options are how values are sorted. Values are written by package gob.
type Options[T any] struct {
	Dir     string // of the temporary file
	Pattern string // of its name, as in os.CreateTemp
	Limit   int    // about the bytes of values that are held in memory
	Compare func(a, b T) int
	Size    func(*T) int // about the memory that a value takes
}

// A Sorter sorts values: Add each, then Sort. After Sort or Close it is empty, and may be used again. It is not safe for concurrent use.
type Sorter[T any] struct {
	o     Options[T]
	n     int // values since it was empty
	chunk []T
	size  int      // about the bytes in chunk
	file  *os.File // holds the runs one after the other; nil if there are none
	ends  []int64  // where each run ends in file
}

// New makes an empty sorter.
func New[T any](o Options[T]) *Sorter[T] { return &Sorter[T]{o: o} }

// Len is how many values were added.
func (s *Sorter[T]) Len() int { return s.n }

// Add takes a value.
func (s *Sorter[T]) Add(v T) error {
	s.chunk = append(s.chunk, v)
	s.n++
	if s.size += s.o.Size(&s.chunk[len(s.chunk)-1]); s.size < s.o.Limit {
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("write values to a temporary file: %w", err)
	}
	return nil
}

// spill adds the chunk, sorted, to the temporary file as a run.
func (s *Sorter[T]) spill() error {
	slices.SortFunc(s.chunk, s.o.Compare)
	if s.file == nil {
		f, err := os.CreateTemp(s.o.Dir, s.o.Pattern)
		if err != nil {
			return err
		}
		_ = os.Remove(f.Name()) // so that a kill leaves nothing behind; where open files cannot be removed, Close does it
		s.file = f
	}
	w := bufio.NewWriterSize(s.file, 64<<10)
	enc := gob.NewEncoder(w)
	for i := range s.chunk {
		if err := enc.Encode(&s.chunk[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	s.ends = append(s.ends, end)
	clear(s.chunk)
	s.chunk, s.size = s.chunk[:0], 0
	return nil
}

// Sorted is Sort as a sequence, which may be read once.
func (s *Sorter[T]) Sorted(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { s.Sort(ctx, yield) }
}

// Sort yields all values in order, or an error, which is the last. It reports whether yield never returned false and there was no error.
func (s *Sorter[T]) Sort(ctx context.Context, yield func(T, error) bool) bool {
	defer s.Close()
	slices.SortFunc(s.chunk, s.o.Compare)
	if s.file == nil {
		for _, v := range s.chunk {
			if !yield(v, nil) {
				return false
			}
		}
		return true
	}
	runs := s.runs()
	for len(runs.list) > 0 {
		if cmp.Or(runs.err, ctx.Err()) != nil {
			break
		}
		if !yield(runs.list[0].value, nil) {
			return false
		}
		runs.next()
	}
	if err := cmp.Or(runs.err, ctx.Err()); err != nil {
		var none T
		yield(none, fmt.Errorf("merge sorted values: %w", err))
		return false
	}
	return true
}

// runs are the runs of the file and the chunk.
func (s *Sorter[T]) runs() *runHeap[T] {
	runs := &runHeap[T]{compare: s.o.Compare}
	rest := s.chunk
	runs.add(func(v *T) error {
		if len(rest) == 0 {
			return io.EOF
		}
		*v, rest = rest[0], rest[1:]
		return nil
	})
	start := int64(0)
	for _, end := range s.ends {
		dec := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, start, end-start), 64<<10))
		start = end
		runs.add(func(v *T) error {
			var none T
			*v = none // gob leaves fields alone that are zero
			return dec.Decode(v)
		})
	}
	return runs
}

// Close removes the temporary file and forgets all values.
func (s *Sorter[T]) Close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
	clear(s.chunk)
	s.file, s.ends, s.chunk, s.size, s.n = nil, nil, s.chunk[:0], 0, 0
}

// run is one of the sequences that are merged.
type run[T any] struct {
	value T
	read  func(*T) error
}

// runHeap has the run with the first value at the top.
type runHeap[T any] struct {
	compare func(a, b T) int
	list    []*run[T]
	err     error
}

func (h *runHeap[T]) Len() int           { return len(h.list) }
func (h *runHeap[T]) Less(i, j int) bool { return h.compare(h.list[i].value, h.list[j].value) < 0 }
func (h *runHeap[T]) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *runHeap[T]) Push(x any)         { h.list = append(h.list, x.(*run[T])) }
func (h *runHeap[T]) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

func (h *runHeap[T]) add(read func(*T) error) {
	r := &run[T]{read: read}
	switch err := read(&r.value); {
	case err == nil:
		heap.Push(h, r)
	case !errors.Is(err, io.EOF):
		h.err = err
	}
}

// next replaces the value at the top by the next of its run.
func (h *runHeap[T]) next() {
	r := h.list[0]
	switch err := r.read(&r.value); {
	case err == nil:
		heap.Fix(h, 0)
	case errors.Is(err, io.EOF):
		heap.Pop(h)
	default:
		h.err = err
		heap.Pop(h)
	}
}
