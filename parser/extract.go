package parser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/parser/internal/htmltree"
)

// An Extractor takes texts or attribute values out of a page by CSS selector. It
// is made by ParseExtractor and may be shared.
type Extractor struct {
	name     string
	selector selector
	tests    int    // of the selector
	attr     string // empty means text
}

// Name returns what the extracted values are called.
func (e Extractor) Name() string { return e.name }

// ParseExtractor reads an extractor from name=SELECTOR, which takes the text of
// every element that matches, or name=SELECTOR@attr, which takes the value of an
// attribute where there is one. SELECTOR[@attr] means the same. Selectors with regular expressions are refused.
func ParseExtractor(s string) (Extractor, error) {
	if len(s) > maxExtractor {
		return Extractor{}, fmt.Errorf("parse extractor %.40q…: it has %d bytes, at most %d are allowed", s, len(s),
			maxExtractor)
	}
	name, selector, ok := strings.Cut(s, "=")
	name, selector = strings.TrimSpace(name), strings.TrimSpace(selector)
	if !ok || name == "" || selector == "" {
		return Extractor{}, fmt.Errorf("parse extractor %q: %w", s, errExtractorForm)
	}
	selector, attr := cutAttr(selector)
	if selector == "" {
		return Extractor{}, fmt.Errorf("parse extractor %q: %w", s, errExtractorForm)
	}
	parsed, tests, err := parseSelector(selector)
	if err != nil {
		return Extractor{}, fmt.Errorf("parse extractor %q: selector: %w", s, err)
	}
	return Extractor{name: name, selector: parsed, tests: tests, attr: attr}, nil
}

var errExtractorForm = errors.New("want name=SELECTOR or name=SELECTOR@attr")

// cutAttr splits the attribute off a selector. A selector itself never ends in this form.
func cutAttr(s string) (selector, attr string) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s, ""
	}
	selector, attr = s[:i], s[i+1:]
	if open, ok := strings.CutSuffix(selector, "["); ok {
		if inner, ok := strings.CutSuffix(attr, "]"); ok {
			selector, attr = open, inner
		}
	}
	if attr == "" || strings.ContainsAny(attr, "[]()\"'=*^$~|>+, \t\r\n\f/") {
		return s, ""
	}
	return strings.TrimSpace(selector), strings.ToLower(attr)
}

// An Extraction is what one extractor found.
type Extraction struct {
	Name string
	// Values are trimmed, with white space collapsed. There are at most 256, each of at most 4,096 bytes and from the
	// first 4,096 nodes of an element. All extractors of a page together have at most 1 MiB.
	Values []string
}

const (
	maxExtractions = 256
	maxExtraction  = 4096
	maxTextNodes   = 4096
	maxExtracted   = 1 << 20
)

// Bounds of the work for the extractors of one page, and of the memory that the trees of all pages take at once.
const (
	// maxTree is the memory of one tree, in bytes. Text of the page itself is not counted.
	maxTree           = 128 << 20
	defaultTreeMemory = 512 << 20

	// A page of n bytes reserves treeFloor + n*treeFactor bytes. The densest markup, <p>x, takes 52 bytes of tree for
	// each byte of the page.
	treeFloor  = 1 << 20
	treeFactor = 64

	// defaultExtractTimeout ends the work for a page. Pages within the bounds of memory need less than two seconds.
	defaultExtractTimeout = 10 * time.Second
)

// treeLimit is how much memory the tree of a body may take, which is reserved before the tree is built.
func treeLimit(body []byte) int64 {
	return min(maxTree, treeFloor+treeFactor*int64(len(body)))
}

// extract runs the extractors over a tree of the page. Their values are allocated one by one and not in the page's
// arena, because this path is slow anyway. Size is how many bytes they have. After an error no extractor has values.
func (p *Parser) extract(ctx context.Context, pg *Page, body []byte) (size int, err error) {
	for _, e := range p.opts.Extract {
		pg.Extracted = append(pg.Extracted, Extraction{Name: e.name})
	}
	limit := treeLimit(body)
	if err := p.trees.Acquire(ctx, limit); err != nil {
		return 0, context.Cause(ctx)
	}
	defer func() { p.trees.Release(limit) }()

	deadline := time.Now().Add(p.opts.ExtractTimeout)
	root, taken, err := htmltree.Parse(bytes.NewReader(body),
		htmltree.Limits{Bytes: limit, Deadline: deadline, Context: ctx})
	if err != nil {
		return 0, err
	}
	// What the tree did not take is free for other pages while the selectors run.
	p.trees.Release(limit - taken)
	limit = taken

	w := treeWalk{tree: newTree(root), ctx: ctx, deadline: deadline, names: p.names}
	for i, e := range p.opts.Extract {
		if pg.Extracted[i].Values = w.values(e); w.late {
			for i := range pg.Extracted {
				pg.Extracted[i].Values = nil
			}
			if why := context.Cause(ctx); why != nil {
				return 0, why
			}
			return 0, fmt.Errorf("extractor %q: took longer than %v", e.name, p.opts.ExtractTimeout)
		}
	}
	return w.extracted, nil
}

// values collects what an extractor finds.
func (w *treeWalk) values(e Extractor) []string {
	var values []string
	for i, found := range w.match(e.selector) {
		if !found || w.nodes[i].Type != html.ElementNode {
			continue
		}
		if len(values) == maxExtractions || w.extracted > maxExtracted-maxExtraction || w.late {
			break
		}
		if v, ok := w.value(w.nodes[i], e.attr); ok {
			values = append(values, v)
			w.extracted += len(v)
		}
	}
	return values
}

// value is the text or the attribute of one element.
func (w *treeWalk) value(n *html.Node, attr string) (string, bool) {
	var c collector
	c.begin(maxExtraction)
	if attr != "" {
		for _, a := range n.Attr {
			if a.Namespace == "" && a.Key == attr {
				c.addDecoded([]byte(a.Val))
				return string(c.end()), true
			}
		}
		return "", false
	}
	left := maxTextNodes
	w.collectText(&c, n, &left)
	return string(c.end()), true
}

// collectText gives c the text under n, of as many nodes as are left. The recursion is bounded, because htmltree
// refuses deep trees.
func (w *treeWalk) collectText(c *collector, n *html.Node, left *int) {
	for child := n.FirstChild; child != nil && len(c.buf) < c.max && *left > 0 && w.tick(); child = child.NextSibling {
		*left--
		switch child.Type {
		case html.TextNode:
			c.addDecoded([]byte(child.Data))
		case html.ElementNode:
			name := []byte(child.Data)
			_, traits := w.names.element(name, foldName(name))
			if traits&phrasing == 0 {
				c.separate()
			}
			w.collectText(c, child, left)
			if traits&phrasing == 0 {
				c.separate()
			}
		}
	}
}
