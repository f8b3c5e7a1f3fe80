package htmltree

import (
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func atButtonScope(n *html.Node) bool { return has(n, scope) || is(n, atom.Button) || isForeign(n) }
func atListScope(n *html.Node) bool   { return has(n, scope) || is(n, atom.Ol, atom.Ul) }

// atItem stops the search for an open list item: at every special element but those that may stand between an item
// and its text.
func atItem(n *html.Node) bool { return atSpecial(n) && !is(n, atom.Address, atom.Div, atom.P) }

// closeImplied closes the elements that a start tag ends without their end tags, and opens those that it implies. It
// reports false if the tag is to be ignored.
func (b *builder) closeImplied(a atom.Atom, t traits) bool {
	switch a {
	case atom.Li:
		b.close(atItem, atom.Li)
	case atom.Dd, atom.Dt:
		b.close(atItem, atom.Dd, atom.Dt)
	case atom.Option:
		b.closeTop(atom.Option)
	case atom.Optgroup, atom.Hr:
		b.closeTop(atom.Option)
		b.closeTop(atom.Optgroup)
	case atom.Rt, atom.Rp, atom.Rb, atom.Rtc:
		b.closeTop(atom.Rt, atom.Rp, atom.Rb)
	case atom.A, atom.Nobr:
		b.close(atSpecial, a)
	case atom.Button:
		b.close(atScope, atom.Button)
	case atom.Select, atom.Input, atom.Textarea:
		if b.find(atScope, atom.Select) >= 0 {
			b.close(atScope, atom.Select)
			if a == atom.Select {
				return false
			}
		}
	case atom.Form:
		if b.form {
			return false
		}
		b.form = true
	}
	if t&closesP != 0 && (a != atom.Table || b.doctype) {
		b.close(atButtonScope, atom.P)
	}
	if t&heading != 0 {
		b.closeTop(atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6)
	}
	if t&tablePart != 0 {
		return b.tablePart(a)
	}
	if is(b.top(), atom.Colgroup) && a != atom.Template {
		b.popTo(len(b.open) - 1)
	}
	return true
}

// closeTop closes the innermost open element if it has one of the names.
func (b *builder) closeTop(names ...atom.Atom) {
	if is(b.top(), names...) {
		b.popTo(len(b.open) - 1)
	}
}

// tablePart closes elements until the top is where a row, a cell or another part of a table goes, and opens the parts
// that it implies. Outside of a table such a tag is ignored, except directly inside a template or inside another such
// part.
func (b *builder) tablePart(a atom.Atom) bool {
	table := b.find(func(n *html.Node) bool { return is(n, atom.Template) }, atom.Table)
	if table < 0 {
		return is(b.top(), atom.Template) || has(b.top(), tablePart)
	}
	into := []atom.Atom{}
	switch a {
	case atom.Col:
		into = append(into, atom.Colgroup)
	case atom.Tr:
		into = append(into, atom.Tbody, atom.Thead, atom.Tfoot)
	case atom.Td, atom.Th:
		into = append(into, atom.Tr)
	}
	if i := b.find(atTable, into...); i >= 0 {
		b.popTo(i + 1)
		return true
	}
	if a == atom.Td || a == atom.Th {
		if i := b.find(atTable, atom.Tbody, atom.Thead, atom.Tfoot); i >= 0 {
			b.popTo(i + 1)
		} else {
			b.popTo(table + 1)
			b.imply("tbody", atom.Tbody)
		}
		b.imply("tr", atom.Tr)
		return true
	}
	b.popTo(table + 1)
	switch a {
	case atom.Col:
		b.imply("colgroup", atom.Colgroup)
	case atom.Tr:
		b.imply("tbody", atom.Tbody)
	}
	return true
}

// imply opens an element that the page has no tag for.
func (b *builder) imply(name string, a atom.Atom) {
	b.open = append(b.open, b.append(b.top(), newElement(name, a, nil)))
}
