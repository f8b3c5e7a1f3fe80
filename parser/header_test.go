package parser

import (
	"strings"
	"testing"
)

func TestLinkHeader(t *testing.T) {
	for _, tt := range []struct{ field, want string }{
		{"<x>; rel=next", "header x https://example.com/dir/x rel:next"},
		{`<x>;REL="Next  prev"`, "header x https://example.com/dir/x rel:next prev"},
		{"<a>; rel=next, <b>; rel=prev",
			"header a https://example.com/dir/a rel:next; header b https://example.com/dir/b rel:prev"},
		{`<a,b;c>; title="x, <y>; rel=next"; rel=canonical`,
			"header a,b;c https://example.com/dir/a,b;c rel:canonical"},
		{`<x>; title="a\"; rel=next"; rel=prev`, "header x https://example.com/dir/x rel:prev"},
		{"<x>; rel=next; rel=canonical", "header x https://example.com/dir/x rel:next"},
		{`<x>; rel=next; anchor="#part"`, ""},
		{"<x>; rel=preload; as=style, <y>; rel=stylesheet, <z>", ""},
		{"<x>; nopush; rel = next ;", "header x https://example.com/dir/x rel:next"},
		{", ,<x>;rel=next,,", "header x https://example.com/dir/x rel:next"},
		{"x; rel=next", ""},
		{"<x; rel=next", ""},
		{`<x>; rel="next`, "header x https://example.com/dir/x rel:next"},
	} {
		var got []string
		// A base element does not move what stands in the header.
		for _, l := range read(t, Options{}, "<base href=/b/>", "Link", tt.field).Links {
			got = append(got, brief(l))
		}
		if got := strings.Join(got, "; "); got != tt.want {
			t.Errorf("Link: %s\n got %s\nwant %s", tt.field, got, tt.want)
		}
	}
}

func TestLocationHeader(t *testing.T) {
	pg := read(t, Options{}, "<a href=x>", "Location", "../y")
	if len(pg.Links) != 2 || brief(pg.Links[0]) != "header ../y https://example.com/y" {
		t.Errorf("links are %+v", pg.Links)
	}
}
