package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
)

// A busySite is one site at a name that other sites have too. It counts the requests that do not come from its crawl.
type busySite struct {
	*httptest.Server
	number  int
	pages   int
	foreign atomic.Int64 // requests with the settings of another crawl
	inUse   *atomic.Int64
	most    *atomic.Int64
}

func (s *busySite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.inUse.Add(1)
	defer s.inUse.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	if r.UserAgent() != fmt.Sprintf("agent%d/1.0", s.number) || r.Header.Get("X-Crawl") != fmt.Sprint(s.number) {
		s.foreign.Add(1)
	}
	switch r.URL.Path {
	case "/robots.txt":
		fmt.Fprintf(w, "User-agent: agent%d\nDisallow: /private\n", s.number)
	case "/":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><title>site %d</title><a href=/private>x</a>", s.number)
		for i := range s.pages {
			fmt.Fprintf(w, "<a href=/s%d/p%d>x</a>", s.number, i)
		}
	default:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><title>page %s of %d</title>", r.URL.Path, s.number)
	}
}

func (s *busySite) options(t *testing.T) Options {
	set := config.Defaults(config.OwnSite)
	set.Resolve = []string{"*:80:" + s.Listener.Addr().String()}
	set.UserAgent, set.Headers = fmt.Sprintf("agent%d/1.0", s.number), []string{fmt.Sprintf("X-Crawl: %d", s.number)}
	set.SeedingStrategy, set.MaxWorkers, set.BloomCapacity = []string{"none"}, 16, 10_000
	return Options{Settings: set, Starts: starts(t, "http://same.test/"), Dir: newDir(t), Version: "test",
		Metrics: NewMetrics()}
}

