package pageindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

// header is the beginning of the file.
type header struct {
	rows     uint64
	urlBytes uint64
	source   fingerprint
	rowsSum  uint64 // xxhash64 of the rows
	urlsSum  uint64 // likewise, of the URLs
	known    uint64 // bits: which optional fields the rows have
}

// fingerprint identifies the sitemap.jsonl of an index.
type fingerprint struct {
	size    uint64
	hash    uint64 // xxhash64
	modTime time.Time
}

// Bits of header.known.
const (
	knowsClickDepths = 1 << iota
	knowsProblems
)

const (
	magic      = "MWPAGES\x01" // the last byte is the version
	headerSize = 96
)

// errDamaged means that a file is not an index of this version, or not whole.
var errDamaged = errors.New("the page index is damaged or of another version")

func (h *header) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, headerSize)
	b = append(b, magic...)
	for _, v := range []uint64{h.rows, h.urlBytes, h.source.size, h.source.hash, uint64(h.source.modTime.UnixNano()),
		h.rowsSum, h.urlsSum, h.known, 0, 0} {
		b = le.AppendUint64(b, v)
	}
	return le.AppendUint64(b, xxhash.Sum64(b))
}

func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) != headerSize || string(b[:len(magic)]) != magic ||
		le.Uint64(b[headerSize-8:]) != xxhash.Sum64(b[:headerSize-8]) {
		return header{}, errDamaged
	}
	at := func(i int) uint64 { return le.Uint64(b[8+8*i:]) }
	h := header{rows: at(0), urlBytes: at(1), source: fingerprint{size: at(2), hash: at(3),
		modTime: time.Unix(0, int64(at(4)))}, rowsSum: at(5), urlsSum: at(6), known: at(7)}
	if h.rows > 1<<32 || h.urlBytes > 1<<48 {
		return header{}, fmt.Errorf("%w: %d rows", errDamaged, h.rows)
	}
	return h, nil
}

// size is the size of the whole file in bytes.
func (h *header) size() int64 { return headerSize + int64(h.rows)*rowSize + int64(h.urlBytes) }
