package wal

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestGolden reads a log of format 1 as it was once written, and checks that
// the bytes are still the same today.
func TestGolden(t *testing.T) {
	want := [][]byte{[]byte("a record"), {}, []byte("another, after an empty one"), testRecord(1, 5000)}
	name := "00000000000000000041.wal"
	golden, err := os.ReadFile(filepath.Join("testdata", "v1", name))
	if err != nil {
		t.Fatal(err)
	}
	r := examine(map[string][]byte{filepath.Join(testDir, name): golden})
	if r.err != nil || r.torn != nil || !slices.EqualFunc(r.recs, want, bytes.Equal) {
		t.Errorf("%d records, %v, %v", len(r.recs), r.torn, r.err)
	}

	h := mustHeader(t, golden)
	got := h.encode()
	b := h.appendBarrier(nil, headerSize, h.base)
	for i, rec := range want {
		b = appendFrame(b, typeRecord, h.recordSeed(h.base+LSN(i)), rec)
	}
	got = append(got, pad(b)...)
	got = append(got, pad(h.appendBarrier(nil, int64(len(got)), h.base+LSN(len(want))))...)
	if !bytes.Equal(got, golden) {
		t.Error("the format has changed: a new version is due")
	}
}
