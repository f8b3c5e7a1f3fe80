package parser

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const home = "https://example.com/dir/page?q=1"

// read parses a page at home.
func read(t *testing.T, o Options, body string, header ...string) *Page {
	t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	pg := new(Page)
	parse(t, newParser(t, o), pg, Input{URL: canonical(t, home), Body: []byte(body), Header: h})
	return pg
}

func TestFacts(t *testing.T) {
	title := func(pg *Page) any { return pg.Title }
	description := func(pg *Page) any { return pg.Description }
	h1 := func(pg *Page) any { return pg.H1 }
	language := func(pg *Page) any { return pg.Language }
	canonical := func(pg *Page) any { return pg.Canonical }
	graph := func(pg *Page) any { return fmt.Sprint(pg.OpenGraph) }
	hreflang := func(pg *Page) any { return fmt.Sprint(pg.Hreflang) }
	modified := func(pg *Page) any { return pg.Modified.Format(time.RFC3339) }
	published := func(pg *Page) any { return pg.Published.Format(time.RFC3339) }
	none := time.Time{}.Format(time.RFC3339)
	for _, tt := range []struct {
		fact func(*Page) any
		html string
		want any
	}{
		{title, "<title> a &amp;\n <b>b </title>", "a & <b>b"},
		{title, "<title>a</title><title>b</title>", "a"},
		{title, "<title></title><title>b</title>", ""},
		{title, "<svg><title>a</title></svg><title>b</title>", "b"},
		{title, "<template><title>a</title></template><title>b</title>", "b"},
		{title, "<TITLE>a</TITLE>", "a"},
		{title, "<title>a", "a"},
		{title, "<title>a\x00b</title>", "a\ufffdb"},

		{description, "<meta name=description content=' a  b&lt; '>", "a b<"},
		{description, "<meta name=description content=''><META NAME=Description CONTENT=c>", "c"},
		{description, "<meta property=description content=a>", ""},
		{description, "<meta name=description>", ""},

		{h1, "<h1>a <b>b</b><br>c</h1><h1>d</h1>", "a b c"},
		{h1, "<h1>w<i>or</i>d</h1>", "word"},
		{h1, "<h1><img></h1><h1>b</h1>", "b"},
		{h1, "<h1><a href=x>a</a></h1>", "a"},
		{h1, "<h1>a<h2>b</h2>", "a"},
		{h1, "<h1>a", "a"},
		{h1, "<h1>a<script>b</script><!-- c --></h1>", "a"},
		{h1, "<h1>a < b &lt; c</h1>", "a < b < c"},
		{h1, "<template><h1>a</h1></template><h1>b</h1>", "b"},

		{language, "<html lang=en-GB>", "en-GB"},
		{language, "<html><html lang=en>", "en"},
		{language, "<html lang=en><html lang=de>", "en"},
		{language, "<meta http-equiv=content-language content=fr>", "fr"},
		{language, "<meta http-equiv=content-language content=fr><html lang=de>", "de"},
		{language, "<meta http-equiv=content-language content='fr, de'>", ""},
		{language, "<html lang=''>", ""},

		{canonical, "<link rel=canonical href=/c#x>", "https://example.com/c"},
		{canonical, "<link rel=canonical href=a><link rel=canonical href=b>", "https://example.com/dir/a"},
		{canonical, "<link rel='CANONICAL' href='  /c '>", "https://example.com/c"},
		{canonical, "<link rel=canonical href=''>", ""},
		{canonical, "<link rel=canonical href=mailto:x>", ""},
		{canonical, "<link rel=canonical href=c><base href=/b/>", "https://example.com/b/c"},
		{canonical, "<template><link rel=canonical href=c></template>", ""},

		{graph, "<meta property=og:title content='a  b'><meta name=OG:type content=c><meta property=x content=d>",
			"[{og:title a b} {og:type c}]"},

		{hreflang, "<link rel=alternate hreflang=de href=/de><link rel=alternate href=/feed><link rel=alternate " +
			"hreflang=x href=mailto:x>",
			"[{de https://example.com/de}]"},

		{published, "<meta property=article:published_time content=2024-02-03T04:05:06+01:00>", "2024-02-03T03:05:06Z"},
		{published, "<meta property=article:published_time content=9999-12-31T23:59:59-23:59>", none},
		{published, "<meta name=article:published_time content=never><meta name=article:published_time " +
			"content=2024-02-03><meta name=article:published_time content=2025-02-03>", "2024-02-03T00:00:00Z"},
		{published, "<meta property=article:modified_time content=2024-02-03>", none},
		{modified, "<meta property=article:modified_time content=2024-02-03T04:05:06+01:00>", "2024-02-03T03:05:06Z"},
		{modified, "<meta name=last-modified content='Sat, 03 Feb 2024 04:05:06 GMT'>", "2024-02-03T04:05:06Z"},
		{modified, "<meta property=article:modified_time content=2024-02-03><meta property=og:updated_time " +
			"content=2025-01-01>", "2024-02-03T00:00:00Z"},
		{modified, "<meta property=og:updated_time content=2025-01-01><meta property=article:modified_time " +
			"content=2024-02-03>", "2024-02-03T00:00:00Z"},
		{modified, "<script type=application/ld+json>{\"dateModified\":\"2024-02-03T04:05\"}</script>",
			"2024-02-03T04:05:00Z"},
		{modified, "<meta http-equiv=last-modified content=yesterday>", none},
		{modified, "<meta name=last-modified content=9999-12-31T23:59:59-12:00>", none},
		{modified, "<meta name=last-modified content=0000-01-01T00:00:00+14:00>", none},
	} {
		pg := read(t, Options{}, tt.html)
		if got := tt.fact(pg); got != tt.want {
			t.Errorf("%s: fact is %q, want %q", tt.html, got, tt.want)
		}
	}
}

