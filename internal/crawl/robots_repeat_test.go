package crawl

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// lateRobots lets the first requests for a robots.txt time out, or fail in another way.
type lateRobots struct {
	fetch.Fetcher
	late   atomic.Int64 // how many are left
	kind   fetch.Kind   // empty means a timeout
	status int          // of an answer instead of an error
}

func (f *lateRobots) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if strings.HasSuffix(r.URL.String(), "/robots.txt") && f.late.Add(-1) >= 0 {
		if f.status != 0 {
			return &fetch.Response{Status: f.status}, nil
		}
		if f.kind != "" {
			return nil, &fetch.Error{Kind: f.kind, Phase: "headers", Err: io.ErrUnexpectedEOF}
		}
		time.Sleep(r.Timeout)
		return nil, &fetch.Error{Kind: fetch.Timeout, Err: context.DeadlineExceeded}
	}
	return f.Fetcher.Do(ctx, r)
}

// A robots.txt whose failure may pass is asked for twice more, before the crawl goes on without it.
func TestLateRobots(t *testing.T) {
	for name, c := range map[string]struct {
		late    int64
		kind    fetch.Kind
		status  int
		blocked bool
	}{
		"twice": {2, "", 0, true}, "three times": {3, "", 0, false},
		"two lost connections": {2, fetch.ReadError, 0, true}, "three of them": {3, fetch.ReadError, 0, false},
		"two refused connections": {2, fetch.ConnectError, 0, true}, "no such host": {1, fetch.DNSError, 0, false},
		"two answers with 503": {2, "", 503, true}, "three answers with 503": {3, "", 503, false},
		"two answers with 429": {2, "", 429, true}, "an answer with 404": {1, "", 404, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := newMemoryWeb(t, testweb.Config{Seed: 4, Pages: 40, PageSize: 500, Links: 6, Log: true,
					Faults: testweb.OnAll(testweb.Disallow{})})
				s := polite(web.Server)
				o := web.options(s, newDir(t), web.StartURLs()...)
				f := &lateRobots{Fetcher: o.Fetcher, kind: c.kind, status: c.status}
				f.late.Store(c.late)
				o.Fetcher = f
				rep, err := runAlone(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if got := rep.Outcomes["blocked_by_robots"] > 0; got != c.blocked {
					t.Errorf("outcomes %v", rep.Outcomes)
				}
			})
		})
	}
}

// A robots.txt that stays silent is asked for again every ten minutes. Each run has one warning, also if an earlier
// run had it.
func TestSilentRobotsAreOneWarning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{"a.test/": `<a href="/1">x</a><a href="/2">x</a><a href="/3">x</a>`}}
		o := w.options(t, "http://a.test/")
		o.Settings.MinDelayMS, o.Settings.MaxDelayMS = 900_000, 900_000
		silent := &lateRobots{Fetcher: w}
		o.Fetcher = silent
		for run := range 3 {
			silent.late.Store(1000)
			var log bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			rep, err := runAlone(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if asked := 1000 - silent.late.Load(); asked < 6 {
				t.Errorf("run %d: robots.txt was asked for %d times, so the test shows little", run, asked)
			}
			const want = "robots.txt of http://a.test cannot be had (it does not answer)"
			if strings.Count(log.String(), want) != 1 || strings.Count(strings.Join(rep.Warnings, "\n"), want) != 1 {
				t.Errorf("run %d: not one warning in the report %q and in the log\n%s", run, rep.Warnings, &log)
			}
			plan, err := datadir.ReadPlan(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Plan, o.Starts, o.Recrawl = plan, nil, &Recrawl{}
		}
	})
}
