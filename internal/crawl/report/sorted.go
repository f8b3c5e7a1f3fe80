package report

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
	"strings"

	"github.com/mapwright/mapwright/state"
)

// sortBytes is about how much memory the pages of one partition may take before they are sorted and written to a temporary file.
const sortBytes = 48 << 20

// sortPages brings the pages of a store into an order that does not depend on the crawl's random seed: by partition, host name, URL.
// The store gives them by partition already. One partition is sorted in memory, or, if it is larger than limit bytes, by merging
// sorted runs of a temporary file in dir.
func sortPages(ctx context.Context, pages iter.Seq2[state.Page, error], dir string, limit int) iter.Seq2[state.Page, error] {
	return func(yield func(state.Page, error) bool) {
		s := &pageSorter{dir: dir, limit: limit}
		defer s.close()
		for p, err := range pages {
			if err != nil {
				yield(p, err)
				return
			}
			if s.n > 0 && p.Link.Key.Host.Partition() != s.partition && !s.flush(ctx, yield) {
				return
			}
			if err := s.add(p); err != nil {
				yield(p, err)
				return
			}
		}
		s.flush(ctx, yield)
	}
}

// pageSorter holds the pages of one partition.
type pageSorter struct {
	dir       string
	limit     int
	partition uint8
	n         int // pages since the last flush
	chunk     []state.Page
	size      int      // about the bytes in chunk
	file      *os.File // holds the runs one after the other; nil if there are none
	ends      []int64  // where each run ends in file
}

func (s *pageSorter) add(p state.Page) error {
	s.partition = p.Link.Key.Host.Partition()
	s.chunk = append(s.chunk, p)
	s.n++
	s.size += 400 + len(p.Link.URL.String()) + len(p.Link.Parent.String()) // 400: the structures
	if p.Finish != nil {
		s.size += len(p.Finish.Facts) + len(p.Finish.RedirectTo) + len(p.Finish.Differences) + len(p.VisitFacts)
	}
	if s.size < s.limit {
		return nil
	}
	return s.spill()
}

// spill adds the chunk, sorted, to the temporary file as a run.
func (s *pageSorter) spill() error {
	slices.SortFunc(s.chunk, comparePages)
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, state.TempPattern)
		if err != nil {
			return fmt.Errorf("sort pages: %w", err)
		}
		_ = os.Remove(f.Name()) // so that a kill leaves nothing behind; where open files cannot be removed, close does it
		s.file = f
	}
	w := bufio.NewWriterSize(s.file, 64<<10)
	enc := gob.NewEncoder(w)
	for i := range s.chunk {
		if err := enc.Encode(&s.chunk[i]); err != nil {
			return fmt.Errorf("sort pages in %s: %w", s.file.Name(), err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sort pages in %s: %w", s.file.Name(), err)
	}
	end, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("sort pages in %s: %w", s.file.Name(), err)
	}
	s.ends = append(s.ends, end)
	clear(s.chunk)
	s.chunk, s.size = s.chunk[:0], 0
	return nil
}

// flush yields the partition in order and forgets it. It returns false if the iteration ends.
func (s *pageSorter) flush(ctx context.Context, yield func(state.Page, error) bool) bool {
	defer s.close()
	slices.SortFunc(s.chunk, comparePages)
	if s.file == nil {
		for _, p := range s.chunk {
			if !yield(p, nil) {
				return false
			}
		}
		return true
	}
	var runs runHeap
	rest := s.chunk
	runs.add(func(p *state.Page) error {
		if len(rest) == 0 {
			return io.EOF
		}
		*p, rest = rest[0], rest[1:]
		return nil
	})
	start := int64(0)
	for _, end := range s.ends {
		dec := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, start, end-start), 64<<10))
		start = end
		runs.add(func(p *state.Page) error {
			*p = state.Page{} // gob leaves fields alone that are zero
			return dec.Decode(p)
		})
	}
	for len(runs.runs) > 0 {
		if err := cmp.Or(runs.err, ctx.Err()); err != nil {
			yield(state.Page{}, fmt.Errorf("sort pages: %w", err))
			return false
		}
		if !yield(runs.runs[0].page, nil) {
			return false
		}
		runs.next()
	}
	if runs.err != nil {
		yield(state.Page{}, fmt.Errorf("sort pages: %w", runs.err))
		return false
	}
	return true
}

// close removes the temporary file and forgets the chunk.
func (s *pageSorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
	clear(s.chunk)
	s.file, s.ends, s.chunk, s.size, s.n = nil, nil, s.chunk[:0], 0, 0
}

// comparePages orders by host name, then by URL, and visits of one URL by their generation. URLs of one host differ in scheme and port too.
func comparePages(a, b state.Page) int {
	x, y := a.Link.URL, b.Link.URL
	order := cmp.Or(strings.Compare(x.Host(), y.Host()), strings.Compare(x.String(), y.String()), a.Link.Key.Compare(b.Link.Key))
	if order == 0 && a.Finish != nil && b.Finish != nil {
		return cmp.Compare(a.Finish.Generation, b.Finish.Generation)
	}
	return order
}

// sortedRun is one of the sequences that are merged.
type sortedRun struct {
	page state.Page
	read func(*state.Page) error
}

// runHeap has the run with the first page at the top.
type runHeap struct {
	runs []*sortedRun
	err  error
}

func (h *runHeap) Len() int           { return len(h.runs) }
func (h *runHeap) Less(i, j int) bool { return comparePages(h.runs[i].page, h.runs[j].page) < 0 }
func (h *runHeap) Swap(i, j int)      { h.runs[i], h.runs[j] = h.runs[j], h.runs[i] }
func (h *runHeap) Push(x any)         { h.runs = append(h.runs, x.(*sortedRun)) }
func (h *runHeap) Pop() any {
	last := h.runs[len(h.runs)-1]
	h.runs = h.runs[:len(h.runs)-1]
	return last
}

func (h *runHeap) add(read func(*state.Page) error) {
	r := &sortedRun{read: read}
	switch err := read(&r.page); {
	case err == nil:
		heap.Push(h, r)
	case !errors.Is(err, io.EOF):
		h.err = err
	}
}

// next replaces the page at the top by the next of its run.
func (h *runHeap) next() {
	r := h.runs[0]
	switch err := r.read(&r.page); {
	case err == nil:
		heap.Fix(h, 0)
	case errors.Is(err, io.EOF):
		heap.Pop(h)
	default:
		h.err = err
		heap.Pop(h)
	}
}
