package extsort

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
)

// merged are the records of a sorted chunk and of the runs of a file, in order. Each is valid until the next.
func merged(ctx context.Context, c *chunk, file io.ReaderAt, ends []int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		i := 0
		all := []*run{{next: func([]byte) ([]byte, error) {
			if i == len(c.refs) {
				return nil, io.EOF
			}
			i++
			return c.record(i - 1), nil
		}}}
		start := int64(0)
		for _, end := range ends {
			size := end - start
			in := bufio.NewReaderSize(io.NewSectionReader(file, start, size), bufferSize)
			start = end
			all = append(all, &run{next: func(buf []byte) ([]byte, error) { return readRecord(in, buf, uint64(size)) }})
		}
		var runs runHeap
		for _, r := range all {
			switch err := r.advance(); {
			case err == nil:
				runs = append(runs, r)
			case !errors.Is(err, io.EOF):
				yield(nil, err)
				return
			}
		}
		heap.Init(&runs)
		for len(runs) > 0 {
			err := ctx.Err()
			if !yield(runs[0].record, err) || err != nil {
				return
			}
			switch err := runs[0].advance(); {
			case err == nil:
				heap.Fix(&runs, 0)
			case errors.Is(err, io.EOF):
				heap.Pop(&runs)
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// readRecord reads a length and a record of that length, into buf if it fits. Most is the largest length that is
// possible. At the end of the run it returns io.EOF.
func readRecord(in *bufio.Reader, buf []byte, most uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, errShort
	}
	buf = slices.Grow(buf[:0], int(n))[:n]
	if _, err = io.ReadFull(in, buf); errors.Is(err, io.EOF) {
		err = errShort
	}
	return buf, err
}

// run is one of the sequences that are merged.
type run struct {
	record []byte // the next
	next   func(buf []byte) ([]byte, error)
}

func (r *run) advance() (err error) {
	r.record, err = r.next(r.record)
	return err
}

// runHeap has the run with the first record at the top.
type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return bytes.Compare(h[i].record, h[j].record) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
