package parser

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/andybalholm/cascadia"
	"github.com/cespare/xxhash/v2"
	"golang.org/x/net/html"
)

// The peers find the same facts the two usual ways, over x/net/html's tokenizer
// and over its tree with cascadia. They are written as one would write them, and
// know only what the generated pages have.

// peerFacts are the facts that all readers of the comparison find.
type peerFacts struct {
	Title, Description, H1, Canonical, Language string
	Types                                       []string
	OpenGraph                                   []Property
	Hreflang                                    int
	Words                                       int
	Hash                                        uint64
	Links                                       []peerLink
}

type peerLink struct{ Href, URL, Text, Kind string }

// ourFacts reduces a Page to what the peers find.
func ourFacts(pg *Page) peerFacts {
	f := peerFacts{
		Title: pg.Title, Description: pg.Description, H1: pg.H1, Canonical: pg.Canonical, Language: pg.Language,
		Types: pg.JSONLDTypes, OpenGraph: pg.OpenGraph, Hreflang: len(pg.Hreflang), Words: pg.WordCount,
		Hash: pg.ContentHash,
	}
	for _, l := range pg.Links {
		if l.Fault != FaultNone {
			continue
		}
		f.Links = append(f.Links, peerLink{l.Href, l.URL.String(), l.Text, l.Kind.String()})
	}
	return f
}

func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

// link adds a link that resolves.
func (f *peerFacts) link(base URL, kind, href, text string) URL {
	u, err := base.Resolve(href)
	if err != nil {
		return URL{}
	}
	f.Links = append(f.Links, peerLink{href, u.String(), collapse(text), kind})
	return u
}

// linkElement adds a link element by its relation.
func (f *peerFacts) linkElement(base URL, rel, href, hreflang string) {
	switch rel {
	case "canonical":
		if u := f.link(base, "link", href, ""); f.Canonical == "" {
			f.Canonical = u.String()
		}
	case "alternate", "next", "prev", "amphtml":
		f.link(base, "link", href, "")
		if hreflang != "" {
			f.Hreflang++
		}
	}
}

// meta adds what a meta element states.
func (f *peerFacts) meta(name, property, content string) {
	switch {
	case name == "description" && f.Description == "":
		f.Description = collapse(content)
	case strings.HasPrefix(property, "og:"):
		f.OpenGraph = append(f.OpenGraph, Property{property, collapse(content)})
	}
}

// jsonLD adds the types of linked data.
func (f *peerFacts) jsonLD(text string) {
	var data any
	if json.Unmarshal([]byte(text), &data) != nil {
		return
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if t, ok := v["@type"].(string); ok {
				f.Types = append(f.Types, t)
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(data)
}

// readTokens reads a page with the tokenizer.
func readTokens(base URL, body []byte) peerFacts {
	f := peerFacts{Hash: xxhash.Sum64(body)}
	z := html.NewTokenizer(bytes.NewReader(body))
	var words wordModel
	var text strings.Builder
	var href string
	var inAnchor, inTitle, inH1, inJSON, hidden bool
	for {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			f.Words = words.n
			return f
		case html.TextToken:
			t := z.Text()
			switch {
			case inTitle:
				f.Title = collapse(string(t))
			case inJSON:
				f.jsonLD(string(t))
			case hidden:
			default:
				words.add(string(t))
				if inAnchor || inH1 {
					text.Write(t)
				}
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			attrs := map[string]string{}
			for more {
				var k, v []byte
				k, v, more = z.TagAttr()
				attrs[string(k)] = string(v)
			}
			switch tag {
			case "a", "em":
			default:
				words.separate()
			}
			switch tag {
			case "html":
				f.Language = attrs["lang"]
			case "title":
				inTitle = true
			case "h1":
				inH1 = f.H1 == ""
				text.Reset()
			case "a":
				href, inAnchor = attrs["href"]
				text.Reset()
			case "link":
				f.linkElement(base, attrs["rel"], attrs["href"], attrs["hreflang"])
			case "meta":
				f.meta(attrs["name"], attrs["property"], attrs["content"])
			case "script":
				hidden, inJSON = true, attrs["type"] == "application/ld+json"
			case "style":
				hidden = true
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			tag := string(name)
			switch tag {
			case "a", "em":
			default:
				words.separate()
			}
			switch tag {
			case "title":
				inTitle = false
			case "script", "style":
				hidden, inJSON = false, false
			case "h1":
				if inH1 {
					f.H1 = collapse(text.String())
				}
				inH1 = false
			case "a":
				if inAnchor {
					f.link(base, "a", href, text.String())
				}
				inAnchor = false
			}
		}
	}
}

// A treeReader reads a page with a tree and selectors.
type treeReader struct {
	title, h1, page, meta, links, data cascadia.Selector
}

func newTreeReader() *treeReader {
	return &treeReader{
		title: cascadia.MustCompile("title"),
		h1:    cascadia.MustCompile("h1"),
		page:  cascadia.MustCompile("html"),
		meta:  cascadia.MustCompile("meta[content]"),
		links: cascadia.MustCompile("a[href], link[href]"),
		data:  cascadia.MustCompile(`script[type="application/ld+json"]`),
	}
}

func (r *treeReader) read(base URL, body []byte) (peerFacts, error) {
	f := peerFacts{Hash: xxhash.Sum64(body)}
	root, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return f, err
	}
	if n := r.title.MatchFirst(root); n != nil {
		f.Title = collapse(nodeText(n))
	}
	if n := r.h1.MatchFirst(root); n != nil {
		f.H1 = collapse(nodeText(n))
	}
	if n := r.page.MatchFirst(root); n != nil {
		f.Language = attrOfNode(n, "lang")
	}
	for _, n := range r.meta.MatchAll(root) {
		f.meta(attrOfNode(n, "name"), attrOfNode(n, "property"), attrOfNode(n, "content"))
	}
	for _, n := range r.data.MatchAll(root) {
		f.jsonLD(nodeText(n))
	}
	for _, n := range r.links.MatchAll(root) {
		if n.Data == "a" {
			f.link(base, "a", attrOfNode(n, "href"), nodeText(n))
			continue
		}
		f.linkElement(base, attrOfNode(n, "rel"), attrOfNode(n, "href"), attrOfNode(n, "hreflang"))
	}
	var words wordModel
	countNode(&words, root)
	f.Words = words.n
	return f, nil
}

func attrOfNode(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func nodeText(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func countNode(w *wordModel, n *html.Node) {
	if n.Type == html.TextNode {
		w.add(n.Data)
		return
	}
	switch n.Data {
	case "script", "style", "title":
		return
	case "a", "em":
	default:
		w.separate()
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		countNode(w, c)
	}
	if n.Data != "a" && n.Data != "em" {
		w.separate()
	}
}

// TestPeersAgree makes sure that what is compared for speed does the same work.
func TestPeersAgree(t *testing.T) {
	tree := newTreeReader()
	for _, shape := range pageShapes() {
		body, base := pageBody(t, shape), shape.base(t)
		var pg Page
		parse(t, newParser(t, Options{}), &pg, Input{URL: base, Body: body})
		want := ourFacts(&pg)
		if want.Words == 0 || len(want.Links) < shape.links || want.Title == "" || want.H1 == "" {
			t.Fatalf("page %v is not what it should be: %+v", shape, want)
		}
		if got := readTokens(base, body); !reflect.DeepEqual(got, want) {
			t.Errorf("page %v: tokenizer finds %+v, we find %+v", shape, got, want)
		}
		got, err := tree.read(base, body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("page %v: tree finds %+v (error %v), we find %+v", shape, got, err, want)
		}
	}
}
