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
				got := slices.DeleteFunc(byOutcome(lines, page.OK), isKnown)
				wantURLs(t, fmt.Sprintf("recrawl %d", n), got, tt.want...)
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
					if p.Code == problems.NotInSitemap.String() && p.Result == problems.NotChecked && !tt.away &&
						len(tt.want) > 0 {
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

// A recrawl that visits few pages reads the sitemaps that hosts have named of which it visits nothing.
func TestPartialRecrawlOfSitemaps(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": http.HandlerFunc(http.RedirectHandler("http://www.a.test/", http.StatusFound).ServeHTTP),
		// the first host is asked for nothing, and the others share an index
		"www.a.test/robots.txt": "User-agent: *\nSitemap: http://static.example/s.xml\n",
		"www.a.test/":           `<html><a href="/1">x</a><a href="http://b.a.test/1">x</a>`, "www.a.test/1": plainPage,
		"static.example/s.xml": urlset("http://www.a.test/1"),
		"a.test/robots.txt":    "User-agent: *\nSitemap: http://cdn.example/i.xml\n",
		"b.a.test/robots.txt":  "User-agent: *\nSitemap: http://cdn.example/i.xml\n",
		"cdn.example/i.xml":    sitemapIndex("http://cdn.example/c.xml"),
		"cdn.example/c.xml":    urlset("http://a.test/2", "http://b.a.test/1"),
		"a.test/2":             plainPage, "b.a.test/1": plainPage,
	})
	dir := newDataDir(t)
	s.crawl(dir, nil, "http://a.test/")
	s.urls["static.example/s.xml"] = urlset("http://www.a.test/1", "http://www.a.test/3")
	s.urls["cdn.example/c.xml"] = urlset("http://a.test/2", "http://b.a.test/1", "http://b.a.test/3", "http://a.test/3")
	s.urls["www.a.test/3"], s.urls["b.a.test/3"], s.urls["a.test/3"] = plainPage, plainPage, plainPage
	for n := range 2 {
		rep, lines := s.resume(dir, &Recrawl{Include: []string{"nothing"}}, nil)
		var listed []string
		for url, l := range lines {
			if l.InSitemap {
				listed = append(listed, url)
			}
		}
		slices.Sort(listed)
		wantURLs(t, fmt.Sprintf("in sitemaps in recrawl %d", n), listed, "http://a.test/2", "http://a.test/3",
			"http://b.a.test/1", "http://b.a.test/3", "http://www.a.test/1", "http://www.a.test/3")
		if rep.Status != page.Complete || rep.Outcomes["ok"] != 7 {
			t.Errorf("recrawl %d: %s, %v", n, rep.Status, rep.Outcomes)
		}
	}
}

// The robots.txt of a host of which nothing is visited may be known, because that of the start redirects there.
func TestPartialRecrawlAndRedirectOfRobots(t *testing.T) {
	t.Parallel()
	to := func(url string) http.HandlerFunc { return http.RedirectHandler(url, http.StatusFound).ServeHTTP }
	s := newHandSite(t, map[string]any{
		"a.test/": to("http://www.a.test/"), "a.test/robots.txt": to("http://www.a.test/robots.txt"),
		"www.a.test/robots.txt": "User-agent: *\nSitemap: http://static.example/s.xml\n", "www.a.test/": plainPage,
		"static.example/s.xml": urlset("http://www.a.test/1"), "www.a.test/1": plainPage,
	})
	dir := newDataDir(t)
	s.crawl(dir, nil, "http://a.test/")
	s.urls["static.example/s.xml"] = urlset("http://www.a.test/1", "http://www.a.test/2")
	s.urls["www.a.test/2"] = plainPage
	rep, lines := s.resume(dir, &Recrawl{Include: []string{"nothing"}}, nil)
	for _, url := range []string{"http://www.a.test/1", "http://www.a.test/2"} {
		if rep.Status != page.Complete || !lines[url].InSitemap {
			t.Errorf("%s; in a sitemap is %s: %v", rep.Status, url, lines[url].InSitemap)
		}
	}
}

// If the robots.txt of a sitemap's host cannot be had, hosts that do not name the sitemap any more have no entries in
// it.
func TestRecrawlBelievesOneHost(t *testing.T) {
	t.Parallel()
	names := "User-agent: *\nSitemap: http://cdn.example/s.xml\n"
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "b.test/": plainPage, "a.test/1": plainPage, "b.test/1": plainPage,
		"a.test/robots.txt": names, "b.test/robots.txt": names,
		"cdn.example/s.xml": urlset("http://a.test/1", "http://b.test/1"),
		"cdn.example/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})})
	dir := newDataDir(t)
	s.crawl(dir, nil, "http://a.test/", "http://b.test/")
	s.urls["a.test/robots.txt"], s.urls["a.test/evil"], s.urls["b.test/2"] = "User-agent: *\n", plainPage, plainPage
	s.urls["cdn.example/s.xml"] = urlset("http://a.test/1", "http://a.test/evil", "http://b.test/1", "http://b.test/2")
	for range 2 {
		_, lines := s.resume(dir, &Recrawl{}, nil)
		if _, evil := lines["http://a.test/evil"]; evil || lines["http://a.test/1"].InSitemap {
			t.Error("entries of a host that does not name the sitemap count")
		}
		if l := lines["http://b.test/2"]; l.Outcome != "ok" || !l.InSitemap {
			t.Error("entries of the host that names the sitemap do not count")
		}
	}
}
