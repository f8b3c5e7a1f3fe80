package parser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/parser/internal/htmltree"
)

func TestExtract(t *testing.T) {
	const body = `<body><div class=price data-v=" 1 &amp; 2 ">9<b>.99</b></div><div class=price>a<p>b</p>c</div>
		<noscript><i class=x>in noscript</i></noscript><a href="u@v">l</a><a href=w>m</a>`
	for _, tt := range []struct{ extractor, want string }{
		{"p=.price", `["9.99" "a b c"]`},
		{"p=.price@data-v", `["1 & 2"]`},
		{"p=.price[@DATA-V]", `["1 & 2"]`},
		{"p = a @href ", `["u@v" "w"]`},
		{`p=a[href="u@v"]`, `["l"]`},
		{`p=a[href="u@v"]@href`, `["u@v"]`},
		{"p=b, .x", `[".99" "in noscript"]`},
		{"p=none", `[]`},
	} {
		x, err := ParseExtractor(tt.extractor)
		if err != nil {
			t.Errorf("%s: %v", tt.extractor, err)
			continue
		}
		pg := read(t, Options{Extract: []Extractor{x}}, body)
		if len(pg.Extracted) != 1 || pg.Extracted[0].Name != x.Name() ||
			fmt.Sprintf("%q", pg.Extracted[0].Values) != tt.want {
			t.Errorf("%s: extracted %q, want %s", tt.extractor, pg.Extracted, tt.want)
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	for _, s := range []string{"", "a", "=b", "a=", "a=@b", "a=[", "a=b[", "a=:nope", "a=b@", "a=b@c d"} {
		if x, err := ParseExtractor(s); err == nil {
			t.Errorf("%q is accepted as %+v", s, x)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("%q", s)) {
			t.Errorf("error %q does not name %q", err, s)
		}
	}
}

func TestExtractBounds(t *testing.T) {
	x, err := ParseExtractor("x=p")
	if err != nil {
		t.Fatal(err)
	}
	pg := read(t, Options{Extract: []Extractor{x}}, strings.Repeat("<p>"+strings.Repeat("x", 5000), 300))
	if v := pg.Extracted[0].Values; len(v) != maxExtractions || len(v[0]) != maxExtraction {
		t.Errorf("%d values, the first of %d bytes", len(v), len(v[0]))
	}
}

// TestExtractFails makes sure that a page that no tree can be made of keeps its
// links and facts.
func TestExtractFails(t *testing.T) {
	x, err := ParseExtractor("x=b")
	if err != nil {
		t.Fatal(err)
	}
	p := newParser(t, Options{Extract: []Extractor{x}})
	var pg Page
	err = p.Parse(&pg, Input{URL: canonical(t, home), Body: []byte("<title>t</title>" + strings.Repeat("<div>", 1000) +
		"<a href=x>")})
	if err == nil {
		t.Fatal("a page nested 1,000 deep gave a tree")
	}
	if pg.Title != "t" || len(pg.Links) != 1 || len(pg.Extracted) != 1 || pg.Extracted[0].Values != nil {
		t.Errorf("title %q, links %+v, extracted %+v", pg.Title, pg.Links, pg.Extracted)
	}
}

// TestExtractMemory makes sure that pages whose tree is too large give a reason instead of values, and that they return
// the memory that they reserve. Misnested formatting elements, which the HTML standard copies into each paragraph, cost
// no more than others.
func TestExtractMemory(t *testing.T) {
	x, err := ParseExtractor("x=p")
	if err != nil {
		t.Fatal(err)
	}
	var formatting strings.Builder
	for i := range 240 {
		fmt.Fprintf(&formatting, "<b i%d>", i)
	}
	p := newParser(t, Options{Extract: []Extractor{x}})
	for name, tt := range map[string]struct {
		body   string
		values int
		err    string
	}{
		"misnested": {"<p>" + formatting.String() + strings.Repeat("<p>x", 100_000), maxExtractions, ""},
		"too large": {strings.Repeat("<p>x", maxTree/200), 0, "extract: the tree of the page needs more than "},
	} {
		var pg Page
		err := p.Parse(&pg, Input{URL: canonical(t, home), Body: []byte("<title>t</title><a href=/x>l</a>" + tt.body)})
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) ||
			len(pg.Extracted[0].Values) != tt.values {
			t.Errorf("%s: %v, %d values", name, err, len(pg.Extracted[0].Values))
		}
		if pg.Title != "t" || len(pg.Links) != 1 {
			t.Errorf("%s: title %q, links %+v", name, pg.Title, pg.Links)
		}
		if !p.trees.TryAcquire(defaultTreeMemory) {
			t.Fatal("memory for trees is still reserved after the parse")
		}
		p.trees.Release(defaultTreeMemory)
	}
}

// TestTreeLimit makes sure that pages of ordinary markup fit into the limit, the densest among them.
func TestTreeLimit(t *testing.T) {
	x, err := ParseExtractor("x=title")
	if err != nil {
		t.Fatal(err)
	}
	for _, markup := range []string{"<p>x", "<td>x", "<li>x</li>", "<br>", "<i>x</i>", "<a b c d e f>x</a>", "<tr><td>",
		"<!>"} {
		body := []byte("<title>t</title><table>" + strings.Repeat(markup, 20_000))
		var pg Page
		if err := newParser(t, Options{Extract: []Extractor{x}}).Parse(&pg,
			Input{URL: canonical(t, home), Body: body}); err != nil || len(pg.Extracted[0].Values) != 1 {
			t.Errorf("%s: %v, %q", markup, err, pg.Extracted)
		}
	}
}

func TestExtractTimeout(t *testing.T) {
	for _, selector := range []string{"x=p", "x=p:has(b)", "x=p ~ p:nth-last-child(3)", "x=p:contains('y')"} {
		x, err := ParseExtractor(selector)
		if err != nil {
			t.Fatal(err)
		}
		p := newParser(t, Options{Extract: []Extractor{x}, ExtractTimeout: 1})
		var pg Page
		err = p.Parse(&pg, Input{URL: canonical(t, home), Body: []byte("<title>t</title>" +
			strings.Repeat("<p>x", 1000))})
		if err == nil || !strings.Contains(err.Error(), "took too long") || pg.Title != "t" ||
			pg.Extracted[0].Values != nil {
			t.Errorf("%s: %v, %+v", selector, err, pg.Extracted)
		}
	}
}

// TestTreeWalkEnds makes sure that selectors stop at the deadline too, when the tree is there.
func TestTreeWalkEnds(t *testing.T) {
	root, err := html.Parse(strings.NewReader(strings.Repeat("<p>x", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	x, err := ParseExtractor("x=p")
	if err != nil {
		t.Fatal(err)
	}
	w := treeWalk{tree: newTree(root), ctx: t.Context(), deadline: time.Now(), names: newNames(false)}
	if w.values(x); !w.late || w.steps > clockEvery {
		t.Errorf("late %v after %d steps", w.late, w.steps)
	}
}

// The context ends extractors that wait for memory and extractors that run.
func TestExtractEndsWithTheContext(t *testing.T) {
	x, err := ParseExtractor("x=p")
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("the crawl is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := newParser(t, Options{Extract: []Extractor{x}, TreeMemory: maxTree})
	if !p.trees.TryAcquire(maxTree) { // as other pages do
		t.Fatal("the parser has less memory for trees than it says")
	}
	done := make(chan error)
	go func() {
		done <- p.Parse(new(Page), Input{Body: []byte("<p>text"), Context: ctx})
	}()
	cancel(over)
	if err := <-done; !errors.Is(err, over) {
		t.Errorf("waiting: %v, want %v", err, over)
	}

	root, _, err := htmltree.Parse(strings.NewReader("<p>text"),
		htmltree.Limits{Bytes: maxTree, Deadline: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	w := treeWalk{tree: newTree(root), ctx: ctx, deadline: time.Now().Add(time.Hour), names: newNames(false)}
	for range clockEvery {
		w.tick()
	}
	if !w.late {
		t.Error("running: the selectors go on")
	}
}
