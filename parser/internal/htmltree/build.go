package htmltree

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxDepth is how deep elements may be nested. Selectors and the collecting of texts recurse.
const maxDepth = 512

// Parse builds the tree of a page in UTF-8 without running scripts, and says how many bytes its nodes take. It refuses
// pages that exceed the limits with a *LimitError, and pages that are nested deeper than 512 elements.
func Parse(r io.Reader, limits Limits) (root *html.Node, size int64, err error) {
	b := &builder{z: html.NewTokenizer(r), doc: &html.Node{Type: html.DocumentNode}, budget: budget{limits: limits}}
	b.html = b.append(b.doc, newElement("html", atom.Html, nil))
	b.head = b.append(b.html, newElement("head", atom.Head, nil))
	b.body = b.append(b.html, newElement("body", atom.Body, nil))
	b.open = []*html.Node{b.html}
	for {
		err := b.next()
		if errors.Is(err, io.EOF) {
			return b.doc, b.budget.spent, nil
		}
		if err != nil {
			return nil, b.budget.spent, err
		}
	}
}

// A builder makes a tree of a page's tokens.
type builder struct {
	z                     *html.Tokenizer
	doc, html, head, body *html.Node
	open                  []*html.Node // html, then the elements that are open inside it
	begun                 bool         // the body has begun
	doctype               bool         // the page has a doctype: a table ends a paragraph
	form                  bool         // a form is open
	budget                budget
}

func newElement(name string, a atom.Atom, attr []html.Attribute) *html.Node {
	return &html.Node{Type: html.ElementNode, Data: name, DataAtom: a, Attr: attr}
}

// next reads a token. Its error is io.EOF at the end of the page.
func (b *builder) next() error {
	b.z.AllowCDATA(isForeign(b.top()))
	kind := b.z.Next()
	if err := b.budget.check(); err != nil {
		return err
	}
	switch kind {
	case html.ErrorToken:
		return b.z.Err()
	case html.DoctypeToken:
		b.doctype = b.doctype || !b.begun
	case html.TextToken:
		b.text(b.z.Token().Data)
	case html.StartTagToken, html.SelfClosingTagToken:
		t := b.z.Token()
		b.start(&t, kind == html.SelfClosingTagToken)
	case html.EndTagToken:
		t := b.z.Token()
		b.end(t.Data, t.DataAtom)
	}
	if len(b.open) > maxDepth {
		return fmt.Errorf("the page is nested deeper than %d elements", maxDepth)
	}
	return nil
}

func (b *builder) top() *html.Node { return b.open[len(b.open)-1] }

// popTo closes the element at index i and all inside it.
func (b *builder) popTo(i int) {
	for _, n := range b.open[i:] {
		if is(n, atom.Form) {
			b.form = false
		}
	}
	b.open = b.open[:i]
}

// find is the index of the innermost open element with one of the names. It looks no further than at the first element
// that stop reports true for, and returns -1 if there is none.
func (b *builder) find(stop func(*html.Node) bool, names ...atom.Atom) int {
	for i := len(b.open) - 1; i > 0; i-- {
		if is(b.open[i], names...) {
			return i
		}
		if stop(b.open[i]) {
			break
		}
	}
	return -1
}

func atScope(n *html.Node) bool   { return has(n, scope) }
func atSpecial(n *html.Node) bool { return has(n, special) || isForeign(n) }
func atTable(n *html.Node) bool   { return is(n, atom.Table, atom.Template) }

// close closes the innermost open element with one of the names, if find has one.
func (b *builder) close(stop func(*html.Node) bool, names ...atom.Atom) {
	if i := b.find(stop, names...); i >= 0 {
		b.popTo(i)
	}
}

// append makes n the last child of parent.
func (b *builder) append(parent, n *html.Node) *html.Node {
	b.budget.spend(len(n.Attr))
	parent.AppendChild(n)
	return n
}

// insert puts n where the next content goes. Content of a table that is not in a cell goes before the table.
func (b *builder) insert(n *html.Node, allowedInTable bool) {
	parent := b.top()
	if !allowedInTable && is(parent, atom.Table, atom.Tbody, atom.Thead, atom.Tfoot, atom.Tr) {
		if i := b.find(func(n *html.Node) bool { return is(n, atom.Template) }, atom.Table); i >= 0 {
			b.budget.spend(len(n.Attr))
			b.open[i].Parent.InsertBefore(n, b.open[i])
			return
		}
	}
	b.append(parent, n)
}

// beginBody opens the body, unless it is open.
func (b *builder) beginBody() {
	if !b.begun {
		b.begun = true
		b.popTo(1)
		b.open = append(b.open, b.body)
	}
}

func (b *builder) text(s string) {
	space := strings.Trim(s, " \t\r\n\f") == ""
	if b.top() == b.html {
		if space {
			return // before the body
		}
		b.beginBody()
	}
	b.insert(&html.Node{Type: html.TextNode, Data: s}, space)
}

