package crawl

import (
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/testweb"
)

// Many hosts with few pages each, of which only some are kept at hand and few connections are kept open: all is found, no host is forgotten
// so far that it would be asked too soon again, and what is open stays within its bound. MAPWRIGHT_MANY_HOSTS asks for more hosts.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	hosts, err := strconv.Atoi(os.Getenv("MAPWRIGHT_MANY_HOSTS"))
	if err != nil {
		hosts = 1200
	}
	web := startWeb(t, testweb.Config{Seed: 12, Hosts: hosts, Pages: 3, PageSize: 800, Links: 6, CrossHost: 0.5})
	s := polite(web)
	s.Scope, s.MaxWorkers, s.ReadyHeapSizeLimit = "any", 128, hosts/10
	s.MinDelayMS, s.MaxDelayMS = int(politeMinDelay/time.Millisecond), 2*int(politeMinDelay/time.Millisecond)
	client, err := NewFetcher(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	wires := &wireClock{Fetcher: client, least: map[string]time.Duration{}, last: map[string]time.Time{}}
	for i := range hosts {
		wires.least[web.HostName(i)] = politeMinDelay
	}

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
				most = max(most, client.Stats().Conns)
			}
		}
	})
	dir, first := newDir(t), web.StartURLs()[:1]
	_, err = Run(t.Context(), Options{Fetcher: wires, Settings: s, Starts: starts(t, first...), Dir: dir, Version: "test", Log: testLog(t, slog.LevelWarn)})
	close(over)
	watch.Wait()
	if err != nil {
		t.Fatal(err)
	}
	foundExactly(t, web, testweb.Crawl{Starts: first, Scope: "any"}, readLines(t, dir))
	wellBehaved(t, web)
	for _, short := range wires.short {
		t.Error(short)
	}
	bound := int64(client.Stats().MaxIdle + s.MaxWorkers)
	t.Logf("%d hosts, %d requests, up to %d connections of %d", hosts, web.Books().Requests, most, bound)
	if most > bound {
		t.Errorf("%d connections were open, want at most %d", most, bound)
	}
}
