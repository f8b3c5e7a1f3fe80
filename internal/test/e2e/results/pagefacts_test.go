package results

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A page that its own directives have withdrawn is not indexable, whichever way they say it.
func TestUnavailablePagesAreNotIndexable(t *testing.T) {
	t.Parallel()
	s := e2e.Site(t, map[string]string{
		"/":            `<a href=/past>1</a><a href=/past-header>2</a><a href=/future>3</a><a href=/unreadable>4</a>`,
		"/past":        `<meta name=robots content="max-snippet:3, unavailable_after: Thursday, 25-Jun-20 15:00:00 UTC">`,
		"/past-header": `x`,
		"/future":      `<meta name=robots content="unavailable_after: 2999-01-01">`,
		"/unreadable":  `<meta name=robots content="unavailable_after: next summer">`,
	}, func(path string, h http.Header) {
		if path == "/past-header" {
			h.Set("X-Robots-Tag", "unavailable_after: 25 Jun 2020 15:00:00 PST")
		}
	})
	_, lines, _ := e2e.CrawlSite(t, s)
	for path, want := range map[string]string{"/": "", "/past": "noindex", "/past-header": "noindex", "/future": "",
		"/unreadable": ""} {
		if l := lines[s.URL+path]; l.Indexable != (want == "") || l.IndexableReason != want {
			t.Errorf("%s: indexable %v, reason %q, want %q", path, l.Indexable, l.IndexableReason, want)
		}
	}
}

// An image that a page shows twice is listed once.
func TestImagesAreListedOnce(t *testing.T) {
	t.Parallel()
	s := e2e.Site(t, map[string]string{"/": `<img src=/a.png><img src=/b.png><img src="/a.png#x"><img srcset="/b.png 2x, /c.png 3x">`}, nil)
	dir, lines, _ := e2e.CrawlSite(t, s, "--images")
	if got := fmt.Sprint(lines[s.URL+"/"].Images); got != fmt.Sprintf("[%[1]s/a.png %[1]s/b.png %[1]s/c.png]", s.URL) {
		t.Errorf("images %s", got)
	}
	if n := strings.Count(e2e.Read(t, dir, "sitemap.xml"), "<image:loc>"); n != 3 {
		t.Errorf("%d images in sitemap.xml, want 3", n)
	}
}

// How deep index files may nest is limited, and a file beyond the limit is named.
func TestSitemapDepth(t *testing.T) {
	t.Parallel()
	for deepest, found := range map[int]bool{5: true, 8: false} { // index files that lead to the list of pages
		pages := map[string]string{"/": "x", "/page": "x", "/robots.txt": "Sitemap: {site}/index0.xml\n"}
		for i := range deepest {
			next := fmt.Sprintf("index%d.xml", i+1)
			pages[fmt.Sprintf("/index%d.xml",
				i)] = `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>{site}/` + next + `</loc></sitemap></sitemapindex>`
		}
		pages[fmt.Sprintf("/index%d.xml",
			deepest)] = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>{site}/page</loc></url></urlset>`
		s := e2e.Site(t, pages, nil)
		dir, lines, got := e2e.CrawlSite(t, s)
		if _, ok := lines[s.URL+"/page"]; ok != found {
			t.Errorf("behind %d index files the page is found: %v", deepest, ok)
		}
		warning := fmt.Sprintf("sitemap %s/index6.xml was not read", s.URL)
		if said := strings.Contains(got.Stderr+got.Stdout+e2e.Read(t, dir, "report.json"), warning); said == found {
			t.Errorf("%d index files: it is said that a file was not read: %v", deepest, said)
		}
	}
}
