package record

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Version is the newest form of every encoding in this package: of
// records, of values in Badger, of the files beside it.
const Version = 2

// AppendString appends a string with its length before it.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Millis is the stored form of a time: 0 for the zero time, else 1 plus the milliseconds since 1970, in zigzag form
// because they may be negative.
func Millis(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return zigzag(t.UnixMilli()) + 1
}

// FromMillis is the inverse of Millis.
func FromMillis(m uint64) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unzigzag(m - 1)).UTC()
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// BeginSized reserves space for the length of what is appended next, and EndSized fills it in. What is shorter than 16
// KiB, as almost everything is, need not be moved for it.
func BeginSized(dst []byte) ([]byte, int) {
	return append(dst, 0, 0), len(dst) + 2
}

// EndSized fills in the length of what follows body, the place that BeginSized returned.
func EndSized(dst []byte, body int) []byte {
	n := len(dst) - body
	if n < 1<<14 {
		// The length always takes two bytes, even if one were enough: that is still a legal uvarint.
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

// A Reader takes an encoding apart. After the first fault it returns zeros, and Bad is set; each length is checked
// before it is used.
type Reader struct {
	B   []byte
	Bad bool
	// version is that of a value which this program does not read, or noVersion.
	version int16
}

const noVersion = -1

// Fail notes a fault.
func (r *Reader) Fail() {
	r.Bad = true
	r.B = nil
}

// U8 reads a byte.
func (r *Reader) U8() uint8 {
	if len(r.B) == 0 {
		r.Fail()
		return 0
	}
	v := r.B[0]
	r.B = r.B[1:]
	return v
}

// lastU8 reads a byte at the end of an element, which is left out where it is zero.
func (r *Reader) lastU8() uint8 {
	if len(r.B) == 0 {
		return 0
	}
	return r.U8()
}

// lastNumber reads a number at the end of an element, which is left out where it is zero.
func (r *Reader) lastNumber() uint32 {
	if len(r.B) == 0 {
		return 0
	}
	return uint32(r.UpTo(math.MaxUint32))
}

// U64 reads a fixed number of 8 bytes.
func (r *Reader) U64() uint64 {
	b := r.Take(8)
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Uvarint reads a varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// UpTo reads a uvarint that must not exceed limit.
func (r *Reader) UpTo(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.Fail()
		return 0
	}
	return v
}

// Take returns the next n bytes, as a part of the input.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.B)) {
		r.Fail()
		return nil
	}
	b := r.B[:n:n]
	r.B = r.B[n:]
	return b
}

// rest returns what is left, as a part of the input.
func (r *Reader) rest() []byte { return r.B }

// Bytes reads a length and as many bytes, as a part of the input.
func (r *Reader) Bytes() []byte { return r.Take(r.Uvarint()) }

// Sized reads a length and returns a reader of as many bytes. What the reader
// leaves unread was added by a later writer, and is skipped.
func (r *Reader) Sized() Reader {
	b := r.Bytes()
	return Reader{B: b, Bad: r.Bad}
}

// Time reads a time as Millis encodes it.
func (r *Reader) Time() time.Time { return FromMillis(r.Uvarint()) }

func (r *Reader) host() weburl.HostID { return weburl.HostID(r.U64()) }

// Key reads a Key.
func (r *Reader) Key() weburl.Key {
	k, ok := weburl.ParseKey(r.Take(keySize))
	if !ok {
		r.Fail()
	}
	return k
}

// Cloned returns a copy of b that the caller may keep, nil for nothing.
func Cloned(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

// Flag is bit if set is true, else 0.
func Flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}
