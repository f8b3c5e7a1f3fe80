package wal

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// fuzzHeader is the header of every segment that FuzzRecover makes, so that the
// files of its corpus need not have one.
func fuzzHeader() *header {
	h := &header{log: [8]byte{1}, id: [8]byte{2}, base: 1}
	h.seed = checksum(0, h.id[:])
	return h
}

// resum gives the frames in body the checksums that they should have, as far
// as frames can be made out, so that a fuzzer gets past the checksums.
func resum(h *header, body []byte) {
	lsn := h.base
	for off := 0; off+frameOverhead <= len(body); {
		if body[off] == 0 {
			off = int(alignUp(int64(off) + 1))
			continue
		}
		n := int64(binary.LittleEndian.Uint32(body[off+1:]))
		if n > int64(len(body)-off-frameOverhead) {
			return
		}
		end := off + frameHeader + int(n)
		seed := h.recordSeed(lsn)
		switch body[off] {
		case typeBarrier:
			seed = h.seed
		case typeRecord:
			lsn++
		}
		binary.LittleEndian.PutUint32(body[end:], checksum(seed, body[off:end]))
		off = end + frameTrailer
	}
}

// FuzzRecover recovers a log of one segment with any bytes after the header.
// It is refused with nothing changed, or it opens, and then it opens again with
// the same records and nothing left to repair.
func FuzzRecover(f *testing.F) {
	h := fuzzHeader()
	batch := func(off int64, lsn LSN, recs ...string) []byte {
		b := h.appendBarrier(nil, off, lsn)
		for i, rec := range recs {
			b = appendFrame(b, typeRecord, h.recordSeed(lsn+LSN(i)), []byte(rec))
		}
		return b
	}
	page := func(b []byte) []byte { return append(b, make([]byte, alignUp(int64(len(b)))-int64(len(b)))...) }
	one := batch(headerSize, 1, "one", "", "three")
	f.Add([]byte{}, false)
	f.Add(one, false)
	f.Add(one[:len(one)-1], false)
	f.Add(append(page(one), batch(headerSize+pageSize, 4, "four")...), false)
	f.Add(append(page(one), batch(headerSize+pageSize, 5, "five")...), true)
	f.Add(page(batch(headerSize, 1)), false)

	f.Fuzz(func(t *testing.T, body []byte, sum bool) {
		h := fuzzHeader()
		if sum {
			body = bytes.Clone(body)
			resum(h, body)
		}
		name := segmentPath(testDir, 1)
		fs := memFSOf(map[string][]byte{name: append(h.encode(), body...)})
		l, err := Open(testDir, Options{FS: fs})
		if err != nil {
			if !damaged(err) || fs.touched() {
				t.Fatalf("%v, touched %v", err, fs.touched())
			}
			return
		}
		torn := l.Recovery()
		first, err := contents(l)
		if err != nil {
			t.Fatal(err)
		}
		if torn != nil && (torn.Offset < headerSize || torn.Bytes <= 0 || int(torn.Next) != len(first)+1) {
			t.Fatalf("%d records, %v", len(first), torn)
		}

		l, err = Open(testDir, Options{FS: memFSOf(fs.snapshot())})
		if err != nil || l.Recovery() != nil {
			t.Fatalf("opened again: %v, %v", err, l.Recovery())
		}
		again, err := contents(l)
		if err != nil || !slices.EqualFunc(first, again, bytes.Equal) {
			t.Fatalf("%d records, then %d: %v", len(first), len(again), err)
		}
	})
}

// FuzzDecodeHeader: what is taken for a header says what it said.
func FuzzDecodeHeader(f *testing.F) {
	f.Add(fuzzHeader().encode()[:64], true)
	f.Add([]byte(magic), true)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		page := make([]byte, headerSize)
		copy(page, b)
		if sum {
			binary.LittleEndian.PutUint32(page[headerSum:], checksum(0, page[:headerSum]))
		}
		h, err := decodeHeader("segment", page)
		if err != nil {
			if !damaged(err) {
				t.Fatal(err)
			}
			return
		}
		if got := h.encode(); !bytes.Equal(got[:12], page[:12]) || !bytes.Equal(got[16:40], page[16:40]) {
			t.Errorf("encoded again as %x, was %x", got[:40], page[:40])
		}
	})
}