func TestHeaderFacts(t *testing.T) {
	pg := read(t, Options{}, "<p>", "Content-Language", "da", "Link", "</h>; rel=canonical", "Link",
		"</de>; rel=alternate; hreflang=de")
	if pg.Language != "da" || pg.Canonical != "https://example.com/h" ||
		fmt.Sprint(pg.Hreflang) != "[{de https://example.com/de}]" {
		t.Errorf("language %q, canonical %q, hreflang %v", pg.Language, pg.Canonical, pg.Hreflang)
	}
	pg = read(t, Options{}, "<html lang=en><link rel=canonical href=/e>", "Content-Language", "da", "Link",
		"</h>; rel=canonical")
	if pg.Language != "en" || pg.Canonical != "https://example.com/e" {
		t.Errorf("the page's own language is %q and its canonical %q", pg.Language, pg.Canonical)
	}
}

func TestBoundsOfFacts(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	var b strings.Builder
	fmt.Fprintf(&b, "<html lang=%s><title>%[1]s</title><h1>%[1]s</h1><meta name=description content=%[1]s><meta "+
		"name=robots content=%[1]s>", long)
	for i := range 1000 {
		fmt.Fprintf(&b, "<meta property=og:%d content=%s><link rel=alternate hreflang=%d href=x>", i, long, i)
	}
	pg := read(t, Options{}, b.String())
	checkBounds(t, pg, Options{MaxLinks: defaultMaxLinks, MaxLinkBytes: defaultMaxLinkBytes})
	if len(pg.Title) != maxTitle || len(pg.H1) != maxH1 || len(pg.Description) != maxDescription {
		t.Errorf("title, h1 and description have %d, %d and %d bytes", len(pg.Title), len(pg.H1), len(pg.Description))
	}
	if len(pg.OpenGraph) != maxProperties || len(pg.Hreflang) != maxHreflang {
		t.Errorf("%d properties, %d versions", len(pg.OpenGraph), len(pg.Hreflang))
	}
}

func TestContentHash(t *testing.T) {
	if pg := read(t, Options{}, "abc"); pg.ContentHash != 0x44bc2cf5ad770999 {
		t.Errorf("hash of abc is %x", pg.ContentHash)
	}
}

