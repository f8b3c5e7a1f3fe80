package parser

// foreign follows the nesting of svg and math, in which the tokenizer has other
// rules. It remembers only what decides these: the open svg and math elements and
// the integration points inside of them, where HTML's rules hold again.
type foreign struct {
	open  [maxForeign]foreignElement
	depth int
}

// A foreignElement is an open element that foreign rules depend on.
type foreignElement struct {
	elem  element
	rules rules
}

// Rules are those that hold directly inside an element.
type rules uint8

const (
	rulesHTML rules = iota
	rulesSVG
	rulesMath
)

// maxForeign bounds the nesting that is followed. Beyond it all is HTML.
const maxForeign = 32

// rules returns those that hold now.
func (f *foreign) rules() rules {
	if f.depth == 0 {
		return rulesHTML
	}
	return f.open[f.depth-1].rules
}

// inside reports whether foreign rules hold.
func (f *foreign) inside() bool { return f.rules() != rulesHTML }

// start takes notice of a start tag of src, and reports whether its element is a
// foreign one.
func (f *foreign) start(t *tag, src []byte) bool {
	if t.traits&breakout != 0 || t.elem == elemFont && t.has(attrFont) {
		f.leave()
	}
	around := f.rules()
	within := around
	switch {
	case t.elem == elemSVG && around == rulesHTML:
		within = rulesSVG
	case t.elem == elemMath && around == rulesHTML:
		within = rulesMath
	case t.elem == elemSVG || t.elem == elemMath:
		// It has no meaning of its own here, but its end tag must find it.
	case around == rulesSVG && isSVGPoint(t), around == rulesMath && isMathPoint(t, src):
		within = rulesHTML
	default:
		return around != rulesHTML
	}
	if !t.selfClosing {
		if f.depth == len(f.open) {
			f.depth = 0
		} else {
			f.open[f.depth] = foreignElement{t.elem, within}
			f.depth++
		}
	}
	return true
}

// isSVGPoint reports whether a start tag in svg opens an integration point.
func isSVGPoint(t *tag) bool {
	return t.elem == elemForeignObject || t.elem == elemDesc || t.elem == elemTitle
}

// isMathPoint reports whether a start tag in math opens an integration point.
func isMathPoint(t *tag, src []byte) bool {
	if t.elem == elemAnnotationXML && t.has(attrEncoding) {
		var buf []byte
		v := unescape(&buf, t.values[attrEncoding].of(src), true)
		return equalFold(v, "text/html") || equalFold(v, "application/xhtml+xml")
	}
	return t.elem == elemMathText
}

// end takes notice of an end tag.
func (f *foreign) end(t *tag) {
	if t.elem != elemOther {
		for i := f.depth - 1; i >= 0; i-- {
			if f.open[i].elem == t.elem {
				f.depth = i
				return
			}
		}
	}
	// An HTML end tag in foreign content closes what was open around it.
	if t.traits&breakout != 0 {
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
