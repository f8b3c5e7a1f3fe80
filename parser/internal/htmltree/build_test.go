package htmltree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// never is a deadline that no test reaches.
func never() time.Time { return time.Now().Add(24 * time.Hour) }

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root, _, err := Parse(strings.NewReader(page), Limits{Bytes: 1 << 30, Deadline: never()})
	if err != nil {
		t.Fatalf("%q: %v", page, err)
	}
	return root
}

// outline writes a tree as selectors see it: without comments and doctype, and with texts that follow each other as
// one.
func outline(n *html.Node) string {
	var b strings.Builder
	var write func(n *html.Node, depth int)
	write = func(n *html.Node, depth int) {
		fmt.Fprintf(&b, "%*s%s %s %q\n", depth, "", n.Namespace, strings.ToLower(n.Data), n.Attr)
		text := ""
		flush := func() {
			if strings.TrimSpace(text) != "" {
				fmt.Fprintf(&b, "%*s%q\n", depth+1, "", strings.Join(strings.Fields(text), " "))
			}
			text = ""
		}
		for c := range n.ChildNodes() {
			switch c.Type {
			case html.TextNode:
				text += c.Data
			case html.ElementNode:
				flush()
				write(c, depth+1)
			}
		}
		flush()
	}
	for c := range n.ChildNodes() {
		if c.Type == html.ElementNode {
			write(c, 0)
		}
	}
	return b.String()
}

