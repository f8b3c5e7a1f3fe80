package report

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
)

// What is read ahead comes in its order, with its error at the end, and nothing goes on reading after the reader has
// had enough.
func TestAhead(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		values, take int
		end          error
		size         int
	}{
		"nothing":          {0, 1000, nil, 0},
		"one":              {1, 1000, nil, 0},
		"a whole batch":    {batchLines, 1000, nil, 0},
		"many":             {999, 1000, nil, 0},
		"an error":         {70, 1000, broken, 0},
		"an error alone":   {0, 1000, broken, 0},
		"enough":           {100_000, 3, nil, 0},
		"enough of errors": {batchLines, batchLines, broken, 0},
		"large ones":       {999, 1000, nil, 4 * batchBytes},
		"enough large":     {1000, 3, nil, batchBytes/2 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which waits for the goroutine
				read := 0
				numbers := func(context.Context) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) {
						for read = range tt.values {
							if !yield(read, nil) {
								return
							}
						}
						if tt.end != nil {
							yield(0, tt.end)
						}
					}
				}
				got, end := 0, error(nil)
				for v, err := range ahead(t.Context(), func(int) int { return tt.size }, numbers) {
					if end = err; err != nil {
						continue
					}
					if v != got {
						t.Fatalf("value %d is %d", got, v)
					}
					if got++; got == tt.take {
						break
					}
				}
				if want := min(tt.values, tt.take); got != want {
					t.Errorf("%d values, want %d", got, want)
				}
				if want := tt.end; tt.take > tt.values && !errors.Is(end, want) {
					t.Errorf("it ends with %v, want %v", end, want)
				}
				inBatch := batchLines
				if tt.size > 0 {
					inBatch = (batchBytes + tt.size - 1) / tt.size
				}
				// The last one is handed over while the reader stops.
				if most := tt.take + (batchesAhead+3)*inBatch; read > most {
					t.Errorf("%d values were read, want at most %d", read, most)
				}
			})
		})
	}
}

// A sequence whose context ends is not whole, and says so.
func TestAheadIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endless := func(ctx context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for yield(0, nil) {
			}
		}
	}
	var last error
	for _, err := range ahead(ctx, func(int) int { return 0 }, endless) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("it ends with %v", last)
	}
}
