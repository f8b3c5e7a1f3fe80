package fetch

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// prescan is how much of a page may name its encoding in a meta element.
const prescan = 1024

// toUTF8 brings a page to UTF-8, by its byte order mark, its header, its meta
// element or the look of it, in this order. Most pages are UTF-8 already, and
// for them it only looks.
func (c *Client) toUTF8(call *call, out *Response, buf *buffer, contentType string) (body []byte, name string, err error) {
	body = buf.b
	enc, name := findEncoding(body, contentType)
	body = trimBOM(body, name)
	if enc == nil && utf8.Valid(body) {
		return body, name, nil
	}
	next := c.buffers.beside(buf)
	out.buffer, out.original = next, buf
	if enc == nil {
		err = c.repair(call, next, body)
	} else {
		err = c.convert(call, next, enc, body)
	}
	return next.b, name, err
}

// findEncoding names the encoding of a page. The encoding is nil for UTF-8 and
// for text that reads the same in it.
func findEncoding(body []byte, contentType string) (encoding.Encoding, string) {
	const utf8Name = "utf-8"
	head := body[:min(len(body), prescan)]
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return nil, utf8Name
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		enc, name, _ := charset.DetermineEncoding(head, "")
		return enc, name
	}
	switch label := labelIn([]byte(contentType)); {
	case isUTF8Label(label):
		return nil, utf8Name
	case len(label) > 0:
		if enc, name := charset.Lookup(string(label)); enc != nil {
			if asciiSafe(name) && isPlainASCII(body) {
				enc = nil
			}
			return enc, name
		}
	}
	valid := utf8.Valid(body)
	label := labelIn(head)
	if valid && (len(label) == 0 || isUTF8Label(label)) || isPlainASCII(body) {
		return nil, utf8Name
	}
	enc, name, _ := charset.DetermineEncoding(head, "")
	// windows-1252 is what is guessed of plain ASCII, and what careless pages say of
	// themselves; text in it is not valid UTF-8 by chance.
	if name == utf8Name || valid && name == "windows-1252" {
		return nil, utf8Name
	}
	return enc, name
}

// labelIn returns the first thing that is said to be a charset, in a header or a
// meta element, or nil.
func labelIn(s []byte) []byte {
	const word = "charset"
	for {
		i := indexFold(s, word)
		if i < 0 {
			return nil
		}
		s = bytes.TrimLeft(s[i+len(word):], " \t\r\n\f")
		if len(s) > 0 && s[0] == '=' {
			s = bytes.TrimLeft(s[1:], " \t\r\n\f\"'")
			end := bytes.IndexAny(s, " \t\r\n\f\"';>/")
			if end < 0 {
				end = len(s)
			}
			return s[:end]
		}
	}
}

func isUTF8Label(label []byte) bool {
	return bytes.EqualFold(label, []byte("utf-8")) || bytes.EqualFold(label, []byte("utf8"))
}

// asciiSafe reports whether ASCII bytes without escapes mean the same in an
// encoding as in UTF-8.
func asciiSafe(name string) bool {
	switch name {
	case "utf-16be", "utf-16le", "replacement":
		return false
	}
	return true
}

// isPlainASCII reports whether there is neither a byte over 127 nor an escape
// character, by which ISO-2022-JP leaves ASCII.
func isPlainASCII(b []byte) bool {
	if bytes.IndexByte(b, 0x1b) >= 0 {
		return false
	}
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// indexFold finds a word of lower-case letters in any case.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && bytes.EqualFold(s[i:i+len(word)], []byte(word)) {
			return i
		}
	}
	return -1
}

func trimBOM(body []byte, name string) []byte {
	if name == "utf-8" {
		return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	}
	return body
}

// repair copies UTF-8 and puts U+FFFD in the place of each byte that is none.
func (c *Client) repair(call *call, dst *buffer, src []byte) error {
	for len(src) > 0 {
		if err := c.room(call, dst, len(src)+utf8.UTFMax); err != nil {
			return err
		}
		r, n := utf8.DecodeRune(src)
		if r != utf8.RuneError {
			// Whole runs of good bytes at once.
			for n < len(src) {
				r, size := utf8.DecodeRune(src[n:])
				if r == utf8.RuneError && size == 1 {
					break
				}
				n += size
			}
			dst.b = append(dst.b, src[:n]...)
		} else {
			dst.b = utf8.AppendRune(dst.b, r)
		}
		src = src[n:]
	}
	return nil
}

// convert decodes src into dst.
func (c *Client) convert(call *call, dst *buffer, enc encoding.Encoding, src []byte) error {
	dec := enc.NewDecoder()
	for {
		if err := c.room(call, dst, len(src)+utf8.UTFMax); err != nil {
			return err
		}
		n, m, err := dec.Transform(dst.b[len(dst.b):cap(dst.b)], src, true)
		dst.b, src = dst.b[:len(dst.b)+n], src[m:]
		if err == nil {
			dst.b = bytes.TrimPrefix(dst.b, []byte("\xef\xbb\xbf"))
			return nil
		}
		if err != transform.ErrShortDst {
			return err
		}
	}
}

// room makes room for n more bytes, and for some more beyond that, since text can
// grow threefold by being decoded.
func (c *Client) room(call *call, dst *buffer, n int) error {
	if cap(dst.b)-len(dst.b) >= n {
		return nil
	}
	return c.buffers.grow(call, dst, n, len(dst.b)+4*n)
}
