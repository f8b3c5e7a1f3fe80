package parser

import (
	"encoding/binary"
	"math/bits"
)

// names are the element and attribute names that mean something here. They are built once for a Parser and never
// change. They are hash tables, because every tag has a name, and comparing it with each would take half of the
// scanner's time.
type names struct {
	elements, attrs nameTable
	every           traits // of all elements
}

// newNames makes the tables. If ids is set, the attributes of all elements matter.
func newNames(ids bool) *names {
	n := new(names)
	if ids {
		n.every = wanted
	}
	for _, e := range []struct {
		elem   element
		traits traits
		names  []string
	}{
		{elemA, wanted | phrasing, []string{"a"}},
		{elemAnnotationXML, wanted, []string{"annotation-xml"}},
		{elemArea, wanted, []string{"area"}},
		{elemBase, wanted, []string{"base"}},
		{elemDesc, 0, []string{"desc"}},
		{elemFont, wanted | phrasing, []string{"font"}},
		{elemForeignObject, 0, []string{"foreignobject"}},
		{elemFrame, wanted, []string{"frame"}},
		{elemH1, breakout | heading, []string{"h1"}},
		{elemHTML, wanted, []string{"html"}},
		{elemIframe, wanted | rawText, []string{"iframe"}},
		{elemImg, wanted | breakout, []string{"img"}},
		{elemImg, wanted, []string{"image"}}, // what the standard makes of it in HTML
		{elemLink, wanted, []string{"link"}},
		{elemMath, 0, []string{"math"}},
		{elemMathText, 0, []string{"mi", "mn", "mo", "ms", "mtext"}},
		{elemMedia, wanted, []string{"audio", "object", "source", "video"}},
		{elemMedia, wanted | breakout, []string{"embed"}},
		{elemMeta, wanted | breakout, []string{"meta"}},
		{elemNoembed, rawText, []string{"noembed"}},
		{elemNoframes, rawText, []string{"noframes"}},
		{elemNoscript, 0, []string{"noscript"}},
		{elemPlaintext, rawText, []string{"plaintext"}},
		{elemScript, wanted | rawText, []string{"script"}},
		{elemStyle, rawText, []string{"style"}},
		{elemSVG, 0, []string{"svg"}},
		{elemTemplate, wanted, []string{"template"}},
		{elemTextarea, rawText, []string{"textarea"}},
		{elemTitle, rawText, []string{"title"}},
		{elemXmp, rawText, []string{"xmp"}},
		{elemOther, breakout | heading, []string{"h2", "h3", "h4", "h5", "h6"}},
		{elemOther, breakout, []string{"blockquote", "body", "br", "center", "dd", "div", "dl", "dt", "head", "hr",
			"li", "listing", "menu", "ol", "p", "pre", "table", "ul"}},
		{elemOther, breakout | phrasing, []string{"b", "big", "code", "em", "i", "nobr", "ruby", "s", "small", "span",
			"strike", "strong", "sub", "sup", "tt", "u", "var"}},
		{elemOther, phrasing, []string{"abbr", "acronym", "bdi", "bdo", "cite", "data", "del", "dfn", "ins", "kbd",
			"label", "mark", "q", "samp", "time", "wbr"}},
	} {
		for _, name := range e.names {
			n.elements.add(name, uint16(e.elem)|uint16(e.traits)<<8)
		}
	}
	for name, a := range map[string]attrName{
		"alt": attrAlt, "color": attrFont, "content": attrContent, "data": attrData, "data-src": attrData,
		"encoding": attrEncoding, "face": attrFont,
		"href": attrHref, "hreflang": attrHreflang, "http-equiv": attrHTTPEquiv, "id": attrID, "lang": attrLang,
		"name": attrNamed, "poster": attrPoster, "property": attrProperty, "rel": attrRel,
		"shadowrootmode": attrShadowRootMode, "size": attrFont, "src": attrSrc, "srcset": attrSrcset, "type": attrType,
	} {
		n.attrs.add(name, uint16(a))
	}
	return n
}

// element finds an element by name, in any ASCII case, and the name's fold.
func (n *names) element(name []byte, fold uint64) (element, traits) {
	v, _ := n.elements.find(name, fold)
	return element(v), traits(v>>8) | n.every
}

// attr finds an attribute by name, in any ASCII case, and the name's fold.
func (n *names) attr(name []byte, fold uint64) (attrName, bool) {
	v, ok := n.attrs.find(name, fold)
	return attrName(v), ok
}

// A fold is a name's last eight bytes, folded to lower case by setting a bit, which costs nothing while a name is read.
// No byte folds to zero. Two letters fold to the same byte only if they are the same letter; other characters can fold
// to the same byte.
func foldByte(fold uint64, c byte) uint64 { return fold<<8 | uint64(c|0x20) }

func foldName(name []byte) uint64 {
	var fold uint64
	for _, c := range name {
		fold = foldByte(fold, c)
	}
	return fold
}

// leadingLetters returns how many letters the eight bytes at i begin with, and their fold. Near the end of src it
// returns 0, and the caller reads byte by byte.
func leadingLetters(src []byte, i int) (n int, fold uint64) {
	if i > len(src)-8 {
		return 0, 0
	}
	x := binary.LittleEndian.Uint64(src[i:])
	l := x | ones*0x20
	letters := (l + ones*(0x80-'a')) &^ (l + ones*(0x7f-'z'))
	n = bits.TrailingZeros64((^letters|x)&highs) >> 3
	return n, bits.ReverseBytes64(l) >> (64 - 8*n)
}

// A nameTable is a hash table with open addressing, far from full.
type nameTable [256]nameSlot

type nameSlot struct {
	fold  uint64
	name  string // lower-case
	exact bool   // equal folds and lengths mean equal names
	value uint16
}

func slotOf(fold uint64) uint8 { return uint8(fold * 0x9e3779b97f4a7c15 >> 56) }

func (t *nameTable) add(name string, value uint16) {
	s := nameSlot{name: name, fold: foldName([]byte(name)), exact: len(name) <= 8, value: value}
	for i := range len(name) {
		s.exact = s.exact && isLetter(name[i])
	}
	i := slotOf(s.fold)
	for t[i].fold != 0 {
		i++
	}
	t[i] = s
}

func (t *nameTable) find(name []byte, fold uint64) (uint16, bool) {
	for i := slotOf(fold); ; i++ {
		s := &t[i]
		if s.fold == 0 {
			return 0, false
		}
		if s.fold == fold && len(s.name) == len(name) && (s.exact || equalFold(name, s.name)) {
			return s.value, true
		}
	}
}
