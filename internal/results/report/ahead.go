package report

import (
	"context"
	"iter"
)

const (
	// batchLines is how many lines are handed over at a time, so that handing over costs little, and batchBytes after
	// how many bytes there are fewer: a line with many extracted texts has megabytes.
	batchLines = 64
	batchBytes = 1 << 20
	// batchesAhead bounds what is read before it is needed.
	batchesAhead = 4
)

// ahead reads a sequence in a goroutine of its own, so that one processor reads pages while another writes them. The
// goroutine has ended when the returned sequence ends. The values must not share memory with each other. size is about
// how many bytes a value has.
func ahead[T any](ctx context.Context, size func(T) int,
	read func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		type batch struct {
			values []T
			err    error // comes after values and ends the sequence
		}
		ctx, cancel := context.WithCancel(ctx)
		batches, done := make(chan batch, batchesAhead), ctx.Done()
		hand := func(b batch) bool {
			if ctx.Err() != nil {
				return false // even if there is room
			}
			select {
			case batches <- b:
				return true
			case <-done:
				return false
			}
		}
		go func() {
			defer close(batches)
			b, bytes := batch{values: make([]T, 0, batchLines)}, 0
			for v, err := range read(ctx) {
				if b.err = err; err != nil {
					break
				}
				b.values, bytes = append(b.values, v), bytes+size(v)
				if len(b.values) == batchLines || bytes >= batchBytes {
					if !hand(b) {
						return
					}
					b.values, bytes = make([]T, 0, batchLines), 0
				}
			}
			hand(b)
		}()
		defer func() {
			cancel()
			for range batches { // until the goroutine has ended
			}
		}()
		for b := range batches {
			for _, v := range b.values {
				if !yield(v, nil) {
					return
				}
			}
			if b.err != nil {
				var none T
				yield(none, b.err)
				return
			}
		}
		if err := ctx.Err(); err != nil {
			var none T
			yield(none, err)
		}
	}
}
