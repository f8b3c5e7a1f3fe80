package parser

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A pageShape says what a generated page is made of.
type pageShape struct {
	name  string
	size  int // bytes, about
	links int
}

// The pages that figures are given for: that of the whole crawls' benchmarks, one
// like it with more facts and markup, one ten times as long, and two that are mostly
// links.
func pageShapes() []pageShape {
	return []pageShape{
		{"testweb", 10 << 10, 30},
		{"text", 10_000, 30},
		{"text", 100_000, 100},
		{"links", 10_000, 90},
		{"links", 100_000, 900},
	}
}

// base is the page's URL.
func (s pageShape) base(tb testing.TB) URL {
	if strings.HasPrefix(s.name, "testweb") {
		return canonical(tb, "http://h0.test/")
	}
	return canonical(tb, "https://www.example.com/walks/harbour-at-dawn?page=2")
}

// pageBody makes or fetches a page.
func pageBody(tb testing.TB, shape pageShape) []byte {
	tb.Helper()
	if !strings.HasPrefix(shape.name, "testweb") {
		return generatePage(shape)
	}
	web, err := testweb.Start(testweb.Config{Pages: 1000, PageSize: shape.size, Links: shape.links,
		Numbers: shape.name == "testweb-numbers"})
	if err != nil {
		tb.Fatal(err)
	}
	defer web.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: web.Dial, DisableKeepAlives: true}}
	res, err := client.Get(web.StartURLs()[0])
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || len(body) != shape.size {
		tb.Fatalf("%d bytes of a page of %d: %v", len(body), shape.size, err)
	}
	return body
}

// generatePage makes a page like those of a blog or a shop: a head with the usual
// facts, navigation, articles of marked-up prose, a script, a footer.
func generatePage(shape pageShape) []byte {
	r := rand.New(rand.NewPCG(1, uint64(shape.size+shape.links)))
	var b bytes.Buffer
	b.WriteString(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The harbour at dawn &amp; other walks</title>
<meta name="description" content="Walks along the coast, with maps, tides and places to rest.">
<link rel="canonical" href="https://www.example.com/walks/harbour-at-dawn">
<link rel="alternate" hreflang="de" href="https://www.example.com/de/wege/hafen">
<link rel="stylesheet" href="/assets/site.css">
<meta property="og:title" content="The harbour at dawn">
<meta property="og:type" content="article">
<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article","author":{"@type":"Person","name":"A. Walker"}}</script>
<script>window.dataLayer = window.dataLayer || []; function track(e) { if (e && e.length < 3) { dataLayer.push(e); } }</script>
</head>
<body class="page page--article">
<!-- navigation -->
<header class="site-header"><h1 class="title">The harbour at dawn</h1></header>
<main id="content">
`)
	for i := range shape.links {
		// Text is spread so that each link comes where its share of the page is.
		for b.Len() < shape.size*(i+1)/shape.links-200 {
			prose(&b, r)
		}
		fmt.Fprintf(&b, "<li class=\"nav-item\"><a class=\"nav-link\" href=\"/walks/%s/%s-%d\">%s %s</a></li>\n",
			pick(r), pick(r), i, pick(r), pick(r))
	}
	b.WriteString("</main>\n<footer><p>&copy; 2024 The walkers</p></footer>\n</body>\n</html>\n")
	return b.Bytes()
}

// prose writes a paragraph with some inline markup.
func prose(b *bytes.Buffer, r *rand.Rand) {
	b.WriteString("<p class=\"body-text\">")
	for range 3 + r.IntN(4) {
		for i := range 8 + r.IntN(10) {
			if i > 0 {
				b.WriteByte(' ')
			}
			if r.IntN(40) == 0 {
				fmt.Fprintf(b, "<em>%s</em>", pick(r))
				continue
			}
			b.WriteString(pick(r))
		}
		b.WriteString(". ")
	}
	b.WriteString("</p>\n")
}

func pick(r *rand.Rand) string {
	words := []string{"the", "harbour", "at", "dawn", "a", "narrow", "path", "follows", "cliff", "and", "of", "sea",
		"lighthouse", "keeper's", "tide", "rises", "in", "slowly", "to", "village", "with", "stone", "walls", "fishing",
		"boats"}
	return words[r.IntN(len(words))]
}
