package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// With a depth limit, a page that was found by a link and is then listed by a sitemap has depth 0, also after the crawl
// was stopped in between: its links are followed as far as in a crawl that was not stopped.
func TestListedPagesKeepTheirDepthAfterAStop(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		cfg := testweb.Config{Hosts: 6, Pages: 20, Links: 4, CrossHost: 0.4, PageSize: 1024,
			Sitemaps: &testweb.Sitemaps{}}
		web := newMemoryWeb(t, cfg)
		s := quick(web.Server)
		s.Scope, s.MaxDepth, s.MaxInflightPerHost = "any", 1, 1
		_, want := web.crawlAll(s, web.StartURLs()[0])
		for requests := int64(3); requests < 15; requests++ {
			dir := newDir(t)
			o := web.options(s, dir, web.StartURLs()[0])
			f := &stoppingFetcher{Fetcher: o.Fetcher}
			f.left.Store(requests)
			o.Fetcher = f
			c := newAlone(t, o)
			f.stop = func() { c.Stop(Gracefully) }
			if _, err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			plan, err := datadir.ReadPlan(dir)
			if err != nil {
				t.Fatal(err)
			}
			o = web.options(s, dir)
			o.Plan = plan
			if _, err := runAlone(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			got := readLines(t, dir)
			for url := range want {
				if _, ok := got[url]; !ok {
					t.Errorf("stopped after %d requests: %s was not found", requests, url)
				}
			}
			if len(got) != len(want) {
				t.Errorf("stopped after %d requests: %d URLs, want %d", requests, len(got), len(want))
			}
		}
	})
}

// Pages at the depth limit that a sitemap lists later have depth 0 from then on. Their links belong to the crawl,
// though the pages have not changed.
func TestPagesListedLater(t *testing.T) {
	t.Parallel()
	var listed []string
	site := newHandSite(t, map[string]any{"a.test/robots.txt": "User-agent: *\nSitemap: http://a.test/map.xml\n",
		"a.test/map.xml": urlset("http://a.test/")})
	home := "<html>"
	for i := range 30 { // so many that most answers 304 are not verified
		url, text := fmt.Sprintf("a.test/%d", i), fmt.Sprintf(`<html><a href="/%d/below">x</a>`, i)
		home += `<a href="http://` + url + `">x</a>`
		listed = append(listed, "http://"+url)
		site.urls[url+"/below"] = plainPage
		site.urls[url] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.Header().Set("Content-Type", "text/html")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		})
	}
	site.urls["a.test/"] = home
	change := func(s *config.Settings) { s.MaxDepth = 1 }
	for name, again := range map[string]*Recrawl{"all": {}, "some": {Include: []string{"nothing"}}} {
		dir := newDataDir(t)
		site.urls["a.test/map.xml"] = urlset("http://a.test/")
		if _, lines := site.crawl(dir, change, "http://a.test/"); len(byOutcome(lines, page.OK)) != 31 {
			t.Fatalf("%s: %d pages at first", name, len(byOutcome(lines, page.OK)))
		}
		site.urls["a.test/map.xml"] = urlset(listed...)
		rep, lines := site.resume(dir, again, change)
		if n := len(byOutcome(lines, page.OK)); rep.Status != page.Complete || n != 61 {
			t.Errorf("%s: %s, %d pages", name, rep.Status, n)
		}
	}
}

// A page that was read at the depth limit and then is listed by a sitemap has depth 0 in the same crawl.
func TestPageListedAfterItsVisit(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	site := newHandSite(t, map[string]any{
		"a.test/":               `<html><a href="http://sub.a.test/p">x</a>`,
		"sub.a.test/robots.txt": "User-agent: *\nSitemap: http://cdn.a.test/s.xml\n",
		"sub.a.test/p": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<html><a href="/q">x</a>`))
			select {
			case <-asked:
			default:
				close(asked)
			}
		}),
		"sub.a.test/q": `<html><a href="/r">x</a>`, "sub.a.test/r": plainPage,
		"cdn.a.test/s.xml": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-asked
			_, _ = w.Write([]byte(urlset("http://sub.a.test/p")))
		}),
	})
	change := func(s *config.Settings) { s.MaxDepth, s.Scope = 1, "domain" }
	rep, lines := site.crawl(newDataDir(t), change, "http://a.test/")
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://a.test/", "http://sub.a.test/p", "http://sub.a.test/q")
	if rep.Status != page.Complete || rep.SkippedLinks["too_deep"] != 1 {
		t.Errorf("%s, left out %v", rep.Status, rep.SkippedLinks)
	}
}
