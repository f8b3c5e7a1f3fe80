package htmltree

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// traits are what the builder must know about an element.
type traits uint16

const (
	void    traits = 1 << iota // has no content and no end tag
	inHead                     // belongs into the head while the body has not begun
	special                    // ends the search for an element that an end tag closes
	scope                      // nothing inside it closes an element outside
	closesP                    // its start tag ends an open paragraph
	heading
	tablePart // only allowed inside a table
	inTable   // allowed as a child of table, tbody or tr
	breakout  // ends foreign content
)

// elements maps names to traits. A name that is not in the table has none.
var elements = makeElements()

func makeElements() map[atom.Atom]traits {
	m := map[atom.Atom]traits{}
	for names, t := range map[string]traits{
		`area base basefont bgsound br col embed frame hr img input keygen link meta param source track
		 wbr`: void | special,
		"base basefont bgsound link meta noscript script style template title noframes": inHead,
		"applet caption html marquee object table td template th":                       scope | special,
		`address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header
		 hgroup main menu nav ol p search section summary ul h1 h2 h3 h4 h5 h6 pre listing form table hr xmp
		 plaintext li dd dt`: closesP,
		`address article aside blockquote body button center colgroup dd details dir div dl dt fieldset figcaption
		 figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup iframe li listing main menu nav noembed
		 noframes noscript ol p plaintext pre script search section select style summary tbody textarea
		 tfoot thead title tr ul xmp`: special,
		"h1 h2 h3 h4 h5 h6": heading,
		"caption col colgroup tbody td tfoot th thead tr":                              tablePart | inTable,
		"form script style table template":                                             inTable,
		"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6": breakout,
		"head hr i img li listing menu meta nobr ol p pre ruby s small span strong":    breakout,
		"strike sub sup table tt u ul var":                                             breakout,
	} {
		for _, name := range strings.Fields(names) {
			m[atom.Lookup([]byte(name))] |= t
		}
	}
	delete(m, 0) // names without an atom
	return m
}

func has(n *html.Node, t traits) bool { return n.Namespace == "" && elements[n.DataAtom]&t != 0 }

func is(n *html.Node, atoms ...atom.Atom) bool {
	return n.Namespace == "" && n.DataAtom != 0 && slices.Contains(atoms, n.DataAtom)
}

// isForeign reports whether the content of n is read by the rules of SVG and MathML: n is one of their elements, and
// not one that may hold HTML.
func isForeign(n *html.Node) bool {
	if n.Namespace == "" {
		return false
	}
	switch n.Data {
	case "foreignobject", "desc", "title", "mi", "mo", "mn", "ms", "mtext", "annotation-xml":
		return false
	}
	return true
}