func (b *builder) start(t *html.Token, selfClosing bool) {
	if isForeign(b.top()) && b.startForeign(t, selfClosing) {
		return
	}
	if t.DataAtom == atom.Noscript {
		b.z.NextIsNotRawText() // without scripts its content is markup
	}
	switch t.DataAtom {
	case atom.Html:
		b.merge(b.html, t.Attr)
		return
	case atom.Head:
		b.merge(b.head, t.Attr)
		return
	case atom.Body:
		b.beginBody()
		b.merge(b.body, t.Attr)
		return
	case atom.Image:
		t.Data, t.DataAtom = "img", atom.Img
	case atom.Svg, atom.Math:
		b.beginBody()
		n := newElement(t.Data, t.DataAtom, t.Attr)
		n.Namespace = t.Data
		b.insert(n, false)
		if !selfClosing {
			b.open = append(b.open, n)
		}
		return
	}
	traits := elements[t.DataAtom]
	if !b.begun && b.top() == b.html {
		if traits&inHead != 0 {
			b.open = append(b.open, b.head)
			defer b.leaveHead()
		} else {
			b.beginBody()
		}
	} else if !b.begun && traits&inHead == 0 && !b.inTemplate() {
		b.beginBody()
	}
	if !b.closeImplied(t.DataAtom, traits) {
		return
	}
	n := newElement(t.Data, t.DataAtom, t.Attr)
	b.insert(n, traits&inTable != 0)
	if traits&void == 0 {
		b.open = append(b.open, n)
	}
}

// leaveHead closes the head after an element that has no content.
func (b *builder) leaveHead() {
	if b.top() == b.head {
		b.popTo(len(b.open) - 1)
	}
}

func (b *builder) inTemplate() bool {
	return b.find(func(*html.Node) bool { return false }, atom.Template) >= 0
}

// maxMerged bounds the attributes that merge looks at for one tag: a page may have any number of html tags.
const maxMerged = 256

// merge gives an element the attributes that it has not got yet.
func (b *builder) merge(n *html.Node, attr []html.Attribute) {
	if len(n.Attr) > maxMerged {
		return
	}
	had := map[string]bool{}
	for _, a := range n.Attr {
		had[a.Key] = true
	}
	for _, a := range attr {
		if !had[a.Key] {
			had[a.Key] = true
			n.Attr = append(n.Attr, a)
			b.budget.spent += attributeSize
		}
	}
}

// startForeign handles a start tag inside SVG or MathML. It reports false if the tag ends the foreign content and must
// be handled as HTML.
func (b *builder) startForeign(t *html.Token, selfClosing bool) bool {
	if elements[t.DataAtom]&breakout != 0 {
		for isForeign(b.top()) {
			b.popTo(len(b.open) - 1)
		}
		return false
	}
	b.z.NextIsNotRawText()
	n := newElement(t.Data, t.DataAtom, t.Attr)
	n.Namespace = b.top().Namespace
	b.append(b.top(), n)
	if !selfClosing {
		b.open = append(b.open, n)
	}
	return true
}

func (b *builder) end(name string, a atom.Atom) {
	if isForeign(b.top()) || b.top().Namespace != "" && b.top().Data == name {
		for i := len(b.open) - 1; i > 0 && b.open[i].Namespace != ""; i-- {
			if b.open[i].Data == name {
				b.popTo(i)
				return
			}
		}
		if b.top().Namespace != "" && elements[a]&special == 0 {
			return
		}
	}
	traits := elements[a]
	switch {
	case a == atom.Html || a == atom.Body || a == atom.Head:
	case a == atom.Template:
		b.close(func(*html.Node) bool { return false }, a)
	case a == atom.P && !b.begun && !b.inTemplate():
	case a == atom.Br:
		b.start(&html.Token{Data: "br", DataAtom: atom.Br}, false)
	case a == atom.P && b.find(atButtonScope, atom.P) < 0:
		b.start(&html.Token{Data: "p", DataAtom: atom.P}, false)
		b.close(atButtonScope, atom.P)
	case a == atom.P:
		b.close(atButtonScope, atom.P)
	case a == atom.Li:
		b.close(atListScope, atom.Li)
	case a == atom.Table || traits&tablePart != 0:
		b.close(atTable, a)
	case traits&heading != 0:
		b.close(atScope, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6)
	case traits&special != 0:
		b.close(atScope, a)
	default:
		b.endInline(name)
	}
	b.leaveHead()
}

// endInline closes an element that is not special, unless a special one is open inside it.
func (b *builder) endInline(name string) {
	for i := len(b.open) - 1; i > 0 && b.open[i].Namespace == ""; i-- {
		if b.open[i].Data == name {
			b.popTo(i)
			return
		}
		if atSpecial(b.open[i]) {
			return
		}
	}
}
