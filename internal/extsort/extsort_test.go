package extsort

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

type value struct {
	number uint32
	text   string
}

// sorter sorts values by their numbers. Each takes 23 bytes, or 27 with a text.
func sorter(dir string, limit int) *Sorter[value] {
	return New(Space{Dir: dir, Pattern: "sort-*", Bytes: limit},
		func(v *value, r *Record) { r.Uint32(&v.number).Text(&v.text) })
}

func TestSortInMemoryAndInRuns(t *testing.T) {
	for name, limit := range map[string]int{"in memory": 1 << 20, "in a file": 2000, "a run for each value": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := sorter(dir, limit)
			for round := range 2 { // it is empty after Sort, and can be used again
				n := 1000 + round
				for _, number := range rand.Perm(n) {
					v := value{number: uint32(number)}
					if number%2 == 0 {
						v.text = "even"
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
					if int(v.number) != next || (v.text == "even") != (next%2 == 0) {
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
			if err := s.Add(value{number: uint32(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	var got []uint32
	if s.Sort(t.Context(), func(v value, err error) bool {
		got = append(got, v.number)
		return len(got) < 3
	}) || !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("a Sort that is ended at the third value yielded %v", got)
	}
	fill()
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	if s.Sort(ctx, func(v value, err error) bool {
		if v.number == 10 {
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

func TestDamagedTemporaryFile(t *testing.T) {
	for name, damage := range map[string]func(*os.File) error{
		"cut off": func(f *os.File) error { return f.Truncate(50) },
		"a length": func(f *os.File) error {
			_, err := f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 0)
			return err
		},
		"a record": func(f *os.File) error { _, err := f.WriteAt([]byte{2}, 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := sorter(t.TempDir(), 100)
			for i := range 50 {
				if err := s.Add(value{number: uint32(i)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(s.file); err != nil {
				t.Fatal(err)
			}
			var last error
			if s.Sort(t.Context(), func(_ value, err error) bool { last = err; return true }) || last == nil {
				t.Error("a damaged file was sorted without an error")
			}
		})
	}
}

// mixed has a field of each kind.
type mixed struct {
	list  []string
	text  string
	wide  uint64
	small uint32
	kind  byte
	is    bool
	rest  []byte

	signed int64 // not negative, since those come last
}

func (m *mixed) fields(r *Record) {
	r.KeyText("key").Texts(&m.list).Text(&m.text).Key(7).Uint64(&m.wide).Uint32(&m.small).Byte(&m.kind).Bool(&m.is)
	r.Int64(&m.signed).Rest(&m.rest)
	m.rest = slices.Clone(m.rest)
}

func compareMixed(a, b mixed) int {
	return cmp.Or(slices.Compare(a.list, b.list), strings.Compare(a.text, b.text), cmp.Compare(a.wide, b.wide),
		cmp.Compare(a.small, b.small), cmp.Compare(a.kind, b.kind),
		compareBools(a.is, b.is), cmp.Compare(a.signed, b.signed), slices.Compare(a.rest, b.rest))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Records have the order of the values that they are made of, and values come back as they were, whatever bytes they
// have.
func FuzzOrderOfRecords(f *testing.F) {
	f.Add([]byte("a\x00b\x00\x00\x01\xff\xffab a"), uint16(100))
	f.Add([]byte("http://h.test/a http://h.test/b\x00"), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		s := New(Space{Dir: t.TempDir(), Pattern: "sort-*", Bytes: int(limit)},
			(*mixed).fields)
		defer s.Close()
		take := func(most int) []byte {
			n := 0
			if len(data) > 0 {
				n = min(int(data[0])%(most+1), len(data)-1)
				data = data[1:]
			}
			part := data[:n]
			data = data[n:]
			return part
		}
		var want []mixed
		for len(data) > 0 && len(want) < 200 {
			m := mixed{text: string(take(5)), wide: uint64(len(take(3))) << 40, small: uint32(len(take(2))) << 20,
				kind: byte(len(take(2))), is: len(take(1)) > 0, signed: int64(len(take(2))), rest: take(3)}
			for range len(take(3)) {
				m.list = append(m.list, string(take(3)))
			}
			want = append(want, m)
			if err := s.Add(m); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(want, compareMixed)
		i := 0
		for m, err := range s.Sorted(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if compareMixed(m, want[i]) != 0 {
				t.Fatalf("value %d is %+v, not %+v", i, m, want[i])
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d of %d values", i, len(want))
		}
	})
}

// Records that are larger than a block of memory are sorted with small ones.
func TestLargeRecords(t *testing.T) {
	s := sorter(t.TempDir(), 8*blockSize)
	texts := []string{strings.Repeat("a", 3*blockSize), "b", strings.Repeat("c", blockSize),
		strings.Repeat("d", blockSize-8), ""}
	for range 2 { // the second time in the memory of the first
		for i := range 20 {
			if err := s.Add(value{uint32(19 - i), texts[i%len(texts)]}); err != nil {
				t.Fatal(err)
			}
		}
		i := 0
		for v, err := range s.Sorted(t.Context()) {
			if err != nil || int(v.number) != i || v.text != texts[(19-i)%len(texts)] {
				t.Fatalf("value %d: number %d with a text of %d bytes (%v)", i, v.number, len(v.text), err)
			}
			i++
		}
	}
}

// Bound is told of all that temporary files hold, and Add fails with its error.
func TestBound(t *testing.T) {
	held, most, refused := int64(0), int64(5000), errors.New("refused")
	s := New(Space{Dir: t.TempDir(), Pattern: "sort-*", Bytes: 500, Bound: func(bytes int64) error {
		if held+bytes > most {
			return refused
		}
		held += bytes
		return nil
	}}, func(v *value, r *Record) { r.Uint32(&v.number).Text(&v.text) })
	n := 0
	add := func() (err error) {
		for n = 0; err == nil; n++ {
			err = s.Add(value{number: uint32(n), text: "text"})
		}
		return err
	}
	if err := add(); !errors.Is(err, refused) || n < 300 {
		t.Errorf("%d values were taken: %v", n, err)
	}
	if info, err := s.file.Stat(); err != nil || info.Size() != held {
		t.Errorf("the file has %d bytes, and %d were told of: %v", info.Size(), held, err)
	}
	if s.Close(); held != 0 {
		t.Errorf("%d bytes are held when it is closed", held)
	}
	if err := add(); !errors.Is(err, refused) || n < 300 {
		t.Errorf("%d values were taken after Close: %v", n, err)
	}
	s.Close()
}
