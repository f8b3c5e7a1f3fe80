package sitemap

import (
	"bufio"
	"bytes"
	"fmt"
	"unicode/utf8"
)

// What a file may hold of memory while it comes, which may take long. The decoder keeps the token that it reads.
const (
	// maxHeld is how many bytes of a text or of an attribute are kept, which is more than the longest URL that a crawl
	// takes; the rest is passed over. A tag, an instruction or a document type may have twice as many, not counting
	// that rest.
	maxHeld = 8 << 10
	// maxAttributes is for one tag. An attribute of two bytes takes 48 of memory.
	maxAttributes = 1000
	// maxSkipped is how many bytes of a text, an attribute or a comment may be passed over.
	maxSkipped = 4 << 20
)

// tokenReader is what the decoder reads: the file without its comments, and without the rest of tokens that are too
// long. It does not change where tokens begin and end.
type tokenReader struct {
	*bufio.Reader
	in      part
	held    int   // bytes of the token that the decoder has read
	quote   byte  // in a tag: the quote that ends the value, or 0 outside of values
	parts   int   // of a tag: no fewer than its attributes
	last    byte  // that the decoder has read
	isCut   bool  // the decoder does not see the rest of the token
	skipped int64 // bytes of the file that the decoder does not see
}

// A part of a file is the token that is being read.
type part uint8

const (
	inText part = iota
	inCDATA
	inTag
	inOther // a processing instruction or a document type
)

// begin is called between two tokens. The decoder ends a text when it has read the < after it, which is the first byte
// of the next token.
func (t *tokenReader) begin() {
	t.held, t.quote, t.parts, t.isCut = 0, 0, 0, false
	if t.last == '<' && t.in != inText {
		t.held = 1
		return
	}
	t.in = inText
}

// ReadByte is the method by which the decoder reads.
func (t *tokenReader) ReadByte() (byte, error) {
	if t.held >= maxHeld {
		if err := t.cut(); err != nil {
			return 0, err
		}
	}
	c, err := t.Reader.ReadByte()
	if err != nil {
		return 0, err
	}
	switch t.in {
	case inText:
		if c == '<' {
			if c, err = t.markup(); err != nil {
				return 0, err
			}
		}
	case inTag:
		switch {
		case t.quote != 0:
			if c == t.quote {
				t.quote = 0
			}
		case c == '"' || c == '\'':
			t.quote = c
		case c == '=' || c <= ' ' && t.last > ' ':
			if t.parts++; t.parts > maxAttributes {
				return 0, fmt.Errorf("%w: a tag with more than %d attributes", ErrNotSitemap, maxAttributes)
			}
		}
	}
	t.held++
	t.last = c
	return c, nil
}

// markup finds out what begins with a < in a text. It passes over comments, and returns the byte to go on with.
func (t *tokenReader) markup() (byte, error) {
	for {
		next, _ := t.Peek(1) // no more than it needs: they may come slowly
		if string(next) == "!" {
			next, _ = t.Peek(len("![CDATA["))
		}
		switch {
		case bytes.HasPrefix(next, []byte("!--")):
			n, _ := t.Discard(len("!--"))
			t.skipped += int64(n) + int64(len("<"))
			if err := t.skip("-->"); err != nil {
				return 0, err
			}
			n, _ = t.Discard(len("-->"))
			t.skipped += int64(n)
			if c, err := t.Reader.ReadByte(); err != nil || c != '<' {
				return c, err
			}
			continue
		case string(next) == "![CDATA[":
			t.in = inCDATA
		case len(next) > 0 && (next[0] == '!' || next[0] == '?'):
			t.in = inOther
		default:
			t.in = inTag
		}
		return '<', nil
	}
}

// cut passes over the rest of a text or of a value, because the decoder has enough of it. It fails if there is no such
// rest, and the token is too long.
func (t *tokenReader) cut() error {
	end := ""
	switch {
	case t.in == inText:
		end = "<"
	case t.in == inCDATA && t.last != ']': // otherwise the end may have begun
		end = "]]>"
	case t.quote != 0:
		end = string(t.quote)
	}
	next, err := t.Peek(1)
	switch {
	case err != nil:
		return err
	case end != "" && utf8.RuneStart(next[0]): // the decoder refuses half a character
		before := t.skipped
		err = t.skip(end)
		t.isCut = t.isCut || t.skipped > before
		return err
	case t.held >= 2*maxHeld:
		return fmt.Errorf("%w: a token of more than %d bytes", ErrNotSitemap, 2*maxHeld)
	}
	return nil
}

// skip passes over what comes before end.
func (t *tokenReader) skip(end string) error {
	for most := t.skipped + maxSkipped; t.skipped <= most; {
		_, err := t.Peek(len(end))
		if err != nil {
			return err
		}
		buffered, _ := t.Peek(t.Buffered())
		at := bytes.Index(buffered, []byte(end))
		pass := at
		if at < 0 {
			pass = len(buffered) - len(end) + 1
		}
		n, _ := t.Discard(pass)
		t.skipped += int64(n)
		if at >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: a text of more than %d bytes", ErrNotSitemap, maxSkipped)
}
