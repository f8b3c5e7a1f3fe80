package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" {
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// startWeb serves a synthetic web as long as the test lasts.
func startWeb(t *testing.T, cfg testweb.Config) *testweb.Server {
	t.Helper()
	web, err := testweb.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		web.Release()
		if err := web.Close(); err != nil {
			t.Error(err)
		}
	})
	return web
}

// patience is how long a test waits for what must come: it ends a test that would wait forever.
const patience = 5 * time.Minute

// quick are the operator's settings for crawls of a synthetic web.
func quick(web *testweb.Server) []config.Layer { return quickAt(web.Resolve()) }

// quickAt is quick for a web that another process serves. A request that is held has no time-out on a busy machine.
func quickAt(resolve string) []config.Layer {
	layer := config.Layer{}
	for name, text := range map[string]string{"profile": "own-site", "max-host-backoff-secs": "1", "timeout": "10m",
		"grace": "1m", "bloom-capacity": "20000", "resolve": resolve} {
		layer[name] = config.Given{Texts: []string{text}, From: "test"}
	}
	return []config.Layer{layer}
}

// testService is a service that runs in a test.
type testService struct {
	*Service
	t      *testing.T
	admin  *Caller
	stop   context.CancelFunc
	ended  chan error
	ending sync.Once
}

