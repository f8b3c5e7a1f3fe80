package crawl

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// ownSite are settings of a crawl in a bubble that asks as fast as the web answers.
func ownSite() *config.Settings {
	s := config.Defaults(config.OwnSite)
	s.MaxWorkers, s.BloomCapacity, s.SeedingStrategy = 1, 100_000, []string{"none"}
	return s
}

// metrics.jsonl has a line for each interval and one for the end, and none if it is off.
func TestSnapshotLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Pages: 12,
			Faults: testweb.OnAll(testweb.Slow{Delay: 270 * time.Millisecond})})
		s, dir := ownSite(), newDir(t)
		s.MetricExportIntervalSecs = 1
		o := web.options(s, dir, web.StartURLs()...)
		o.Metrics = NewMetrics()
		rep, err := runAlone(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(dir.MetricsLog())
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		if want := int(rep.Elapsed) + 1; rep.CrawlSeconds < 3 || len(lines) != want {
			t.Errorf("%d lines of a crawl of %v s, want %d", len(lines), rep.Elapsed, want)
		}
		type snapshot struct {
			Status  monitor.Live   `json:"status"`
			Metrics map[string]any `json:"metrics"`
		}
		var last snapshot
		for _, line := range lines {
			if !bytes.HasPrefix(line, []byte(`{"schema_version":1,"at":"20`)) {
				t.Errorf("a line begins with %.60s", line)
			}
			last = snapshot{}
			if err := json.Unmarshal(line, &last); err != nil {
				t.Fatal(err)
			}
		}
		if last.Status.Done != rep.URLs || last.Metrics["mapwright_urls_finished_total"] != float64(rep.URLs) {
			t.Errorf("the last line has %d and %v finished, want %d", last.Status.Done,
				last.Metrics["mapwright_urls_finished_total"], rep.URLs)
		}

		s, dir = ownSite(), newDir(t)
		s.MetricExportIntervalSecs = 0
		if _, err := runAlone(t.Context(), web.options(s, dir, web.StartURLs()...)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir.MetricsLog()); !os.IsNotExist(err) {
			t.Errorf("metrics.jsonl though it is off: %v", err)
		}
	})
}

// The first look at a crawl whose only host rests says so: the host with the reason and the time that is left, and why
// nothing moves.
func TestRestingHostIsSeenAtTheFirstLook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Faults: testweb.OnAll(testweb.RefuseFirst{Answer: testweb.Answer{RetryAfter: time.Hour}})})
		interrupt, started, ended := make(chan struct{}), make(chan *monitor.Monitor, 1), make(chan error, 1)
		o := web.options(ownSite(), newDir(t), web.StartURLs()...)
		o.Started = func(m *monitor.Monitor) { started <- m }
		go func() {
			_, err := runUntil(t.Context(), o, interrupt)
			ended <- err
		}()
		m := <-started
		time.Sleep(10 * time.Second)
		l := m.Live()
		if len(l.Resting) != 1 {
			t.Fatalf("resting hosts %+v, want one", l.Resting)
		}
		h := l.Resting[0]
		if h.Host != "h0.test" || h.Why != "rest" || h.Refusals != 1 || h.Left < 3589 || h.Left > 3591 {
			t.Errorf("resting host %+v", h)
		}
		if want := "1 URL waits: 1 host rests after a refusal; the next request in 59m50s"; l.Waiting != want {
			t.Errorf("waiting: %q, want %q", l.Waiting, want)
		}
		close(interrupt)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