// Crawls that use one Shared in one process are each exact, none sends or sees what another one is set to, and together
// they keep the worker cap. The sites have one name and different addresses, pages and robots.txt.
func TestCrawlsShareAProcess(t *testing.T) {
	t.Parallel()
	const crawls, workers = 8, 5
	shared := newShared(t, SharedOptions{MaxWorkers: workers, RobotsMemory: 1 << 20, BodyMemory: 4 << 20})
	var inUse, most atomic.Int64
	var sites [crawls]*busySite
	var all [crawls]*tested
	var reports [crawls]*report.Report
	var running sync.WaitGroup
	for i := range all {
		s := &busySite{number: i, pages: 20 + i, inUse: &inUse, most: &most}
		s.Server = httptest.NewServer(s)
		t.Cleanup(s.Close)
		c, err := newTested(shared, s.options(t))
		if err != nil {
			t.Fatal(err)
		}
		sites[i], all[i] = s, c
		running.Go(func() {
			var err error
			if reports[i], err = c.Run(t.Context()); err != nil {
				t.Errorf("crawl %d: %v", i, err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	for i, c := range all {
		s, rep := sites[i], reports[i]
		lines := readLines(t, c.o.Dir)
		if rep.Status != page.Complete || len(lines) != s.pages+2 || rep.Outcomes["ok"] != int64(s.pages+1) ||
			rep.Outcomes["blocked_by_robots"] != 1 {
			t.Errorf("crawl %d: %s, %d URLs, %v, want %d pages", i, rep.Status, len(lines), rep.Outcomes, s.pages+1)
		}
		if title := lines["http://same.test/"].Title; title != fmt.Sprintf("site %d", i) {
			t.Errorf("crawl %d got the start page of another: %q", i, title)
		}
		if n := s.foreign.Load(); n > 0 {
			t.Errorf("site %d: %d requests have the settings of another crawl", i, n)
		}
		if live := c.Status(); live.State != page.Complete || live.Done != int64(s.pages+2) {
			t.Errorf("crawl %d: after the run %s with %d done", i, live.State, live.Done)
		}
		sameExport(t, c)
	}
	if n := most.Load(); n > workers {
		t.Errorf("%d requests were served at the same time, want at most %d", n, workers)
	}
}

// sameExport exports a crawl that has ended to another directory, and compares that with what the run wrote.
func sameExport(t *testing.T, c *tested) {
	t.Helper()
	out := t.TempDir()
	if _, err := c.Export(t.Context(), export.Options{Dir: out, BaseURL: "http://same.test/"},
		c.o.Settings.XMLTypes); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(c.o.Dir.JSONL())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(out, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: an export after the run differs from the run's own", c.o.Dir)
	}
}

// heldSite is a site whose second page waits for the test.
func heldSite(t *testing.T) (s *handSite, asked <-chan struct{}, release func()) {
	t.Helper()
	reached, free := make(chan struct{}), make(chan struct{})
	var once, freed sync.Once
	s = newHandSite(t, map[string]any{
		"a.test/": `<html><a href="/held">x</a>`,
		"a.test/held": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			once.Do(func() { close(reached) })
			select {
			case <-free:
			case <-r.Context().Done():
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, plainPage)
		}),
	})
	release = func() { freed.Do(func() { close(free) }) }
	t.Cleanup(release)
	return s, reached, release
}

func newCrawl(t *testing.T, s *handSite, dir datadir.Dir) *tested {
	t.Helper()
	c, err := newTested(newShared(t, SharedOptions{}), Options{Settings: s.settings(nil), Starts: starts(t, "http://a.test/"),
		Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Before, while and after a crawl runs it has a status, and its pages can be exported.
func TestStatusAndExportOfACrawl(t *testing.T) {
	t.Parallel()
	s, asked, release := heldSite(t)
	c := newCrawl(t, s, newDataDir(t))
	if live := c.Status(); live.State != page.Running || live.Phase != "" {
		t.Errorf("before: %s %q", live.State, live.Phase)
	}
	if _, err := c.Export(t.Context(), export.Options{Dir: t.TempDir()}, nil); err == nil {
		t.Error("something was exported though there is no crawl yet")
	}
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-asked
	if live := c.Status(); live.State != page.Running || live.Found != 2 || live.Done != 1 || live.InFlight == 0 {
		t.Errorf("while it runs: %+v", live)
	}
	out := t.TempDir()
	if res, err := c.Export(t.Context(), export.Options{Dir: out, BaseURL: "http://a.test/"},
		s.settings(nil).XMLTypes); err != nil || res.Pages != 2 || res.Indexable != 1 {
		t.Errorf("exported %+v, %v, want two pages and one of them indexable", res, err)
	}
	release()
	running.Wait()
	if live := c.Status(); live.State != page.Complete || live.Done != 2 {
		t.Errorf("after: %s, %d done", live.State, live.Done)
	}
	sameExport(t, c)
	if _, err := c.Run(t.Context()); !errors.Is(err, ErrRan) {
		t.Errorf("a second Run: %v", err)
	}
}

// A crawl that is stopped gracefully ends the fetches under way and writes its outputs. One that is stopped at once
// does neither, and can be resumed.
func TestStopModes(t *testing.T) {
	t.Parallel()
	t.Run("gracefully", func(t *testing.T) {
		s, asked, release := heldSite(t)
		dir := newDataDir(t)
		c := newCrawl(t, s, dir)
		go func() {
			<-asked
			c.Stop(Gracefully)
			c.Stop(Gracefully)
			for c.Status().Phase != monitor.Stopping {
				runtime.Gosched()
			}
			release()
		}()
		rep, err := c.Run(t.Context())
		if err != nil || rep.Status != page.Cancelled || rep.Outcomes["ok"] != 2 {
			t.Errorf("%+v, %v, want a cancelled crawl with two pages", rep, err)
		}
		if live := c.Status(); live.State != page.Cancelled {
			t.Errorf("state %s", live.State)
		}
	})
	t.Run("at once", func(t *testing.T) {
		s, asked, release := heldSite(t)
		dir := newDataDir(t)
		c := newCrawl(t, s, dir)
		go func() {
			<-asked
			c.Stop(AtOnce)
		}()
		if rep, err := c.Run(t.Context()); rep != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", rep, err)
		}
		if _, err := os.Stat(dir.JSONL()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("outputs: %v", err)
		}
		release()
		plan, err := datadir.ReadPlan(dir)
		if err != nil {
			t.Fatal(err)
		}
		if rep, _ := s.run(Options{Settings: s.settings(nil), Plan: plan, Dir: dir}); rep.Status != page.Complete ||
			rep.Outcomes["ok"] != 2 {
			t.Errorf("resumed: %s, %v", rep.Status, rep.Outcomes)
		}
	})
	t.Run("before it runs", func(t *testing.T) {
		s, _, _ := heldSite(t)
		c := newCrawl(t, s, newDataDir(t))
		c.Stop(Gracefully)
		if rep, err := c.Run(t.Context()); err != nil || rep.Status != page.Cancelled {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing": {}, "no starts": {Settings: config.Defaults(config.Polite), Dir: "x"},
		"no directory": {Settings: config.Defaults(config.Polite), Starts: starts(t, "http://a.test/")},
		"no settings":  {Dir: "x", Plan: &datadir.Plan{}},
	} {
		if c, err := newTested(newShared(t, SharedOptions{}), o); err == nil {
			t.Errorf("%s: made %v", name, c)
		}
	}
}
