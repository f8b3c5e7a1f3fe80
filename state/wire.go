package state

import (
	"encoding/binary"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// formatVersion is the newest form of every encoding in this package: of
// records, of values in Badger, of the files beside it.
const formatVersion = 2

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// millis is the stored form of a time: 0 for the zero time, else the
// milliseconds since 1970, which may be negative, made positive and one added.
func millis(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return zigzag(t.UnixMilli()) + 1
}

func fromMillis(m uint64) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unzigzag(m - 1)).UTC()
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// beginSized reserves room for the length of what is appended next, and
// endSized fills it in. Almost everything is shorter than 16 KiB and never
// moves.
func beginSized(dst []byte) ([]byte, int) {
	return append(dst, 0, 0), len(dst) + 2
}

func endSized(dst []byte, body int) []byte {
	n := len(dst) - body
	if n < 1<<14 {
		// Two bytes even where one would do: a legal uvarint all the same.
		dst[body-2] = byte(n) | 0x80
		dst[body-1] = byte(n >> 7)
		return dst
	}
	var length [binary.MaxVarintLen64]byte
	ln := binary.PutUvarint(length[:], uint64(n))
	dst = append(dst, length[:ln-2]...)
	copy(dst[body-2+ln:], dst[body:body+n])
	copy(dst[body-2:], length[:ln])
	return dst
}

// shared is the length of the common prefix of a and b.
func shared(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// A reader takes an encoding apart. After the first fault it returns zeros,
// and bad is set; no length is believed before it is checked.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.bad = true
	r.b = nil
}

func (r *reader) u8() uint8 {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) u64() uint64 {
	b := r.take(8)
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo reads a uvarint that must not exceed limit.
func (r *reader) upTo(limit uint64) uint64 {
	v := r.uvarint()
	if v > limit {
		r.fail()
		return 0
	}
	return v
}

// take returns the next n bytes, as a part of the input.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// bytes reads a length and as many bytes, as a part of the input.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

// sized reads a length and returns a reader of as many bytes. What the reader
// leaves unread was added by a later writer, and is skipped.
func (r *reader) sized() reader {
	b := r.bytes()
	return reader{b: b, bad: r.bad}
}

func (r *reader) time() time.Time { return fromMillis(r.uvarint()) }

func (r *reader) host() frontier.HostID { return frontier.HostID(r.u64()) }

func (r *reader) key() frontier.Key {
	k, ok := urlnorm.ParseKey(r.take(keySize))
	if !ok {
		r.fail()
	}
	return k
}

// cloned returns a copy of b that the caller may keep, nil for nothing.
func cloned(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}
