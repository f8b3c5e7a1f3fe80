package parser

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// encodeQuery returns href with its query in the page's encoding, percent-encoded,
// as browsers send it; the rest of a URL is always UTF-8.
func (w *walker) encodeQuery(href []byte) []byte {
	query := bytes.IndexByte(href, '?')
	if query < 0 {
		return href
	}
	end := len(href)
	if fragment := bytes.IndexByte(href, '#'); fragment >= 0 {
		end = fragment
	}
	if query >= end || asciiPrefix(href[query:end]) == end-query {
		return href
	}
	enc := w.in.Encoding.NewEncoder()
	// Encodings that change ASCII, such as UTF-16, are not used in URLs.
	if b, err := enc.Bytes([]byte("a")); err != nil || string(b) != "a" {
		return href
	}
	out := append([]byte(nil), href[:query]...)
	for rest := href[query:end]; len(rest) > 0; {
		n := asciiPrefix(rest)
		out = append(out, rest[:n]...)
		rest = rest[n:]
		n = otherPrefix(rest)
		out = appendEncoded(out, enc, rest[:n])
		rest = rest[n:]
	}
	return append(out, href[end:]...)
}

// appendEncoded appends text in the encoding. A character that it lacks becomes a
// numeric reference.
func appendEncoded(dst []byte, enc *encoding.Encoder, text []byte) []byte {
	if b, err := enc.Bytes(text); err == nil {
		return appendPercent(dst, b)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if b, err := enc.Bytes(text[:n]); err == nil {
			dst = appendPercent(dst, b)
		} else {
			dst = append(dst, "%26%23"...)
			dst = strconv.AppendInt(dst, int64(r), 10)
			dst = append(dst, "%3B"...)
		}
		text = text[n:]
	}
	return dst
}

// appendPercent percent-encodes the bytes that a query cannot hold. The second byte of a character may be one that it
// can hold, and stays.
func appendPercent(dst, b []byte) []byte {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"#<>'`), c) >= 0 {
			dst = fmt.Appendf(dst, "%%%02X", c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// asciiPrefix counts the ASCII bytes that b begins with, otherPrefix the others.
func asciiPrefix(b []byte) int {
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return i
		}
	}
	return len(b)
}

func otherPrefix(b []byte) int {
	for i, c := range b {
		if c < utf8.RuneSelf {
			return i
		}
	}
	return len(b)
}
