package badgerfiles

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Badger's memtable files and value logs hold entries one after the other,
// behind a header:
//
//	key id   8 bytes: zero, since nothing is encrypted
//	iv       12 bytes: not used
//	entries  meta (1), user meta (1), key length, value length and expiry
//	         (uvarints), key, value, CRC-32C of all that (4, big-endian)
//
// The files are longer than their entries while they are written to: zeros
// follow. Badger takes the first entry that does not decode for the end.
const (
	entryFileHeader = 20
	maxEntryHeader  = 2 + 5 + 5 + 10
	maxEntryKey     = 1 << 16
	metaTxn         = 1 << 6 // part of a transaction
	metaTxnEnd      = 1 << 7 // end of a transaction
)

// A Span is how much of a memtable file or value log is valid.
type Span struct {
	End   int64  // where the valid entries end; zero if the file has none
	First uint32 // checksum of the first entry, which tells files of one name apart
}

// errEncrypted is returned for a file whose header names a key.
var errEncrypted = errors.New("its header names an encryption key, and nothing is encrypted")

// scanEntries returns how far a file is valid. It begins where known ends.
// Entries of a transaction that has no end do not count, since Badger drops
// them.
func scanEntries(path string, known Span) (s Span, err error) {
	f, err := os.Open(path)
	if err != nil {
		return Span{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Span{}, err
	}
	size := info.Size()
	if size < entryFileHeader {
		return Span{}, nil
	}
	var head [8]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return Span{}, err
	}
	if head != [8]byte{} {
		return Span{}, errEncrypted
	}
	if known.End == 0 {
		known = Span{End: entryFileHeader}
	}
	r := &entryReader{at: known.End, size: size, crc: crc32.MakeTable(crc32.Castagnoli)}
	r.r = bufio.NewReaderSize(io.NewSectionReader(f, known.End, size-known.End), 256<<10)
	s = known
	for {
		meta, sum, ok, err := r.next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return s, nil // Badger cut the file behind its last entry meanwhile
		}
		if err != nil {
			return s, fmt.Errorf("read %s: %w", path, err)
		}
		if !ok {
			return s, nil
		}
		if s.First == 0 {
			s.First = sum
		}
		if meta&metaTxn == 0 {
			s.End = r.at
		}
	}
}

// An entryReader reads the entries of a file in order.
type entryReader struct {
	r    *bufio.Reader
	at   int64 // where the next entry begins
	size int64 // of the file
	crc  *crc32.Table
	buf  []byte // for entries that are larger than the reader's buffer
}

// next checks one entry. It reports false at the end and at an entry that is
// not valid.
func (r *entryReader) next() (meta byte, sum uint32, ok bool, err error) {
	head, err := r.r.Peek(int(min(maxEntryHeader, r.size-r.at)))
	if err != nil {
		return 0, 0, false, err
	}
	length, ok := entryLength(head)
	if !ok || length > r.size-r.at {
		return 0, 0, false, nil
	}
	b, err := r.read(int(length))
	if err != nil {
		return 0, 0, false, err
	}
	body, stored := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	sum = binary.BigEndian.Uint32(stored)
	if crc32.Checksum(body, r.crc) != sum {
		return 0, 0, false, nil
	}
	r.at += length
	return body[0], sum, true, nil
}

// read returns the next n bytes, which are valid until the next call.
func (r *entryReader) read(n int) ([]byte, error) {
	if n <= r.r.Size() {
		b, err := r.r.Peek(n)
		if err == nil {
			_, err = r.r.Discard(n)
		}
		return b, err
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	_, err := io.ReadFull(r.r, r.buf[:n])
	return r.buf[:n], err
}

// entryLength reads the length of an entry from its first bytes. A key length
// of zero means that no entry follows.
func entryLength(head []byte) (int64, bool) {
	if len(head) < 2 {
		return 0, false
	}
	at := 2
	var lengths [3]uint64 // key, value, expiry
	for i := range lengths {
		v, n := binary.Uvarint(head[at:])
		if n <= 0 {
			return 0, false
		}
		lengths[i] = v
		at += n
	}
	key, value := lengths[0], lengths[1]
	if key == 0 || key > maxEntryKey || value > 1<<32 {
		return 0, false
	}
	return int64(at) + int64(key) + int64(value) + crc32.Size, true
}

// onlyZeros reports whether nothing but zeros follows off in a file.
func onlyZeros(path string, off int64) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return false, err
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
