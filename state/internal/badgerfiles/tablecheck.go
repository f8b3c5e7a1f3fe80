package badgerfiles

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/dgraph-io/badger/v4/fb"

	"github.com/mapwright/mapwright/internal/disk"
)

// A table of Badger ends with its index:
//
//	blocks
//	index     a flat buffer with the offset and length of each block
//	length    4 bytes, big-endian: of the index
//	checksum  of the index
//	length    4 bytes, big-endian: of the checksum
//
// A block ends with a checksum of all before it and the length of that
// checksum. Badger checks blocks when it reads them, but it then goes on as if
// the table ended there, and it ends the process when a length is wrong. So
// tables are checked as a whole before Badger sees them.

// checkTable reports what is wrong with the table in path. The buffer is for
// the content of the file; it is returned for the next call.
func checkTable(path string, buf []byte) (_ []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // an index that passes its checksum and does not decode
			err = &disk.CorruptError{What: path, Reason: "its index does not decode"}
		}
	}()
	b, err := readInto(path, buf)
	if err != nil {
		return buf, err
	}
	bad := func(format string, args ...any) ([]byte, error) {
		return b, &disk.CorruptError{What: path, Reason: fmt.Sprintf(format, args...)}
	}
	rest, sum, ok := cutChecksum(b)
	if !ok || len(rest) < 4 {
		return bad("its end does not decode")
	}
	length := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	rest = rest[:len(rest)-4]
	if length > int64(len(rest)) {
		return bad("its end does not decode")
	}
	start := len(rest) - int(length)
	encoded := rest[start:]
	table := crc32.MakeTable(crc32.Castagnoli)
	if uint64(crc32.Checksum(encoded, table)) != sum {
		return bad("the checksum of its index does not match")
	}
	index := fb.GetRootAsTableIndex(encoded, 0)
	var at fb.BlockOffset
	for i := range index.OffsetsLength() {
		if !index.Offsets(&at, i) {
			return bad("its index does not decode")
		}
		from, end := int64(at.Offset()), int64(at.Offset())+int64(at.Len())
		if end > int64(start) {
			return bad("block %d reaches beyond the blocks", i)
		}
		data, sum, ok := cutChecksum(b[from:end])
		if !ok || uint64(crc32.Checksum(data, table)) != sum {
			return bad("the checksum of block %d at offset %d does not match", i, from)
		}
	}
	return b, nil
}

// cutChecksum takes the checksum and its length from the end of b. A checksum
// is a protocol buffer whose field 2 holds the sum; field 1, the algorithm, is
// zero and left out.
func cutChecksum(b []byte) (rest []byte, sum uint64, ok bool) {
	const sumField = 2 << 3 // field 2, a varint
	if len(b) < 4 {
		return nil, 0, false
	}
	length := int64(binary.BigEndian.Uint32(b[len(b)-4:]))
	b = b[:len(b)-4]
	if length > int64(len(b)) {
		return nil, 0, false
	}
	rest, encoded := b[:len(b)-int(length)], b[len(b)-int(length):]
	if len(encoded) == 0 { // a sum of zero is left out too
		return rest, 0, true
	}
	sum, n := binary.Uvarint(encoded[1:])
	return rest, sum, encoded[0] == sumField && n == len(encoded)-1
}

// readInto reads a file into buf, which grows as need be.
func readInto(path string, buf []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	size := int(info.Size())
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err = f.ReadAt(buf, 0)
	return buf, err
}
