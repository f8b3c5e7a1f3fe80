package crawl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Metrics, the status of a running crawl, that of a stored one and the report say the same of a crawl that has ended:
// one with traps, redirects, pages that robots.txt forbids, and a blocked host.
func TestMetricsAndStatusAgreeWithTheReport(t *testing.T) {
	cfg := faulty()
	cfg.Faults = slices.Concat(cfg.Faults,
		testweb.On("4", testweb.StatusPages{Where: testweb.Where{All: true}, Status: 500}),
		testweb.On("5", testweb.RedirectChain{Length: 3}, testweb.RedirectLoop{Length: 2}, testweb.CalendarTrap{},
			testweb.NoFollow{}),
	)
	var all map[string]float64
	var last *monitor.Live
	// Without retries, the page that resets its connections is one failure of its host, whenever it is asked for.
	rep, dir := watched(t, cfg, func(s *config.Settings) { s.MaxHostFailures, s.MaxRetries = 2, 0 },
		func(m *monitor.Monitor, mm *metrics.Metrics) {
			all, last = flat(t, mm), m.Live()
		})
	agrees(t, "the last sample", last, rep)
	agrees(t, "the stored status", stored(t, dir), rep)

	blocked, pending := rep.Outcomes["host_blocked"], rep.Outcomes["pending"]
	if blocked == 0 || pending != 0 || len(rep.BlockedHosts) != 1 || rep.BlockedHosts[0].Waiting != blocked {
		t.Fatalf("%d URLs of blocked hosts, %d pending, blocked hosts %+v: the web does not do what this test is about",
			blocked, pending, rep.BlockedHosts)
	}
	want := map[string]int64{
		"mapwright_urls_found_total": rep.URLs, "mapwright_urls_finished_total": rep.URLs - blocked,
		"mapwright_urls_pending": blocked, "mapwright_urls_held": blocked,
		"mapwright_hosts_blocked_total": 1, "mapwright_hosts{waiting_for=blocked}": 1,
	}
	for reason, n := range rep.SkippedLinks {
		want["mapwright_links_skipped_total{reason="+reason+"}"] = n
	}
	outcomes := map[string]int64{}
	for o, n := range rep.Outcomes {
		if o == "redirect_loop" { // known only when the whole crawl is read
			o = "redirect"
		}
		if o != "host_blocked" {
			outcomes[o] += n
		}
	}
	for o, n := range outcomes {
		want["mapwright_pages_total{outcome="+o+"}"] = n
	}
	for name, n := range want {
		if got, there := all[name]; !there || got != float64(n) {
			t.Errorf("%s is %v (there: %v), the report has %d", name, got, there, n)
		}
	}
	for name, n := range all {
		skipped := strings.HasPrefix(name, "mapwright_links_skipped_total{") ||
			strings.HasPrefix(name, "mapwright_pages_total{")
		if _, known := want[name]; skipped && n != 0 && !known {
			t.Errorf("%s is %v, and the report knows nothing of it", name, n)
		}
	}
	if got := all["mapwright_fetched_bytes_total"]; got < float64(rep.Bytes) {
		t.Errorf("%v bytes fetched, fewer than the %d of the pages that were finished", got, rep.Bytes)
	}
}
