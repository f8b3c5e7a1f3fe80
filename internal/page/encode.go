package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// formatVersion stands first in every encoding. A reader that does not know it refuses.
const formatVersion = 1

// ErrFormat means that the bytes are not facts that this version can read.
var ErrFormat = errors.New("facts in an unknown or broken form")

// Append adds the encoding of f to dst: the version, then for each known fact its tag, a length and that many bytes. So
// a reader can skip facts that it does not know. A fact that is a list has one such field for each element.
func (f *Facts) Append(dst []byte) []byte {
	e := encoder{append(dst, formatVersion)}
	for tag, fact := range f.byTag() {
		e.fact(byte(tag), fact)
	}
	return e.buf
}

type encoder struct{ buf []byte }

func (e *encoder) fact(tag byte, fact any) {
	switch v := fact.(type) {
	case *string:
		if *v != "" {
			e.text(tag, *v)
		}
	case *bool:
		if *v {
			e.number(tag, 1)
		}
	case **int:
		if *v != nil {
			e.number(tag, uint64(**v))
		}
	case **int64:
		if *v != nil {
			e.number(tag, uint64(**v))
		}
	case **Millis:
		if *v != nil {
			e.number(tag, uint64(time.Duration(**v).Microseconds()))
		}
	case **Hash:
		if *v != nil {
			e.buf = binary.BigEndian.AppendUint64(append(e.buf, tag, 8), uint64(**v))
		}
	case *Time:
		if !v.IsZero() {
			e.number(tag, uint64(v.UnixMilli()))
		}
	case *[]string:
		for _, text := range *v {
			e.text(tag, text)
		}
	case *[]uint64:
		if len(*v) > 0 {
			e.numbers(tag, *v)
		}
	case *[]Alternate:
		for _, a := range *v {
			e.texts(tag, nil, a.Lang, a.URL)
		}
	case *map[string]string:
		if len(*v) == 0 {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(*v)) {
			e.texts(tag, nil, name, (*v)[name])
		}
	case *Extracted:
		e.extracted(tag, *v)
	case *Robots:
		if v.Checked {
			e.robots(tag, v)
		}
	case *[]Link:
		for _, l := range *v {
			if l.Fragment == "" {
				e.texts(tag, []byte{bitIf(l.NoFollow, 1)}, l.To, l.Rel, l.Text)
			} else {
				e.texts(tag, []byte{bitIf(l.NoFollow, 1) | 2}, l.To, l.Rel, l.Text, l.Fragment)
			}
		}
	}
}

func bitIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func (e *encoder) text(tag byte, s string) {
	e.buf = binary.AppendUvarint(append(e.buf, tag), uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) number(tag byte, n uint64) {
	e.buf = binary.AppendUvarint(append(e.buf, tag, byte(uvarintLen(n))), n)
}

// numbers writes a field that holds several numbers.
func (e *encoder) numbers(tag byte, list []uint64) {
	size := 0
	for _, n := range list {
		size += uvarintLen(n)
	}
	e.buf = binary.AppendUvarint(append(e.buf, tag), uint64(size))
	for _, n := range list {
		e.buf = binary.AppendUvarint(e.buf, n)
	}
}

// texts writes a field that holds several texts, after the bytes of head.
func (e *encoder) texts(tag byte, head []byte, parts ...string) {
	size := len(head)
	for _, p := range parts {
		size += uvarintLen(uint64(len(p))) + len(p)
	}
	e.buf = binary.AppendUvarint(append(e.buf, tag), uint64(size))
	e.buf = append(e.buf, head...)
	for _, p := range parts {
		e.buf = binary.AppendUvarint(e.buf, uint64(len(p)))
		e.buf = append(e.buf, p...)
	}
}

func (e *encoder) extracted(tag byte, found Extracted) {
	if len(found) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch v := found[name].(type) {
		case string:
			e.texts(tag, nil, name, v)
		case []string:
			for _, text := range v {
				e.texts(tag, nil, name, text)
			}
		}
	}
}

