// Package problemsite is a web with problems of every kind, and knows by itself which of its pages have which: it
// compares each page with each, from its own plan of the pages.
//
// Make a site by New, serve it with ServeHTTP, and hold what a crawl reports against Expect. A site is not changed
// after New.
package problemsite

import (
	"context"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Hosts of every site. Main has sitemaps that list its pages. Soft answers everything, has no sitemap, and Part has one
// that cannot be read.
const (
	Main = "www.example.com"
	Soft = "soft.example.com"
	Part = "part.example.com"
)

// Start is the start page.
const Start = "https://" + Main + "/"

// Refused is a URL at which nothing listens. The caller must see to that.
const Refused = "https://" + Main + ":9/"

// Page is a URL, and what it answers.
type Page struct {
	URL         string
	Status      int // 0 means 200
	Redirect    string
	Title       string
	Description string
	H1          []string
	Canonical   string
	NoIndex     bool
	Hreflang    []string
	Links       []Link
	Text        string
	Insecure    string // markup that loads something over http
	Listed      bool   // by a sitemap
	Size        int    // the page is filled up to this many bytes
	Refused     bool   // there is no answer

	Wait time.Duration // before the answer
}

// Link is one that a page has.
type Link struct {
	To, Text string
	NoFollow bool
}

// Site is a web.
type Site struct {
	pages []*Page
	byURL map[string]*Page
	rng   *rand.Rand
}

// New makes the site of a seed.
func New(seed uint64) *Site {
	s := &Site{byURL: map[string]*Page{}, rng: rand.New(rand.NewPCG(seed, 1))}
	s.plan()
	return s
}

// Pages are all pages.
func (s *Site) Pages() []*Page { return s.pages }

// ServeHTTP answers for all hosts.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	url := "https://" + r.Host + r.URL.RequestURI()
	switch r.URL.Path {
	case "/robots.txt":
		s.robots(w, r.Host)
		return
	case "/sitemap.xml":
		s.sitemap(w, r.Host)
		return
	case "/parts.xml":
		if r.Host == Part {
			s.index(w, r.Host)
			return
		}
	}
	p := s.byURL[url]
	if p == nil && r.Host == Soft {
		p = s.missing(url)
	}
	switch {
	case p == nil:
		http.NotFound(w, r)
	case !p.wait(r.Context()):
	case p.Redirect != "":
		http.Redirect(w, r, p.Redirect, p.Status)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if p.Status != 0 {
			w.WriteHeader(p.Status)
		}
		_, _ = io.WriteString(w, p.HTML())
	}
}

