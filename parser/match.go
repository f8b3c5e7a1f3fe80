package parser

import (
	"context"
	"strings"
	"time"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// A tree is the nodes of a page in document order, with the places of their relatives in that order, -1 where there is
// none.
type tree struct {
	nodes    []*html.Node
	parent   []int32
	previous []int32 // sibling
	adjacent []int32 // previous sibling that is neither text nor a comment
}

// newTree lists the nodes of a page. The limit of a tree's memory keeps their number within int32.
func newTree(root *html.Node) *tree {
	t := &tree{}
	last := []int32{} // by place: the last child so far
	parent := int32(-1)
	for n := root; n != nil; {
		i := int32(len(t.nodes))
		previous, adjacent := int32(-1), int32(-1)
		if parent >= 0 {
			previous, last[parent] = last[parent], i
		}
		if previous >= 0 {
			if adjacent = previous; isText(t.nodes[previous]) {
				adjacent = t.adjacent[previous]
			}
		}
		t.nodes = append(t.nodes, n)
		last = append(last, -1)
		t.parent, t.previous, t.adjacent = append(t.parent, parent), append(t.previous, previous),
			append(t.adjacent, adjacent)
		if n.FirstChild != nil {
			n, parent = n.FirstChild, i
			continue
		}
		for n != root && n.NextSibling == nil {
			n, parent = n.Parent, t.parent[parent]
		}
		if n == root {
			break
		}
		n = n.NextSibling
	}
	return t
}

func isText(n *html.Node) bool { return n.Type == html.TextNode || n.Type == html.CommentNode }

// A treeWalk visits the nodes of a tree until a deadline.
type treeWalk struct {
	*tree
	ctx       context.Context
	deadline  time.Time
	names     *names
	lower     *lowerText // nil until a test needs it
	steps     int
	extracted int  // bytes of values
	late      bool // the deadline has passed or the context has ended: what was found is not complete
}

// clockEvery is how many visits lie between two looks at the clock.
const clockEvery = 16

// tick counts a visit and reports whether there is time for it.
func (w *treeWalk) tick() bool {
	w.steps++
	if !w.late && w.steps%clockEvery == 0 {
		w.late = !time.Now().Before(w.deadline) || w.ctx.Err() != nil
	}
	return !w.late
}

// match says of each node whether the selector matches it.
func (w *treeWalk) match(s selector) []bool {
	found := w.matchComplex(s[0])
	for _, c := range s[1:] {
		for i, ok := range w.matchComplex(c) {
			found[i] = found[i] || ok
		}
	}
	return found
}

func (w *treeWalk) matchComplex(s complexSelector) []bool {
	left := w.matchCompound(s[0])
	for _, c := range s[1:] {
		right := w.matchCompound(c)
		// above says of each node whether left matches one of its ancestors, or of the siblings before it.
		above := make([]bool, len(right))
		for i := range right {
			relative := w.parent[i]
			switch c.combinator {
			case '+':
				relative = w.adjacent[i]
			case '~':
				relative = w.previous[i]
			}
			if relative >= 0 {
				above[i] = left[relative] || (c.combinator == ' ' || c.combinator == '~') && above[relative]
			}
			right[i] = right[i] && above[i]
		}
		left = right
	}
	return left
}

func (w *treeWalk) matchCompound(c compoundSelector) []bool {
	found := c.tests[0](w)
	for _, t := range c.tests[1:] {
		for i, holds := range t(w) {
			found[i] = found[i] && holds
		}
	}
	return found
}

// A test says of each node of a tree whether a simple selector matches it. It visits each node a bounded number of
// times.
type test func(w *treeWalk) []bool

// each asks about one node after the other, in document order, until the deadline.
func (w *treeWalk) each(holds func(i int, n *html.Node) bool) []bool {
	found := make([]bool, len(w.nodes))
	for i, n := range w.nodes {
		if !w.tick() {
			break
		}
		found[i] = holds(i, n)
	}
	return found
}

// isElement is the test of *.
func isElement(w *treeWalk) []bool {
	return w.each(func(_ int, n *html.Node) bool { return n.Type == html.ElementNode })
}

// matching is the test of a selector that is about an element, its attributes and its children alone.
func matching(sel cascadia.Sel) test {
	return func(w *treeWalk) []bool {
		return w.each(func(_ int, n *html.Node) bool { return sel.Match(n) })
	}
}

// both is the test that two tests hold.
func both(a, b test) test {
	return func(w *treeWalk) []bool { return w.matchCompound(compoundSelector{tests: []test{a, b}}) }
}

// inherited is the test of a selector that matches an element, and everything inside of that element.
func inherited(sel cascadia.Sel) test {
	return func(w *treeWalk) []bool {
		found := make([]bool, len(w.nodes))
		for i, n := range w.nodes {
			if !w.tick() {
				break
			}
			// without its parents, which cascadia would look at
			alone := html.Node{Type: n.Type, Data: n.Data, DataAtom: n.DataAtom, Attr: n.Attr}
			found[i] = w.parent[i] >= 0 && found[w.parent[i]] || sel.Match(&alone)
		}
		return found
	}
}

// nth is the test of :nth-child(an+b) and the like: last counts from the last sibling, and ofType counts siblings of
// the same name.
func nth(a, b int, last, ofType bool) test {
	type siblings struct {
		parent int32
		name   string
	}
	return func(w *treeWalk) []bool {
		found := make([]bool, len(w.nodes))
		seen := make([]int32, len(w.nodes)) // by parent
		named := map[siblings]int32{}       // if it is ofType
		for at := range w.nodes {
			if !w.tick() {
				break
			}
			i := at
			if last {
				i = len(w.nodes) - 1 - at
			}
			n := w.nodes[i]
			if n.Type != html.ElementNode {
				continue
			}
			seen[w.parent[i]]++
			steps := int(seen[w.parent[i]]) - b
			if ofType {
				key := siblings{w.parent[i], n.Data}
				named[key]++
				steps = int(named[key]) - b
			}
			found[i] = steps == 0 || a != 0 && steps%a == 0 && steps/a >= 0
		}
		return found
	}
}

// contains is the test of :contains: the text below a node has a value, which is in lower case.
func contains(value string) test {
	return func(w *treeWalk) []bool {
		t := w.lowerText()
		next := -1 // where the value is found first, from the node's start on
		return w.each(func(i int, _ *html.Node) bool {
			start, end := t.start[i], t.end[i]
			if next < start {
				if next = strings.Index(t.text[start:], value); next < 0 {
					next = len(t.text)
				} else {
					next += start
				}
			}
			return next+len(value) <= end
		})
	}
}

// A lowerText is the text of a tree in lower case, and where in it that of each node is.
type lowerText struct {
	text       string
	start, end []int
}

// lowerText makes the text once for all tests of the walk.
func (w *treeWalk) lowerText() *lowerText {
	if w.lower != nil {
		return w.lower
	}
	t := &lowerText{start: make([]int, len(w.nodes)), end: make([]int, len(w.nodes))}
	var b strings.Builder
	for i, n := range w.nodes {
		t.start[i] = b.Len()
		if n.Type == html.TextNode && w.tick() {
			b.WriteString(strings.ToLower(n.Data))
		}
		t.end[i] = b.Len()
	}
	t.text = b.String()
	for i := len(w.nodes) - 1; i > 0; i-- { // children before their parents
		if parent := w.parent[i]; w.nodes[parent].Type == html.ElementNode {
			t.end[parent] = max(t.end[parent], t.end[i])
		}
	}
	w.lower = t
	return t
}

// relation is the test of :not, :has or :haschild.
func relation(name string, of selector) test {
	return func(w *treeWalk) []bool {
		matched := w.match(of)
		holds := make([]bool, len(matched))
		for i := len(matched) - 1; i >= 0; i-- { // children before their parents
			element := w.nodes[i].Type == html.ElementNode
			parent := w.parent[i]
			switch {
			case name == "not":
				holds[i] = element && !matched[i]
			case parent >= 0 && w.nodes[parent].Type == html.ElementNode:
				holds[parent] = holds[parent] || matched[i] || name == "has" && element && holds[i]
			}
		}
		return holds
	}
}
