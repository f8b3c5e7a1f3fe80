package crawl

import (
	"testing"

	"github.com/mapwright/mapwright/internal/datadir"
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