func (e *encoder) robots(tag byte, r *Robots) {
	b := append(make([]byte, 0, 1+2*binary.MaxVarintLen64), bitIf(r.Allowed, 1)|bitIf(r.Low, 2))
	b = binary.AppendUvarint(b, uint64(r.CrawlDelay.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(r.CheckedAt.UnixMilli()))
	e.buf = binary.AppendUvarint(append(e.buf, tag), uint64(len(b)+len(r.Rule)))
	e.buf = append(append(e.buf, b...), r.Rule...)
}

func uvarintLen(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// Decode reads what Append wrote, and steps over facts of later versions.
func Decode(b []byte) (*Facts, error) {
	f := &Facts{}
	if err := f.Decode(b); err != nil {
		return nil, err
	}
	return f, nil
}

// Decode reads what Append wrote into f, which is empty, and bounds it. All texts share one piece of memory.
func (f *Facts) Decode(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if b[0] != formatVersion {
		return fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, b[0], formatVersion)
	}
	left := string(b[1:])
	facts := f.byTag()
	for left != "" {
		tag := left[0]
		field, rest, ok := cutField(left[1:])
		if !ok {
			return fmt.Errorf("%w: field %d is cut short", ErrFormat, tag)
		}
		left = rest
		if int(tag) >= len(facts) {
			continue
		}
		d := decoder{field, true}
		d.fact(facts[tag])
		if !d.ok {
			return fmt.Errorf("%w: field %d is broken", ErrFormat, tag)
		}
	}
	f.Bound()
	return nil
}

// decoder reads the parts of one field; ok turns false at the first that is not there.
type decoder struct {
	left string
	ok   bool
}

func (d *decoder) fact(fact any) {
	switch v := fact.(type) {
	case *string:
		*v = d.left
	case *bool:
		*v = true
	case **int:
		*v = new(int(d.number()))
	case **int64:
		*v = new(int64(d.number()))
	case **Millis:
		*v = new(Millis(time.Duration(d.number()) * time.Microsecond))
	case **Hash:
		if d.ok = len(d.left) == 8; d.ok {
			*v = new(Hash(binary.BigEndian.Uint64([]byte(d.left))))
		}
	case *Time:
		*v = d.time()
	case *[]string:
		*v = append(*v, d.left)
	case *[]uint64:
		for d.left != "" && d.ok {
			*v = append(*v, d.number())
		}
	case *[]Alternate:
		*v = append(*v, Alternate{d.text(), d.text()})
	case *map[string]string:
		if *v == nil {
			*v = map[string]string{}
		}
		name, value := d.text(), d.text()
		if _, taken := (*v)[name]; !taken {
			(*v)[name] = value
		}
	case *Extracted:
		if *v == nil {
			*v = Extracted{}
		}
		v.add(d.text(), d.text())
	case *Robots:
		flags := d.byte()
		*v = Robots{Checked: true, Allowed: flags&1 != 0, Low: flags&2 != 0}
		v.CrawlDelay = time.Duration(d.number()) * time.Millisecond
		v.CheckedAt = d.time().Time
		v.Rule = d.left
	case *[]Link:
		flags := d.byte()
		l := Link{NoFollow: flags&1 != 0, To: d.text(), Rel: d.text(), Text: d.text()}
		if flags&2 != 0 {
			l.Fragment = d.text()
		}
		*v = append(*v, l)
	}
}

func (d *decoder) number() uint64 {
	n, size := uvarint(d.left)
	if size <= 0 {
		d.ok, d.left = false, ""
		return 0
	}
	d.left = d.left[size:]
	return n
}

func (d *decoder) time() Time { return Time{time.UnixMilli(int64(d.number())).UTC()} }

func (d *decoder) byte() byte {
	if d.left == "" {
		d.ok = false
		return 0
	}
	c := d.left[0]
	d.left = d.left[1:]
	return c
}

func (d *decoder) text() string {
	field, rest, ok := cutField(d.left)
	if !ok {
		d.ok = false
	}
	d.left = rest
	return field
}

// cutField takes a length and that many bytes off s. The length is checked first.
func cutField(s string) (field, rest string, ok bool) {
	n, size := uvarint(s)
	if size <= 0 || n > uint64(len(s)-size) {
		return "", "", false
	}
	s = s[size:]
	return s[:n], s[n:], true
}

// uvarint is binary.Uvarint of a string.
func uvarint(s string) (n uint64, size int) {
	return binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
}
