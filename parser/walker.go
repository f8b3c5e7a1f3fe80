package parser

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"
)

// A walker is the state of one parse. It is part of the Page, whose buffers it
// keeps between parses.
type walker struct {
	parser *Parser
	in     Input

	scanner  scanner
	tag      tag
	foreign  foreign
	texts    textHash
	template int  // how many template elements are open
	noscript bool // a noscript element is open

	anchor     collector // text of the open a element
	anchorLink int       // index of its link
	heading    collector // text of the open h1 element
	passing    collector // text that comes in one piece

	// All text that is kept. It becomes one string at the end, which the
	// strings of the Page are parts of.
	arena     []byte
	scratch   []byte // decoded attribute values of the current tag
	links     []linkRecord
	linkBytes int
	full      bool  // no link is resolved any more
	granted   int   // for links, by Input.Memory
	refused   error // by Input.Memory
	linkCount int
	truncated bool
	base      URL
	// trimmedBase is base without the parameters that are no part of a URL. It is what a link to nothing or to a
	// fragment leads to; others take nothing from the query of their base.
	trimmedBase URL
	baseSet     bool
	isSecure    bool // the page's URL is https
	isXHTML     bool // by its Content-Type

	facts facts
	json  jsonReader
}

// begin prepares for a page.
func (w *walker) begin(p *Parser, in Input) {
	if cap(w.arena) > keepArena {
		w.arena = nil
	}
	if cap(w.scratch) > keepArena {
		w.scratch = nil
	}
	if cap(w.links) > keepLinks {
		w.links = nil
	}
	w.parser, w.in = p, in
	w.scanner = scanner{src: in.Body, names: p.names}
	w.foreign.depth = 0
	w.texts.begin(in.URL, p.opts.SimHash)
	w.template, w.noscript = 0, false
	w.anchor.open, w.heading.open = false, false
	w.arena, w.scratch, w.links = w.arena[:0], w.scratch[:0], w.links[:0]
	w.linkBytes, w.linkCount, w.truncated = 0, 0, false
	w.full = false
	w.granted, w.refused = freeMemory, nil
	if in.Memory == nil {
		w.granted = math.MaxInt
	}
	w.base, w.baseSet, w.isSecure = in.URL, false, in.URL.Scheme() == "https"
	w.trimmedBase = p.opts.Params.Trim(in.URL)
	mediaType, _, _ := strings.Cut(in.Header.Get("Content-Type"), ";")
	w.isXHTML = strings.EqualFold(strings.TrimSpace(mediaType), "application/xhtml+xml")
	f := &w.facts
	*f = facts{
		canonical: -1,
		hreflang:  f.hreflang[:0],
		openGraph: f.openGraph[:0],
		types:     f.types[:0],
		ids:       f.ids[:0],
		robots:    robots{text: f.robots.text[:0]},
	}
}

// walk reads the body from one '<' to the next.
func (w *walker) walk() {
	s := &w.scanner
	for s.pos < len(s.src) {
		start, end := s.pos, 0
		if w.template == 0 {
			end = w.texts.scan(s.src, start)
		} else if n := bytes.IndexByte(s.src[start:], '<'); n >= 0 {
			end = start + n
		} else {
			end = len(s.src)
		}
		if end > start {
			w.text(start, end)
		}
		if end == len(s.src) {
			break
		}
		s.pos = end
		switch s.next(&w.tag, w.foreign.inside()) {
		case markupText:
			w.texts.separate()
			w.text(end, s.pos)
		case markupStart:
			w.start()
		case markupEnd:
			w.end()
		case markupCDATA:
			w.cdata()
		}
	}
	w.closeAnchor()
	w.closeHeading()
}

// text gives a piece of text to the elements that collect theirs.
func (w *walker) text(start, end int) {
	if w.template > 0 {
		return
	}
	if w.anchor.open {
		w.anchor.add(w.scanner.src[start:end])
	}
	if w.heading.open {
		w.heading.add(w.scanner.src[start:end])
	}
}

// cdata takes in a CDATA section.
func (w *walker) cdata() {
	b := w.scanner.cdata.of(w.scanner.src)
	if w.template > 0 {
		return
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		w.texts.addRune(r)
		i += n
	}
	w.texts.add(b)
	if w.anchor.open {
		w.anchor.addDecoded(b)
	}
	if w.heading.open {
		w.heading.addDecoded(b)
	}
}

// separate ends a word in everything that follows words.
func (w *walker) separate() {
	w.texts.separate()
	w.anchor.separate()
	w.heading.separate()
}

// start deals with a start tag.
func (w *walker) start() {
	t := &w.tag
	if t.traits&phrasing == 0 {
		w.separate()
	}
	html := true
	if w.foreign.depth > 0 || t.elem == elemSVG || t.elem == elemMath {
		html = !w.foreign.start(t, w.scanner.src)
	}
	if w.template == 0 && t.traits&(wanted|heading) != 0 {
		w.element(html)
	}
	if !html || w.isXHTML && t.selfClosing { // an element of XHTML without content
		return
	}
	switch {
	case t.traits&rawText != 0:
		content := w.scanner.rawText(t)
		if w.template == 0 {
			w.rawElement(content)
		}
	case t.elem == elemNoscript:
		w.noscript = w.noscript || w.template == 0
	case t.elem == elemTemplate:
		// A declarative shadow root is part of the page.
		mode := w.value(attrShadowRootMode)
		shadow := equalFold(mode, "open") || equalFold(mode, "closed")
		if w.template > 0 || !shadow {
			w.template++
		}
	}
}

// end deals with an end tag.
func (w *walker) end() {
	t := &w.tag
	if t.traits&phrasing == 0 {
		w.separate()
	}
	foreign := w.foreign.inside()
	w.foreign.end(t)
	switch {
	case t.elem == elemTemplate && !foreign:
		w.template = max(0, w.template-1)
	case w.template > 0:
	case t.elem == elemA:
		w.closeAnchor()
		w.texts.href = nil
	case t.traits&heading != 0:
		w.closeHeading()
	case t.elem == elemNoscript:
		w.noscript = false
	}
}

// closeAnchor ends the open a element.
func (w *walker) closeAnchor() {
	if !w.anchor.open {
		return
	}
	if text := w.anchor.end(); len(text) > 0 {
		w.setText(w.anchorLink, text)
	}
}

// closeHeading ends the open h1 element. If it has no text, the next one is the
// first.
func (w *walker) closeHeading() {
	if w.heading.open {
		text := w.heading.end()
		if len(text) > 0 {
			w.facts.h1Count++
		}
		if w.facts.h1.start == w.facts.h1.end {
			w.facts.h1 = w.keep(text)
		}
	}
}

// written returns an attribute of the current tag as it stands in the page, or nil.
func (w *walker) written(a attrName) []byte {
	if !w.tag.has(a) {
		return nil
	}
	return w.tag.values[a].of(w.scanner.src)
}

// value returns an attribute of the current tag, decoded and cut to maxValue bytes. It is valid until the next tag.
func (w *walker) value(a attrName) []byte {
	if !w.tag.has(a) {
		return nil
	}
	b := w.tag.values[a].of(w.scanner.src)
	if len(b) > maxValue {
		b = cutText(b, maxValue)
	}
	return unescape(&w.scratch, b, true)
}

// maxValue bounds what is decoded of an attribute value.
const maxValue = 64 << 10
