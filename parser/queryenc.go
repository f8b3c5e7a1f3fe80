package parser

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// encodeQuery returns href with its query percent-encoded in the page's encoding,
// as browsers do; the rest of a URL is always UTF-8. A character that the
// encoding lacks becomes a numeric reference.
func (w *walker) encodeQuery(href []byte) []byte {
	query := bytes.IndexByte(href, '?')
	if query < 0 {
		return href
	}
	end := len(href)
	if fragment := bytes.IndexByte(href, '#'); fragment >= 0 {
		end = fragment
	}
	if query >= end || isASCII(href[query:end]) {
		return href
	}
	enc := w.in.Encoding.NewEncoder()
	out := append([]byte(nil), href[:query]...)
	for rest := href[query:end]; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r < utf8.RuneSelf {
			out = append(out, rest[0])
		} else if b, err := enc.Bytes(rest[:n]); err == nil {
			for _, c := range b {
				out = fmt.Appendf(out, "%%%02X", c)
			}
		} else {
			enc.Reset()
			out = append(out, "%26%23"...)
			out = strconv.AppendInt(out, int64(r), 10)
			out = append(out, "%3B"...)
		}
		rest = rest[n:]
	}
	return append(out, href[end:]...)
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
