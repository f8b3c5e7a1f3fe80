package wal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// Every record can be read alone by the place that AppendPlaced and ReplayPlaced give it, in every segment, also after
// the log was opened again. What was truncated away is out of range, and a wrong place is damage.
func TestReadPlaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Open(dir, Options{SegmentSize: minSegmentSize})
	if err != nil {
		t.Fatal(err)
	}
	var places []Place
	var records [][]byte
	for batch := range 12 {
		var recs [][]byte
		for i := range 5 {
			recs = append(recs, bytes.Repeat([]byte(fmt.Sprintf("%d.%d ", batch, i)), 1+97*i))
		}
		p, err := l.AppendPlaced(recs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range recs {
			places, records = append(places, p), append(records, rec)
			p = p.Next(len(rec))
		}
	}
	check := func(from int) {
		t.Helper()
		var buf []byte
		for i := len(places) - 1; i >= 0; i-- {
			got, err := l.Read(places[i], len(records[i]), buf)
			if i < from {
				if !errors.Is(err, ErrOutOfRange) {
					t.Fatalf("read %v, which was truncated away: %v", places[i], err)
				}
				continue
			}
			if err != nil || !bytes.Equal(got, records[i]) {
				t.Fatalf("read %v: %.20q, %v, want %.20q", places[i], got, err, records[i])
			}
			buf = got[:0]
		}
	}
	check(0)
	if _, err := l.Read(Place{LSN: l.Last() + 1, Offset: headerSize}, 1, nil); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("read beyond the end: %v", err)
	}
	for _, wrong := range []Place{
		{places[3].LSN, places[2].Offset}, {places[3].LSN + 1, places[3].Offset}, {places[3].LSN, 1 << 40},
	} {
		var corrupt *CorruptError
		if _, err := l.Read(wrong, len(records[3]), nil); !errors.As(err, &corrupt) {
			t.Errorf("read at the wrong place %v: %v", wrong, err)
		}
	}
	_, next := l.Oldest()
	if err := l.TruncateBefore(next); err != nil {
		t.Fatal(err)
	}
	check(int(next - 1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(places[len(places)-1], 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}

	if l, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	check(int(next - 1))
	i := int(next - 1)
	if err := l.ReplayPlaced(0, func(p Place, rec []byte) error {
		if p != places[i] || !bytes.Equal(rec, records[i]) {
			t.Fatalf("record %d is at %v, want %v", i, p, places[i])
		}
		i++
		return nil
	}); err != nil || i != len(places) {
		t.Fatalf("replay ended at %d of %d: %v", i, len(places), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
