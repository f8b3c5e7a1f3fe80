package parser

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// longestName is the length of the longest named character reference, and
// longestLegacy that of the longest one that needs no semicolon.
const (
	longestName   = len("CounterClockwiseContourIntegral")
	longestLegacy = len("frac12")
)

// unescape returns b with character references decoded, line ends made line
// feeds and NULs made U+FFFD. It returns b itself if there is nothing to do, else
// what it appends to *buf. In an attribute value a reference without its
// semicolon stays as it is before '=' and before letters and digits, so that old
// query strings survive.
func unescape(buf *[]byte, b []byte, attribute bool) []byte {
	if bytes.IndexByte(b, '&') < 0 && bytes.IndexByte(b, '\r') < 0 && bytes.IndexByte(b, 0) < 0 {
		return b
	}
	start := len(*buf)
	out := *buf
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '&':
			r1, r2, n := reference(b[i:], attribute)
			if n == 0 {
				out = append(out, c)
				i++
				continue
			}
			out = utf8.AppendRune(out, r1)
			if r2 != 0 {
				out = utf8.AppendRune(out, r2)
			}
			i += n
		case '\r':
			out = append(out, '\n')
			i++
			if i < len(b) && b[i] == '\n' {
				i++
			}
		case 0:
			out = append(out, "\ufffd"...)
			i++
		default:
			out = append(out, c)
			i++
		}
	}
	*buf = out
	return out[start:]
}

// reference decodes the character reference that b begins with. It returns one
// or two characters (the second is 0 if there is none) and how many bytes they
// stand for, or n == 0 if there is no reference.
func reference(b []byte, attribute bool) (r1, r2 rune, n int) {
	if len(b) > 1 && b[1] == '#' {
		r1, n = numeric(b)
		return r1, 0, n
	}
	n = 1
	for n < len(b) && n <= longestName && isAlnum(b[n]) {
		n++
	}
	name := b[1:n]
	if len(name) < 2 {
		return 0, 0, 0
	}
	if n < len(b) && b[n] == ';' {
		if r1, r2 = named(name); r1 != 0 {
			return r1, r2, n + 1
		}
	}
	if attribute {
		// If name is longer than every reference without a semicolon, such a reference in it is followed by a letter or
		// a digit.
		if len(name) > longestLegacy || n < len(b) && b[n] == '=' {
			return 0, 0, 0
		}
		if r1, l := legacy(name); l == len(name) {
			return r1, 0, n
		}
		return 0, 0, 0
	}
	if r1, l := legacy(name); l > 0 {
		return r1, 0, 1 + l
	}
	return 0, 0, 0
}

// numeric decodes a reference that begins with "&#".
func numeric(b []byte) (rune, int) {
	i, base := 2, rune(10)
	if i < len(b) && b[i]|0x20 == 'x' {
		i, base = 3, 16
	}
	first := i
	var r rune
	for ; i < len(b); i++ {
		var d rune
		switch c := b[i]; {
		case '0' <= c && c <= '9':
			d = rune(c - '0')
		case base == 16 && 'a' <= c|0x20 && c|0x20 <= 'f':
			d = rune(c|0x20-'a') + 10
		default:
			d = -1
		}
		if d < 0 {
			break
		}
		if r <= utf8.MaxRune {
			r = r*base + d
		}
	}
	if i == first {
		return 0, 0
	}
	if i < len(b) && b[i] == ';' {
		i++
	}
	switch {
	case 0x80 <= r && r <= 0x9f:
		r = windows1252(r)
	case r == 0 || r > utf8.MaxRune || 0xd800 <= r && r <= 0xdfff:
		r = utf8.RuneError
	}
	return r, i
}

// windows1252 returns the character of Windows-1252 that pages mean by a C1 control. Five controls have none and stay.
func windows1252(r rune) rune {
	const table = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"
	i := rune(0x80)
	for _, to := range table {
		if i == r {
			return to
		}
		i++
	}
	return r
}

// named decodes the reference "&name;". It returns 0 if there is no such reference. Those that are used most are listed
// here; x/net/html knows all, and decodes them in a text.
func named(name []byte) (r1, r2 rune) {
	switch string(name) {
	case "amp":
		return '&', 0
	case "lt":
		return '<', 0
	case "gt":
		return '>', 0
	case "quot":
		return '"', 0
	case "apos":
		return '\'', 0
	case "nbsp":
		return '\u00a0', 0
	case "copy":
		return '©', 0
	case "mdash":
		return '—', 0
	case "ndash":
		return '–', 0
	case "lsquo":
		return '‘', 0
	case "rsquo":
		return '’', 0
	case "ldquo":
		return '“', 0
	case "rdquo":
		return '”', 0
	case "laquo":
		return '«', 0
	case "raquo":
		return '»', 0
	case "hellip":
		return '…', 0
	case "middot":
		return '·', 0
	}
	out := html.UnescapeString("&" + string(name) + ";")
	r1, n := utf8.DecodeRuneInString(out)
	// The semicolon is left over if the name is unknown, or if only a shorter name without a semicolon was decoded. The
	// reference &semi; yields one itself.
	if out[len(out)-1] == ';' && string(name) != "semi" {
		return 0, 0
	}
	if n < len(out) {
		r2, _ = utf8.DecodeRuneInString(out[n:])
	}
	return r1, r2
}

// legacy decodes the longest reference without a semicolon that name begins
// with, and returns its length.
func legacy(name []byte) (rune, int) {
	if len(name) > longestLegacy {
		name = name[:longestLegacy]
	}
	if bytes.HasPrefix(name, []byte("amp")) || bytes.HasPrefix(name, []byte("AMP")) {
		return '&', 3
	}
	out := html.UnescapeString("&" + string(name))
	if out[0] == '&' {
		return 0, 0
	}
	r, n := utf8.DecodeRuneInString(out)
	return r, len(name) - (len(out) - n)
}
