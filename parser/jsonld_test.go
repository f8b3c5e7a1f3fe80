package parser

import (
	"strings"
	"testing"
)

func TestJSONLDTypes(t *testing.T) {
	for _, tt := range []struct{ json, want string }{
		{`{"@type":"A"}`, "A"},
		{`{"@type":["A","B"],"x":{"@type":"C"}}`, "A B C"},
		{`[{"@type":"A"},{"@type":"A"},{"@type":"B"}]`, "A B"},
		{`{"@graph":[{"@type":"A","n":[1,-2.5e3,true,null,{"@type":"B"}]}]}`, "A B"},
		{`{"name":"@type","x":"\"@type\":\"Z\"","@type":"\u0041\ud83d\ude00\/\n"}`, "A😀/\n"},
		{`{"@context":{"@type":"Z","u":{"@type":"Y"}},"@type":"A"}`, "A"},
		{`<!-- {"@type":"A"} -->`, "A"},
		{"//<![CDATA[\n{\"@type\":\"A\"}\n//]]>", "A"},
		{`{"@type":"A",}`, "A"},
		{`{"@type":"A"`, "A"},
		{`{"@type":"A`, ""},
		{`{"@type":"A"]`, "A"},
		{`{"@type":""}`, ""},
		{`not json`, ""},
		{`{"a":"\ud83d","@type":"\ud83dx"}`, "\ufffdx"},
		{strings.Repeat("[", 1000) + `{"@type":"A"}`, ""},
	} {
		pg := read(t, Options{}, `<script type=" Application/LD+JSON; charset=utf-8">`+tt.json+"</script>")
		if got := strings.Join(pg.JSONLDTypes, " "); got != tt.want {
			t.Errorf("%s: types are %q, want %q", tt.json, got, tt.want)
		}
	}
	if pg := read(t, Options{}, `<script type=application/json>{"@type":"A"}</script>`); len(pg.JSONLDTypes) != 0 {
		t.Errorf("other JSON has types %q", pg.JSONLDTypes)
	}
}

func TestStructuredLinks(t *testing.T) {
	const data = `<script type=application/ld+json>{"@context":"https://schema.org","@type":"X","@id":"#me","url":"\/a",
		"image":"https://example.com/i.png","sameAs":["https://other.example/x","https://other.example/y"],
		"potentialAction":{"target":"https://example.com/?q={q}","url":"/s?q={q}"},
		"itemListElement":[{"item":{"@id":"https://example.com/b"}}]}</script>
		<script id=__NEXT_DATA__ type=application/json>{"props":{"pageProps":{"items":[{"href":"/c","title":"/not"},"https://example.com/d",
		{"path":"no path","link":"/_next/x.js","to":"//x.example/"}]}},"page":"/[slug]","buildId":"https://example.com/z"}</script>`
	want := []string{
		"link /a https://example.com/a rel:json-ld",
		"link https://other.example/x https://other.example/x rel:json-ld",
		"link https://other.example/y https://other.example/y rel:json-ld",
		"link https://example.com/b https://example.com/b rel:json-ld",
		"link /c https://example.com/c rel:next-data",
		"link https://example.com/d https://example.com/d rel:next-data",
	}
	var got []string
	for _, l := range read(t, Options{StructuredLinks: true}, data).Links {
		got = append(got, brief(l))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if pg := read(t, Options{}, data); len(pg.Links) != 0 {
		t.Errorf("unasked, there are links %+v", pg.Links)
	}
}
