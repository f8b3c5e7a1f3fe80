package service

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
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
	if _, err := ts.Crawls.List(t.Context(), caller, CrawlFilter{}); err != nil {
		t.Error(err)
	}
}
