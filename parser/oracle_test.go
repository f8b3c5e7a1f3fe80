package parser

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// A startTag is a start tag as a tokenizer gives it.
type startTag struct {
	name  string
	attrs [][2]string
}

func (t startTag) String() string { return fmt.Sprintf("<%s %q>", t.name, t.attrs) }

// tokenized is what the tests compare of a token stream.
type tokenized struct {
	tags  []startTag
	title *string // content of the first title element
}

// newParser makes a parser whose extractors have time on a busy machine too, unless a test says how much.
func newParser(t testing.TB, o Options) *Parser {
	t.Helper()
	if len(o.Extract) > 0 {
		o.ExtractTimeout = cmp.Or(o.ExtractTimeout, time.Hour)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parse(t testing.TB, p *Parser, pg *Page, in Input) {
	t.Helper()
	if err := p.Parse(pg, in); err != nil {
		t.Fatal(err)
	}
}

// tokens drives the scanner as a walker does, but keeps every start tag with all
// of its attributes.
func tokens(src []byte) tokenized {
	var out tokenized
	var t tag
	var f foreign
	s := scanner{src: src, names: newNames(false)}
	for {
		n := bytes.IndexByte(src[s.pos:], '<')
		if n < 0 {
			return out
		}
		s.pos += n
		start := s.pos
		switch s.next(&t, f.inside()) {
		case markupEnd:
			f.end(&t)
		case markupStart:
			out.tags = append(out.tags, allAttrs(src[start:s.pos], &t, start))
			if f.start(&t, src) || t.traits&rawText == 0 {
				continue
			}
			content := s.rawText(&t)
			if t.elem == elemTitle && out.title == nil {
				var buf []byte
				title := string(unescape(&buf, content, false))
				out.title = &title
			}
		}
	}
}

// allAttrs reads a tag again, from its source.
func allAttrs(src []byte, t *tag, at int) startTag {
	s := scanner{src: src, pos: int(t.name.end) - at}
	st := startTag{name: name(src[1:s.pos])}
	var a attr
	for s.attr(&a) == attrRead {
		key := name(a.name.of(src))
		if slices.ContainsFunc(st.attrs, func(b [2]string) bool { return b[0] == key }) {
			continue
		}
		var buf []byte
		st.attrs = append(st.attrs, [2]string{key, string(unescape(&buf, a.value.of(src), true))})
	}
	return st
}

// name makes a name as written what the standard makes of it.
func name(b []byte) string {
	b = bytes.ReplaceAll(b, []byte{0}, []byte("\ufffd"))
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

// oracle reads the same with x/net/html's tokenizer, told what a tree builder
// would tell it: where foreign content is, and that noscript is markup.
func oracle(src []byte) tokenized {
	var out tokenized
	var f foreign
	names := newNames(false)
	z := html.NewTokenizer(bytes.NewReader(src))
	inTitle := false
	for {
		z.AllowCDATA(f.inside())
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			if inTitle && out.title == nil {
				out.title = new(string)
			}
			return out
		case html.TextToken:
			if inTitle && out.title == nil {
				title := string(z.Text())
				out.title = &title
			}
		case html.EndTagToken, html.StartTagToken, html.SelfClosingTagToken:
			if inTitle && out.title == nil {
				out.title = new(string)
			}
			inTitle = false
			var t tag
			n, more := z.TagName()
			t.elem, t.traits = names.element(n, foldName(n))
			if tt == html.EndTagToken {
				f.end(&t)
				continue
			}
			t.selfClosing = tt == html.SelfClosingTagToken
			st := startTag{name: string(n)}
			var values []byte
			for more {
				var k, v []byte
				k, v, more = z.TagAttr()
				key := string(k)
				if !slices.ContainsFunc(st.attrs, func(b [2]string) bool { return b[0] == key }) {
					st.attrs = append(st.attrs, [2]string{key, string(v)})
				}
				if id, ok := names.attr(k, foldName(k)); ok && !t.has(id) {
					t.set |= 1 << id
					t.values[id] = span{uint32(len(values)), uint32(len(values) + len(v))}
					values = append(values, v...)
				}
			}
			out.tags = append(out.tags, st)
			if f.start(&t, values) || t.elem == elemNoscript {
				z.NextIsNotRawText()
			} else if t.elem == elemTitle {
				inTitle = true
			}
		}
	}
}
