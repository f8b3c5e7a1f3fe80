package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// formatVersion stands first in every encoding. A reader that does not know it refuses.
const formatVersion = 1

// The tags of the encoding: each field is a tag, a length and that many bytes, so that a reader can step over fields that it
// does not know. Append, never renumber.
const (
	tagError = iota + 1
	tagRedirectTo
	tagContentType
	tagContentLength
	tagContentHash
	tagResponseTime
	tagTitle
	tagDescription
	tagH1
	tagCanonical
	tagLanguage
	tagHreflang // lang, url; repeated
	tagRobotsMeta
	tagNoIndex
	tagJSONLDType // repeated
	tagOpenGraph  // name, value; repeated
	tagWordCount  // present when the page was parsed
	tagLinkCount  // likewise
	tagLastModified
	tagETag
	tagRobots
	tagExtracted // name, value; repeated
	tagImage     // repeated
	tagLink      // flags, to, rel, text; repeated
	tagTrap
)

// ErrFormat means that the bytes are not facts that this version can read.
var ErrFormat = errors.New("facts in an unknown or broken form")

// Append adds the encoding of f to dst.
func (f *Facts) Append(dst []byte) []byte {
	e := encoder{append(dst, formatVersion)}
	e.text(tagError, f.Error)
	e.text(tagRedirectTo, f.RedirectTo)
	e.text(tagContentType, f.ContentType)
	if f.ContentLength >= 0 {
		e.number(tagContentLength, uint64(f.ContentLength))
	}
	if f.HasHash {
		e.buf = append(e.buf, tagContentHash, 8)
		e.buf = binary.BigEndian.AppendUint64(e.buf, f.ContentHash)
	}
	if f.ResponseTime >= 0 {
		e.number(tagResponseTime, uint64(f.ResponseTime.Microseconds()))
	}
	e.text(tagTitle, f.Title)
	e.text(tagDescription, f.Description)
	e.text(tagH1, f.H1)
	e.text(tagCanonical, f.Canonical)
	e.text(tagLanguage, f.Language)
	for _, a := range f.Hreflang {
		e.texts(tagHreflang, 0, false, a.Lang, a.URL)
	}
	e.text(tagRobotsMeta, f.RobotsMeta)
	if f.NoIndex {
		e.number(tagNoIndex, 1)
	}
	for _, t := range f.JSONLDTypes {
		e.text(tagJSONLDType, t)
	}
	for _, p := range f.OpenGraph {
		e.texts(tagOpenGraph, 0, false, p.Name, p.Value)
	}
	if f.Parsed {
		e.number(tagWordCount, uint64(f.WordCount))
		e.number(tagLinkCount, uint64(f.LinkCount))
	}
	e.time(tagLastModified, f.LastModified)
	e.text(tagETag, f.ETag)
	if f.Robots.Checked {
		e.robots(f.Robots)
	}
	for _, p := range f.Extracted {
		e.texts(tagExtracted, 0, false, p.Name, p.Value)
	}
	for _, u := range f.Images {
		e.text(tagImage, u)
	}
	for _, l := range f.Links {
		flags := byte(0)
		if l.NoFollow {
			flags = 1
		}
		e.texts(tagLink, flags, true, l.To, l.Rel, l.Text)
	}
	e.text(tagTrap, f.Trap)
	return e.buf
}

type encoder struct{ buf []byte }

func (e *encoder) text(tag byte, s string) {
	if s == "" {
		return
	}
	e.buf = append(e.buf, tag)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) number(tag byte, n uint64) {
	e.buf = append(e.buf, tag, byte(uvarintLen(n)))
	e.buf = binary.AppendUvarint(e.buf, n)
}

func (e *encoder) time(tag byte, t time.Time) {
	if !t.IsZero() {
		e.number(tag, uint64(t.UnixMilli()))
	}
}

// texts writes a field that holds several texts, after a byte of flags if withFlags.
func (e *encoder) texts(tag, flags byte, withFlags bool, parts ...string) {
	size := 0
	if withFlags {
		size = 1
	}
	for _, p := range parts {
		size += uvarintLen(uint64(len(p))) + len(p)
	}
	e.buf = append(e.buf, tag)
	e.buf = binary.AppendUvarint(e.buf, uint64(size))
	if withFlags {
		e.buf = append(e.buf, flags)
	}
	for _, p := range parts {
		e.buf = binary.AppendUvarint(e.buf, uint64(len(p)))
		e.buf = append(e.buf, p...)
	}
}