// openService opens a service. It does not run yet.
func openService(t *testing.T, o Options) *testService {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	if o.SlotDir == "" {
		o.SlotDir = t.TempDir() + "/slot"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ts := &testService{Service: s, t: t}
	account, err := s.Accounts.Get(t.Context(), DefaultAccount)
	if err != nil {
		t.Fatal(err)
	}
	ts.admin = &Caller{Account: account, System: "test", Scopes: []Scope{ScopeAdmin}}
	t.Cleanup(ts.end)
	return ts
}

// run runs the service until end.
func (ts *testService) run() *testService {
	ctx, stop := context.WithCancel(context.Background())
	ts.stop, ts.ended = stop, make(chan error, 1)
	go func() { ts.ended <- ts.Run(ctx) }()
	return ts
}

// end ends the service with notice.
func (ts *testService) end() {
	ts.ending.Do(func() {
		if ts.stop != nil {
			ts.stop()
			if err := <-ts.ended; err != nil {
				ts.t.Error(err)
			}
		}
		if err := ts.Close(); err != nil {
			ts.t.Error(err)
		}
	})
}

// submit submits a crawl of a start URL with settings as pairs of key and JSON.
func (ts *testService) submit(as *Caller, url string, settings ...string) *Crawl {
	ts.t.Helper()
	c, err := ts.Crawls.Submit(ts.t.Context(), as, Submission{StartURLs: []string{url}, Settings: raw(settings...)}, "")
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// await waits until a crawl is as wanted.
func (ts *testService) await(id string, want func(*Crawl) bool) *Crawl {
	ts.t.Helper()
	ctx, cancel := context.WithTimeout(ts.t.Context(), patience)
	defer cancel()
	for {
		added := ts.Events.Added()
		c, err := ts.Crawls.Get(ctx, ts.admin, id)
		if err != nil {
			ts.t.Fatal(err)
		}
		if want(c) {
			return c
		}
		if c.State == Failed {
			ts.t.Fatalf("the crawl failed: %q", c.Errors)
		}
		select {
		case <-added:
		case <-ctx.Done():
			ts.t.Fatalf("the crawl is %s (desired %s, waiting %+v, reason %q, %d of %d done)", c.State, c.Desired,
				c.Waiting, c.Reason, c.Done, c.Found)
		}
	}
}

// awaitState waits until a crawl has one of the states.
func (ts *testService) awaitState(id string, states ...State) *Crawl {
	ts.t.Helper()
	return ts.await(id, func(c *Crawl) bool { return slices.Contains(states, c.State) })
}

// do gives a crawl a command.
func (ts *testService) do(id string, c Command) *Crawl {
	ts.t.Helper()
	crawl, err := ts.Crawls.Command(ts.t.Context(), ts.admin, id, c, nil)
	if err != nil {
		ts.t.Fatal(err)
	}
	return crawl
}

// eventTypes are the types of a crawl's events so far.
func (ts *testService) eventTypes(id string) (types []EventType) {
	ts.t.Helper()
	events, err := ts.Events.Since(ts.t.Context(), EventFilter{Crawl: id})
	if err != nil {
		ts.t.Fatal(err)
	}
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// used is how many pages the default account has used and reserved in this month.
func (ts *testService) used() (used, granted int64) {
	ts.t.Helper()
	u, err := ts.Accounts.Usage(ts.t.Context(), DefaultAccount)
	if err != nil {
		ts.t.Fatal(err)
	}
	return u.Pages.Used, u.Pages.Granted
}

// setPlan changes the default plan.
func (ts *testService) setPlan(p Plan) {
	ts.t.Helper()
	p.Name, p.MaxPriority = defaultPlan, 9
	if err := ts.Accounts.PutPlan(ts.t.Context(), ts.admin, p); err != nil {
		ts.t.Fatal(err)
	}
}

func TestCrawlToItsEnd(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web)}).run()
	c := ts.submit(ts.admin, web.StartURLs()[0])
	if c.State != Queued || c.Waiting == nil {
		t.Errorf("a new crawl is %s, waiting %+v", c.State, c.Waiting)
	}
	c = ts.awaitState(c.ID, Complete)
	if c.Found != 40 || c.Done != 40 || c.PagesCounted != 40 || c.Success == nil || !*c.Success || c.EndedAt.IsZero() ||
		c.Indexable == nil {
		t.Errorf("%+v", c)
	}
	dir := ts.Crawls.DataDir(c.ID)
	for _, path := range []string{dir.JSONL(), dir.Report(), dir.Log(), ts.Crawls.reportFile(c.ID, 0)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if got, want := ts.eventTypes(c.ID), []EventType{CrawlQueued, CrawlStarted, CrawlFinishing,
		CrawlFinished}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if used, granted := ts.used(); used != 40 || granted != 0 {
		t.Errorf("%d pages used, %d reserved", used, granted)
	}
	ts.do(c.ID, CommandRecrawl)
	c = ts.await(c.ID, func(c *Crawl) bool { return c.Generation == 1 && c.State.Ended() })
	runs, err := ts.Crawls.Runs(t.Context(), ts.admin, c.ID)
	if err != nil || len(runs) != 2 || runs[0].Generation != 1 || c.State != Complete {
		t.Errorf("after a recrawl: %s, runs %+v, %v", c.State, runs, err)
	}
	want := 40 + c.PagesCounted // some answers 304 are verified by another request
	if used, _ := ts.used(); used != want || c.PagesCounted < 40 {
		t.Errorf("%d pages used after the recrawl, want %d", used, want)
	}
	ts.do(c.ID, CommandDelete)
	awaitGone(ts, c.ID)
	if used, _ := ts.used(); used != want {
		t.Errorf("%d pages used after the deletion, want %d", used, want)
	}
}

// awaitGone waits until a crawl and its directory are gone.
func awaitGone(ts *testService, id string) {
	ts.t.Helper()
	ctx, cancel := context.WithTimeout(ts.t.Context(), patience)
	defer cancel()
	for {
		added := ts.Events.Added()
		if _, err := ts.Crawls.Get(ctx, ts.admin, id); err != nil {
			break
		}
		select {
		case <-added:
		case <-ctx.Done():
			ts.t.Fatal("the crawl is not gone")
		}
	}
	if _, err := os.Stat(string(ts.Crawls.DataDir(id))); !os.IsNotExist(err) {
		ts.t.Errorf("the directory of a deleted crawl: %v", err)
	}
}

// A paused crawl holds no slot, goes on where it was, and asks for no page twice that was finished.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 60})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 1}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0], "max_urls", "1000")
	awaitPages(t, web, 21)
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	ts.do(c.ID, CommandPause) // again
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if c.Waiting == nil || c.Waiting.Code != WaitOperator {
		t.Errorf("a paused crawl waits for %+v", c.Waiting)
	}
	if c.InFlight != 0 || c.PagesPerSecNow != 0 || len(c.Limits) != 1 || c.Limits[0].Left != 0 ||
		c.Limits[0].Limit != 1000 {
		t.Errorf("a paused crawl has %d requests in flight and %.1f pages per second; limits %+v", c.InFlight,
			c.PagesPerSecNow, c.Limits)
	}
	if used, granted := ts.used(); granted != 0 || used != c.PagesCounted {
		t.Errorf("paused: %d pages used, %d reserved, %d counted", used, granted, c.PagesCounted)
	}
	other := ts.submit(ts.admin, web.StartURLs()[0], "max_urls", "5")
	if got := ts.awaitState(other.ID, Partial, Complete); got.State != Partial || got.PagesCounted != 5 {
		t.Errorf("the other crawl is %s with %d pages", got.State, got.PagesCounted)
	}
	ts.do(c.ID, CommandResume)
	c = ts.awaitState(c.ID, Complete)
	if c.Done != 60 || c.PagesCounted != 60 {
		t.Errorf("%d pages done, %d counted", c.Done, c.PagesCounted)
	}
	if used, _ := ts.used(); used != 65 {
		t.Errorf("%d pages used, want 65", used)
	}
	want := []EventType{CrawlQueued, CrawlStarted, CrawlPausing, CrawlPaused, CrawlResumed, CrawlStarted,
		CrawlFinishing, CrawlFinished}
	if got := ts.eventTypes(c.ID); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// A quota that is used up pauses a crawl exactly there; when there is more, it goes on by itself and loses nothing.
func TestQuota(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 2, Pages: 40})
	ts := openService(t, Options{Base: quick(web)})
	ts.setPlan(Plan{PagesPerMonth: 57})
	ts.run()
	var ids []string
	for i := range 2 {
		ids = append(ids, ts.submit(ts.admin, web.StartURLs()[i]).ID)
	}
	paused := func(c *Crawl) bool { return c.State == Complete || c.State == Paused && c.Waiting.Code == WaitQuota }
	// Pages that one crawl had reserved and does not need go to the other, so that it may go on and pause again.
	for {
		added := ts.Events.Added()
		a, b := ts.await(ids[0], paused), ts.await(ids[1], paused)
		used, granted := ts.used()
		if used == 57 && granted == 0 && paused(a) && paused(b) {
			break
		}
		if used > 57 {
			t.Fatalf("%d pages used", used)
		}
		<-added
	}
	if pages := web.HostStats(0).Pages + web.HostStats(1).Pages; pages != 57 {
		t.Errorf("the web served %d pages, want 57", pages)
	}
	ts.setPlan(Plan{PagesPerMonth: 1000})
	for _, id := range ids {
		if c := ts.awaitState(id, Complete); c.Done != 40 {
			t.Errorf("%d pages done", c.Done)
		}
	}
	if used, granted := ts.used(); used != 80 || granted != 0 {
		t.Errorf("%d pages used, %d reserved, want 80 and 0", used, granted)
	}
	events, err := ts.Events.Since(t.Context(), EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	for _, e := range events {
		if e.Type == QuotaReached {
			reached++
		}
	}
	if reached != 1 {
		t.Errorf("quota.reached was recorded %d times", reached)
	}
}

// submitPaused submits a crawl and pauses it after so many pages.
func (ts *testService) submitPaused(web *testweb.Server, pages int) *Crawl {
	ts.t.Helper()
	web.Hold(pages)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(ts.t, web, pages+1)
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	return ts.awaitState(c.ID, Paused)
}

// awaitPages waits until the first host of a web, and others if they are given, have been asked for so many pages.
func awaitPages(t *testing.T, web *testweb.Server, n int, hosts ...int) {
	t.Helper()
	asked := func() (pages int) {
		for _, host := range append(hosts, 0) {
			pages += web.HostStats(host).Pages
		}
		return pages
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); asked() < n; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d pages were asked for, want %d", asked(), n)
		}
	}
}

// raw are settings from pairs of key and JSON.
func raw(pairs ...string) map[string]json.RawMessage {
	settings := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		settings[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return settings
}
