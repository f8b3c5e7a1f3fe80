package parser

import "unicode/utf8"

// A collector gathers the text of one element: character references decoded,
// white space collapsed and trimmed, other control characters of ASCII dropped, cut at
// max bytes. Control characters mean nothing in a text, and JSON writes each as six bytes.
type collector struct {
	open   bool
	space  bool // white space is due before the next character
	rcdata bool // a NUL is U+FFFD, as in title; elsewhere it is dropped
	max    int
	buf    []byte
}

func (c *collector) begin(max int) {
	c.open, c.space, c.rcdata, c.max, c.buf = true, false, false, max, c.buf[:0]
}

// separate puts white space before what follows, if anything does.
func (c *collector) separate() { c.space = true }

// add takes a piece of text as written.
func (c *collector) add(text []byte) {
	for i := 0; i < len(text) && len(c.buf) < c.max; {
		switch b := text[i]; {
		case isSpace(b):
			c.space = true
			i++
		case b == '&':
			r1, r2, n := reference(text[i:], false)
			if n == 0 {
				c.put('&')
				i++
				continue
			}
			c.put(r1)
			if r2 != 0 {
				c.put(r2)
			}
			i += n
		case b < ' ':
			if b == 0 && c.rcdata {
				c.put(utf8.RuneError)
			}
			i++
		default:
			i += c.run(text[i:])
		}
	}
}

// addDecoded takes a piece of text that has no character references left.
func (c *collector) addDecoded(text []byte) {
	for i := 0; i < len(text) && len(c.buf) < c.max; {
		r, n := utf8.DecodeRune(text[i:])
		c.put(r)
		i += n
	}
}

// put takes one character.
func (c *collector) put(r rune) {
	if r <= ' ' {
		c.space = c.space || isSpace(byte(r))
		return
	}
	c.flush()
	c.buf = utf8.AppendRune(c.buf, r)
}

// run takes the ordinary characters that text begins with, and returns how many
// bytes they are.
func (c *collector) run(text []byte) int {
	n := 1
	for n < len(text) && text[n] > ' ' && text[n] != '&' {
		n++
	}
	c.flush()
	c.buf = append(c.buf, text[:min(n, c.max)]...)
	return n
}

func (c *collector) flush() {
	if c.space && len(c.buf) > 0 {
		c.buf = append(c.buf, ' ')
	}
	c.space = false
}

// end closes the collector and returns the text, valid until the next begin.
func (c *collector) end() []byte {
	c.open = false
	return cutText(c.buf, c.max)
}

// cutText shortens b to at most max bytes without cutting a character in two.
func cutText(b []byte, max int) []byte {
	if len(b) <= max {
		return b
	}
	for i := max; i > max-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(b[i]) {
			max = i
			break
		}
	}
	return trimSpace(b[:max])
}
