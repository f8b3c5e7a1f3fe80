package crawl_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/state"
)

// What a status says of a crawl adds up at any moment, and after the crawl it says how that ended.
func TestLiveAddsUp(t *testing.T) {
	var last *monitor.Live
	rep, dir := watched(t, faulty(), func(s *config.Settings) { s.MaxURLs, s.Duration = 10_000, time.Hour },
		func(m *monitor.Monitor, _ *metrics.Metrics) {
			l := m.Live()
			if l.Found != l.Done+l.Pending || l.Violations != 0 || l.Memory <= 0 || l.Workers.InUse > l.Workers.Most ||
				len(l.Limits) != 2 {
				t.Errorf("status %+v", l)
			}
			last = l
		})
	agrees(t, "the last sample", last, rep)
	if last.InFlight != 0 {
		t.Errorf("%d in flight after the end", last.InFlight)
	}
	agrees(t, "the stored status", stored(t, dir), rep)
}

// agrees holds a status of the end of a crawl against the report of it.
func agrees(t *testing.T, what string, l *monitor.Live, rep *report.Report) {
	t.Helper()
	if l.Found != rep.URLs || l.Bytes != rep.Bytes {
		t.Errorf("%s: %d URLs and %d bytes, the report has %d and %d", what, l.Found, l.Bytes, rep.URLs, rep.Bytes)
	}
	pending := rep.Outcomes["pending"] + rep.Outcomes["host_blocked"]
	if l.Pending != pending || l.Done != rep.URLs-pending {
		t.Errorf("%s: %d pending and %d done; the report has %d URLs, %d of them pending", what, l.Pending, l.Done,
			rep.URLs, pending)
	}
	outcomes := map[string]int64{}
	for o, n := range rep.Outcomes {
		// A loop is known only when the whole crawl is read: while it runs its pages are redirects.
		if o == "redirect_loop" {
			o = "redirect"
		}
		outcomes[o] += n
	}
	for o, n := range l.Outcomes {
		if o == "redirect_loop" {
			o = "redirect"
		}
		outcomes[o] -= n
	}
	for o, n := range outcomes {
		if n != 0 {
			t.Errorf("%s: the report has %d more of %s", what, n, o)
		}
	}
}

// stored is the status of a crawl that does not run.
func stored(t *testing.T, dir datadir.Dir) *monitor.Live {
	t.Helper()
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(dir.State(), state.Options{Mode: state.ExistingOnly, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := monitor.Stored(t.Context(), s, plan)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
