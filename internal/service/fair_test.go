package service

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Fifty crawls of one account run at once. One of them has enough hosts to use every worker alone; each of the others
// has one host, which takes two requests at a time. Every other one gets at least half of its fair share of the pages,
// which is one in a hundred: in turns it gets what it can use, 2 of 150 workers. A plain queue would serve leases in
// the order in which they come: of 150 leases of the huge crawl and 98 of the others, 2 are its own, which is less than
// half of its share. In a bubble each request takes exactly the latency of the web, so the shares do not depend on the
// machine.
func TestFiftyCrawlsOneHuge(t *testing.T) {
	t.Parallel()
	long.Test(t)
	const crawls, hosts, pages, workers, latency, long = 50, 49 + 80, 80, 150, 100 * time.Millisecond, 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Hosts: hosts, Pages: pages, PageSize: 500, Links: 10})
		ts := openService(t, Options{Base: base, Fetcher: client, MaxCrawls: crawls, MaxWorkers: workers})
		web.SetLatency(latency)
		settings := raw("seeding_strategy", `["none"]`, "max_inflight_per_host", "2")
		starts := web.StartURLs()
		for i := range crawls {
			sub := Submission{StartURLs: starts[i : i+1], Settings: settings, Name: fmt.Sprint(i)}
			if i == crawls-1 {
				sub.StartURLs = starts[i:]
			}
			if _, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, ""); err != nil {
				t.Fatal(err)
			}
		}
		ts.run()
		counts := func() (of [crawls]int, all int) {
			for host := range starts {
				n := web.HostStats(host).Pages
				of[min(host, crawls-1)] += n
				all += n
			}
			return of, all
		}
		running := func() bool {
			of, _ := counts()
			for _, n := range of {
				if n < 10 { // its host is asked for two pages at a time by then
					return false
				}
			}
			return true
		}
		for !running() {
			time.Sleep(latency)
		}
		before, allBefore := counts()
		time.Sleep(long)
		after, all := counts()
		all -= allBefore
		if most := int(long/latency) * workers; all < most/2 || all > most+workers {
			t.Errorf("%d pages in %s; the workers can fetch %d", all, long, most)
		}
		for i := range crawls {
			if n := after[i] - before[i]; 2*n < all/crawls {
				t.Errorf("crawl %d got %d of %d pages; its share is %d", i, n, all, all/crawls)
			}
		}
		ts.end()
	})
}
