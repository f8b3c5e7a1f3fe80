package crawl

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
)

// Refusals, retries, cancellations, overrides and changes of pace are one info line and one count of a metric each.
func TestEveryNoticeIsLoggedAndCounted(t *testing.T) {
	refused := func(c pace.Class, e pace.Effect) pace.Change {
		return pace.Change{Class: c, Meaning: pace.MeaningRefused, Effects: e, Refusals: 1}
	}
	for _, tt := range []struct {
		name   string
		notice frontier.Notice
		line   string
		metric string // 1 after the notice
		label  string // its value, if the metric has one
	}{
		{"first refusal of a burst", frontier.Notice{URL: "http://a.test/1",
			Change: refused(pace.ClassThrottled, pace.EffectRested)},
			`level=INFO msg="a host refused a request" host=a.test url=http://a.test/1 status=429`,
			"mapwright_refusals_total", "429"},
		{"another of the burst", frontier.Notice{URL: "http://a.test/2", Change: refused(pace.ClassUnavailable, 0)},
			`level=INFO msg="a host refused a request" host=a.test url=http://a.test/2 status=503`,
			"mapwright_refusals_total", "503"},
		{"a fifth plain 403", frontier.Notice{URL: "http://a.test/5",
			Change: refused(pace.ClassForbidden, pace.EffectRested)},
			`level=INFO msg="a host refused a request" host=a.test url=http://a.test/5 status=403`,
			"mapwright_refusals_total", "403"},
		{"retry", frontier.Notice{Kind: frontier.NoticeRetry, URL: "http://a.test/1", Attempt: 2,
			At: time.Unix(0, 0).UTC()}, `level=INFO msg="a URL will be tried again" url=http://a.test/1 attempts=2`,
			"mapwright_retries_total", ""},
		{"cancellation", frontier.Notice{Kind: frontier.NoticeAbandoned, Waiting: 7},
			`level=WARN msg="a domain is abandoned`, "mapwright_cancellations_total", ""},
		{"override", frontier.Notice{Change: pace.Change{Effects: pace.EffectLimitChanged, LimitFrom: 2, LimitTo: 1}},
			"change.inflight_from=2 change.inflight=1", "mapwright_concurrency_overrides_total", ""},
		{"change of pace", frontier.Notice{Change: pace.Change{Effects: pace.EffectProbed}},
			`level=INFO msg="pace of a host changed" host=a.test change.effects=probed`, "mapwright_pace_changes_total",
			"probed"},
		{"blocked", frontier.Notice{Kind: frontier.NoticeBlocked, Change: pace.Change{Failures: 10}, Waiting: 3},
			"host=a.test failures=10 waiting=3", "mapwright_hosts_blocked_total", ""},
		{"long Retry-After", frontier.Notice{Change: pace.Change{Effects: pace.EffectRetryAfterLong,
			RestUntil: time.Now().Add(50 * time.Hour)}}, "UTC (2 days from now); its URLs wait until then",
			"mapwright_pace_changes_total", "retry_after_long"},
		{"long Crawl-delay", frontier.Notice{Change: pace.Change{Effects: pace.EffectCrawlDelayLong,
			CrawlDelay: 2 * time.Minute}}, "asks for a Crawl-delay of 2m0s", "mapwright_pace_changes_total",
			"crawl_delay_long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, nil))
			within, err := scope.New(config.Defaults(config.Polite), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := &run{o: &Options{}, log: log, metrics: NewMetrics(), warnings: &warnings{log: log}, scope: within}
			tt.notice.Host = "a.test"
			r.observe(tt.notice)
			if !strings.Contains(out.String(), tt.line) {
				t.Errorf("the log has\n%s\nwant %s", out.String(), tt.line)
			}
			snapshot, err := r.metrics.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			var got float64
			switch v := snapshot[tt.metric].(type) {
			case float64:
				got = v
			case map[string]any:
				got, _ = v[tt.label].(float64)
			}
			if got != 1 {
				t.Errorf("%s %s is %v, want 1", tt.metric, tt.label, got)
			}
		})
	}
}
