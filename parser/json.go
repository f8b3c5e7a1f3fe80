package parser

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting that a jsonReader follows.
const maxJSONDepth = 128

// A jsonReader finds the strings of a JSON text and the keys that they stand
// under. It is lenient, because data in pages often is: it requires brackets to
// match and strings to end, and stops where they do not. It keeps no tree, and
// what it returns are parts of the text.
type jsonReader struct {
	b     []byte
	pos   int
	depth int
	stack [maxJSONDepth]jsonFrame
}

// A jsonFrame is an open object or array.
type jsonFrame struct {
	object bool
	value  bool // in an object: the next string is a value
	key    span // the key that values stand under; in an array, the key of the array
}

// reset begins a text. What stands before its first bracket is not JSON.
func (r *jsonReader) reset(b []byte) {
	r.b, r.pos, r.depth = b, 0, 0
	for r.pos < len(b) && b[r.pos] != '{' && b[r.pos] != '[' {
		r.pos++
	}
}

// next returns the next string value, as written between its quotes, and its key; empty if it has none. Values under a
// key for which skip reports true are left out.
func (r *jsonReader) next(skip func(key []byte) bool) (key, value []byte, ok bool) {
	skipping := 0 // depth of what is skipped; 0 is nothing
	for r.pos < len(r.b) {
		c := r.b[r.pos]
		r.pos++
		switch c {
		case '{', '[':
			if r.depth == maxJSONDepth {
				return nil, nil, false
			}
			f := &r.stack[r.depth]
			*f = jsonFrame{object: c == '{'}
			if r.depth > 0 {
				f.key = r.stack[r.depth-1].key
			}
			r.depth++
			if skipping == 0 && skip(f.key.of(r.b)) {
				skipping = r.depth
			}
		case '}', ']':
			if r.depth == 0 || r.stack[r.depth-1].object != (c == '}') {
				return nil, nil, false
			}
			if r.depth == skipping {
				skipping = 0
			}
			r.depth--
			if r.depth == 0 {
				return nil, nil, false
			}
		case ':':
			r.stack[r.depth-1].value = true
		case ',':
			r.stack[r.depth-1].value = false
		case '"':
			s, ok := r.string()
			if !ok {
				return nil, nil, false
			}
			f := &r.stack[r.depth-1]
			if f.object && !f.value {
				f.key = s
			} else if skipping == 0 && !skip(f.key.of(r.b)) {
				return f.key.of(r.b), s.of(r.b), true
			}
		}
	}
	return nil, nil, false
}

// string reads a string from after its opening quote.
func (r *jsonReader) string() (span, bool) {
	start := r.pos
	for r.pos < len(r.b) {
		switch r.b[r.pos] {
		case '"':
			r.pos++
			return span{uint32(start), uint32(r.pos - 1)}, true
		case '\\':
			r.pos++
		}
		r.pos++
	}
	r.pos = len(r.b)
	return span{}, false
}

// appendJSONString appends the text of a string as written to dst.
func appendJSONString(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			u, ok := hex4(s[i+1:])
			if !ok {
				dst = append(dst, c)
				continue
			}
			i += 4
			if utf16.IsSurrogate(u) {
				low := rune(0)
				if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					low, _ = hex4(s[i+3:])
				}
				if u = utf16.DecodeRune(u, low); u != utf8.RuneError {
					i += len(`\uffff`)
				}
			}
			dst = utf8.AppendRune(dst, u)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
