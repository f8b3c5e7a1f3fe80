package parser

import "bytes"

// An attrName is an attribute that some element's meaning depends on.
type attrName uint8

const (
	attrAlt attrName = iota
	attrContent
	attrData // data of object, data-src of an image that a script loads
	attrEncoding
	attrFont // color, face or size: with one of them a font tag breaks out of foreign content
	attrHref
	attrHreflang
	attrHTTPEquiv
	attrID
	attrLang
	attrNamed
	attrPoster // the image that a film shows before it plays
	attrProperty
	attrRel
	attrShadowRootMode
	attrSrc
	attrSrcset
	attrType
	numAttrs
)

// An attr is an attribute as written.
type attr struct {
	name, value span
	fold        uint64 // of name
	selfClosing bool   // after attrClosed: the tag ended with "/>"
}

// attrResult says what came next in a tag.
type attrResult uint8

const (
	attrRead   attrResult = iota // an attribute
	attrClosed                   // the tag's '>'
	attrCut                      // the end of the input
)

// attr reads the next attribute of the tag that pos is in.
func (s *scanner) attr(a *attr) attrResult {
	src, i := s.src, s.pos
	for {
		for i < len(src) && isSpace(src[i]) {
			i++
		}
		if i >= len(src) {
			return s.cut()
		}
		if src[i] == '>' {
			a.selfClosing = false
			s.pos = i + 1
			return attrClosed
		}
		if src[i] != '/' {
			break
		}
		i++
		if i < len(src) && src[i] == '>' {
			a.selfClosing = true
			s.pos = i + 1
			return attrClosed
		}
	}

	// The first byte belongs to the name whatever it is, even '='.
	start := i
	n, fold := leadingLetters(src, i)
	if n == 0 {
		n, fold = 1, foldByte(0, src[i])
	}
	for i += n; i < len(src) && !endsAttrName(src[i]); i++ {
		fold = foldByte(fold, src[i])
	}
	a.name, a.fold = span{uint32(start), uint32(i)}, fold
	a.value = span{}

	for i < len(src) && isSpace(src[i]) {
		i++
	}
	if i >= len(src) {
		return s.cut()
	}
	if src[i] != '=' {
		s.pos = i
		return attrRead
	}
	for i++; i < len(src) && isSpace(src[i]); {
		i++
	}
	if i >= len(src) {
		return s.cut()
	}
	switch c := src[i]; c {
	case '"', '\'':
		i++
		n := bytes.IndexByte(src[i:], c)
		if n < 0 {
			return s.cut()
		}
		a.value = span{uint32(i), uint32(i + n)}
		s.pos = i + n + 1
	case '>':
		s.pos = i
	default:
		start := i
		for i < len(src) && !endsUnquoted(src[i]) {
			i++
		}
		a.value = span{uint32(start), uint32(i)}
		s.pos = i
	}
	return attrRead
}

func (s *scanner) cut() attrResult {
	s.pos = len(s.src)
	return attrCut
}

func endsAttrName(c byte) bool {
	return c <= '>' && (spaceSet|1<<'/'|1<<'='|1<<'>')>>c&1 != 0
}

func endsUnquoted(c byte) bool {
	return c <= '>' && (spaceSet|1<<'>')>>c&1 != 0
}
