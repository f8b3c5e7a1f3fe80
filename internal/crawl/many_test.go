package crawl

import (
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Many hosts with few pages each, of which only some are kept at hand and few connections are kept open: all is found,
// no host is forgotten so far that it would be asked too soon again, and what is open stays within its bound.
func TestManyHosts(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		const hosts = 1200
		web := newMemoryWeb(t, testweb.Config{Seed: 12, Hosts: hosts, Pages: 3, PageSize: 800, Links: 6,
			CrossHost: 0.5})
		s := polite(web.Server)
		s.Scope, s.MaxWorkers, s.ReadyHeapSizeLimit = "any", 128, hosts/10
		s.MinDelayMS, s.MaxDelayMS = int(politeMinDelay/time.Millisecond), 2*int(politeMinDelay/time.Millisecond)
		dir, first := newDir(t), web.StartURLs()[:1]
		o := web.options(s, dir, first...)
		client := o.Fetcher.(*fetch.Client)
		wires := &wireClock{Fetcher: client, least: map[string]time.Duration{}, last: map[string]time.Time{}}
		for i := range hosts {
			wires.least[web.HostName(i)] = politeMinDelay
		}
		o.Fetcher = wires

		var most int64
		over := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				select {
				case <-over:
					tick.Stop()
					return
				case <-tick.C:
					open, _ := client.Conns()
					most = max(most, open)
				}
			}
		})
		_, err := runAlone(t.Context(), o)
		close(over)
		watch.Wait()
		if err != nil {
			t.Fatal(err)
		}
		foundExactly(t, web.Server, testweb.Crawl{Starts: first, Scope: "any"}, readLines(t, dir))
		wellBehaved(t, web.Server)
		for _, short := range wires.short {
			t.Error(short)
		}
		_, idle := client.Conns()
		bound := idle + int64(s.MaxWorkers)
		t.Logf("%d hosts, %d requests, up to %d connections of %d", hosts, web.Stats().Requests, most, bound)
		if most > bound {
			t.Errorf("%d connections were open, want at most %d", most, bound)
		}
	})
}
