package crawl_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/results"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/view"
)

// BenchmarkSeeing is what it costs a crawl to be seen: the metrics of each page as a share of the CPU time that the
// crawl takes for one, and a picture twice a second, a scrape each ten seconds and a line of metrics.jsonl each minute
// as shares of one core. The crawl has a few hundred hosts and all its workers at work, but on requests that no server
// answers: so what is measured is the parts' own time, and not their wait for a processor.
func BenchmarkSeeing(b *testing.B) {
	monitor, m, page := standstill(b)
	// part runs a sub-benchmark and reports its CPU time, each so often, as a share of the time between two.
	part := func(name, unit string, between time.Duration, do func()) {
		b.Run("part="+name, func(b *testing.B) {
			b.ReportAllocs()
			began := testweb.CPUTime()
			for b.Loop() {
				do()
			}
			each := float64(testweb.CPUTime()-began) / float64(b.N)
			b.ReportMetric(each, "cpu-ns/op")
			b.ReportMetric(100*each/float64(between), unit)
		})
	}
	part("page", "%-of-page", page, func() { m.Fetched(0, 0, 0, 700*time.Microsecond, 900*time.Microsecond, 10240) })
	part("picture", "%-of-core", time.Second/2, func() {
		view.Render(monitor.Live(), view.Notes{}, view.Screen{Width: 200, Height: 60, Color: true, Unicode: true})
	})
	part("scrape", "%-of-core", 10*time.Second, func() {
		if _, err := m.Registry().Gather(); err != nil {
			b.Error(err)
		}
	})
	part("snapshot", "%-of-core", time.Minute, func() {
		if _, err := m.Snapshot(); err != nil {
			b.Error(err)
		}
	})
}

// standstill crawls a few hundred hosts until all workers wait for answers that do not come, and returns what a page
// cost until then: CPU time, without what the web in this process took for it.
func standstill(b *testing.B) (*monitor.Monitor, *metrics.Metrics, time.Duration) {
	b.Helper()
	const hosts, pages, silent = 300, 40, 4
	dir := datadir.Dir(filepath.Join(b.TempDir(), "data"))
	web, err := testweb.Start(testweb.Config{Hosts: hosts, Pages: pages, CrossHost: 0.2,
		Faults: testweb.OnAll(testweb.Hang{Where: testweb.Where{Count: silent}})})
	if err != nil {
		b.Fatal(err)
	}
	s := config.Defaults(config.OwnSite)
	s.Resolve, s.Scope, s.Timeout, s.Grace = []string{web.Resolve()}, "any", time.Hour, 0
	u, err := weburl.Parse(web.StartURLs()[0])
	if err != nil {
		b.Fatal(err)
	}
	began := testweb.CPUTime()
	m, started := crawl.NewMetrics(), make(chan *monitor.Monitor, 1)
	shared, err := crawl.NewShared(crawl.ForOneCrawl(s))
	if err != nil {
		b.Fatal(err)
	}
	c, err := crawl.New(shared, crawl.Options{
		Settings: s, Starts: []datadir.Start{{URL: u}}, Dir: dir, Metrics: m,
		Started: func(m *monitor.Monitor) { started <- m }, Outputs: &results.Outputs{},
	})
	if err != nil {
		b.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		if err := c.Run(context.Background()); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		c.Stop(crawl.Gracefully)
		done.Wait()
		if err := errors.Join(shared.Close(), web.Close()); err != nil {
			b.Error(err)
		}
	})
	monitor := <-started
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(2 * time.Minute)
	for l := monitor.Live(); l.Done < hosts*pages/4 || l.Idle < 1; l = monitor.Live() {
		if <-tick.C; time.Now().After(deadline) {
			b.Fatalf("no standstill: %d done, %d in flight, idle for %v s", l.Done, l.InFlight, l.Idle)
		}
	}
	const webPage = 20 * time.Microsecond // what a page costs the web, about
	return monitor, m, (testweb.CPUTime()-began)/time.Duration(monitor.Live().Done) - webPage
}
