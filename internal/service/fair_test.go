package service

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/testweb"
)

// Fifty crawls of one account run at once. One of them has as many hosts as all others together, and could use every worker alone. Every other one gets at least half of its fair
// share of the pages. In a bubble each request takes exactly the latency of the web, so the shares do not depend on the machine.
func TestFiftyCrawlsOneHuge(t *testing.T) {
	const crawls, pages, workers, latency, long = 50, 60, 25, 100 * time.Millisecond, 4 * time.Second
	synctest.Test(t, func(t *testing.T) {
		web, err := testweb.StartOn(testweb.Config{Hosts: 2*crawls - 2, Pages: pages, PageSize: 500, Links: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer web.Close()
		client, err := fetch.New(fetch.Options{Dial: web.Dial, Resolver: anyName{}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		base := quick(web)
		delete(base[0], "resolve")
		ts := openService(t, Options{Base: base, Fetcher: client, MaxCrawls: crawls, MaxWorkers: workers})
		web.SetLatency(latency)
		settings := raw("seeding_strategy", `["none"]`)
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
				if n == 0 {
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
			t.Errorf("%d pages in four seconds; the workers can fetch %d", all, most)
		}
		for i := range crawls {
			if n := after[i] - before[i]; 2*n < all/crawls {
				t.Errorf("crawl %d got %d of %d pages; its share is %d", i, n, all, all/crawls)
			}
		}
		ts.end()
	})
}
