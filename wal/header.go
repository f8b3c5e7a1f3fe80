package wal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	formatVersion = 1
	magic         = "MWRTWAL\n"
	headerSize    = pageSize // a page of its own: no later write touches it
	headerSum     = headerSize - 4
)

// header is the first page of a segment.
type header struct {
	log  [8]byte // random, the same in all segments of a log
	id   [8]byte // random, of this segment alone
	base LSN     // LSN of the first record

	seed uint32 // checksum of id; not stored
}

func newHeader(log [8]byte, base LSN) *header {
	h := &header{log: log, id: randomID(), base: base}
	h.seed = checksum(0, h.id[:])
	return h
}

// randomID needs no error: crypto/rand ends the program rather than return one.
func randomID() (id [8]byte) {
	rand.Read(id[:])
	return id
}

func (h *header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	copy(b[16:], h.log[:])
	copy(b[24:], h.id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(h.base))
	binary.LittleEndian.PutUint32(b[headerSum:], checksum(0, b[:headerSum]))
	return b
}

// decodeHeader reads a header page. The magic, the version and the checksum
// keep their places in every version, so that a newer segment can be told
// from a damaged one.
func decodeHeader(name string, b []byte) (*header, error) {
	bad := func(reason string) error { return &CorruptError{Segment: name, Reason: reason} }
	if len(b) < headerSize {
		return nil, bad(fmt.Sprintf("header has %d of %d bytes", len(b), headerSize))
	}
	b = b[:headerSize]
	if string(b[:len(magic)]) != magic {
		return nil, bad("not a log segment")
	}
	if checksum(0, b[:headerSum]) != binary.LittleEndian.Uint32(b[headerSum:]) {
		return nil, bad("header checksum does not match")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return nil, &VersionError{Segment: name, Version: v, Detail: "segment header"}
	}
	h := &header{log: [8]byte(b[16:]), id: [8]byte(b[24:]), base: LSN(binary.LittleEndian.Uint64(b[32:]))}
	if h.base == 0 {
		return nil, bad("first record number is 0")
	}
	h.seed = checksum(0, h.id[:])
	return h, nil
}
