package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// startWeb serves a synthetic web as long as the test lasts. Requests that were on the wire when a host refused another
// are not early.
func startWeb(t *testing.T, cfg testweb.Config) *testweb.Server {
	t.Helper()
	if cfg.Grace == 0 {
		cfg.Grace = 750 * time.Millisecond // a busy machine takes long from a lease to the wire
	}
	web, err := testweb.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
	})
	return web
}

// quickTimeout is that of crawls in a bubble, where no answer is late because the machine is busy.
const quickTimeout = 3 * time.Second

// resolveTo sends every request to the web, if it listens at all. See memoryWeb.
func resolveTo(web *testweb.Server) []string {
	if web.Addr() == "" {
		return nil
	}
	return []string{web.Resolve()}
}

// quick are settings of a crawl that is in no hurry to be polite, and whose waits after failures are short.
func quick(web *testweb.Server) *config.Settings {
	s := config.Defaults(config.OwnSite)
	s.Resolve = resolveTo(web)
	s.MaxWorkers = 64
	s.MaxHostBackoffSecs = 1
	s.AdaptiveStepMS = 10
	if web.Addr() == "" {
		s.Timeout = quickTimeout
	}
	s.BloomCapacity = 100_000
	return s
}

// testLog shows what a crawl logged when its test fails, and only then.
func testLog(t *testing.T, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}

func starts(t *testing.T, urls ...string) []datadir.Start {
	t.Helper()
	var list []datadir.Start
	for _, u := range urls {
		list = append(list, datadir.Start{URL: mustURL(t, u)})
	}
	return list
}

// crawlFrom crawls from the URLs to the end, in a directory of its own.
func crawlFrom(t *testing.T, s *config.Settings, dir datadir.Dir, urls ...string) (*report.Report, error) {
	t.Helper()
	return runAlone(t.Context(), Options{Settings: s, Starts: starts(t, urls...), Dir: dir, Version: "test",
		Log: testLog(t, slog.LevelWarn)})
}

func newDir(t *testing.T) datadir.Dir { return datadir.Dir(filepath.Join(t.TempDir(), "data")) }

// crawlAll crawls from the URLs to the end and returns what was written.
func crawlAll(t *testing.T, s *config.Settings, urls ...string) (*report.Report, map[string]line) {
	t.Helper()
	dir := newDir(t)
	rep, err := crawlFrom(t, s, dir, urls...)
	if err != nil {
		t.Fatal(err)
	}
	return rep, readLines(t, dir)
}

// line is what tests read of a line of sitemap.jsonl.
type line struct {
	URL          string    `json:"url"`
	Outcome      string    `json:"outcome"`
	StatusCode   int       `json:"status_code"`
	Error        string    `json:"error"`
	Attempts     int       `json:"attempts"`
	RedirectTo   string    `json:"redirect_to"`
	Title        string    `json:"title"`
	Depth        int       `json:"depth"`
	Source       string    `json:"source"`
	Indexable    bool      `json:"indexable"`
	Generation   int       `json:"generation"`
	Change       string    `json:"change"`
	ChangedAt    time.Time `json:"changed_at"`
	Stale        int       `json:"stale"`
	Volatile     bool      `json:"volatile"`
	Unlinked     bool      `json:"unlinked"`
	LastModified time.Time `json:"last_modified"`
	Robots       *struct {
		Evidence   string `json:"evidence"`
		Confidence string `json:"confidence"`
	} `json:"robots"`
}

// trap is the trap that a line names, or "".
func (l line) trap() string {
	if l.Outcome != testweb.OutcomeTrap {
		return ""
	}
	return strings.TrimPrefix(l.Error, "trap: ")
}

// readLines reads sitemap.jsonl, by URL.
func readLines(t *testing.T, dir datadir.Dir) map[string]line {
	t.Helper()
	text, err := os.ReadFile(dir.JSONL())
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]line{}
	for row := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(row, &l); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		if _, twice := lines[l.URL]; twice {
			t.Errorf("%s is there twice", l.URL)
		}
		lines[l.URL] = l
	}
	return lines
}

// foundExactly holds what a crawl wrote against what the web knows of itself: each URL there once, with its outcome,
// status, title, target, and whether it belongs into a sitemap.
func foundExactly(t *testing.T, web *testweb.Server, c testweb.Crawl, lines map[string]line) (ok bool) {
	t.Helper()
	ok = true
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		ok = false
	}
	want, err := web.Expected(c)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]testweb.Result, len(lines))
	for url, l := range lines {
		got[url] = testweb.Result{Outcome: l.Outcome, Status: l.StatusCode}
	}
	if err := testweb.Compare(want, web.Traps(), got); err != nil {
		wrong("%v", err)
	}
	for e := range want {
		l := lines[e.URL]
		switch {
		case l.Outcome != e.Outcomes[0]: // named above
		case e.Title != "" && l.Title != e.Title:
			wrong("%s: title %q, want %q", e.URL, l.Title, e.Title)
		case e.Location != "" && l.RedirectTo != e.Location:
			wrong("%s redirects to %q, want %q", e.URL, l.RedirectTo, e.Location)
		case l.Indexable != e.Indexable:
			wrong("%s: indexable %v, want %v", e.URL, l.Indexable, e.Indexable)
		}
	}
	return ok
}

// wellBehaved checks the web's statistics for what no setting may change: nothing that robots.txt forbids, no page
// before robots.txt, nothing that is no link, nothing while a host rests, and nothing twice.
func wellBehaved(t *testing.T, web *testweb.Server) {
	t.Helper()
	stats := web.Stats()
	if stats.UnknownHosts > 0 {
		t.Errorf("%d requests for hosts that are not there", stats.UnknownHosts)
	}
	for name, h := range stats.Hosts {
		for what, m := range map[string]testweb.Samples{
			"forbidden by robots.txt": h.Disallowed, "made before robots.txt was known": h.BeforeRobots,
			"for what is no link to follow": h.Baits,
			"for what nobody named":         h.Unknown, "made while the host rested": h.Early,
			"for what was had already": h.Duplicates,
		} {
			if m.Count > 0 {
				t.Errorf("%s: %d requests were %s, such as %q", name, m.Count, what, m.URIs)
			}
		}
	}
}

// runAlone runs one crawl that shares nothing.
func runAlone(ctx context.Context, o Options) (*report.Report, error) {
	return runUntil(ctx, o, nil)
}

// runUntil runs one crawl, and stops it gracefully when the channel is closed, if it is not nil.
func runUntil(ctx context.Context, o Options, interrupt <-chan struct{}) (*report.Report, error) {
	shared, err := NewShared(ForOneCrawl(o.Settings))
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	c, err := newTested(shared, o)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-interrupt:
			c.Stop(Gracefully)
		case <-ended:
		}
	})
	rep, err := c.Run(ctx)
	close(ended)
	watching.Wait()
	return rep, err
}

// newShared makes what crawls share as long as the test lasts.
func newShared(t *testing.T, o SharedOptions) *Shared {
	t.Helper()
	s, err := NewShared(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
