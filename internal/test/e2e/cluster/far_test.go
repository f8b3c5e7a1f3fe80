//go:build cluster

package cluster

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/netproxy"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// An engine that is 50 ms away works with the usual settings. That the governor does not take the way for slow commits is
// in a test of package crawl, with a clock of its own: on a busy machine commits are slow.
func TestClusterFarEngine(t *testing.T) {
	t.Parallel()
	cfg := testweb.Config{Seed: 3, Hosts: 60, Pages: size(50, 200), Links: 12, CrossHost: 0.3, PageSize: 2000,
		Sitemaps: &testweb.Sitemaps{Orphans: 1}}
	settings := func(web *testweb.Server) []string {
		return []string{"--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
			"--resolve", web.Resolve()}
	}
	aloneWeb, dir := e2e.Serve(t, cfg), t.TempDir()+"/alone"
	if got := e2e.Run(t, append([]string{"crawl", "--data-dir", dir}, settings(aloneWeb)...)...); got.Code != 0 {
		t.Fatalf("a crawl without a cluster ends with %d: %s", got.Code, got.Stderr)
	}
	want, rep := resultIn(t, dir), e2e.ReadReport(t, dir)

	web, d := e2e.Serve(t, cfg), newDatabase(t)
	for _, p := range d.lines {
		line, err := netproxy.NewLine(p.Target(), 25*time.Millisecond)
		p.SetTarget(closing(t, line, err).Target())
	}
	f := fleetAt(t, d.address, web, settings(web)...)
	began := time.Now()
	f.start(2)
	final := f.ends(0, "complete")
	took := time.Since(began)
	sameCounts(t, final, rep)
	got := f.export()
	got.same(t, &want)
	e2e.AskedOnce(t, web)
	t.Logf("%d URLs in %v", final.URLs, took.Round(time.Millisecond))
}
