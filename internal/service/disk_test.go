package service

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/service/db"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/warc"
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

// safeStops end safe crawls that run, by the reasons that the crawls then give.
func safeStops() map[string]func(*testService) error {
	return map[string]func(*testService) error{
		"the disk that its plan allows": func(ts *testService) error {
			ts.setPlan(Plan{DiskBytes: 16 << 10})
			return nil
		},
		"the account is disabled": func(ts *testService) error {
			return ts.editAccount(DefaultAccount, AccountEdit{Disabled: new(true)})
		},
	}
}

// A safe crawl cannot be paused. It ends with what it has when its account may use no more disk, or nothing at all.
func TestSafeCrawlsEndWhereOthersPause(t *testing.T) {
	t.Parallel()
	for reason, stop := range safeStops() {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 30})
			base := quick(web)
			base[0]["grace"] = config.Given{Texts: []string{"1ms"}, From: "test"}
			ts := openService(t, Options{Base: base}).run()
			web.Hold(2)
			c := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
			awaitPages(t, web, 3)
			if err := stop(ts); err != nil {
				t.Fatal(err)
			}
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

// The recrawl of a safe crawl that may not go on writes nothing: the crawl is as the generation before left it.
func TestSafeRecrawlsEndWithoutFiles(t *testing.T) {
	t.Parallel()
	for reason, stop := range safeStops() {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			web := startWeb(t, testweb.Config{Pages: 30})
			base := quick(web)
			base[0]["grace"] = config.Given{Texts: []string{"1ms"}, From: "test"}
			ts := openService(t, Options{Base: base}).run()
			c := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
			c = ts.awaitState(c.ID, Complete)
			files := func() (all string) {
				for _, name := range []string{"sitemap.jsonl", "report.json"} {
					text, err := os.ReadFile(filepath.Join(string(ts.Crawls.DataDir(c.ID)), name))
					if err != nil {
						t.Fatal(err)
					}
					all += string(text)
				}
				return all
			}
			before := files()
			from := web.HostStats(0).Pages
			web.Hold(2)
			ts.do(c.ID, CommandRecrawl)
			awaitPages(t, web, from+3)
			if err := stop(ts); err != nil {
				t.Fatal(err)
			}
			again := ts.awaitState(c.ID, Complete)
			if again.Generation != 0 || again.Done != c.Done || files() != before {
				t.Errorf("it is %s", ToJSON(again))
			}
			runs, err := ts.Crawls.Runs(t.Context(), ts.admin, c.ID)
			if err != nil || len(runs) != 2 || !strings.Contains(ToJSON(runs), reason) {
				t.Errorf("runs %s, %v", ToJSON(runs), err)
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
	for ts.Crawls.dispatch.runner(c.ID) != nil { // which is after the last event
		runtime.Gosched()
	}
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

// A store that is being opened has reserved its space and does not say so yet: that is no size.
func TestMeasureWhileOpening(t *testing.T) {
	t.Parallel()
	r := &runner{dir: datadir.Dir(t.TempDir()), crawl: &crawl.Crawl{}}
	if err := os.WriteFile(filepath.Join(string(r.dir), "reserved"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.measure(); r.size.Load() != 0 {
		t.Errorf("%d bytes", r.size.Load())
	}
}

// While less than --min-free is free, callers add nothing, and what is there can be read, ended and deleted. A request
// that is repeated has its answer.
func TestNothingIsAddedToAFullDisk(t *testing.T) {
	t.Parallel()
	disk := newFakeDisk()
	ts := openService(t, Options{MinFree: leastFree, FreeBytes: disk.FreeBytes})
	ctx := t.Context()
	sub := Submission{StartURLs: []string{"http://a.test/"}}
	submit := func(key string) error { _, err := ts.Crawls.Submit(ctx, ts.admin, sub, key); return err }
	command := func(id string, what Command) error {
		_, err := ts.Crawls.Command(ctx, ts.admin, id, what, nil)
		return err
	}
	if err := submit("repeated"); err != nil {
		t.Fatal(err)
	}
	waits, paused, ended := ts.submit(ts.admin, "http://a.test/"), ts.submit(ts.admin, "http://a.test/"),
		ts.submit(ts.admin, "http://a.test/")
	ts.do(paused.ID, CommandPause)
	if err := ts.Write(ctx, func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET state = 'complete' WHERE id = ?", ended.ID)
	}); err != nil {
		t.Fatal(err)
	}
	key, err := ts.Accounts.CreateKey(ctx, ts.admin, Key{})
	if err != nil {
		t.Fatal(err)
	}
	disk.free.Store(leastFree - 1)
	for what, call := range map[string]func() error{
		"submit":  func() error { return submit("new") },
		"edit":    func() error { _, err := ts.Crawls.Edit(ctx, ts.admin, waits.ID, Edit{Name: new("n")}); return err },
		"resume":  func() error { return command(paused.ID, CommandResume) },
		"recrawl": func() error { return command(ended.ID, CommandRecrawl) },
		"key":     func() error { _, err := ts.Accounts.CreateKey(ctx, ts.admin, Key{}); return err },
	} {
		if e, ok := errors.AsType[*Error](call()); !ok || e.Code != ErrDiskFull || !strings.Contains(e.Detail, "256 MiB") {
			t.Errorf("%s: %v", what, e)
		}
	}
	_, err = ts.Accounts.Edit(ctx, ts.admin, DefaultAccount, AccountEdit{Disabled: new(true)})
	for what, err := range map[string]error{
		"disable": err, "repeat": submit("repeated"), "pause": command(waits.ID, CommandPause),
		"cancel": command(waits.ID, CommandCancel), "delete": command(paused.ID, CommandDelete),
		"revoke": ts.Accounts.RevokeKey(ctx, ts.admin, "", key.ID),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	disk.free.Store(leastFree)
	if err := submit("new"); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

// grow makes each insert into a table take 2 MiB of the database.
func (ts *testService) grow(table string) {
	ts.t.Helper()
	if err := ts.Write(ts.t.Context(), func(tx *Tx) error {
		return tx.Change("CREATE TRIGGER grow_" + table + " BEFORE INSERT ON " + table + " BEGIN INSERT INTO host (name, " +
			"denied_reason) VALUES (hex(randomblob(8)), hex(zeroblob(1048576))); END")
	}); err != nil {
		ts.t.Fatal(err)
	}
}

// bound bounds the pages of the database, but not below those that it has: with 1 it is on a full disk.
func (ts *testService) bound(pages int) {
	ts.t.Helper()
	if err := ts.db.Write(ts.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	}); err != nil {
		ts.t.Fatal(err)
	}
}

// A service that begins on a full disk answers, and runs its crawls when there is space, without another start. What
// cannot be written is refused as on a disk that is nearly full.
func TestBeginOnAFullDisk(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 5})
	attempts := make(chan struct{}, 1000)
	ts := openService(t, Options{Base: quick(web), Observe: func(time.Duration) { attempts <- struct{}{} }})
	c := ts.submit(ts.admin, web.StartURLs()[0])
	ts.grow("process")
	ts.grow("crawl_input")
	ts.bound(1)
	for len(attempts) > 0 {
		<-attempts
	}
	ts.run()
	for range 2 { // of the recovery
		select {
		case <-attempts:
		case err := <-ts.ended:
			ts.ended <- nil
			t.Fatalf("the service ended: %v", err)
		}
	}
	if c = ts.get(c.ID); c.State != Queued {
		t.Errorf("the crawl is %s", c.State)
	}
	_, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: web.StartURLs()}, "")
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != ErrDiskFull {
		t.Errorf("a submission: %v", err)
	}
	ts.bound(1 << 20)
	if c = ts.awaitState(c.ID, Complete); c.Done != 5 {
		t.Errorf("%d pages done", c.Done)
	}
}

// Crawls are deleted while old events cannot be, as on a full disk: this may be what makes room.
func TestDeleteWhereEventsStay(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{KeepEvents: time.Nanosecond})
	c := ts.submit(ts.admin, "http://a.test/")
	if err := ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("CREATE TRIGGER full BEFORE DELETE ON event BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
	}); err != nil {
		t.Fatal(err)
	}
	ts.do(c.ID, CommandDelete)
	ts.run()
	for {
		added := ts.Events.Added() // before the look, so that nothing is missed
		_, err := ts.Crawls.Get(t.Context(), ts.admin, c.ID)
		if e, ok := errors.AsType[*Error](err); ok && e.Code == ErrNotFound {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		<-added
	}
}