func compare(t *testing.T, page string) {
	t.Helper()
	want, err := html.ParseWithOptions(strings.NewReader(page), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outline(parse(t, page)), outline(want); got != want {
		t.Errorf("%s\n\ngives\n%s\nx/net/html has\n%s", page, got, want)
	}
}

// TestPages compares pages as people write them with x/net/html.
func TestPages(t *testing.T) {
	for _, page := range []string{
		"", "x", "<p>x", "<title>t</title>x", "<html lang=de><body class=c>x",
		"<html lang=de><html lang=en id=i><p>x<body class=d>",
		"<head><title>a &amp; b</title><meta name=x content=y><script>if (a<b) " +
			"c()</script><style>p>a{}</style></head><body><p>x",
		"<link rel=a><p>x<link rel=b><title>late</title>",
		"<noscript><img src=x></noscript><p>y<noscript><i>z</i></noscript>",
		"<p>a<p>b<div>c</div>d", "<p>a<ul><li>b<li>c<p>d<li>e</ul>f", "<ul><li>a<ul><li>b</ul><li>c</ul>",
		"<dl><dt>a<dd>b<dt>c<dd><p>d</dl>", "<h1>a<h2>b</h2>c", "<div><h1>a</h2>b</div>",
		"<table><tr><td>a<td>b<tr><th>c</table>d", "<table><td>a<td>b</table>", "<table><caption>x<tr><td>y</table>",
		"<table><col><col><tr><td>a</table>",
		"<table><colgroup><col span=2></colgroup><thead><tr><th>h<tbody><tr><td>a<tfoot><tr><td>f</table>",
		"<table><tr><td><table><tr><td>in</table>out<tr><td>x</table>y", "<table>text<tr><td>a</table>",
		"<table><div>moved</div><tr><td>a</table>",
		"<table><form><tr><td><input></form></table>", "<td>a</td><tr>b", "<p><table><tr><td>x</table>y",
		"<!doctype html><p>x<table><tr><td>x</table>y",
		"<select><option>a<option selected>b<optgroup label=g><option>c</select>d", "<form><form><input></form>x",
		"<a href=1>x<a href=2>y", "<b><i>x</i></b>", "<p><b>x</b> y", "a<br>b</br>c", "</p>x", "<p>x</div>y",
		"<button>a<button>b", "<svg><path d=1/><title><b>x</b></title><g><circle/></g></svg>y", "<svg><path><p>out",
		"<math><mi>x</mi></math>y",
		"<svg><foreignObject><div>x</div></foreignObject></svg>z", "<div/>x", "<image src=a>",
		"<textarea><b>x</textarea>y",
		"<template><p>a<td>b</template>c", "<template><tr><td>b</template>c", "<pre>\n a\n b</pre>",
		"<object><p>x</object>y", "<!doctype html><!-- c --><p>a<!-- d -->b",
		"<ruby>a<rt>b<rp>c</ruby>d", "<details><summary>a</summary>b</details>", "<iframe><p>x</iframe>y",
		"<x-y>a</x-y>b", "<li>a<div><li>b</div>",
	} {
		compare(t, page)
	}
}

// TestMisnested shows where trees differ from those of the standard.
func TestMisnested(t *testing.T) {
	for page, want := range map[string]string{
		"<p><b>x<p>y":             `p(b("x"))p("y")`,
		"<b><p>x</b>y":            `b(p("x""y"))`,
		"<span>a<b>b</span>c</b>": `span("a"b("b"))"c"`,
		"<a><div>x<a>y":           `a(div("x"a("y")))`,
	} {
		var b strings.Builder
		var write func(n *html.Node)
		write = func(n *html.Node) {
			for c := range n.ChildNodes() {
				if c.Type == html.TextNode {
					fmt.Fprintf(&b, "%q", c.Data)
					continue
				}
				fmt.Fprintf(&b, "%s(", c.Data)
				write(c)
				b.WriteString(")")
			}
		}
		write(parse(t, page).FirstChild.LastChild)
		if b.String() != want {
			t.Errorf("%s: %s, want %s", page, &b, want)
		}
	}
}

// TestSameTree compares random pages that are nested properly, with end tags left out where the standard allows it.
func TestSameTree(t *testing.T) {
	for seed := range uint64(600) {
		g := generator{rand.New(rand.NewPCG(seed, 7)), &strings.Builder{}}
		g.flow(6)
		compare(t, g.b.String())
		if t.Failed() {
			return
		}
	}
}

type generator struct {
	*rand.Rand
	b *strings.Builder
}

func (g generator) element(name string, content func()) {
	fmt.Fprintf(g.b, "<%s", name)
	if g.IntN(4) == 0 {
		fmt.Fprintf(g.b, " class=c%d", g.IntN(9))
	}
	g.b.WriteString(">")
	content()
	optional := name == "li" || name == "td" || name == "th" || name == "tr" || name == "dt" || name == "dd" ||
		name == "option"
	if !optional || g.IntN(2) == 0 {
		fmt.Fprintf(g.b, "</%s>", name)
	}
}

func (g generator) several(n int, content func()) {
	for range 1 + g.IntN(n) {
		content()
	}
}

func (g generator) text() { fmt.Fprintf(g.b, "t%d ", g.IntN(100)) }

func (g generator) phrase(depth int) {
	g.text()
	if depth > 0 && g.IntN(2) == 0 {
		names := []string{"b", "i", "em", "span", "code", "x-y", "label", "sub"}
		g.element(names[g.IntN(len(names))], func() { g.several(2, func() { g.phrase(depth - 1) }) })
	}
	if g.IntN(6) == 0 {
		g.b.WriteString([]string{"<br>", "<img src=x>", "<input>", "<svg><path/></svg>", "<!-- c -->"}[g.IntN(5)])
	}
}

func (g generator) flow(depth int) {
	if depth == 0 {
		g.phrase(2)
		return
	}
	deeper := func() { g.several(3, func() { g.flow(depth - 1) }) }
	switch g.IntN(8) {
	case 0, 1:
		names := []string{"div", "section", "article", "blockquote", "main", "fieldset", "h2", "pre", "form", "object"}
		name := names[g.IntN(len(names))]
		if name == "h2" || name == "pre" || name == "form" {
			g.element(name, func() { g.phrase(2) })
			return
		}
		g.element(name, deeper)
	case 2:
		g.element("p", func() { g.phrase(3) })
	case 3:
		g.element("ul", func() { g.several(3, func() { g.element("li", deeper) }) })
	case 4:
		g.element("dl", func() {
			g.several(2, func() {
				g.element("dt", func() { g.phrase(1) })
				g.element("dd",
					deeper)
			})
		})
	case 5:
		g.element("table", func() {
			if g.IntN(2) == 0 {
				g.element("caption", func() { g.phrase(1) })
			}
			g.several(3, func() { g.element("tr", func() { g.several(3, func() { g.element("td", deeper) }) }) })
		})
	case 6:
		g.element("select", func() { g.several(3, func() { g.element("option", g.text) }) })
	case 7:
		g.phrase(3)
	}
}

// TestSizeOfTree makes sure that a tree has at most a few nodes for each token, however the page is nested.
func TestSizeOfTree(t *testing.T) {
	distinct := func(names string, n int) string {
		var b strings.Builder
		list := strings.Fields(names)
		for i := range n {
			fmt.Fprintf(&b, "<%s i%d>", list[i%len(list)], i)
		}
		return b.String()
	}
	again := func(s string) string { return strings.Repeat(s, 4000) }
	const formattings = "b i em font code big small s strike strong tt u nobr"
	for name, page := range map[string]string{
		"formatting":         "<p>" + distinct("b", 240) + again("<p>x"),
		"all formatting":     "<p>" + distinct(formattings, 300) + again("<p>x"),
		"formatting in cell": "<table><td><p>" + distinct("i", 240) + again("<p>x"),
		"foster parents":     "<p>" + distinct("font", 200) + "</p><table>" + again("x<tr>"),
		"in a template":      "<template><p>" + distinct("b", 240) + again("<p>x"),
		"in svg":             "<svg><foreignObject><p>" + distinct("b", 240) + again("<p>x"),
		"breaking out":       "<p>" + distinct("b", 240) + again("<p><svg><b></b>"),
		"end tags":           "<p>" + distinct("b", 240) + again("<p>x</b>"),
		"cells":              again("<table><td></table>"),
		"ends of paragraphs": again("</p>"),
	} {
		tokens := strings.Count(page, "<") + strings.Count(page, "x")
		root := parse(t, page)
		nodes := 0
		for range root.Descendants() {
			nodes++
		}
		if nodes > 4*tokens+3 {
			t.Errorf("%s: %d nodes of %d tokens", name, nodes, tokens)
		}
	}
}

func TestLimits(t *testing.T) {
	attributes := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " x%d", i)
		}
		return b.String()
	}
	for name, page := range map[string]string{
		"elements":    strings.Repeat("<p>x", 12_000),
		"attributes":  "<div" + attributes(100_000) + ">",
		"html":        "<html" + attributes(100_000) + "><p>",
		"second html": "<html><p><html" + attributes(100_000) + ">",
		"foster":      "<table>" + strings.Repeat("x<tr>", 12_000),
	} {
		_, size, err := Parse(strings.NewReader(page+"<p>"), Limits{Bytes: 1 << 20, Deadline: never()})
		var over *LimitError
		if !errors.As(err, &over) || !strings.Contains(err.Error(), "needs more than 1 MiB") || size > 8<<20 {
			t.Errorf("%s: %v, %d bytes", name, err, size)
		}
	}
	_, _, err := Parse(strings.NewReader("<p>x"), Limits{Bytes: 1 << 30, Deadline: time.Now()})
	var over *LimitError
	if !errors.As(err, &over) || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("after the deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Parse(strings.NewReader("<p>x"), Limits{Bytes: 1 << 30, Deadline: never(),
		Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
	if _, _, err := Parse(strings.NewReader(strings.Repeat("<div>", 600)),
		Limits{Bytes: 1 << 30, Deadline: never()}); err == nil || !strings.Contains(err.Error(), "deeper than 512") {
		t.Errorf("600 elements inside each other: %v", err)
	}
}

// FuzzParse makes sure that no page makes the builder fail or loop.
func FuzzParse(f *testing.F) {
	f.Add("<table><b><tr><svg><title><p></svg></table></p><template><td>")
	f.Fuzz(func(t *testing.T, page string) {
		root, _, err := Parse(strings.NewReader(page), Limits{Bytes: 1 << 24, Deadline: never()})
		if err == nil && (root.FirstChild == nil || root.FirstChild.Data != "html") {
			t.Errorf("%q: no html element", page)
		}
	})
}

// TestManyHTMLTags makes sure that repeated html tags do not look through the attributes of the first again and again.
func TestManyHTMLTags(t *testing.T) {
	var page strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&page, "<html a%d>", i)
	}
	root, _, err := Parse(strings.NewReader(page.String()), Limits{Bytes: 1 << 30, Deadline: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(root.FirstChild.Attr); n != maxMerged+1 {
		t.Errorf("%d attributes, want %d", n, maxMerged+1)
	}
}
