package crawl_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/results"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// watched crawls a web to its end. Look is called again and again while the crawl runs, and once more when it is over.
func watched(t *testing.T, cfg testweb.Config, set func(*config.Settings),
	look func(*monitor.Monitor, *metrics.Metrics)) (*report.Report, datadir.Dir) {
	t.Helper()
	web, err := testweb.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	s := config.Defaults(config.OwnSite)
	s.Resolve = []string{web.Resolve()}
	s.Scope, s.MaxWorkers, s.BloomCapacity, s.AdaptiveStepMS, s.MaxHostBackoffSecs = "any", 32, 100_000,
		1, 1
	if set != nil {
		set(s)
	}
	var starts []datadir.Start
	for _, text := range web.StartURLs() {
		u, err := weburl.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, datadir.Start{URL: u})
	}
	m := crawl.NewMetrics()
	started := make(chan *monitor.Monitor, 1)
	ended := make(chan struct{})
	var rep *report.Report
	dir := datadir.Dir(filepath.Join(t.TempDir(), "data"))
	shared, err := crawl.NewShared(crawl.ForOneCrawl(s))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	outputs := &results.Outputs{}
	c, err := crawl.New(shared, crawl.Options{
		Settings: s, Starts: starts, Dir: dir, Metrics: m, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Started: func(m *monitor.Monitor) { started <- m }, Outputs: outputs,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		err = c.Run(context.Background())
		rep = outputs.Report
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var monitor *monitor.Monitor
	for over := false; !over; {
		select {
		case monitor = <-started:
		case <-ended:
			over = true
		case <-tick.C:
		}
		if monitor != nil {
			look(monitor, m)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return rep, dir
}

// faulty is a web in which everything happens that the metrics count.
func faulty() testweb.Config {
	return testweb.Config{Seed: 5, Hosts: 6, Pages: 60, CrossHost: 0.3, Faults: slices.Concat(
		testweb.On("0", testweb.RefuseBursts{Every: 40, Length: 2,
			Answer: testweb.Answer{Status: 429, RetryAfter: time.Second}}),
		testweb.On("1", testweb.StatusPages{Where: testweb.Where{Count: 3}}, testweb.Disallow{Count: 2}),
		testweb.On("2", testweb.Reset{Where: testweb.Where{Count: 1}}),
		testweb.On("3", testweb.LongURL{}),
	)}
}

// flat is every series of the metrics: name, label and value.
func flat(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Error(err)
		return nil
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			switch {
			case one.GetCounter() != nil:
				all[name] = one.GetCounter().GetValue()
			case one.GetHistogram() != nil:
				all[name+"_count"] = float64(one.GetHistogram().GetSampleCount())
			default:
				all[name] = one.GetGauge().GetValue()
			}
		}
	}
	return all
}

// A whole crawl's metrics have proper names and bounded labels, add up, and never run backwards.
func TestMetricsOfACrawl(t *testing.T) {
	last := map[string]float64{}
	var all *metrics.Metrics
	rep, _ := watched(t, faulty(), nil, func(_ *monitor.Monitor, m *metrics.Metrics) {
		all = m
		now := flat(t, m)
		for name, was := range last {
			if strings.Contains(name, "_total") && now[name] < was {
				t.Errorf("%s went from %v to %v", name, was, now[name])
			}
		}
		last = now
	})
	problems, err := testutil.GatherAndLint(all.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name := range last {
		if strings.Contains(name, ".test") {
			t.Errorf("a host name in a label: %s", name)
		}
	}
	var pages float64
	for name, n := range last {
		if strings.HasPrefix(name, "mapwright_pages_total{") {
			pages += n
		}
	}
	if pages != float64(rep.URLs) || last["mapwright_urls_finished_total"] != pages ||
		last["mapwright_urls_pending"] != 0 {
		t.Errorf("%v pages by outcome, %v finished, %v pending; the report has %d", pages,
			last["mapwright_urls_finished_total"], last["mapwright_urls_pending"], rep.URLs)
	}
	for _, name := range []string{"mapwright_inflight_violations_total", "mapwright_leases",
		"mapwright_control_in_use{control=workers}"} {
		if n, ok := last[name]; !ok || n != 0 {
			t.Errorf("%s is %v at the end, want 0", name, n)
		}
	}
	for _, name := range []string{
		"mapwright_pages_total{outcome=ok}", "mapwright_pages_total{outcome=http_error}",
		"mapwright_pages_total{outcome=blocked_by_robots}", "mapwright_pages_total{outcome=trap}",
		"mapwright_refusals_total{status=429}", "mapwright_rests_total", "mapwright_retries_total",
		"mapwright_backoffs_total", "mapwright_fetch_failures_total{kind=read_error}",
		"mapwright_fetched_bytes_total", "mapwright_fetch_phase_seconds{phase=total}_count",
		"mapwright_fetch_phase_seconds{phase=wait}_count",
		"mapwright_robots_fetches_total{answer=known}", "mapwright_dedup_checks_total{step=hot_set}",
		"mapwright_dedup_checks_total{step=bloom}",
		"mapwright_dedup_positives_total{step=hot_set}", "mapwright_dedup_new_total",
		"mapwright_links_skipped_total{reason=not_http}",
		"mapwright_wal_fsyncs_total", "mapwright_wal_bytes", "mapwright_wal_written_bytes_total",
		"mapwright_commit_seconds{stage=durable}_count", "mapwright_commit_seconds{stage=applied}_count",
		"mapwright_checkpoint_seconds_count", "mapwright_host_delay_limit_seconds{bound=max}",
		"mapwright_host_backoff_limit_seconds", "mapwright_host_failures_limit",
	} {
		if n, ok := last[name]; !ok || n == 0 && !strings.Contains(name, "delay") {
			t.Errorf("%s is %v (there: %v), want more than 0", name, n, ok)
		}
	}
}

// Each of the ten controls shows its limit, its use and its waiting.
func TestEveryControlIsMeasured(t *testing.T) {
	var last map[string]float64
	watched(t, testweb.Config{}, nil, func(_ *monitor.Monitor, m *metrics.Metrics) { last = flat(t, m) })
	want := map[string][3]string{
		"delay": {"mapwright_host_delay_limit_seconds{bound=max}", "mapwright_hosts{waiting_for=delay}",
			"mapwright_hosts{waiting_for=rest}"},
		"backoff": {"mapwright_host_backoff_limit_seconds", "mapwright_hosts{waiting_for=backoff}",
			"mapwright_hosts{waiting_for=blocked}"},
	}
	for _, c := range []string{"workers", "inflight_per_host", "frontier_urls", "dedup_filter", "parsers",
		"robots_fetches", "dedup_lookups", "ready_hosts"} {
		want[c] = [3]string{"mapwright_control_limit{control=" + c + "}", "mapwright_control_in_use{control=" + c + "}",
			"mapwright_control_waiting{control=" + c + "}"}
	}
	if len(want) != 10 {
		t.Fatalf("%d controls", len(want))
	}
	for control, names := range want {
		for _, name := range names {
			if _, ok := last[name]; !ok {
				t.Errorf("%s: no %s", control, name)
			}
		}
	}
	for name, limit := range map[string]float64{"workers": 32, "frontier_urls": 5_000_000, "parsers": 128,
		"robots_fetches": 64, "dedup_lookups": 512, "ready_hosts": 500_000} {
		if got := last["mapwright_control_limit{control="+name+"}"]; got != limit {
			t.Errorf("limit of %s is %v, want %v", name, got, limit)
		}
	}
}

// Every metric of a crawl that the dashboard and the alerts use exists. A test of the service has the others.
func TestDashboardNamesOnlyWhatThereIs(t *testing.T) {
	there := map[string]bool{}
	watched(t, testweb.Config{}, nil, func(_ *monitor.Monitor, m *metrics.Metrics) {
		families, err := m.Registry().Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			there[f.GetName()] = true
		}
	})
	named, err := documents.Metrics(filepath.Join("..", "..", "deploy"))
	if err != nil || len(named) < 30 {
		t.Fatalf("only %d metrics in the dashboard: %v", len(named), err)
	}
	ofService := regexp.MustCompile(`^mapwright_(service|http|database)_`)
	for _, name := range named {
		if !there[name] && !ofService.MatchString(name) {
			t.Errorf("%s is not there", name)
		}
	}
}
