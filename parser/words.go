package parser

import (
	"unicode"
	"unicode/utf8"
)

// separate ends the current word.
func (r *blockReader) separate() { r.inside, r.joined = 0, 0 }

// addRune counts one character.
func (r *blockReader) addRune(c rune) {
	switch classify(c) {
	case charWord:
		if r.inside|r.joined == 0 {
			r.words++
		}
		r.inside, r.joined = 1, 0
	case charAlone:
		r.words++
		r.separate()
	case charJoin:
		r.inside, r.joined = 0, r.inside
	case charOther:
		r.separate()
	}
}

// A charClass is what a character does to a word.
type charClass uint8

const (
	charOther charClass = iota // ends it
	charWord                   // continues or begins it
	charAlone                  // is one by itself
	charJoin                   // continues it if a charWord follows
	charNone                   // is ignored
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
