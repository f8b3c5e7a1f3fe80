package extsort

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

type value struct {
	Number int
	Text   string
}

// sorter sorts values by their numbers. Each counts for 10 bytes.
func sorter(dir string, limit int) *Sorter[value] {
	return New(Options[value]{
		Dir: dir, Pattern: "sort-*", Limit: limit, Compare: func(a, b value) int { return cmp.Compare(a.Number, b.Number) }, Size: func(*value) int { return 10 },
	})
}

func TestSortInMemoryAndInRuns(t *testing.T) {
	for name, limit := range map[string]int{"in memory": 1 << 20, "in a file": 1000, "a run for each value": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := sorter(dir, limit)
			for round := range 2 { // it is empty after Sort, and can be used again
				n := 1000 + round
				for _, number := range rand.Perm(n) {
					v := value{Number: number}
					if number%2 == 0 {
						v.Text = "even" // others have an empty text, which gob does not write
					}
					if err := s.Add(v); err != nil {
						t.Fatal(err)
					}
				}
				if s.Len() != n {
					t.Fatalf("%d values were added, and Len is %d", n, s.Len())
				}
				next := 0
				whole := s.Sort(t.Context(), func(v value, err error) bool {
					if err != nil {
						t.Fatal(err)
					}
					if v.Number != next || (v.Text == "even") != (next%2 == 0) {
						t.Fatalf("value %d is %+v", next, v)
					}
					next++
					return true
				})
				if !whole || next != n || s.Len() != 0 {
					t.Fatalf("sorted %d of %d values (%v), and %d are left", next, n, whole, s.Len())
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestSortEndsEarly(t *testing.T) {
	s := sorter(t.TempDir(), 100)
	fill := func() {
		for i := range 50 {
			if err := s.Add(value{Number: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	var got []int
	if s.Sort(t.Context(), func(v value, err error) bool {
		got = append(got, v.Number)
		return len(got) < 3
	}) || !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("a Sort that is ended at the third value yielded %v", got)
	}
	fill()
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	if s.Sort(ctx, func(v value, err error) bool {
		if v.Number == 10 {
			cancel()
		}
		last = err
		return true
	}) || !errors.Is(last, context.Canceled) {
		t.Errorf("a Sort whose context ends says %v", last)
	}
}

func TestTemporaryFileCannotBeMade(t *testing.T) {
	s := sorter(t.TempDir()+"/missing", 10)
	if err := s.Add(value{}); err == nil {
		t.Error("a value was written to a directory that is not there")
	}
	s.Close()
}
