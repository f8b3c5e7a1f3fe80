package recrawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Field is a fact of a page that a recrawl compares. The numbers are stored: append, never reorder.
type Field uint8

// The fields.
const (
	Outcome Field = iota + 1
	StatusCode
	RedirectTo
	Title
	CanonicalURL
	NoIndex
	ContentType
	TextHash
	ETag
	LastModified
	ContentLength
	numFields
)

func fieldNames() [numFields]string {
	return [...]string{
		Outcome: "outcome", StatusCode: "status_code", RedirectTo: "redirect_to", Title: "title",
		CanonicalURL: "canonical_url", NoIndex: "noindex",
		ContentType: "content_type", TextHash: "text_hash", ETag: "etag", LastModified: "last_modified",
		ContentLength: "content_length",
	}
}

// String is the field's name in changes.jsonl.
func (f Field) String() string {
	if f > 0 && f < numFields {
		return fieldNames()[f]
	}
	return fmt.Sprintf("field_%d", uint8(f))
}

// Fields are all fields, in the order of their numbers.
func Fields() []Field {
	var all []Field
	for f := Outcome; f < numFields; f++ {
		all = append(all, f)
	}
	return all
}

// Difference is a fact that a visit found changed. A value that is not known is empty.
type Difference struct {
	Field         Field
	Before, After string
}

// formatVersion stands first in every encoding of differences.
const formatVersion = 1

// ErrFormat means that bytes are no differences that this version can read.
var ErrFormat = errors.New("differences in an unknown or broken form")

// appendDifferences appends the stored form of what a visit found changed: the version, the time of the visit in
// milliseconds, and for each difference its field and two texts. It is never empty, also if there are no differences.
func appendDifferences(b []byte, at time.Time, all []Difference) []byte {
	b = binary.AppendUvarint(append(b, formatVersion), uint64(at.UnixMilli()))
	for _, d := range all {
		b = append(b, byte(d.Field))
		for _, value := range []string{d.Before, d.After} {
			b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
		}
	}
	return b
}

// DecodeDifferences reads what appendDifferences wrote, and steps over fields of later versions.
func DecodeDifferences(b []byte) (at time.Time, all []Difference, err error) {
	if len(b) == 0 || b[0] != formatVersion {
		return time.Time{}, nil, fmt.Errorf("%w: they do not begin with version %d", ErrFormat, formatVersion)
	}
	ms, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return time.Time{}, nil, fmt.Errorf("%w: no time", ErrFormat)
	}
	at = time.UnixMilli(int64(ms)).UTC()
	for b = b[1+n:]; len(b) > 0; {
		d := Difference{Field: Field(b[0])}
		b = b[1:]
		for _, value := range []*string{&d.Before, &d.After} {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return time.Time{}, nil, fmt.Errorf("%w: %v is cut short", ErrFormat, d.Field)
			}
			*value, b = string(b[n:n+int(size)]), b[n+int(size):]
		}
		if d.Field > 0 && d.Field < numFields {
			all = append(all, d)
		}
	}
	return at, all, nil
}
