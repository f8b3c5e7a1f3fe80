package service

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/state"
)

// A crawl that uses up the disk of its plan while it runs is paused, once, and goes on when the plan allows more.
func TestDiskOfAPlanWhileRunning(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 30})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(10)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 11)
	ts.setPlan(Plan{DiskBytes: 16 << 10})
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if c.Waiting == nil || c.Waiting.Code != WaitPlan {
		t.Errorf("it waits for %+v", c.Waiting)
	}
	if u, err := ts.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Disk.Used == 0 {
		t.Errorf("%+v, %v", u.Disk, err)
	}
	other := ts.submit(ts.admin, web.StartURLs()[0])
	awaitStep(ts, other.ID, func(c *Crawl) bool { return c.Waiting != nil && c.Waiting.Code == WaitPlan })
	ts.setPlan(Plan{DiskBytes: 1 << 40})
	for _, id := range []string{c.ID, other.ID} {
		if c := ts.awaitState(id, Complete); c.Done != 30 {
			t.Errorf("%d pages done", c.Done)
		}
	}
	want := []EventType{CrawlQueued, CrawlStarted, CrawlPausing, CrawlPaused, CrawlResumed, CrawlStarted,
		CrawlFinishing, CrawlFinished}
	if got := ts.eventTypes(c.ID); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// A safe crawl cannot be paused. It ends with what it has when its account may use no more disk, or nothing at all.
func TestSafeCrawlsEndWhereOthersPause(t *testing.T) {
	t.Parallel()
	for reason, stop := range map[string]func(*testService){
		"the disk that its plan allows": func(ts *testService) { ts.setPlan(Plan{DiskBytes: 16 << 10}) },
		"the account is disabled": func(ts *testService) {
			if _, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount,
				AccountEdit{Disabled: new(true)}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 30})
			base := quick(web)
			base[0]["grace"] = config.Given{Texts: []string{"1ms"}, From: "test"}
			ts := openService(t, Options{Base: base}).run()
			web.Hold(2)
			c := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
			awaitPages(t, web, 3)
			stop(ts)
			if c = ts.awaitState(c.ID, Cancelled); !strings.Contains(c.Reason, reason) || c.Done == 0 {
				t.Errorf("it ended with %d pages, because of %q", c.Done, c.Reason)
			}
			// What a running crawl has for its log is free again.
			if u, err := ts.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Disk.Used > state.OpenBytes/4 {
				t.Errorf("it uses %d bytes of disk, %v", u.Disk.Used, err)
			}
			want := []EventType{CrawlQueued, CrawlStarted, CrawlFinishing, CrawlFinished}
			if got := ts.eventTypes(c.ID); !slices.Equal(got, want) {
				t.Errorf("events %v, want %v", got, want)
			}
		})
	}
}

// A sitemap without end does not fill the disk beyond the plan of its crawl, though nothing else ends the crawl. It can
// be cancelled then.
func TestDiskOfAPlanAndASitemapWithoutEnd(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /no/\nSitemap: /index.xml\n")
		case "/index.xml":
			fmt.Fprint(w, "<sitemapindex><sitemap><loc>/map.xml</loc></sitemap></sitemapindex>")
		case "/map.xml":
			fmt.Fprint(w, "<urlset>")
			for i := 0; r.Context().Err() == nil; i++ {
				fmt.Fprintf(w, "<url><loc>http://a.test/no/%d</loc></url>", i)
			}
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><body>page</body></html>")
		}
	}))
	t.Cleanup(site.Close)
	base := config.Layer{"resolve": {Texts: []string{"*:80:" + site.Listener.Addr().String()}, From: "test"}}
	ts := openService(t, Options{Base: []config.Layer{base}})
	ts.setPlan(Plan{DiskBytes: 3 << 20})
	ts.run()
	c := ts.submit(ts.admin, "http://a.test/")
	c = ts.awaitState(c.ID, Paused)
	if c.Waiting == nil || c.Waiting.Code != WaitPlan {
		t.Errorf("it waits for %+v", c.Waiting)
	}
	ts.do(c.ID, CommandCancel)
	ts.awaitState(c.ID, Cancelled)
	want := []EventType{CrawlQueued, CrawlStarted, CrawlPausing, CrawlPaused, CrawlFinishing, CrawlFinished}
	if got := ts.eventTypes(c.ID); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// Keys are good for reading when nothing can be written any more.
