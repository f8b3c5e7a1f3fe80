package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// errShort means that a record is not as it was written.
var errShort = errors.New("a record of a temporary file is cut short")

// In a text a byte of zero is written as zero and textZero; zero and textEnd end it. So a text comes before all that it
// is the beginning of.
const (
	textEnd  = 0
	textZero = 1
)

// AppendText appends a text so that records are ordered by it.
func AppendText(dst []byte, text string) []byte {
	for {
		i := strings.IndexByte(text, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, text[:i]...), 0, textZero)
		text = text[i+1:]
	}
	return append(append(dst, text...), 0, textEnd)
}

// AppendTexts appends a list so that records are ordered by it, as slices.Compare orders lists.
func AppendTexts(dst []byte, list []string) []byte {
	for _, text := range list {
		dst = AppendText(append(dst, 1), text)
	}
	return append(dst, 0)
}

// AppendNumbers appends numbers so that records are ordered by them.
func AppendNumbers(dst []byte, list ...uint64) []byte {
	for _, n := range list {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// AppendBool appends a byte that Reader.Bool reads: 0 or 1.
func AppendBool(dst []byte, is bool) []byte {
	if is {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// A Reader takes a record apart. If the record is too short, it returns zeros, and Sort an error.
type Reader struct {
	b   []byte
	err error
}

func (r *Reader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.err = nil, errShort
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte { return r.take(1)[0] }

// Bool reads what AppendBool wrote.
func (r *Reader) Bool() bool { return r.Byte() != 0 }

// Uint32 reads a big-endian number.
func (r *Reader) Uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

// Uint64 reads a big-endian number.
func (r *Reader) Uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// Text reads what AppendText wrote.
func (r *Reader) Text() string {
	text := ""
	for {
		part, end := r.part()
		if end {
			return text + string(part)
		}
		text += string(part) + "\x00"
	}
}

// SkipText steps over what AppendText wrote.
func (r *Reader) SkipText() {
	for end := false; !end; {
		_, end = r.part()
	}
}

// part reads a text up to its end, or up to a byte of zero in it.
func (r *Reader) part() (part []byte, end bool) {
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		i = len(r.b)
	}
	part = r.take(i)
	return part, r.take(2)[1] == textEnd
}

// Texts reads what AppendTexts wrote; nil if the list is empty.
func (r *Reader) Texts() (list []string) {
	for r.Byte() != 0 {
		list = append(list, r.Text())
	}
	return list
}

// Rest reads what is left.
func (r *Reader) Rest() []byte { return r.take(len(r.b)) }