// wait lets the time of the page pass. It reports false if the client has gone.
func (p *Page) wait(ctx context.Context) bool {
	select {
	case <-time.After(p.Wait):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Site) robots(w io.Writer, host string) {
	fmt.Fprint(w, "User-agent: *\nDisallow: /private/\n")
	switch host {
	case Main:
		fmt.Fprintf(w, "Sitemap: https://%s/sitemap.xml\n", host)
	case Part:
		fmt.Fprintf(w, "Sitemap: https://%s/parts.xml\n", host)
	}
}

// sitemap lists the pages of a host.
func (s *Site) sitemap(w http.ResponseWriter, host string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, p := range s.pages {
		if p.Listed && strings.HasPrefix(p.URL, "https://"+host+"/") {
			fmt.Fprint(w, "<url><loc>")
			_ = xml.EscapeText(w, []byte(p.URL))
			fmt.Fprint(w, "</loc></url>")
		}
	}
	fmt.Fprint(w, "</urlset>")
}

// index names a sitemap that is there and one that is not.
func (s *Site) index(w http.ResponseWriter, host string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>https://%[1]s/sitemap.xml</loc></sitemap><sitemap><loc>https://%[1]s/gone.xml</loc></sitemap></sitemapindex>`, host)
}

// HTML is the page as it is served.
func (p *Page) HTML() string {
	var b strings.Builder
	b.WriteString("<!doctype html><html lang=en><head><meta charset=utf-8>")
	if p.Title != "" {
		fmt.Fprintf(&b, "<title>%s</title>", html.EscapeString(p.Title))
	}
	if p.Description != "" {
		fmt.Fprintf(&b, `<meta name="description" content="%s">`, html.EscapeString(p.Description))
	}
	if p.NoIndex {
		b.WriteString(`<meta name="robots" content="noindex">`)
	}
	if p.Canonical != "" {
		fmt.Fprintf(&b, `<link rel="canonical" href="%s">`, p.Canonical)
	}
	for i, to := range p.Hreflang {
		fmt.Fprintf(&b, `<link rel="alternate" hreflang="x-%d" href="%s">`, i, to)
	}
	b.WriteString("</head><body>")
	for _, h := range p.H1 {
		fmt.Fprintf(&b, "<h1>%s</h1>", h)
	}
	fmt.Fprintf(&b, "%s<p>%s</p>", p.Insecure, p.Text)
	for _, l := range p.Links {
		rel := ""
		if l.NoFollow {
			rel = ` rel="nofollow"`
		}
		fmt.Fprintf(&b, `<a href="%s"%s>%s</a> `, l.To, rel, l.Text)
	}
	if n := p.Size - b.Len(); n > 0 {
		fmt.Fprintf(&b, "<!--%s-->", strings.Repeat(" ", n))
	}
	return b.String()
}

// words are n random words.
func (s *Site) words(n int) []string {
	list := make([]string, n)
	for i := range list {
		word := make([]byte, 3+s.rng.IntN(6))
		for k := range word {
			word[k] = byte('a' + s.rng.IntN(26))
		}
		list[i] = string(word)
	}
	return list
}

func (s *Site) text(n int) string { return strings.Join(s.words(n), " ") }

// add adds a page without problems, changed as asked for. Nothing links to it yet.
func (s *Site) add(host, path string, change func(*Page)) *Page {
	name := strings.Join(s.words(3), " ")
	p := &Page{
		URL: "https://" + host + path, Title: "Page " + name, Description: "About " + name, H1: []string{name},
		Text: s.text(150), Listed: true,
		Links: []Link{{To: Start, Text: "home"}},
	}
	if change != nil {
		change(p)
	}
	s.pages = append(s.pages, p)
	s.byURL[p.URL] = p
	return p
}

// missing is what Soft answers for a URL that it does not have.
func (s *Site) missing(url string) *Page {
	return &Page{URL: url, Title: "Sorry", Description: "Nothing here", H1: []string{"Sorry"},
		Text: strings.Repeat("nothing to see here ", 10)}
}

// reachable are the URLs that a crawl finds: by links that are followed, redirects and sitemaps.
func (s *Site) reachable() []*Page {
	seen := map[string]bool{}
	var queue []*Page
	visit := func(url string) {
		if p := s.byURL[url]; p != nil && !seen[url] {
			seen[url] = true
			queue = append(queue, p)
		}
	}
	visit(Start)
	for _, p := range s.pages {
		if p.Listed && !strings.HasPrefix(p.URL, "https://"+Soft) {
			visit(p.URL)
		}
	}
	for i := 0; i < len(queue); i++ {
		p := queue[i]
		if p.Redirect != "" {
			visit(p.Redirect)
		}
		if !p.isRead() {
			continue
		}
		for _, l := range p.Links {
			if !l.NoFollow {
				visit(l.To)
			}
		}
		if p.Canonical != "" {
			visit(p.Canonical)
		}
		for _, to := range p.Hreflang {
			visit(to)
		}
	}
	slices.SortFunc(queue, func(a, b *Page) int { return strings.Compare(a.URL, b.URL) })
	return queue
}

// isRead reports whether a crawl reads the page: robots.txt allows it, and it answers with status 200.
func (p *Page) isRead() bool {
	return !p.isBlocked() && p.Status == 0 && !p.Refused
}

func (p *Page) isBlocked() bool { return strings.Contains(p.URL, "/private/") }