func (e *encoder) robots(r Robots) {
	flags := byte(0)
	if r.Allowed {
		flags |= 1
	}
	if r.Low {
		flags |= 2
	}
	delay, at := uint64(r.CrawlDelay.Milliseconds()), uint64(r.CheckedAt.UnixMilli())
	e.buf = append(e.buf, tagRobots)
	e.buf = binary.AppendUvarint(e.buf, uint64(1+uvarintLen(delay)+uvarintLen(at)+len(r.Rule)))
	e.buf = append(e.buf, flags)
	e.buf = binary.AppendUvarint(e.buf, delay)
	e.buf = binary.AppendUvarint(e.buf, at)
	e.buf = append(e.buf, r.Rule...)
}

func uvarintLen(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// Decode reads what Append wrote, and steps over fields of later versions.
func Decode(b []byte) (*Facts, error) {
	f := &Facts{ContentLength: -1, ResponseTime: -1}
	if len(b) == 0 {
		return f, nil
	}
	if b[0] != formatVersion {
		return nil, fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, b[0], formatVersion)
	}
	b = b[1:]
	for len(b) > 0 {
		tag := b[0]
		field, rest, ok := cutField(b[1:])
		if !ok {
			return nil, fmt.Errorf("%w: field %d is cut short", ErrFormat, tag)
		}
		if err := f.set(tag, field); err != nil {
			return nil, err
		}
		b = rest
	}
	return f, nil
}

func (f *Facts) set(tag byte, field []byte) error {
	d := decoder{field, true}
	switch tag {
	case tagError:
		f.Error = string(field)
	case tagRedirectTo:
		f.RedirectTo = string(field)
	case tagContentType:
		f.ContentType = string(field)
	case tagContentLength:
		f.ContentLength = int64(d.number())
	case tagContentHash:
		if len(field) != 8 {
			return fmt.Errorf("%w: a hash of %d bytes", ErrFormat, len(field))
		}
		f.ContentHash, f.HasHash = binary.BigEndian.Uint64(field), true
	case tagResponseTime:
		f.ResponseTime = time.Duration(d.number()) * time.Microsecond
	case tagTitle:
		f.Title = string(field)
	case tagDescription:
		f.Description = string(field)
	case tagH1:
		f.H1 = string(field)
	case tagCanonical:
		f.Canonical = string(field)
	case tagLanguage:
		f.Language = string(field)
	case tagHreflang:
		f.Hreflang = append(f.Hreflang, Alternate{d.text(), d.text()})
	case tagRobotsMeta:
		f.RobotsMeta = string(field)
	case tagNoIndex:
		f.NoIndex = true
	case tagJSONLDType:
		f.JSONLDTypes = append(f.JSONLDTypes, string(field))
	case tagOpenGraph:
		f.OpenGraph = append(f.OpenGraph, Property{d.text(), d.text()})
	case tagWordCount:
		f.WordCount, f.Parsed = int(d.number()), true
	case tagLinkCount:
		f.LinkCount, f.Parsed = int(d.number()), true
	case tagLastModified:
		f.LastModified = time.UnixMilli(int64(d.number())).UTC()
	case tagETag:
		f.ETag = string(field)
	case tagRobots:
		flags := d.byte()
		f.Robots = Robots{Checked: true, Allowed: flags&1 != 0, Low: flags&2 != 0}
		f.Robots.CrawlDelay = time.Duration(d.number()) * time.Millisecond
		f.Robots.CheckedAt = time.UnixMilli(int64(d.number())).UTC()
		f.Robots.Rule = string(d.b)
	case tagExtracted:
		f.Extracted = append(f.Extracted, Property{d.text(), d.text()})
	case tagImage:
		f.Images = append(f.Images, string(field))
	case tagLink:
		flags := d.byte()
		f.Links = append(f.Links, Link{NoFollow: flags&1 != 0, To: d.text(), Rel: d.text(), Text: d.text()})
	case tagTrap:
		f.Trap = string(field)
	}
	if !d.ok {
		return fmt.Errorf("%w: field %d is broken", ErrFormat, tag)
	}
	return nil
}

// decoder reads the parts of one field; ok turns false at the first that is not there.
type decoder struct {
	b  []byte
	ok bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.ok, d.b = false, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.ok = false
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) text() string {
	field, rest, ok := cutField(d.b)
	if !ok {
		d.ok = false
	}
	d.b = rest
	return string(field)
}

// cutField takes a length and that many bytes off b. The length is not believed before it is checked.
func cutField(b []byte) (field, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n], b[n:], true
}
