package parser

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// An Extractor takes texts or attribute values out of a page by CSS selector. It
// is made by ParseExtractor and may be shared.
type Extractor struct {
	name     string
	selector cascadia.SelectorGroup
	attr     string // empty means text
}

// Name returns what the extracted values are called.
func (e Extractor) Name() string { return e.name }

// ParseExtractor reads an extractor from name=SELECTOR, which takes the text of
// every element that matches, or name=SELECTOR@attr, which takes the value of an
// attribute where there is one. SELECTOR[@attr] means the same.
func ParseExtractor(s string) (Extractor, error) {
	name, selector, ok := strings.Cut(s, "=")
	name, selector = strings.TrimSpace(name), strings.TrimSpace(selector)
	if !ok || name == "" || selector == "" {
		return Extractor{}, fmt.Errorf("parse extractor %q: %w", s, errExtractorForm)
	}
	selector, attr := cutAttr(selector)
	if selector == "" {
		return Extractor{}, fmt.Errorf("parse extractor %q: %w", s, errExtractorForm)
	}
	group, err := cascadia.ParseGroup(selector)
	if err != nil {
		return Extractor{}, fmt.Errorf("parse extractor %q: selector: %w", s, err)
	}
	return Extractor{name: name, selector: group, attr: attr}, nil
}

var errExtractorForm = errors.New("want name=SELECTOR or name=SELECTOR@attr")

// cutAttr splits the attribute off a selector. No selector ends like one.
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
	// Values are trimmed, with white space collapsed, at most 4,096 bytes each
	// and 256 of them.
	Values []string
}

const (
	maxExtractions = 256
	maxExtraction  = 4096
)

// extract runs the extractors over a tree of the page. Nothing that they find
// lies in the page's arena, as this is the slow path anyway.
func (p *Parser) extract(pg *Page, body []byte) error {
	// Without scripting the content of noscript is markup, as in the one pass.
	root, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
	for _, e := range p.opts.Extract {
		x := Extraction{Name: e.name}
		if err == nil {
			x.Values = e.values(root, p.names)
		}
		pg.Extracted = append(pg.Extracted, x)
	}
	return err
}

// values collects what the extractor finds under root.
func (e Extractor) values(root *html.Node, names *names) []string {
	var values []string
	for n := range root.Descendants() {
		if len(values) == maxExtractions {
			break
		}
		if n.Type != html.ElementNode || !e.selector.Match(n) {
			continue
		}
		if v, ok := e.value(n, names); ok {
			values = append(values, v)
		}
	}
	return values
}

// value is the text or the attribute of one element.
func (e Extractor) value(n *html.Node, names *names) (string, bool) {
	var c collector
	c.begin(maxExtraction)
	if e.attr != "" {
		for _, a := range n.Attr {
			if a.Namespace == "" && a.Key == e.attr {
				c.addDecoded([]byte(a.Val))
				return string(c.end()), true
			}
		}
		return "", false
	}
	collectText(&c, n, names)
	return string(c.end()), true
}

// collectText gives c the text under n. Trees are not deep enough for this to
// matter: x/net/html refuses them.
func collectText(c *collector, n *html.Node, names *names) {
	for child := range n.ChildNodes() {
		switch child.Type {
		case html.TextNode:
			c.addDecoded([]byte(child.Data))
		case html.ElementNode:
			name := []byte(child.Data)
			_, traits := names.element(name, foldName(name))
			if traits&phrasing == 0 {
				c.separate()
			}
			collectText(c, child, names)
			if traits&phrasing == 0 {
				c.separate()
			}
		}
	}
}
