package parser

// foreign follows the nesting of svg and math, in which the tokenizer has other
// rules. It remembers only what decides these: the open svg and math elements and
// the integration points inside of them, where HTML's rules hold again.
type foreign struct {
	open  [maxForeign]element
	depth int
}

// maxForeign bounds the nesting that is followed. Beyond it all is HTML.
const maxForeign = 32

// inside reports whether foreign rules hold.
func (f *foreign) inside() bool {
	return f.depth > 0 && f.isRoot(f.depth-1)
}

// isRoot reports whether the i-th open element is svg or math itself.
func (f *foreign) isRoot(i int) bool {
	return f.open[i] == elemSVG || f.open[i] == elemMath
}

// start takes notice of a start tag of src.
func (f *foreign) start(t *tag, src []byte) {
	if f.inside() && (t.traits&breakout != 0 || t.elem == elemFont && t.has(attrFont)) {
		f.leave()
	}
	root := t.elem == elemSVG || t.elem == elemMath
	if t.selfClosing || !root && !f.isPoint(t, src) {
		return
	}
	if f.depth == len(f.open) {
		f.depth = 0
		return
	}
	f.open[f.depth] = t.elem
	f.depth++
}

// isPoint reports whether a start tag opens an integration point.
func (f *foreign) isPoint(t *tag, src []byte) bool {
	switch {
	case !f.inside():
		return false
	case f.open[f.depth-1] == elemSVG:
		return t.elem == elemForeignObject || t.elem == elemDesc || t.elem == elemTitle
	case t.elem == elemAnnotationXML && t.has(attrEncoding):
		var buf []byte
		v := unescape(&buf, t.values[attrEncoding].of(src), true)
		return equalFold(v, "text/html") || equalFold(v, "application/xhtml+xml")
	}
	return t.elem == elemMathText
}

// end takes notice of an end tag.
func (f *foreign) end(t *tag) {
	if f.depth == 0 {
		return
	}
	for i := f.depth - 1; i >= 0; i-- {
		if f.open[i] == t.elem {
			f.depth = i
			return
		}
	}
	// An HTML end tag in foreign content closes what was open around it.
	if f.inside() && t.traits&breakout != 0 {
		f.leave()
	}
}

// leave closes svg and math elements down to the integration point or the HTML
// element around them.
func (f *foreign) leave() {
	for f.inside() {
		f.depth--
	}
}
