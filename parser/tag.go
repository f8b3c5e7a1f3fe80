package parser

// An element is an element name that the parser treats in a way of its own.
type element uint8

const (
	elemOther element = iota // any other name
	elemA
	elemAnnotationXML
	elemArea
	elemBase
	elemDesc
	elemFont
	elemForeignObject
	elemFrame
	elemH1
	elemHTML
	elemIframe
	elemImg
	elemLink
	elemMath
	elemMathText // mi, mn, mo, ms, mtext
	elemMeta
	elemNoembed
	elemNoframes
	elemNoscript
	elemPlaintext
	elemScript
	elemStyle
	elemSVG
	elemTemplate
	elemTextarea
	elemTitle
	elemXmp
)

// Traits are what whole families of elements share.
type traits uint8

const (
	phrasing traits = 1 << iota // its tags do not end a word
	wanted                      // its attributes matter
	rawText                     // its content is raw text
	breakout                    // its tags end foreign content
	heading                     // h1 to h6
)

// A tag is a start or end tag. It is reused: values beyond those in set are left
// over from earlier tags.
type tag struct {
	elem        element
	traits      traits
	selfClosing bool
	name        span           // as written
	set         uint16         // bit a is set if the tag has attribute a
	values      [numAttrs]span // as written, the first of each name
}

func (t *tag) has(a attrName) bool { return t.set>>a&1 != 0 }

// tag reads a tag whose name begins at i. A tag that the input cuts off is none.
func (s *scanner) tag(t *tag, i int, kind markup) markup {
	src, start := s.src, i
	for i++; i < len(src) && !endsTagName(src[i]); {
		i++
	}
	t.name = span{uint32(start), uint32(i)}
	t.elem, t.traits = elementOf(src[start:i])
	t.set, t.selfClosing = 0, false
	if i < len(src) && src[i] == '>' {
		s.pos = i + 1
		return kind
	}
	s.pos = i
	var a attr
	for {
		switch s.attr(&a) {
		case attrClosed:
			t.selfClosing = a.selfClosing
			return kind
		case attrCut:
			return markupCut
		}
		if t.traits&wanted == 0 {
			continue
		}
		if id, ok := attrOf(a.name.of(src)); ok && t.set>>id&1 == 0 {
			t.set |= 1 << id
			t.values[id] = a.value
		}
	}
}

func endsTagName(c byte) bool {
	return c <= '>' && (spaceSet|1<<'/'|1<<'>')>>c&1 != 0
}

// elementOf finds the element with this name in any case.
func elementOf(name []byte) (element, traits) {
	var buf nameBuffer
	return lookupElement(buf.lower(name))
}

// A nameBuffer holds a name in lower case. No name that is looked for is longer.
type nameBuffer [16]byte

// lower returns name in lower case, in the buffer unless it already is so. Of a
// name that does not fit it returns nothing.
func (buf *nameBuffer) lower(name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			if len(name) > len(buf) {
				return nil
			}
			for i, c := range name {
				buf[i] = lower(c)
			}
			return buf[:len(name)]
		}
	}
	return name
}

// lookupElement knows every element whose tags mean something here, and those
// that are phrasing or that break out of foreign content.
func lookupElement(name []byte) (element, traits) {
	switch string(name) {
	case "a":
		return elemA, wanted | phrasing
	case "p", "div", "li", "ul", "ol", "br", "table", "dd", "dl", "dt", "hr", "pre",
		"blockquote", "body", "center", "embed", "head", "listing", "menu":
		return elemOther, breakout
	case "b", "i", "em", "span", "strong", "big", "code", "nobr", "ruby", "s", "small",
		"strike", "sub", "sup", "tt", "u", "var":
		return elemOther, phrasing | breakout
	case "abbr", "acronym", "bdi", "bdo", "cite", "data", "del", "dfn", "ins", "kbd", "label",
		"mark", "q", "samp", "time", "wbr":
		return elemOther, phrasing
	case "h1":
		return elemH1, breakout | heading
	case "h2", "h3", "h4", "h5", "h6":
		return elemOther, breakout | heading
	case "img":
		return elemImg, wanted | breakout
	case "image":
		return elemImg, wanted // what the standard makes of it in HTML
	case "script":
		return elemScript, wanted | rawText
	case "style":
		return elemStyle, rawText
	case "link":
		return elemLink, wanted
	case "meta":
		return elemMeta, wanted | breakout
	case "svg":
		return elemSVG, 0
	case "title":
		return elemTitle, rawText
	case "html":
		return elemHTML, wanted
	case "base":
		return elemBase, wanted
	case "area":
		return elemArea, wanted
	case "iframe":
		return elemIframe, wanted | rawText
	case "frame":
		return elemFrame, wanted
	case "font":
		return elemFont, wanted | phrasing
	case "noscript":
		return elemNoscript, 0
	case "template":
		return elemTemplate, wanted
	case "textarea":
		return elemTextarea, rawText
	case "xmp":
		return elemXmp, rawText
	case "noembed":
		return elemNoembed, rawText
	case "noframes":
		return elemNoframes, rawText
	case "plaintext":
		return elemPlaintext, rawText
	case "math":
		return elemMath, 0
	case "mi", "mn", "mo", "ms", "mtext":
		return elemMathText, 0
	case "annotation-xml":
		return elemAnnotationXML, wanted
	case "desc":
		return elemDesc, 0
	case "foreignobject":
		return elemForeignObject, 0
	}
	return elemOther, 0
}
