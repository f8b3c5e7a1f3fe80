package crawl

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
)

// A recrawl reads the sitemaps that a first crawl would read now, and no others. When something names one again, the
// next recrawl reads it again.
func TestRecrawlOfSitemaps(t *testing.T) {
	t.Parallel()
	robots := func(names ...string) string {
		return "User-agent: *\nDisallow: /private/\nSitemap: " + strings.Join(names, "\nSitemap: ") + "\n"
	}
	for _, tt := range []struct {
		name   string
		web    map[string]any // at first
		change map[string]any // before the recrawl
		not    []string       // is not asked for in the recrawl
		want   []string       // pages of the recrawl that the first crawl does not have
		away   bool           // which sitemaps there are cannot be known
	}{
		{name: "robots.txt names another", not: []string{"a.test/private/1.xml"}, want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/robots.txt": robots("/private/1.xml"),
				"a.test/private/1.xml": urlset("http://a.test/private/")},
			change: map[string]any{"a.test/robots.txt": robots("/2.xml"), "a.test/2.xml": urlset("http://a.test/2"),
				"a.test/2": plainPage}},
		{name: "robots.txt names none", not: []string{"a.test/private/1.xml"}, want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/robots.txt": robots("/private/1.xml"),
				"a.test/private/1.xml": urlset("http://a.test/1"), "a.test/1": plainPage},
			change: map[string]any{"a.test/robots.txt": "User-agent: *\nDisallow: /private/\n",
				"a.test/private/1.xml": urlset("http://a.test/3"), "a.test/3": plainPage,
				"a.test/sitemap.xml": urlset("http://a.test/2"), "a.test/2": plainPage}},
		{name: "of another host", not: []string{"cdn.example/1.xml"},
			web: map[string]any{"a.test/robots.txt": robots("http://cdn.example/1.xml"),
				"cdn.example/1.xml": urlset("http://a.test/1"), "a.test/1": plainPage},
			change: map[string]any{"a.test/robots.txt": "User-agent: *\n",
				"cdn.example/1.xml": urlset("http://a.test/2"), "a.test/2": plainPage}},
		{name: "of another host, still", want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/robots.txt": robots("http://cdn.example/1.xml"),
				"cdn.example/1.xml": urlset("http://a.test/1"), "a.test/1": plainPage},
			change: map[string]any{"cdn.example/1.xml": urlset("http://a.test/2"), "a.test/2": plainPage}},
		{name: "child of an index", not: []string{"a.test/1.xml"}, want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/sitemap.xml": sitemapIndex("http://a.test/1.xml", "http://a.test/2.xml"),
				"a.test/1.xml": urlset("http://a.test/1"), "a.test/1": plainPage,
				"a.test/2.xml": urlset("http://a.test/1")},
			change: map[string]any{"a.test/sitemap.xml": sitemapIndex("http://a.test/2.xml"),
				"a.test/2.xml": urlset("http://a.test/2"), "a.test/2": plainPage}},
		{name: "the index has moved", not: []string{"a.test/old.xml"}, want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/robots.txt": robots("/old.xml"),
				"a.test/old.xml": sitemapIndex("http://a.test/1.xml"), "a.test/1.xml": urlset("http://a.test/1"),
				"a.test/1": plainPage},
			change: map[string]any{"a.test/robots.txt": robots("/new.xml"), "a.test/old.xml": nil,
				"a.test/new.xml": sitemapIndex("http://a.test/1.xml"), "a.test/1.xml": urlset("http://a.test/2"),
				"a.test/2": plainPage}},
		{name: "robots.txt cannot be had", away: true, want: []string{"http://a.test/2"},
			web: map[string]any{"a.test/robots.txt": robots("/1.xml"), "a.test/1.xml": urlset("http://a.test/1"),
				"a.test/1": plainPage},
			change: map[string]any{"a.test/1.xml": urlset("http://a.test/2"), "a.test/2": plainPage,
				"a.test/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusInternalServerError)
				})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHandSite(t, tt.web)
			s.urls["a.test/"] = `<html><a href="/x">x</a>`
			s.urls["a.test/x"] = plainPage
			dir := newDataDir(t)
			_, lines := s.crawl(dir, nil, "http://a.test/")
			first := byOutcome(lines, page.OK)
			again := func() *report.Report {
				s.mu.Lock()
				s.asked = nil
				s.mu.Unlock()
				rep, now := s.resume(dir, &Recrawl{}, nil)
				lines = now
				return rep
			}
			before := map[string]any{}
			for url, answer := range tt.change {
				before[url], s.urls[url] = s.urls[url], answer
			}
			for n := range 2 {
				rep := again()
				isKnown := func(url string) bool { return slices.Contains(first, url) }
				wantURLs(t, fmt.Sprintf("recrawl %d", n), slices.DeleteFunc(byOutcome(lines, page.OK), isKnown), tt.want...)
				asked := s.requests()
				for _, url := range tt.not {
					if asked[url] > 0 {
						t.Errorf("recrawl %d asks for %s", n, url)
					}
				}
				isOfSitemap := func(warning string) bool { return strings.HasPrefix(warning, "sitemap") }
				if rep.Status != page.Complete || slices.ContainsFunc(rep.Warnings, isOfSitemap) {
					t.Errorf("recrawl %d: %s, warnings %q", n, rep.Status, rep.Warnings)
				}
				for _, p := range rep.Problems {
					if p.Code == problems.NotInSitemap.String() && p.Result == problems.NotChecked && len(tt.want) > 0 &&
						!tt.away {
						t.Errorf("recrawl %d does not know whether all sitemaps were read: %s", n, p.Why)
					}
				}
			}
			maps.Copy(s.urls, before)
			again()
			for _, url := range tt.not {
				if n := s.requests()[url]; n != 1 {
					t.Errorf("%d requests for %s when it is named again", n, url)
				}
			}
		})
	}
}
