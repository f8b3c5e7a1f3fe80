package parser

import (
	"context"
	"time"

	"golang.org/x/net/html"
)

// A tree is the nodes of a page in document order, with the places of their relatives in that order, -1 where there is none.
type tree struct {
	nodes    []*html.Node
	parent   []int32
	previous []int32 // sibling
	adjacent []int32 // previous sibling that is neither text nor a comment
}

// newTree lists the nodes of a page. Its memory bounds their number to what int32 holds.
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
		t.parent, t.previous, t.adjacent = append(t.parent, parent), append(t.previous, previous), append(t.adjacent, adjacent)
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
	ctx      context.Context
	deadline time.Time
	names    *names
	steps    int
	late     bool // the deadline has passed or the context has ended: what was found is not complete
}

// clockEvery is how many visits lie between two looks at the clock. A selector such as :nth-child looks at all siblings of a
// node in one visit.
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
	found := make([]bool, len(w.nodes))
	for i, n := range w.nodes {
		if !w.tick() {
			return found
		}
		if c.local == nil {
			found[i] = n.Type == html.ElementNode
		} else {
			found[i] = c.local.Match(n)
		}
	}
	for _, r := range c.relations {
		holds := w.matchRelation(r)
		for i := range found {
			found[i] = found[i] && holds[i]
		}
	}
	return found
}

func (w *treeWalk) matchRelation(r relation) []bool {
	of := w.match(r.of)
	holds := make([]bool, len(of))
	for i := len(of) - 1; i >= 0; i-- { // children before their parents
		element := w.nodes[i].Type == html.ElementNode
		parent := w.parent[i]
		switch {
		case r.name == "not":
			holds[i] = element && !of[i]
		case parent >= 0 && w.nodes[parent].Type == html.ElementNode:
			holds[parent] = holds[parent] || of[i] || r.name == "has" && element && holds[i]
		}
	}
	return holds
}
