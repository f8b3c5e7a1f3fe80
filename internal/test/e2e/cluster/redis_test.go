//go:build cluster

package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// onlyRedis skips a test that is about Redis itself.
func onlyRedis(t *testing.T) {
	t.Helper()
	if !isRedis() {
		t.Skip("a test of Redis")
	}
}

// A crawl uses a known part of the server's memory: something for its partitions, and less than 1 KiB for each URL.
func TestClusterMemory(t *testing.T) {
	onlyRedis(t)
	t.Parallel()
	const fixed, perURL = 4 << 20, 1 << 10
	web := e2e.Serve(t, tableWeb(size(60, 500), size(20, 40)))
	f, _ := newFleet(t, web, tableCrawl(web, 0)...)
	f.start(2)
	f.ends(0, "complete")
	s := f.status()
	if s.Memory.Crawl == 0 || s.Memory.Crawl > fixed+perURL*s.Done || s.Memory.Used < s.Memory.Crawl {
		t.Errorf("%d URLs use %d bytes of the server's %d", s.Done, s.Memory.Crawl, s.Memory.Used)
	}
	t.Logf("%d URLs: %d bytes, %.0f for each", s.Done, s.Memory.Crawl, float64(s.Memory.Crawl)/float64(s.Done))
}

// Near maxmemory a crawl pauses and says so. It goes on when there is room.
func TestClusterFullMemory(t *testing.T) {
	onlyRedis(t)
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	address, servers := ownRedis(t)
	f := fleetAt(t, address, web, tableCrawl(web, delay)...)
	f.begin(2)
	limit := func(bytes string) {
		t.Helper()
		for _, s := range servers {
			if _, err := s.Do("CONFIG", "SET", "maxmemory", bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Beats need a little: 95 % are used of what it gets.
	limit(strconv.Itoa(f.status().Memory.Used * 102 / 100))
	for _, m := range f.machines {
		m.Says("the crawl pauses until there is room")
	}
	limit("0")
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
}

// A replica takes the place of a server that is killed, while machines work, without help. What the replica did not
// have is crawled again. The server comes back as a replica.
func TestClusterReplicaTakesOver(t *testing.T) {
	onlyRedis(t)
	if *redisLayout == single {
		t.Skip("nothing puts a replica in the place of a single server")
	}
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	p := newPair(t, false)
	f := fleetAt(t, p.address, web, tableCrawl(web, delay)...)
	f.begin(3)
	at := f.status().Done
	if err := p.crash(); err != nil {
		t.Fatal(err)
	}
	f.until(f.machines[0], "the crawl goes on", func() bool { return f.status().Done > at+20 })
	if err := p.run(); err != nil {
		t.Fatal(err)
	}
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
}
