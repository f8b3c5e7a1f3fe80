package weburl

import (
	"strings"
	"unicode/utf8"
)

// A byteSet is a set of byte values. The sets of this package are made once and never written to.
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
	for {
		n := 0
		for n < len(s) && !set[s[n]] {
			n++
		}
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return dst
		}
		s = s[n:]
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError {
			dst = append(dst, "%EF%BF%BD"...)
		} else {
			for i := range n {
				dst = appendEscape(dst, s[i])
			}
		}
		s = s[n:]
	}
}

// unhex holds the value of each hex digit, and 0xff for every other byte.
var unhex = hexTable("0123456789abcdef", upperHex)

// unhexUpper is unhex without the lower-case digits.
var unhexUpper = hexTable(upperHex)

func hexTable(digits ...string) (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for _, d := range digits {
		for i := range len(d) {
			table[d[i]] = byte(i)
		}
	}
	return table
}

// escapeAt returns the byte that s[i:] escapes, if it begins with an escape.
func escapeAt(s string, i int) (byte, bool) {
	if len(s)-i < 3 || s[i] != '%' {
		return 0, false
	}
	hi, lo := unhex[s[i+1]], unhex[s[i+2]]
	if hi|lo > 15 {
		return 0, false
	}
	return hi<<4 | lo, true
}

// percentDecode undoes every escape in s.
func percentDecode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
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

// unreserved holds the characters that mean the same with and without an escape.
var unreserved = setOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

func setOf(members string) (set byteSet) {
	for i := range len(members) {
		set[members[i]] = true
	}
	return set
}

// appendCanonical appends s with upper-case hex in its escapes and unreserved
// characters unescaped.
//
// A "%" that begins no escape is kept, and then the one or two characters after it must not become hex digits by
// unescaping: "%%32e" is a percent sign and an escaped "2", and unescaping it would make the different text "%2e". Such
// an escape stays. This makes the form idempotent.
func appendCanonical(dst []byte, s string) []byte {
	const (
		none     = iota
		stray    // the last byte is a "%" that begins no escape
		strayHex // and one hex digit has followed it
	)
	after := none
	for i := 0; i < len(s); i++ {
		if after == none {
			n := strings.IndexByte(s[i:], '%')
			if n < 0 {
				return append(dst, s[i:]...)
			}
			dst = append(dst, s[i:i+n]...)
			i += n
		}
		c, ok := escapeAt(s, i)
		if ok {
			if i += 2; unreserved[c] && (after == none || unhex[c] > 15) {
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
		case after == stray && unhex[c] <= 15:
			after = strayHex
		default:
			after = none
		}
		dst = append(dst, c)
	}
	return dst
}
