package crawl

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Several crawls of one process on the same hosts, with different settings: by the web's statistics the longest delay
// and the smallest limit hold over all of them, and each crawl finds what it finds alone.
//
// The crawl with the longest delay asks the first host, the one with the smallest limit the second, from the first
// request to the last: the other crawls begin later, ask both, and read half of the pages.
func TestCrawlsShareOnePace(t *testing.T) {
	long.Test(t)
	for _, crawls := range []int{3, 25} {
		t.Run(fmt.Sprint(crawls), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const pages = 24
				web := newMemoryWeb(t, testweb.Config{Seed: 3, Hosts: 2, Pages: pages, PageSize: 800, Links: 8,
					Faults: testweb.OnAll(testweb.Slow{Delay: 250 * time.Millisecond})})
				shared := newShared(t, SharedOptions{})
				delays, limits := []int{0, 60, 0, 100, 0}, []int{4, 3, 6, 4, 8}
				var running sync.WaitGroup
				run := func(delayMS, limit, most int, hosts ...int) {
					s := config.Defaults(config.Polite)
					s.Resolve, s.Scope = resolveTo(web.Server), "host"
					s.PerIP = false // all hosts of the web have one address
					s.MaxWorkers, s.BloomCapacity, s.ParseSemaphoreLimit = 12, 10_000, 2
					s.MinDelayMS, s.MaxDelayMS, s.MaxInflightPerHost, s.MaxURLsPerHost = delayMS, delayMS, limit, most
					var urls []string
					for _, h := range hosts {
						urls = append(urls, web.StartURLs()[h])
					}
					dir := newDir(t)
					o := web.options(s, dir, urls...)
					o.Log = testLog(t, slog.LevelError)
					c, err := newTested(shared, o)
					if err != nil {
						t.Fatal(err)
					}
					running.Go(func() {
						rep, err := c.Run(t.Context())
						if err != nil {
							t.Errorf("crawl with a delay of %d ms: %v", delayMS, err)
							return
						}
						lines := readLines(t, dir)
						if most == 0 {
							foundExactly(t, web.Server, testweb.Crawl{Starts: urls, Scope: "host"}, lines)
							return
						}
						if want := most * len(hosts); int(rep.Pages) < want {
							t.Errorf("%d pages were read, want %d", rep.Pages, want)
						}
					})
				}
				const strictDelay = 400 // ms
				run(strictDelay, 5, 0, 0)
				run(0, 1, 0, 1)
				for web.HostStats(0).Requests == 0 || web.HostStats(1).Requests == 0 {
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
				for i := range crawls - 2 {
					run(delays[i%len(delays)], limits[i%len(limits)], pages/2, 0, 1)
				}
				running.Wait()
				first, second := web.HostStats(0), web.HostStats(1)
				t.Logf("host 0: %d requests, least gap %v, at most %d in flight; host 1: %d, %v, %d", first.Requests,
					first.LeastGap, first.MostInFlight, second.Requests, second.LeastGap, second.MostInFlight)
				if first.LeastGap < strictDelay*time.Millisecond {
					t.Errorf("two requests to host 0 were %v apart, want %d ms", first.LeastGap, strictDelay)
				}
				if second.MostInFlight != 1 {
					t.Errorf("host 1 had %d in flight, want 1", second.MostInFlight)
				}
			})
		})
	}
}