func TestKeysOnAFullDisk(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	key, err := ts.Accounts.CreateKey(t.Context(), ts.admin, Key{Scopes: []Scope{ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TRIGGER full BEFORE UPDATE ON api_key BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	caller, err := ts.Accounts.Authenticate(t.Context(), key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	ts.Accounts.Touch(t.Context(), caller) // the request goes on
	if _, err := ts.Crawls.List(t.Context(), caller, CrawlFilter{}); err != nil {
		t.Error(err)
	}
}

// Links repeat the address of their page in links.jsonl, so that a small state can become a large file. It is left out
// if the plan of the account has no room for it, or the disk has none, and the crawl ends with its other files.
func TestDiskOfAPlanAndOutputs(t *testing.T) {
	t.Parallel()
	const pages, linksOfEach, length = 8, 9000, 1800
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><head><title>page</title></head><body>", strings.Repeat("<a href=/x>", linksOfEach))
	}))
	t.Cleanup(site.Close)
	var starts []string
	for i := range pages {
		starts = append(starts, fmt.Sprintf("http://a.test/%d/%s", i, strings.Repeat("long", length/4)))
	}
	const minFree = 1 << 30
	var fillsDisk atomic.Bool // the disk is nearly full while links.jsonl is written
	var written atomic.Pointer[string]
	free := func(string) (int64, error) {
		if path := written.Load(); fillsDisk.Load() && path != nil {
			if _, err := os.Stat(*path); err == nil {
				return minFree - 1, nil
			}
		}
		return 4 << 30, nil
	}
	ts := openService(t, Options{Base: quickAt("*:80:" + site.Listener.Addr().String()), MinFree: minFree,
		FreeBytes: free})
	const quota = 32 << 20
	ts.setPlan(Plan{DiskBytes: quota})
	ts.run()
	c, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: starts,
		Settings: raw("links", "true", "max_depth", "0", "traps", "false")}, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := ts.Crawls.DataDir(c.ID)
	temp := dir.Links() + datadir.TempSuffix
	written.Store(&temp)
	check := func(when, why string) {
		t.Helper()
		left := slices.ContainsFunc(c.Warnings, func(text string) bool {
			return strings.HasPrefix(text, "links.jsonl was not written, because "+why)
		})
		rep, err := report.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(string(dir))
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, e := range entries {
			files = append(files, e.Name())
		}
		hasLinks := slices.Contains(files, "links.jsonl")
		if wants := why == ""; hasLinks != wants || slices.Contains(rep.Files, "links.jsonl") != wants ||
			(why != "") != left || slices.Contains(files, filepath.Base(temp)) {
			t.Errorf("%s: files %v, in the report %v, warnings %q", when, files, rep.Files, c.Warnings)
		}
		for _, name := range []string{"sitemap.jsonl", "sitemap.xml", "problems.jsonl", "pages.index"} {
			if !slices.Contains(files, name) {
				t.Errorf("%s: no %s", when, name)
			}
		}
	}
	c = ts.awaitState(c.ID, Complete)
	check("little quota", "the files of the crawl would take more disk than the plan of the account leaves")
	if u, err := ts.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Disk.Used > quota {
		t.Errorf("%d bytes of %d are used, %v", u.Disk.Used, quota, err)
	}

	// The files that a reader of pages makes again have the same bound.
	if err := os.Remove(filepath.Join(string(dir), datadir.IndexName)); err != nil {
		t.Fatal(err)
	}
	ts.await(c.ID, func(*Crawl) bool { return ts.Crawls.dispatch.runner(c.ID) == nil })
	if err := ts.Crawls.MakeIndex(t.Context(), string(dir)); err != nil {
		t.Fatal(err)
	}
	check("made again", "the files of the crawl would take more disk than the plan of the account leaves")

	recrawl := func() {
		t.Helper()
		generation := c.Generation
		ts.do(c.ID, CommandRecrawl)
		c = ts.await(c.ID, func(c *Crawl) bool { return c.Generation > generation && c.State.Ended() })
		if c.State != Complete {
			t.Errorf("the recrawl is %s: %q", c.State, c.Errors)
		}
	}
	ts.setPlan(Plan{})
	recrawl()
	check("no quota", "")
	fillsDisk.Store(true)
	recrawl()
	check("full disk", "the disk of the server is nearly full")
}

// What an open store reserves is not what a crawl uses: many small crawls run at once in a plan with little disk.
func TestSmallPlanRunsManyCrawls(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 4, Hosts: 3})
	ts := openService(t, Options{Base: quick(web)})
	ts.setPlan(Plan{DiskBytes: state.OpenBytes / 2, MaxCrawls: 3})
	web.Hold(1)
	ts.run()
	var ids []string
	for _, start := range web.StartURLs() {
		ids = append(ids, ts.submit(ts.admin, start).ID)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		measured := 0
		for _, r := range ts.Crawls.dispatch.all() {
			if r.current().Reserved() > 0 && r.size.Load() > 0 {
				measured++
			}
		}
		if measured == len(ids) || time.Now().After(end) {
			break
		}
	}
	web.Release()
	for _, id := range ids {
		c := ts.awaitState(id, Complete, Paused, Failed)
		if got := ts.eventTypes(id); c.State != Complete || slices.Contains(got, CrawlPausing) {
			t.Errorf("it is %s, %+v, after %v", c.State, c.Waiting, got)
		}
	}
}
