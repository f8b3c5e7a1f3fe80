package parser

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// A wordCounter counts words over text that comes in pieces. Its two flags are
// all it remembers of the text before; each is 0 or 0x80, the form in which
// eight bytes at a time are classified.
type wordCounter struct {
	n      int
	inside uint64 // the last character belongs to a word
	joined uint64 // the last is an apostrophe, the one before belongs to a word
}

// separate ends the current word.
func (w *wordCounter) separate() { w.inside, w.joined = 0, 0 }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// equals marks the high bit of each byte of x that is c. It is exact up to the
// first byte that is not ASCII.
func equals(x uint64, c byte) uint64 {
	return ^((x ^ ones*uint64(c)) + ones*0x7f) & highs
}

// alnums marks the high bit of each byte of x that is an ASCII letter or digit,
// exact up to the first byte that is not ASCII.
func alnums(x uint64) uint64 {
	l := x | ones*0x20
	letters := (l + ones*(0x80-'a')) &^ (l + ones*(0x7f-'z'))
	digits := (x + ones*(0x80-'0')) &^ (x + ones*(0x7f-'9'))
	return (letters | digits) & highs
}

// scan counts words in src from i to the next '<' or the end, and returns where
// that is. It is the one loop that touches every byte of a page's text, so it
// takes eight or sixteen at a time: a word begins where a letter or digit follows
// neither another nor an apostrophe that followed one.
func (w *wordCounter) scan(src []byte, i int) int {
	if i < len(src) && src[i] == '<' {
		return i // tags often follow each other
	}
	for {
		var x uint64
		if i <= len(src)-8 {
			x = binary.LittleEndian.Uint64(src[i:])
		} else {
			x = lastBytes(src[i:])
		}
		word := alnums(x)
		before := word<<8 | w.inside
		join := equals(x, '\'') & before
		starts := word &^ (before | join<<8 | w.joined)
		stop := equals(x, '<') | equals(x, '&') | x&highs
		if stop == 0 {
			w.n += bits.OnesCount64(starts)
			w.inside, w.joined = word>>56, join>>56
			i += 8
			if w.joined == 0 {
				i = w.plain(src, i)
			}
			continue
		}
		if k := bits.TrailingZeros64(stop) &^ 7; k > 0 {
			w.n += bits.OnesCount64(starts << (64 - k))
			w.inside, w.joined = word>>(k-8)&0x80, join>>(k-8)&0x80
			i += k / 8
		}
		if i >= len(src) || src[i] == '<' {
			return i
		}
		i = w.special(src, i)
	}
}

// plain counts words from i on, sixteen bytes at a time, as long as there are
// only ASCII characters, and no '<', '&' or apostrophe among them. It is kept small
// so that all of it stays in registers. No apostrophe may be pending.
func (w *wordCounter) plain(src []byte, i int) int {
	n, inside := w.n, w.inside
	for i <= len(src)-16 {
		x := binary.LittleEndian.Uint64(src[i:])
		y := binary.LittleEndian.Uint64(src[i+8:])
		// Apostrophe and '&' differ in their lowest bit alone.
		ordinary := ((x ^ ones*'<') + ones*0x7f) & (((x | ones) ^ ones*'\'') + ones*0x7f) &
			((y ^ ones*'<') + ones*0x7f) & (((y | ones) ^ ones*'\'') + ones*0x7f)
		if (^ordinary|x|y)&highs != 0 {
			break
		}
		u, v := alnums(x), alnums(y)
		starts := u&^(u<<8|inside) | (v&^(v<<8|u>>56))>>1
		n += bits.OnesCount64(starts)
		inside = v >> 56
		i += 16
	}
	w.n, w.inside = n, inside
	return i
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

// lastBytes loads fewer than eight bytes, with '<' behind them.
func lastBytes(b []byte) uint64 {
	x := uint64(ones * '<')
	for i, c := range b {
		x ^= uint64(c^'<') << (8 * i)
	}
	return x
}

// add counts one character.
func (w *wordCounter) add(r rune) {
	switch classify(r) {
	case charWord:
		if w.inside|w.joined == 0 {
			w.n++
		}
		w.inside, w.joined = 0x80, 0
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
