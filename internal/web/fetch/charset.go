package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

const (
	// prescan is how much of a page is searched for a meta element that names its encoding, wherever it stands. After
	// that, such an element counts only in the page's head.
	prescan = 1024

	// maxHeadToken is the longest script or comment that is read in that search.
	maxHeadToken = 1 << 20

	// convertStep is how much is converted before the call's end is looked at again.
	convertStep = 256 << 10
)

// toUTF8 brings the page in out.buffer to UTF-8. The encoding comes from its byte order mark, its header, its meta
// element or a guess from its bytes, in this order. Most pages are UTF-8 already, and for them it only looks.
func (c *Client) toUTF8(call *call, out *Response, contentType string) (body []byte, name string, err error) {
	original := out.buffer
	enc, name := findEncoding(original.b, contentType)
	body = trimBOM(original.b, name)
	var t transform.Transformer
	switch {
	case enc != nil:
		t = enc.NewDecoder()
	case utf8.Valid(body):
		return body, name, nil
	default:
		t = runes.ReplaceIllFormed()
	}
	out.buffer = c.buffers.get(&out.memory)
	defer c.buffers.put(original)
	err = c.convert(call, out.buffer, t, body)
	return out.buffer.b, name, err
}

// DecodePage brings a page that was not fetched to UTF-8, like a page without a Content-Type, and names its encoding.
func DecodePage(body []byte) (text []byte, name string, err error) {
	enc, name := findEncoding(body, "")
	body = trimBOM(body, name)
	if enc != nil {
		if body, err = enc.NewDecoder().Bytes(body); err != nil {
			return nil, name, fmt.Errorf("bring the page from %s to UTF-8: %w", name, err)
		}
	}
	return runes.ReplaceIllFormed().Bytes(body), name, nil
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
	unlabelled := len(label) == 0 && !hasEscape(body) || isUTF8Label(label)
	if valid && unlabelled || isPlainASCII(body) {
		return nil, utf8Name
	}
	enc, name := charset.Lookup(metaLabel(body))
	switch {
	case name == "utf-16le", name == "utf-16be":
		enc, name = nil, utf8Name // or the meta element could not have been read
	case enc == nil:
		enc, name, _ = charset.DetermineEncoding(head, "")
	}
	// windows-1252 is the guess for plain ASCII, and careless pages name it too. Text that is really in it is hardly
	// ever valid UTF-8.
	if name == utf8Name || valid && name == "windows-1252" {
		return nil, utf8Name
	}
	return enc, name
}

// labelIn returns the first charset that a header or a meta element names, or nil.
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

// metaLabel returns the encoding that a meta element names, or "". Browsers search the first
// 1,024 bytes, and obey one that they meet later in the page's head.
func metaLabel(body []byte) string {
	z := html.NewTokenizer(bytes.NewReader(body))
	z.SetMaxBuf(maxHeadToken)
	for at := 0; ; at += len(z.Raw()) {
		kind := z.Next()
		if kind == html.ErrorToken {
			return ""
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		name, hasAttr := z.TagName()
		switch tag := atom.Lookup(name); {
		case tag == atom.Meta && hasAttr:
			if label := labelOf(z); label != "" {
				return label
			}
		case at > prescan && !inHead(tag):
			return ""
		}
	}
}

// labelOf returns the encoding that the attributes of a meta element name, or "".
func labelOf(z *html.Tokenizer) string {
	var label, inContent string
	isType := false
	for more := true; more; {
		var name, value []byte
		name, value, more = z.TagAttr()
		switch string(name) {
		case "charset":
			label = string(bytes.TrimSpace(value))
		case "http-equiv":
			isType = bytes.EqualFold(value, []byte("content-type"))
		case "content":
			inContent = string(labelIn(value))
		}
	}
	if label == "" && isType {
		return inContent
	}
	return label
}

// inHead reports whether an element stands in a page's head.
func inHead(tag atom.Atom) bool {
	switch tag {
	case atom.Html, atom.Head, atom.Title, atom.Base, atom.Link, atom.Meta, atom.Style, atom.Script, atom.Noscript,
		atom.Template, atom.Object:
		return true
	}
	return false
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

// hasEscape reports whether there is an escape character, by which ISO-2022-JP leaves
// ASCII.
func hasEscape(b []byte) bool { return bytes.IndexByte(b, 0x1b) >= 0 }

// isPlainASCII reports whether there is neither a byte over 127 nor an escape
// character.
func isPlainASCII(b []byte) bool {
	if hasEscape(b) {
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

// convert writes src to dst in another encoding. That can make a text three times as long, so the result for a large
// page is measured first.
func (c *Client) convert(call *call, dst *buffer, t transform.Transformer, src []byte) error {
	if len(src) > c.buffers.small {
		size := utf8.UTFMax
		scratch := dst.b[:cap(dst.b)]
		err := inSteps(call, t, src, func(int) ([]byte, error) { return scratch, nil }, func(n int) { size += n })
		if err != nil {
			return err
		}
		t.Reset()
		if err := c.buffers.resize(call, dst, size); err != nil {
			return err
		}
	}
	space := func(n int) ([]byte, error) {
		err := c.buffers.grow(call, dst, n, len(dst.b)+4*n)
		return dst.b[len(dst.b):cap(dst.b)], err
	}
	err := inSteps(call, t, src, space, func(n int) { dst.b = dst.b[:len(dst.b)+n] })
	dst.b = bytes.TrimPrefix(dst.b, []byte("\xef\xbb\xbf"))
	return err
}

// inSteps transforms src piece by piece as long as the call lasts. Space gives memory for
// about n bytes to write to, and wrote takes how many were written there.
func inSteps(call *call, t transform.Transformer, src []byte, space func(n int) ([]byte, error),
	wrote func(n int)) error {
	for {
		if why := call.step(); why != nil {
			return why
		}
		step := src[:min(len(src), convertStep)]
		to, err := space(len(step) + utf8.UTFMax)
		if err != nil {
			return err
		}
		last := len(step) == len(src)
		n, m, err := t.Transform(to, step, last)
		wrote(n)
		src = src[m:]
		switch {
		case err == nil && last:
			return nil
		case err != nil && (n == 0 && m == 0 || err != transform.ErrShortDst && err != transform.ErrShortSrc):
			return err
		}
	}
}
