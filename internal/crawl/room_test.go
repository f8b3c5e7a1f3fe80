package crawl

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// resumeAll goes on with a crawl of the site without limits.
func (s *handSite) resumeAll(dir datadir.Dir) *report.Report {
	s.t.Helper()
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	rep, _ := s.run(Options{Settings: s.settings(nil), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	return rep
}

// servePages answers with a page to everything that is not listed.
func servePages(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, plainPage)
}

// A sitemap without end is read on while the crawl has use for it, and not further; it is pending then, and a run
// without the limit reads all of it. Entries that cost no page, because robots.txt disallows them, do not end the
// reading.
func TestSitemapWithoutEnd(t *testing.T) {
	long.Test(t)
	t.Parallel()
	const forbidden, allowed, most = sitemap.MaxURLs + 500, 300, 20
	var ends atomic.Bool
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "User-agent: *\nDisallow: /no/\nSitemap: /all.xml\n",
		"a.test/all.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<urlset>")
			for i := 0; r.Context().Err() == nil && (i < forbidden+allowed || !ends.Load()); i++ {
				dir := "no"
				if i >= forbidden {
					dir = "yes"
				}
				fmt.Fprintf(w, "<url><loc>http://a.test/%s/%d</loc></url>", dir, i)
			}
			fmt.Fprint(w, "</urlset>")
		}),
	})
	s.other = servePages
	dir := newDataDir(t)
	rep, lines := s.crawl(dir, func(o *config.Settings) { o.MaxURLs = most }, "http://a.test/")
	if rep.Status != page.Partial || rep.Outcomes["ok"] != most || !strings.Contains(rep.Reason, "max_urls") {
		t.Errorf("first run: %s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
	}
	if len(lines) > forbidden+allowed+1000 {
		t.Errorf("%d URLs were recorded", len(lines))
	}
	if n := strings.Count(strings.Join(rep.Warnings, "\n"), "has more than 50000 entries"); n != 1 {
		t.Errorf("%d warnings in %q", n, rep.Warnings)
	}
	ends.Store(true)
	rep = s.resumeAll(dir)
	lines = recorded(t, dir)
	if rep.Status != page.Complete || rep.Outcomes["blocked_by_robots"] != forbidden {
		t.Errorf("second run: %s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
	}
	for i := range allowed {
		if url := fmt.Sprintf("http://a.test/yes/%d", forbidden+i); lines[url].Outcome != "ok" {
			t.Fatalf("%s: %+v", url, lines[url])
		}
	}
}

// A sitemap of which all entries are fetched within the page limit leaves nothing pending, however large it is.
func TestLargeSitemapWithinTheLimit(t *testing.T) {
	long.Test(t)
	t.Parallel()
	const entries = sitemap.MaxURLs + 700
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "User-agent: *\nDisallow: /no/\nSitemap: /all.xml\n",
		"a.test/all.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<urlset>")
			for i := range entries {
				dir := "no"
				if i%1000 == 999 || i == entries-1 {
					dir = "yes"
				}
				fmt.Fprintf(w, "<url><loc>http://a.test/%s/%d</loc></url>", dir, i)
			}
			fmt.Fprint(w, "</urlset>")
		}),
	})
	s.other = servePages
	pages := entries/1000 + 2
	rep, _ := s.crawl(newDataDir(t), func(o *config.Settings) { o.MaxURLs = pages }, "http://a.test/")
	if rep.Status != page.Complete || rep.Outcomes["ok"] != int64(pages) || rep.URLs != entries+1 {
		t.Errorf("%s (%s), %d URLs, %v", rep.Status, rep.Reason, rep.URLs, rep.Outcomes)
	}
}

// Of an index with many sitemaps, those are read that the crawl has use for. The others stay pending.
func TestManySitemapsAndALimit(t *testing.T) {
	t.Parallel()
	const sitemaps, entries, most = 40, 50, 60
	urls := map[string]any{"a.test/": plainPage, "a.test/robots.txt": "Sitemap: /index.xml\n"}
	var names []string
	for i := range sitemaps {
		name := fmt.Sprintf("a.test/map/%d.xml", i)
		names = append(names, "http://"+name)
		var list []string
		for j := range entries {
			list = append(list, fmt.Sprintf("http://a.test/map/%d/%d", i, j))
		}
		urls[name] = urlset(list...)
	}
	urls["a.test/index.xml"] = sitemapIndex(names...)
	s := newHandSite(t, urls)
	s.other = servePages
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, func(o *config.Settings) { o.MaxURLs = most }, "http://a.test/")
	if rep.Status != page.Partial || rep.Outcomes["ok"] != most {
		t.Errorf("first run: %s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
	}
	// Each of the workers can have begun one before the others have brought enough.
	if bound := int64(entries * (most/entries + 1 + s.settings(nil).MaxWorkers)); rep.URLs > bound {
		t.Errorf("%d URLs were recorded, want at most %d", rep.URLs, bound)
	}
	if rep = s.resumeAll(dir); rep.Status != page.Complete || rep.Outcomes["ok"] != sitemaps*entries+1 {
		t.Errorf("second run: %s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
	}
	for url, n := range s.requests() {
		if n > 1 {
			t.Errorf("%s was asked for %d times", url, n)
		}
	}
}

// Level by level, links of a deeper level take no room from sitemaps: the level opens only when they are read.
func TestRoomLevelByLevel(t *testing.T) {
	t.Parallel()
	const links, sitemaps, entries, most = 300, 10, 20, 30
	var start strings.Builder
	for i := range links {
		fmt.Fprintf(&start, `<a href="/link/%d">x</a>`, i)
	}
	urls := map[string]any{
		"a.test/":           "<html><body>" + start.String() + "</body></html>",
		"a.test/robots.txt": "User-agent: *\nDisallow: /no/\nSitemap: /index.xml\n",
	}
	var names []string
	for i := range sitemaps {
		name, kind := fmt.Sprintf("a.test/map%d.xml", i), "no"
		if i >= sitemaps/2 {
			kind = "yes"
		}
		names = append(names, "http://"+name)
		var list []string
		for j := range entries {
			list = append(list, fmt.Sprintf("http://a.test/%s/%d/%d", kind, i, j))
		}
		urls[name] = urlset(list...)
	}
	urls["a.test/index.xml"] = sitemapIndex(names...)
	s := newHandSite(t, urls)
	s.other = servePages
	rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.MaxURLs, o.MaxDepth = most, 3 }, "http://a.test/")
	if rep.Status != page.Partial || rep.Outcomes["ok"] != most {
		t.Errorf("%s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
	}
	listed := 0
	for url, l := range lines {
		if strings.Contains(url, "/yes/") && l.Outcome == "ok" {
			listed++
		}
	}
	if listed != most-1 {
		t.Errorf("%d pages of sitemaps were fetched, want %d", listed, most-1)
	}
}
