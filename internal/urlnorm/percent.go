package urlnorm

import "unicode/utf8"

// A byteSet is a set of byte values.
type byteSet [256]bool

// The percent-encode sets of the URL Standard. Every one holds the C0 controls,
// DEL and all that is not ASCII.
var (
	fragmentSet = encodeSet(" \"<>`")
	querySet    = encodeSet(" \"#<>'") // the special-query set
	pathSet     = encodeSet(" \"#<>?^`{}")
	userinfoSet = encodeSet(" \"#<>?^`{}/:;=@[\\]|")
)

func encodeSet(printable string) (set byteSet) {
	for c := range set {
		set[c] = c <= 0x1f || c >= 0x7f
	}
	for i := range len(printable) {
		set[printable[i]] = true
	}
	return set
}

const upperHex = "0123456789ABCDEF"

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// appendEncoded appends s with what is in set percent-encoded. Bytes that are
// not UTF-8 become escapes of U+FFFD, one for each.
func appendEncoded(dst []byte, s string, set *byteSet) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if set[c] {
				dst = appendEscape(dst, c)
			} else {
				dst = append(dst, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError {
			dst = append(dst, "%EF%BF%BD"...)
		} else {
			for j := range n {
				dst = appendEscape(dst, s[i+j])
			}
		}
		i += n
	}
	return dst
}

// unhex returns the value of a hex digit, or a value over 15.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// escapeAt returns the byte that s[i:] escapes, if it begins with an escape.
func escapeAt[T string | []byte](s T, i int) (byte, bool) {
	if len(s)-i < 3 || s[i] != '%' {
		return 0, false
	}
	hi, lo := unhex(s[i+1]), unhex(s[i+2])
	if hi > 15 || lo > 15 {
		return 0, false
	}
	return hi<<4 | lo, true
}

// percentDecode undoes every escape in s.
func percentDecode(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := escapeAt(s, i); ok {
			out = append(out, c)
			i += 2
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// isUnreserved reports whether c means the same escaped and not.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// appendCanonical appends s with upper-case hex in its escapes and unreserved
// characters unescaped.
//
// A "%" that begins no escape is kept, and then the one or two characters after
// it must not become hex digits by unescaping: "%%32e" is a percent sign and an
// escaped "2", and unescaping it would make the different text "%2e". Such an
// escape stays. This is what makes the form idempotent.
func appendCanonical(dst []byte, s string) []byte {
	const (
		none     = iota
		stray    // the last byte is a "%" that begins no escape
		strayHex // and one hex digit has followed it
	)
	after := none
	for i := 0; i < len(s); i++ {
		c, ok := escapeAt(s, i)
		if ok {
			i += 2
			if isUnreserved(c) && (after == none || unhex(c) > 15) {
				dst = append(dst, c)
			} else {
				dst = appendEscape(dst, c)
			}
			after = none
			continue
		}
		c = s[i]
		switch {
		case c == '%':
			after = stray
		case after == stray && unhex(c) <= 15:
			after = strayHex
		default:
			after = none
		}
		dst = append(dst, c)
	}
	return dst
}