// TestReuse makes sure that nothing of a page is left in the next one, and that
// strings outlive it.
func TestReuse(t *testing.T) {
	p := newParser(t, Options{Images: true, StructuredLinks: true})
	var used Page
	var titles []string
	bodies := append(pageSeeds(), tokenSeeds()...)
	bodies = append(bodies, string(generatePage(pageShape{"text", 3000, 9})), "")
	for _, body := range bodies {
		in := Input{URL: canonical(t, home), Body: []byte(body)}
		var fresh Page
		parse(t, p, &fresh, in)
		parse(t, p, &used, in)
		if got, want := dump(&used), dump(&fresh); got != want {
			t.Errorf("%q: a used page becomes\n%s\na new one\n%s", body, got, want)
		}
		titles = append(titles, used.Title)
	}
	for i, body := range bodies {
		if want := read(t, Options{}, body).Title; titles[i] != want {
			t.Errorf("%q: the title has become %q, was %q", body, titles[i], want)
		}
	}
}

func TestParserIsShared(t *testing.T) {
	p := newParser(t, Options{StructuredLinks: true})
	body := generatePage(pageShape{"text", 3000, 9})
	want := dump(read(t, Options{StructuredLinks: true}, string(body)))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var pg Page
			for range 50 {
				if err := p.Parse(&pg, Input{URL: canonical(t, home), Body: body}); err != nil || dump(&pg) != want {
					t.Errorf("error %v, page %s", err, dump(&pg))
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	p := newParser(t, Options{})
	for _, shape := range pageShapes()[:2] {
		in := Input{URL: shape.base(t), Body: pageBody(t, shape)}
		var pg Page
		parse(t, p, &pg, in)
		// One for all strings of the page.
		if n := testing.AllocsPerRun(100, func() { p.Parse(&pg, in) }); n > 1 {
			t.Errorf("page %v takes %v allocations, want 1", shape, n)
		}
	}
}

// A Page that is used again holds nothing of the page before.
func TestPageForgets(t *testing.T) {
	p := newParser(t, Options{})
	var pg Page
	parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte(strings.Repeat("<a href=/x>y</a>", 20))})
	parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte("<a href=/z>")})
	for i, l := range pg.Links[len(pg.Links):cap(pg.Links)] {
		if l != (Link{}) {
			t.Fatalf("link %d of the page before is still there: %+v", i, l)
		}
	}
}

