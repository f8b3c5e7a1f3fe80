package parser

import (
	"fmt"
	"strings"
	"testing"
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
		if len(pg.Extracted) != 1 || pg.Extracted[0].Name != x.Name() || fmt.Sprintf("%q", pg.Extracted[0].Values) != tt.want {
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
	err = p.Parse(&pg, Input{URL: canonical(t, home), Body: []byte("<title>t</title>" + strings.Repeat("<div>", 1000) + "<a href=x>")})
	if err == nil {
		t.Fatal("a page nested 1,000 deep gave a tree")
	}
	if pg.Title != "t" || len(pg.Links) != 1 || len(pg.Extracted) != 1 || pg.Extracted[0].Values != nil {
		t.Errorf("title %q, links %+v, extracted %+v", pg.Title, pg.Links, pg.Extracted)
	}
}
