package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
)

// errShort means that a record is not as it was written.
var errShort = errors.New("a record of a temporary file is cut short")

// In a text a byte of zero is written as zero and textZero; zero and textEnd end it. So a text comes before all texts
// that begin with it.
const (
	textEnd  = 0
	textZero = 1
)

// A Record is the bytes of a value. Its methods write a field, or read it, so that one function does both: it names the
// fields in the order of the record. What decides the order of values stands first. If a record that is read is too
// short, fields are zero, and Sort returns an error.
type Record struct {
	b     []byte
	reads bool
	err   error
}

// Reads reports whether the record is read.
func (r *Record) Reads() bool { return r.reads }

func (r *Record) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.err = nil, errShort
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// Byte is a field of one byte.
func (r *Record) Byte(p *uint8) *Record {
	if r.reads {
		*p = r.take(1)[0]
	} else {
		r.b = append(r.b, *p)
	}
	return r
}

// Bool is a field by which records with false come first.
func (r *Record) Bool(p *bool) *Record {
	var n uint8
	if *p {
		n = 1
	}
	r.Byte(&n)
	*p = n != 0
	return r
}

// Uint32 is a number by which records are ordered.
func (r *Record) Uint32(p *uint32) *Record {
	if r.reads {
		*p = binary.BigEndian.Uint32(r.take(4))
	} else {
		r.b = binary.BigEndian.AppendUint32(r.b, *p)
	}
	return r
}

// Uint64 is a number by which records are ordered.
func (r *Record) Uint64(p *uint64) *Record {
	if r.reads {
		*p = binary.BigEndian.Uint64(r.take(8))
	} else {
		r.b = binary.BigEndian.AppendUint64(r.b, *p)
	}
	return r
}

// Int64 is a number by which records are ordered. Negative numbers come last.
func (r *Record) Int64(p *int64) *Record {
	n := uint64(*p)
	r.Uint64(&n)
	*p = int64(n)
	return r
}

// Key is a number by which records are ordered. Reading skips it.
func (r *Record) Key(n uint64) *Record { return r.Uint64(&n) }

// Text is a text by which records are ordered.
func (r *Record) Text(p *string) *Record {
	if !r.reads {
		r.writeText(*p)
		return r
	}
	*p = ""
	for {
		part, end := r.part()
		if end {
			*p += string(part)
			return r
		}
		*p += string(part) + "\x00"
	}
}

// KeyText is a text by which records are ordered. Reading skips it.
func (r *Record) KeyText(text string) *Record {
	if !r.reads {
		r.writeText(text)
		return r
	}
	for end := false; !end; {
		_, end = r.part()
	}
	return r
}

func (r *Record) writeText(text string) {
	for {
		i := strings.IndexByte(text, 0)
		if i < 0 {
			break
		}
		r.b = append(append(r.b, text[:i]...), 0, textZero)
		text = text[i+1:]
	}
	r.b = append(append(r.b, text...), 0, textEnd)
}

// part reads a text up to its end, or up to a byte of zero in it.
func (r *Record) part() (part []byte, end bool) {
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		i = len(r.b)
	}
	part = r.take(i)
	return part, r.take(2)[1] == textEnd
}

// Texts is a list by which records are ordered, as slices.Compare orders lists. An empty list is read as nil.
func (r *Record) Texts(p *[]string) *Record {
	if r.reads {
		for *p = nil; r.take(1)[0] != 0; {
			var text string
			r.Text(&text)
			*p = append(*p, text)
		}
		return r
	}
	for _, text := range *p {
		r.b = append(r.b, 1)
		r.writeText(text)
	}
	r.b = append(r.b, 0)
	return r
}

// Rest is all that is left of the record. What is read is valid until the next value is read.
func (r *Record) Rest(p *[]byte) *Record {
	if r.reads {
		*p = r.take(len(r.b))
	} else {
		r.b = append(r.b, *p...)
	}
	return r
}