func TestOptions(t *testing.T) {
	x, err := ParseExtractor("a=b")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{ExtractTimeout: -1, TreeMemory: 1, MaxLinks: -1, MaxLinkBytes: -1, Extract: []Extractor{{}, x, x}})
	if err == nil {
		t.Fatal("bad options were accepted")
	}
	for _, part := range []string{"option MaxLinks", "option MaxLinkBytes", "option ExtractTimeout", "option TreeMemory", "extractor 0",
		`two extractors are named "a"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
	if p := newParser(t, Options{}); !reflect.DeepEqual(p.opts,
		Options{ExtractTimeout: 10 * time.Second, RobotsToken: "mapwright", MaxLinks: 20_000, MaxLinkBytes: 8 << 20,
			TreeMemory: 512 << 20}) {
		t.Errorf("defaults are %+v", p.opts)
	}
}

func TestNoLinkText(t *testing.T) {
	const body = `<a href="/a">text <b>of</b> a</a><img src="/i.png" alt="an image">`
	for _, tt := range []struct {
		o           Options
		text, image string
	}{{Options{Images: true}, "text of a", "an image"}, {Options{Images: true, NoLinkText: true}, "", "an image"}} {
		pg := read(t, tt.o, body)
		if len(pg.Links) != 2 || pg.Links[0].Text != tt.text || pg.Links[1].Text != tt.image || pg.WordCount != 3 {
			t.Errorf("%+v: %+v, %d words", tt.o, pg.Links, pg.WordCount)
		}
	}
}

func TestHeadingsAreCounted(t *testing.T) {
	for body, want := range map[string]int{
		"":                       0,
		"<h1> </h1>":             0,
		"<h1>a</h1>":             1,
		"<h1> </h1><h1>b</h1>":   1,
		"<h1>a</h1><h1> </h1>":   1,
		"<h1>a</h1><h1>é</h1>":   2,
		"<h1>a<h2>b</h2><h1>c":   2,
		"<h1>a</h1><h1><b> x":    2,
		"<h1><img alt='a'></h1>": 0,
		"<template><h1>a</h1></template><h1>b</h1>": 1,
	} {
		pg := read(t, Options{}, body)
		if pg.H1Count != want {
			t.Errorf("%q has %d headings with text, not %d", body, pg.H1Count, want)
		}
	}
}

func TestInsecureContent(t *testing.T) {
	many := strings.Repeat("<img src=http://a.example/1>", maxLoaded)
	for body, want := range map[string][]string{
		many + "<img src=http://a.example/2>":                                                                           {"http://a.example/1"}, // work on a page has a bound
		`<script src="http://a.example/x.js"></script><script src="/y.js"></script>`:                                    {"http://a.example/x.js"},
		`<link rel="stylesheet" href="HTTP://a.example/x.css"><link rel="canonical" href="http://example.com/">`:        {"http://a.example/x.css"},
		`<img src=" http://a.example/1.png"><img src="http://a.example/1.png"><img src="//a.example/2.png">`:            {"http://a.example/1.png"},
		`<img srcset="https://a.example/1.png 1x, http://a.example/2.png 2x"><iframe src="http://b.example/"></iframe>`: {"http://a.example/2.png", "http://b.example/"},
		`<base href="http://a.example/"><img src="i.png"><img src="https://a.example/i.png">`:                           {"http://a.example/i.png"},
		`<a href="http://a.example/">link</a><form action="http://a.example/"></form>`:                                  nil,
	} {
		if pg := read(t, Options{}, body); !slices.Equal(pg.Insecure, want) {
			t.Errorf("%s\nloads %q over http, not %q", body, pg.Insecure, want)
		}
		pg := new(Page)
		parse(t, newParser(t, Options{}), pg, Input{URL: canonical(t, "http://example.com/"), Body: []byte(body)})
		if pg.Insecure != nil {
			t.Errorf("%s\non an http page loads %q", body, pg.Insecure)
		}
	}
}

// Control characters are no part of what is recorded of a page: JSON writes each as six bytes.
func TestControlCharacters(t *testing.T) {
	const c = "\x01\x02&#1;&#x1f;"
	const body = "<html lang='en" + c + "'><title>a" + c + "b</title><meta name=description content='d" + c + "e'>" +
		"<meta name=robots content='noindex, x" + c + "'><meta property='og:title' content='o" + c + "g'>" +
		"<link rel=alternate hreflang='de" + c + "' href=/de><script type=application/ld+json>" +
		`[{"@type":"A\u0001B"},{"@type":"C"}]` + "</script><h1>h" + c + "1</h1>" +
		"<a href=/x rel='me" + c + " nofollow'>t" + c + "u</a><p class='k" + c + "l'>p" + c + "q</p>"
	var o Options
	for _, text := range []string{"x=p", "y=p@class"} {
		e, err := ParseExtractor(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Extract = append(o.Extract, e)
	}
	pg := read(t, o, body)
	if text := fmt.Sprintf("%+v", *pg); strings.ContainsAny(text, "\x01\x02\x1f") {
		t.Errorf("there are control characters in %q", text)
	}
	if pg.Title != "ab" || pg.Description != "de" || pg.H1 != "h1" || !pg.NoIndex ||
		!slices.Equal(pg.JSONLDTypes, []string{"C"}) || pg.Language != "" {
		t.Errorf("%+v", *pg)
	}
}

// In XHTML an element that is closed in its start tag has no content. In HTML that is no end of it.
func TestElementsClosedInTheirStart(t *testing.T) {
	for _, closed := range []string{"<script src='/a.js'/>", "<title/>", "<textarea />", "<style/>", "<template/>"} {
		body := "<html>" + closed + "<a href=/1>1</a></html>"
		for contentType, links := range map[string]int{"application/xhtml+xml": 1, "Application/XHTML+xml ;charset=utf-8": 1,
			"text/html": 0, "": 0} {
			if pg := read(t, Options{}, body, "Content-Type", contentType); len(pg.Links) != links {
				t.Errorf("%s in %q: %d links, want %d", closed, contentType, len(pg.Links), links)
			}
		}
	}
}
