package robots

import "strings"

const upperHex = "0123456789ABCDEF"

// Normal form, of paths and of patterns alike: unreserved characters stand for themselves, reserved ones are left as
// they are, everything else is escaped with upper-case hex. A literal * or $ is written %2A or %24 in both. So in a
// normal pattern a plain * is a wildcard. A plain $, which can only be the last byte, is the end.

// class says what becomes of a byte.
type class uint8

const (
	classEscape  class = iota // written %XX
	classPlain                // reserved: kept as it is, escaped or not
	classBare                 // unreserved: never escaped
	classPercent              // % itself
)

// Sets of bytes below 128, a bit for each: low of those below 64, high of the rest.
const (
	letters  = 1<<26 - 1
	bareLow  = (1<<10-1)<<'0' | 1<<'-' | 1<<'.'
	bareHigh = letters<<('A'-64) | letters<<('a'-64) | 1<<('_'-64) | 1<<('~'-64)
	plainLow = 1<<'/' | 1<<'?' | 1<<':' | 1<<'!' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'+' | 1<<',' | 1<<';' |
		1<<'=' | 1<<'#'
	plainHigh = 1<<('@'-64) | 1<<('['-64) | 1<<(']'-64)
)

func classOf(c byte) class {
	bare, plain := uint64(bareLow), uint64(plainLow)
	if c >= 64 {
		bare, plain = bareHigh, plainHigh
	}
	bit := uint64(1) << (c & 63)
	switch {
	case c >= 128:
		return classEscape
	case bare&bit != 0:
		return classBare
	case plain&bit != 0:
		return classPlain
	case c == '%':
		return classPercent
	}
	return classEscape
}

// isNormal reports whether a path is in normal form, and whether its query holds escapes that queryForm would undo.
// With wildcards, s is a pattern without the $ at its end.
func isNormal(s string, wildcards bool) (normal, queryEscapes bool) {
	query := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch classOf(c) {
		case classEscape:
			if c != '*' || !wildcards {
				return false, false
			}
		case classPlain:
			query = query || c == '?'
		case classPercent:
			v, ok := unhex(s, i)
			if !ok || classOf(v) == classBare || s[i+1] > 'F' || s[i+2] > 'F' {
				return false, false
			}
			queryEscapes = queryEscapes || query && isQueryPlain(v)
			i += 2
		}
	}
	return true, queryEscapes
}

// normalizePattern brings a pattern to normal form, like a path, and keeps the wildcards and the $ at its end.
func normalizePattern(pattern string) string {
	body, end := strings.CutSuffix(pattern, "$")
	if ok, _ := isNormal(body, true); ok {
		return pattern
	}
	out := appendNormal(make([]byte, 0, len(pattern)+16), body, true)
	if end {
		out = append(out, '$')
	}
	return string(out)
}

func appendNormal(dst []byte, s string, wildcards bool) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch classOf(c) {
		case classEscape:
			if c == '*' && wildcards {
				dst = append(dst, c)
			} else {
				dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
			}
		case classPercent:
			v, ok := unhex(s, i)
			switch {
			case !ok:
				// A stray percent sign stands for itself, as in browsers.
				dst = append(dst, c)
				continue
			case classOf(v) == classBare:
				dst = append(dst, v)
			default:
				dst = append(dst, '%', upperHex[v>>4], upperHex[v&15])
			}
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// queryForm undoes, after the first question mark of a normal path or pattern,
// the escapes of characters that mean the same in a query without them. It
// returns s itself when there are none.
func queryForm(s string) string {
	q := strings.IndexByte(s, '?')
	if q < 0 {
		return s
	}
	var out []byte
	from := 0
	for i := q; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if v, ok := unhex(s, i); ok && isQueryPlain(v) {
			out = append(append(out, s[from:i]...), v)
			i += 2
			from = i + 1
		}
	}
	if from == 0 {
		return s
	}
	return string(append(out, s[from:]...))
}

func isQueryPlain(c byte) bool {
	return c == ':' || c == '/' || c == '?' || c == '@'
}

// unhex reads the escape at s[i], which is a percent sign.
func unhex(s string, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := fromHex(s[i+1])
	lo, ok2 := fromHex(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func fromHex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
