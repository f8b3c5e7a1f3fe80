package robots

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// The compact form of Rules, also what they keep in memory:
//
//	byte    version, 1
//	byte    flags: bit 0, a Crawl-delay was given
//	uvarint delay in nanoseconds
//	string  group
//	then for each rule, in the order of the file:
//	uvarint lines since the rule before it, shifted left, bit 0: it is an Allow
//	string  the line as written
//	uvarint where its pattern starts in it
//
// where a string is a uvarint length and that many bytes. Rules whose pattern
// cannot match, other crawlers' groups and comments are not in it.

const formatVersion = 1

// ErrFormat is returned by [UnmarshalRules] for bytes that AppendBinary did not
// write.
var ErrFormat = errors.New("robots rules: bad format")

// AppendBinary appends the compact form of r to dst.
func (r *Rules) AppendBinary(dst []byte) ([]byte, error) {
	return append(dst, r.text[:r.encoded]...), nil
}

// UnmarshalRules is the inverse of [Rules.AppendBinary]. It keeps no reference to b.
func UnmarshalRules(b []byte) (*Rules, error) {
	if len(b) > maxEncoded {
		return nil, ErrFormat
	}
	text := string(b)
	if err := checkFormat(text); err != nil {
		return nil, err
	}
	return compile(text), nil
}

// maxEncoded bounds what UnmarshalRules takes. A rule costs its line and at most
// ten bytes more, while its shortest line is seven bytes with its line ending.
const maxEncoded = 3*MaxSize + 64

func encode(pace agent, rules []line) string {
	b := []byte{formatVersion, 0}
	if pace.paced {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, uint64(pace.delay))
	b = appendString(b, pace.token)
	last := 0
	for _, l := range rules {
		head := uint64(l.num-last) << 1
		if l.key == keyAllow {
			head |= 1
		}
		last = l.num
		b = binary.AppendUvarint(b, head)
		b = appendString(b, l.text)
		b = binary.AppendUvarint(b, uint64(len(l.text)-len(l.value)))
	}
	return string(b)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A decoder walks the compact form; bad is set once and for all by the first
// thing that does not fit.
type decoder struct {
	text string
	pos  int
	bad  bool
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 63; shift += 7 {
		if d.pos >= len(d.text) {
			break
		}
		c := d.text[d.pos]
		d.pos++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) span(limit int) span {
	n := d.uvarint()
	if d.bad || n > uint64(limit) || n > uint64(len(d.text)-d.pos) {
		d.bad = true
		return span{}
	}
	s := span{off: uint32(d.pos), len: uint32(n)}
	d.pos += int(n)
	return s
}

type header struct {
	group string
	delay time.Duration
	paced bool
}

func (d *decoder) header() header {
	if len(d.text) < 2 || d.text[0] != formatVersion || d.text[1] > 1 {
		d.bad = true
		return header{}
	}
	d.pos = 2
	delay := d.uvarint()
	if delay > uint64(longestDelay) {
		d.bad = true
	}
	g := d.span(maxLine)
	if d.bad {
		return header{}
	}
	return header{
		group: d.text[g.off : g.off+g.len],
		delay: time.Duration(delay),
		paced: d.text[1] == 1,
	}
}

// rule reads the next rule; more is false at the end of the text and when bad.
func (d *decoder) rule(line *uint32) (r rule, value span, more bool) {
	if d.bad || d.pos >= len(d.text) {
		return rule{}, span{}, false
	}
	head := d.uvarint()
	text := d.span(maxLine)
	start := d.uvarint()
	num := uint64(*line) + head>>1
	if d.bad || start >= uint64(text.len) || num > MaxSize+1 {
		d.bad = true
		return rule{}, span{}, false
	}
	*line = uint32(num)
	value = span{off: text.off + uint32(start), len: text.len - uint32(start)}
	return rule{line: *line, allow: head&1 == 1, text: text}, value, true
}

func checkFormat(text string) error {
	d := decoder{text: text}
	d.header()
	var line uint32
	for {
		_, value, more := d.rule(&line)
		if !more {
			break
		}
		if v := text[value.off : value.off+value.len]; !canMatch(v) || strings.ContainsAny(v, "\r\n") {
			return ErrFormat
		}
	}
	if d.bad {
		return ErrFormat
	}
	return nil
}
