package crawl

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// An index that never ends, and indexes that lead to further ones for ever, end at a limit, and a warning says which.
func TestEndlessSitemapIndexes(t *testing.T) {
	t.Parallel()
	const limit = 300
	for _, tt := range []struct {
		name     string
		limits   seeding.Limits
		nested   bool // each sitemap is an index of 20 others
		sitemaps int  // that are read
		warning  string
	}{
		{"children", seeding.Limits{Children: limit}, false, 1 + limit, "more than 300; the rest is not read"},
		{"per host", seeding.Limits{PerHost: limit}, true, limit, "the limit is 300 for this host"},
		{"total", seeding.Limits{Total: limit}, true, limit, "the limit is 300 for the crawl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHandSite(t, map[string]any{
				"a.test/robots.txt": "Sitemap: http://a.test/map/index\n", "a.test/": "<html><title>x</title>",
			})
			s.other = func(w http.ResponseWriter, r *http.Request) {
				path, n := r.URL.Path, -1
				if tt.nested {
					n = 20
				}
				if path != "/map/index" && !tt.nested {
					fmt.Fprintf(w, "%s<url><loc>http://a.test/</loc></url></urlset>",
						`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
					return
				}
				fmt.Fprint(w, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
				for i := 0; i != n && r.Context().Err() == nil; i++ {
					if _, err := fmt.Fprintf(w, "<sitemap><loc>http://a.test%s-%d</loc></sitemap>", path, i); err != nil {
						return // the crawler has read enough
					}
				}
				fmt.Fprint(w, "</sitemapindex>")
			}
			o := Options{Settings: s.settings(nil), Dir: newDir(t), Log: slog.New(slog.DiscardHandler),
				Sitemaps: tt.limits, Starts: []datadir.Start{{URL: mustURL(t, "http://a.test/")}}}
			rep, _ := s.run(o)
			if n := len(s.requests()) - 2; n != tt.sitemaps {
				t.Errorf("%d sitemaps were read, want %d", n, tt.sitemaps)
			}
			if n := strings.Count(strings.Join(rep.Warnings, "\n"), tt.warning); n != 1 || rep.Status != page.Complete {
				t.Errorf("%d warnings name the limit: %q; the crawl is %s", n, rep.Warnings, rep.Status)
			}
			before := len(s.asked)
			plan, err := datadir.ReadPlan(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Plan = plan
			if rep, _ := s.run(o); rep.Status != page.Complete || len(s.asked) != before {
				t.Errorf("a resume made %d requests and is %s", len(s.asked)-before, rep.Status)
			}
		})
	}
}

// The sitemaps of a host that does not belong to the crawl have a limit of their own.
func TestForeignSitemapsLimit(t *testing.T) {
	t.Parallel()
	const limit = 3
	urls := map[string]any{"a.test/": plainPage, "b.test/robots.txt": "User-agent: *\n"}
	robots := ""
	for i := range 2 * limit {
		at := fmt.Sprintf("b.test/%d.xml", i)
		robots += "Sitemap: http://" + at + "\n"
		urls[at] = urlset()
	}
	urls["a.test/robots.txt"] = robots
	s := newHandSite(t, urls)
	rep, _ := s.run(Options{Settings: s.settings(nil), Dir: newDir(t), Log: slog.New(slog.DiscardHandler),
		Sitemaps: seeding.Limits{Foreign: limit}, Starts: []datadir.Start{{URL: mustURL(t, "http://a.test/")}}})
	if n := len(s.requests()) - 3; n != limit {
		t.Errorf("%d sitemaps were read, want %d: %v", n, limit, s.requests())
	}
	warning := "the limit is 3 for this host, which is not in scope"
	if n := strings.Count(strings.Join(rep.Warnings, "\n"), warning); n != 1 {
		t.Errorf("%d warnings name the limit: %q", n, rep.Warnings)
	}
}

// Sitemaps that bring nothing are read no further at some point, whatever makes them large; those that list pages are.
func TestSitemapsThatBringNothing(t *testing.T) {
	t.Parallel()
	const sitemaps, size, limit = 40, 100 << 10, 1 << 20
	for what, text := range map[string]func(i int) string{
		"pages of others": func(int) string { return strings.Repeat("<url><loc>http://b.test/p</loc></url>", size/37) },
		"the same page":   func(int) string { return strings.Repeat("<url><loc>http://a.test/1</loc></url>", size/37) },
		"blanks":          func(int) string { return strings.Repeat(" ", size) },
		"pages": func(i int) string {
			entry := strings.Repeat("<xhtml:link rel='alternate' href='http://a.test/other'/>", 200)
			list := ""
			for n := range size / len(entry) {
				list += fmt.Sprintf("<url><loc>http://a.test/%d-%d</loc>%s</url>", i, n, entry)
			}
			return list
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			site := map[string]any{"a.test/": plainPage}
			robots := "User-agent: *\nDisallow: /*-\n"
			for i := range sitemaps {
				robots += fmt.Sprintf("Sitemap: http://a.test/map%d.xml\n", i)
				site[fmt.Sprintf("a.test/map%d.xml", i)] = `<urlset ` +
					`xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">` +
					text(i) + "</urlset>"
			}
			site["a.test/robots.txt"] = robots
			s := newHandSite(t, site)
			rep, _ := s.run(Options{Settings: s.settings(nil), Dir: newDir(t), Log: slog.New(slog.DiscardHandler),
				Sitemaps: seeding.Limits{Bytes: limit}, Starts: []datadir.Start{{URL: mustURL(t, "http://a.test/")}}})
			asked := 0
			for r := range s.requests() {
				if strings.Contains(r, "/map") {
					asked++
				}
			}
			warned := strings.Contains(strings.Join(rep.Warnings, "\n"), "too large for the URLs")
			if brings := what == "pages"; warned == brings || brings && asked < sitemaps || asked < limit/size ||
				!brings && asked > sitemaps/2 { // some are read at once
				t.Errorf("%d of %d sitemaps were requested, warnings %q", asked, sitemaps, rep.Warnings)
			}
			if rep.Status != page.Complete {
				t.Errorf("the crawl is %s: %s", rep.Status, rep.Reason)
			}
		})
	}
}
