package parser

import (
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// A wordCounter counts words over text that comes in pieces. Its two flags are
// all it remembers of the text before; each is 0 or 1, so that it can stand
// before the first bit of a block.
type wordCounter struct {
	n      int
	inside uint64 // the last character belongs to a word
	joined uint64 // the last is an apostrophe, the one before belongs to a word
}

// separate ends the current word.
func (w *wordCounter) separate() { w.inside, w.joined = 0, 0 }

// scan counts words in src from i to the next '<' or the end, and returns where
// that is. It is the one loop that touches every byte of a page's text, so it
// takes many at a time: a word begins where a letter or digit follows neither
// another nor an apostrophe that followed one.
func (w *wordCounter) scan(src []byte, i int) int {
	if i < len(src) && src[i] == '<' {
		return i // tags often follow each other
	}
	var c classes
	for {
		switch { // and not read, which is too much for the compiler to inline
		case len(src)-i < blockSize:
			c.readLast(src[i:])
		case blockwise:
			readClasses(&c, (*[blockSize]byte)(src[i:]))
		default:
			c.readAnywhere((*[blockSize]byte)(src[i:]))
		}
		before := c.word<<1 | w.inside
		join := c.apostrophe & before
		starts := c.word &^ (before | join<<1 | w.joined)
		if c.stop == 0 {
			w.n += bits.OnesCount64(starts)
			w.inside, w.joined = c.word>>(blockSize-1), join>>(blockSize-1)
			i += blockSize
			continue
		}
		if k := bits.TrailingZeros64(c.stop); k > 0 {
			w.n += bits.OnesCount64(starts << (blockSize - k))
			w.inside, w.joined = c.word>>(k-1)&1, join>>(k-1)&1
			i += k
		}
		if i >= len(src) || src[i] == '<' {
			return i
		}
		i = w.special(src, i)
	}
}

// special counts what is not plain ASCII at i, and returns where to go on. In
// text of another script it stays for the blanks and stops between words.
func (w *wordCounter) special(src []byte, i int) int {
	if src[i] == '&' {
		r1, r2, n := reference(src[i:], false)
		if n == 0 {
			w.separate()
			return i + 1
		}
		w.add(r1)
		if r2 != 0 {
			w.add(r2)
		}
		return i + n
	}
	for i < len(src) {
		c := src[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(src[i:])
			w.add(r)
			i += n
		case c == '<' || c == '&' || i+1 >= len(src) || src[i+1] < utf8.RuneSelf:
			return i
		default:
			w.add(rune(c))
			i++
		}
	}
	return i
}

// add counts one character.
func (w *wordCounter) add(r rune) {
	switch classify(r) {
	case charWord:
		if w.inside|w.joined == 0 {
			w.n++
		}
		w.inside, w.joined = 1, 0
	case charAlone:
		w.n++
		w.separate()
	case charJoin:
		w.inside, w.joined = 0, w.inside
	case charOther:
		w.separate()
	}
}

// A charClass is what a character does to a word.
type charClass uint8

const (
	charOther charClass = iota // ends it
	charWord                   // continues or begins it
	charAlone                  // is one by itself
	charJoin                   // continues it if a charWord follows
	charNone                   // is not there
)

// classify looks at the ranges that most text comes from before it asks the
// tables of package unicode.
func classify(r rune) charClass {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case isAlnum(byte(r)):
			return charWord
		case r == '\'':
			return charJoin
		}
		return charOther
	case 0xc0 <= r && r < 0x250:
		if r == '×' || r == '÷' {
			return charOther
		}
		return charWord
	case 0x400 <= r && r < 0x530:
		if r == '\u0482' {
			return charOther
		}
		return charWord
	case 0x4e00 <= r && r < 0xa000, 0x3041 <= r && r <= 0x3096, 0x30a1 <= r && r <= 0x30fa:
		return charAlone
	case 0xac00 <= r && r <= 0xd7a3:
		return charWord
	case r == '\u00ad' || r == '\u200c' || r == '\u200d':
		return charNone
	case r == '’':
		return charJoin
	case 0x2000 <= r && r < 0x2070, r == utf8.RuneError:
		return charOther
	}
	switch {
	case unicode.IsLetter(r):
		if r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
			return charAlone
		}
		return charWord
	case unicode.IsNumber(r) || unicode.IsMark(r):
		return charWord
	}
	return charOther
}
