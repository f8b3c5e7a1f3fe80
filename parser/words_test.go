package parser

import (
	"strings"
	"testing"
	"unicode"
)

// A wordModel counts words by the definition, one character after the other.
type wordModel struct {
	n      int
	inside bool
	joined bool
}

func (w *wordModel) separate() { w.inside, w.joined = false, false }

func (w *wordModel) add(text string) {
	for _, r := range text {
		switch {
		case r == '\u00ad' || r == '\u200c' || r == '\u200d':
		case unicode.IsLetter(r) && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			w.n++
			w.separate()
		case unicode.In(r, unicode.L, unicode.M, unicode.N):
			if !w.inside && !w.joined {
				w.n++
			}
			w.inside, w.joined = true, false
		case r == '\'' || r == '’':
			w.inside, w.joined = false, w.inside
		default:
			w.separate()
		}
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		html string
		want int
	}{
		{"", 0},
		{"one", 1},
		{"one two  three", 3},
		{"don't 'quoted' rock'n'roll ' '' it''s", 5},
		{"it’s", 1},
		{"a-b c/d e_f 3.14", 8},
		{"x1 2y 3", 3},
		{"caf&eacute; na&iuml;ve &amp; &mdash; don&rsquo;t don&#39;t", 4},
		{"a&nbsp;b&lt;c", 3},
		{"AT&T &unknown; R&D;", 5},
		{"naïve Ærøskøbing über", 3},
		{"co\u00adoperate &shy;x a&zwj;b", 3},
		{"Привет, мир", 2},
		{"日本語テキスト", 7},
		{"Hello 世界 again", 4},
		{"한국어 문장", 2},
		{"—…“”×÷", 0},
		{"w<b>or</b>d", 1},
		{"w<br>o<p>r</p>d", 4},
		{"a<!-- x y -->b", 1},
		{"a < b", 2},
		{"a<script>b c</script>d<style>e</style>f", 3},
		{"<title>not this</title>but <textarea>nor this</textarea>this", 2},
		{"a<template>b <p>c</p></template>d", 2},
		{"<noscript>counts too</noscript>", 2},
		{"<svg><![CDATA[in data]]></svg>", 2},
		{"broken \xff\xfe bytes\xc3", 2},
		{"trailing &", 1},
	} {
		var pg Page
		parse(t, newParser(t, Options{}), &pg, Input{Body: []byte(tt.html)})
		if pg.WordCount != tt.want {
			t.Errorf("%q has %d words, want %d", tt.html, pg.WordCount, tt.want)
		}
	}
}

// TestClassify holds the shortcuts of classify to the tables they stand for.
func TestClassify(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		var m wordModel
		m.add(string(r))
		class := classify(r)
		single := class == charWord || class == charAlone
		if 0xd800 <= r && r <= 0xdfff {
			continue
		}
		if got := m.n == 1; got != single {
			t.Fatalf("classify(%U) is %d, the definition says word %v", r, class, got)
		}
		m.add("a")
		if alone := m.n == 2; alone != (class == charAlone) && single {
			t.Fatalf("classify(%U) is %d, the definition says alone %v", r, class, alone)
		}
	}
}

// FuzzWords holds the counter that takes many characters at a time to the one that
// takes one.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "one two", "don't 'x' ''", "Привет мир", "日本語 text",
		"0123456789abcdef0123456789abcdef'x y'z",
		"a\xff'b\xc3\x28", "exactly sixteen.'s and then some more of it", strings.Repeat("a", blockSize-1) + "'s x",
		strings.Repeat("a", blockSize) + "b",
		strings.Repeat("a", blockSize-2) + " 's"} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		// Markup and references are tested elsewhere.
		plain := []byte(text)
		for i, c := range plain {
			if c == '<' || c == '&' {
				plain[i] = ' '
			}
		}
		var want wordModel
		want.add(string(plain))
		var w textHash
		if end := w.scan(plain, 0); end != len(plain) || w.words != want.n {
			t.Errorf("%q: scan stops at %d of %d with %d words, want %d", plain, end, len(plain), w.words, want.n)
		}
		// In pieces that do not cut a character it is the same.
		at := min(int(cut), len(plain))
		if isCharBoundary(plain, at) {
			w = textHash{}
			w.scan(plain[:at], 0)
			if w.scan(plain, at); w.words != want.n {
				t.Errorf("%q: in pieces at %d there are %d words, want %d", plain, at, w.words, want.n)
			}
		}
	})
}

func isCharBoundary(b []byte, at int) bool {
	n := 0
	for i := range string(b) {
		if i == at {
			return true
		}
		n = i
	}
	return at == len(b) || at == 0 || n == at
}
