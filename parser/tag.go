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
	elemMedia    // audio, embed, object, source, video
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
	set         uint32         // bit a is set if the tag has attribute a
	values      [numAttrs]span // as written, the first of each name
}

func (t *tag) has(a attrName) bool { return t.set>>a&1 != 0 }

// tag reads a tag whose name begins at i. If the input ends inside the tag, it returns markupCut.
func (s *scanner) tag(t *tag, i int, kind markup) markup {
	src, start := s.src, i
	n, fold := leadingLetters(src, i)
	i += n
	for i < len(src) && !endsTagName(src[i]) {
		fold = foldByte(fold, src[i])
		i++
	}
	t.name = span{uint32(start), uint32(i)}
	t.elem, t.traits = s.names.element(src[start:i], fold)
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
		if id, ok := s.names.attr(a.name.of(src), a.fold); ok && !t.has(id) {
			t.set |= 1 << id
			t.values[id] = a.value
		}
	}
}

func endsTagName(c byte) bool {
	return c <= '>' && (spaceSet|1<<'/'|1<<'>')>>c&1 != 0
}