// The space of crawls that were deleted comes back to the disk while the service runs.
func TestSpaceOfDeletedCrawlsComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts := openService(t, Options{}).run()
		size := func() int64 {
			info, err := os.Stat(filepath.Join(ts.Dir(), db.Name))
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		starts := make([]string, maxStarts)
		for i := range starts {
			starts[i] = fmt.Sprintf("http://a.test/%d/%080d", i, 0)
		}
		account := AccountEdit{Disabled: new(true)} // nothing starts
		if _, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount, account); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 40 {
			c, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: starts}, "")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		most := size()
		for _, id := range ids {
			ts.do(id, CommandDelete)
		}
		time.Sleep(5 * time.Minute)
		if now := size(); now > most-16<<20 {
			t.Errorf("the database had %d bytes, and has %d after its crawls were deleted", most, now)
		}
		if u, err := ts.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Disk.Used != 0 {
			t.Errorf("%d bytes are used, %v", u.Disk.Used, err)
		}
	})
}

// Few of many crawls that are deleted have their store open at the same time. The others follow.
func TestFewRemovalsAtOnce(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 1})
	ts := openService(t, Options{Base: quick(web)}).run()
	id := ts.submit(ts.admin, web.StartURLs()[0]).ID
	ts.awaitState(id, Complete)
	d := ts.Crawls.dispatch
	busy := func(change func(id string)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for i := range mostRemovals {
			change(fmt.Sprint("other ", i))
		}
	}
	busy(func(other string) { d.removing[other] = true })
	ts.do(id, CommandDelete)
	d.remove(id, time.Now())
	d.mu.Lock()
	begun := d.removing[id]
	d.mu.Unlock()
	if begun {
		t.Error("it is deleted beside as many as may be at once")
	}
	busy(func(other string) { delete(d.removing, other) })
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !isMissing(ts.crawlDir(id)); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it is not deleted")
		}
	}
}

// The temporary files of an archive do not count, and no kill leaves them behind: a crawl that is paused for its plan
// would wait for their room for ever, though they are gone.
func TestSizeWithoutTemporaryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := warc.Open(warc.Options{Dir: filepath.Join(dir, "warc")})
	if err != nil {
		t.Fatal(err)
	}
	spool, err := w.Spool()
	if err != nil {
		t.Fatal(err)
	}
	_, err = spool.Write(make([]byte, 1<<20))
	if size := sizeOf(dir); err != nil || size != 0 {
		t.Errorf("%d bytes, %v", size, err)
	}
	if err := errors.Join(spool.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}
