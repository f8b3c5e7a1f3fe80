package parser

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/net/html"
)

// TestForeign compares which links are found around svg and math with those in
// x/net/html's tree.
func TestForeign(t *testing.T) {
	for _, src := range []string{
		"<svg><a href=1></a></svg><a href=2>",
		"<svg><style><a href=1></a></style></svg><style><a href=2></a></style><a href=3>",
		"<svg><script><a href=1></a></script></svg><script><a href=2></a></script><a href=3>",
		"<svg><title><a href=1></a><style><a href=2></a></style></title><title/><a href=3></a></svg>",
		"<svg><desc><textarea><a href=1></a></textarea></desc><textarea><a href=2></a></textarea></svg>",
		"<svg><foreignObject><xmp><a href=1></a></xmp></foreignObject><xmp><a href=2></a></xmp></svg>",
		"<svg><![CDATA[<a href=1></a>]]></svg><![CDATA[<a href=2></a>]]>",
		"<svg><g><![CDATA[<a href=1></a>]]></g><![CDATA[<a href=2></a>",
		"<svg/><style><a href=1></a></style>",
		"<svg><g/><style><a href=1></a></style></svg>",
		"<svg><p><style><a href=1></a></style>",
		"<svg><font><style><a href=1></a></style></font></svg>",
		"<svg><font color=x><style><a href=1></a></style></font></svg>",
		"<div><svg></div><style><a href=1></a></style>",
		"<svg><svg></svg><style><a href=1></a></style></svg><style><a href=2></a></style>",
		"<math><mi><style><a href=1></a></style></mi><style><a href=2></a></style></math>",
		"<math><annotation-xml encoding='Text/HTML'><style><a href=1></a></style></annotation-xml><style><a " +
			"href=2></a></style></math>",
		"<math><annotation-xml encoding='text&sol;html'><style><a href=1></a></style></annotation-xml></math>",
		"<math><annotation-xml><style><a href=1></a></style></annotation-xml></math>",
		"<math><svg><title><style><a href=1></a></style></title></svg></math>",
		"<math><title><a href=1></a></title></math>",
		"<noscript><svg><style><a href=1></a></style></svg></noscript>",
	} {
		var pg Page
		parse(t, newParser(t, Options{}), &pg, Input{Body: []byte("<body>" + src)})
		var got []string
		for _, l := range pg.Links {
			got = append(got, l.Href)
		}
		if want := treeHrefs(t, []byte("<body>"+src)); !slices.Equal(got, want) {
			t.Errorf("%s: links %q, the tree has %q", src, got, want)
		}
	}
}

// treeHrefs lists the addresses of the a elements in a page's tree.
func treeHrefs(t *testing.T, src []byte) []string {
	t.Helper()
	root, err := html.ParseWithOptions(bytes.NewReader(src), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	var hrefs []string
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "a" {
			hrefs = append(hrefs, attrOfNode(n, "href"))
		}
	}
	return hrefs
}

// TestForeignDepth makes sure that nesting beyond all measure ends in HTML.
func TestForeignDepth(t *testing.T) {
	src := bytes.Repeat([]byte("<svg>"), maxForeign+1)
	src = append(src, "<style><a href=1></a></style><a href=2>"...)
	var pg Page
	parse(t, newParser(t, Options{}), &pg, Input{Body: src})
	if len(pg.Links) != 1 || pg.Links[0].Href != "2" {
		t.Errorf("links are %+v, want that to 2 alone", pg.Links)
	}
}
