package report

import (
	"context"
	"iter"
)

const (
	// batchLines is how many lines are handed over at a time, so that handing over costs little.
	batchLines = 64
	// batchesAhead bounds what is read before it is needed.
	batchesAhead = 4
)

// ahead reads a sequence in a goroutine of its own, so that one processor reads pages while another writes them. The
// goroutine has ended when the returned sequence ends. The values must not share memory with each other.
func ahead[T any](ctx context.Context, read func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		type batch struct {
			values []T
			err    error // comes after values and ends the sequence
		}
		ctx, cancel := context.WithCancel(ctx)
		batches, done := make(chan batch, batchesAhead), ctx.Done()
		hand := func(b batch) bool {
			select {
			case batches <- b:
				return true
			case <-done:
				return false
			}
		}
		go func() {
			defer close(batches)
			b := batch{values: make([]T, 0, batchLines)}
			for v, err := range read(ctx) {
				if b.err = err; err != nil {
					break
				}
				if b.values = append(b.values, v); len(b.values) == batchLines {
					if !hand(b) {
						return
					}
					b.values = make([]T, 0, batchLines)
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
