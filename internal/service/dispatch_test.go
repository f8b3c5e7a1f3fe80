package service

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/state"
)

// While little disk is free nothing starts and what runs pauses; when there is more, all go on by themselves and
// nothing is lost.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 60})
	var free atomic.Int64
	const least = 1 << 30
	free.Store(2 * least)
	ts := openService(t, Options{Base: quick(web), MinFree: least,
		FreeBytes: func(string) (int64, error) { return free.Load(), nil }}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 21)
	free.Store(least - 1)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if c.Waiting == nil || c.Waiting.Code != WaitDisk {
		t.Errorf("it waits for %+v", c.Waiting)
	}
	free.Store(least) // enough to submit a crawl, and not to start one
	other := ts.submit(ts.admin, web.StartURLs()[0])
	free.Store(least + least/10 + state.OpenBytes)
	for _, id := range []string{c.ID, other.ID} {
		if c := ts.awaitState(id, Complete); c.Done != 60 {
			t.Errorf("%d pages done", c.Done)
		}
	}
}

// Safe crawls run one at a time. Those that wait hold no crawl slot, and say for what they wait.
func TestSafeCrawlsTakeTurns(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 3, Pages: 5})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 2}).run()
	web.Hold(1)
	first := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
	ts.awaitState(first.ID, Running)
	second := ts.submit(ts.admin, web.StartURLs()[1], "safe", "true")
	polite := ts.submit(ts.admin, web.StartURLs()[2])
	ts.awaitState(polite.ID, Running)
	awaitStep(ts, second.ID, func(c *Crawl) bool { return c.State == Queued && c.Waiting.Position == 1 })
	_, err := ts.Crawls.Command(t.Context(), ts.admin, first.ID, CommandPause, nil)
	if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Code != ErrState ||
		slices.Contains(refusal.Allowed, CommandPause) {
		t.Errorf("a safe crawl was paused: %v", err)
	}
	web.Release()
	for _, c := range []*Crawl{first, second, polite} {
		if c = ts.awaitState(c.ID, Complete); c.Done != 5 {
			t.Errorf("%s crawl: %d pages done", c.Profile, c.Done)
		}
	}
}

// The crawls of an account do not take more slots than its plan allows, and the reason says so.
func TestPlanLimits(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 3, Pages: 8})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 3})
	ts.setPlan(Plan{MaxCrawls: 1, MaxURLs: 6, MaxQueued: 2})
	ts.run()
	web.Hold(1)
	first := ts.submit(ts.admin, web.StartURLs()[0])
	ts.awaitState(first.ID, Running)
	second := ts.submit(ts.admin, web.StartURLs()[1])
	third := ts.submit(ts.admin, web.StartURLs()[2])
	ts.Crawls.dispatch.wake()
	waits := func(id string, position int) func(*Crawl) bool {
		return func(c *Crawl) bool {
			return c.Waiting != nil && c.Waiting.Code == WaitPlan && c.Waiting.Position == position
		}
	}
	awaitStep(ts, second.ID, waits(second.ID, 1))
	awaitStep(ts, third.ID, waits(third.ID, 2))
	cursor := ""
	for _, want := range []*Crawl{second, third} {
		part, err := ts.Crawls.Queue(t.Context(), ts.admin, CrawlFilter{Limit: 1, Cursor: cursor})
		if err != nil || len(part.Items) != 1 || part.Items[0].ID != want.ID ||
			(part.NextCursor == "") != (want == third) {
			t.Errorf("the queue after %q: %+v, %v; want %s", cursor, part, err, want.ID)
			break
		}
		cursor = part.NextCursor
	}
	if part, err := ts.Crawls.Queue(t.Context(), ts.admin, CrawlFilter{Account: "other"}); err != nil ||
		len(part.Items) > 0 {
		t.Errorf("the queue of another account: %+v, %v", part, err)
	}
	_, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: web.StartURLs()[:1]}, "")
	if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Code != ErrPlanLimit {
		t.Errorf("a third waiting crawl: %v", err)
	}
	web.Release()
	for _, c := range []*Crawl{first, second, third} {
		if c = ts.awaitState(c.ID, Partial); c.PagesCounted != 6 ||
			c.Reason != "Reached max_urls limit of 6, stopping crawl" {
			t.Errorf("%d pages, %q", c.PagesCounted, c.Reason)
		}
	}
}

// awaitStep waits for something that the next step of the dispatcher brings about, without an event.
func awaitStep(ts *testService, id string, want func(*Crawl) bool) {
	ts.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		c, err := ts.Crawls.Get(ts.t.Context(), ts.admin, id)
		if err != nil {
			ts.t.Fatal(err)
		}
		if want(c) {
			return
		}
		ts.Crawls.dispatch.wake()
	}
	ts.t.Fatal("the dispatcher did not bring it about")
}

// A limit that is raised while a crawl runs holds at once.
func TestEditWhileRunning(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(5)
	c := ts.submit(ts.admin, web.StartURLs()[0], "max_urls", "10")
	ts.awaitState(c.ID, Running)
	name := "renamed"
	c, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Name: &name, Settings: raw("max_urls", "25")})
	if err != nil || c.Name != name || fmt.Sprint(c.Settings["max_urls"]) != "25" {
		t.Fatalf("%+v, %v", c, err)
	}
	_, err = ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("scope", `"domain"`, "user_agent", `"x"`)})
	if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Code != ErrInvalid || len(refusal.Fields) != 2 {
		t.Errorf("settings that cannot be changed now: %v", err)
	}
	web.Release()
	if c = ts.awaitState(c.ID, Partial); c.PagesCounted != 25 {
		t.Errorf("%d pages, want 25", c.PagesCounted)
	}
	_, err = ts.Crawls.Command(t.Context(), ts.admin, c.ID, CommandResume, nil)
	if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.State != Partial {
		t.Errorf("resumed at its limit: %v", err)
	}
	if _, err = ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("max_urls", "null")}); err != nil {
		t.Fatal(err)
	}
	ts.do(c.ID, CommandResume)
	if c = ts.awaitState(c.ID, Complete); c.Done != 40 {
		t.Errorf("%d pages done", c.Done)
	}
}

// Every limit can be changed while a crawl runs. For those that the run itself does not change, it begins again, in the
// same state and with nothing lost or fetched twice; a command that comes meanwhile is obeyed.
func TestEveryLimitWhileRunning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		begin   []string // settings
		change  []string
		command Command // given while the run stops
		want    State
		pages   int64
	}{
		{"raised", []string{"max_urls_per_host", "10"}, []string{"max_urls_per_host", "25"}, "", Partial, 25},
		{"removed", []string{"max_urls_per_host", "10"}, []string{"max_urls_per_host", "null", "max_body_size",
			"9000000", "timeout", `"7s"`}, "", Complete, 40},
		{"lowered", []string{"max_urls_per_host", "30"}, []string{"max_depth", "9", "max_urls_per_host", "12"}, "",
			Partial, 12},
		{"paused", []string{"max_urls_per_host", "10"}, []string{"max_urls_per_host", "25"}, CommandPause, Paused, 0},
		{"cancelled", []string{"max_urls_per_host", "10"}, []string{"max_urls_per_host", "25"}, CommandCancel,
			Cancelled, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			web := startWeb(t, testweb.Config{Pages: 40})
			ts := openService(t, Options{Base: quick(web)}).run()
			web.Hold(5)
			// Requests that are under way when a limit is lowered count beyond it: there is one.
			begin := append(c.begin, "max_inflight_per_host", "1")
			crawl := ts.submit(ts.admin, web.StartURLs()[0], begin...)
			awaitPages(t, web, 6)
			if _, err := ts.Crawls.Edit(t.Context(), ts.admin, crawl.ID, Edit{Settings: raw(c.change...)}); err != nil {
				t.Fatal(err)
			}
			if c.command != "" {
				ts.do(crawl.ID, c.command)
			}
			awaitText(t, ts.Crawls.DataDir(crawl.ID).Log(), "stopping: no new fetches")
			web.Release()
			if crawl = ts.awaitState(crawl.ID, c.want); c.pages > 0 && crawl.PagesCounted != c.pages {
				t.Errorf("%d pages, want %d", crawl.PagesCounted, c.pages)
			}
			got := ts.eventTypes(crawl.ID)
			if c.command == "" && !slices.Equal(got, []EventType{CrawlQueued, CrawlStarted, CrawlFinishing,
				CrawlFinished}) {
				t.Errorf("events %v", got)
			}
			if used, granted := ts.used(); used != crawl.PagesCounted || granted != 0 {
				t.Errorf("%d pages are booked and %d reserved, %d counted", used, granted, crawl.PagesCounted)
			}
		})
	}
}

// What says which settings are limits names settings, all of the group.
func TestLimitSettings(t *testing.T) {
	t.Parallel()
	table := map[string]config.Entry{}
	for _, e := range new(config.Settings).Table() {
		table[e.Name] = e
		if e.Group == config.Limits && e.Permission == config.Tenant && !slices.Contains(limitSettings(), e.Name) {
			t.Errorf("%s is a limit that cannot be changed while a crawl runs", e.Name)
		}
	}
	for _, name := range limitSettings() {
		if table[name].Name == "" {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// A host says which running crawls do not ask it any more, to those who may see them.
func TestBlockedOn(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 5})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(1)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 2)
	ts.Crawls.dispatch.runner(c.ID).notify(crawl.Notice{Host: "gone.test", Reason: "it failed too often in a row"})
	other, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		caller *Caller
		host   string
		blocks []HostBlock
	}{
		{ts.admin, "gone.test", []HostBlock{{c.ID, "it failed too often in a row"}}},
		{ts.admin, "h0.test", nil},
		{&Caller{Account: other, System: "test", Scopes: []Scope{ScopeWrite}}, "gone.test", nil},
	} {
		if got, err := ts.Crawls.BlockedOn(t.Context(), want.caller, want.host); err != nil ||
			!slices.Equal(got, want.blocks) {
			t.Errorf("%s: %v, %v; want %v", want.host, got, err, want.blocks)
		}
	}
	web.Release()
	ts.awaitState(c.ID, Complete)
}

// The budgets of a crawl are its share of the memory of the service.
func TestBudgets(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	ts.submit(ts.admin, "https://a.test/")
	rows, err := loadRows(t.Context(), ts.db.Read(), true, "")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	used := func(memory int64, crawls int) (bytes int64) {
		o := &Options{MemoryLimit: memory, MaxCrawls: crawls, MaxWorkers: 512}
		s, err := o.settings(rows[0], &Plan{})
		if err != nil {
			t.Fatal(err)
		}
		return int64(o.hotSetBytes()) + int64(s.GlobalFrontierSizeLimit)*bytesPerURL +
			int64(s.ReadyHeapSizeLimit)*bytesPerHost + int64(s.BloomCapacity)*bytesPerKey
	}
	for _, crawls := range []int{1, 4, 50} {
		for _, share := range []int64{2 << 30 / int64(crawls), LeastMemory} {
			if n := used(share*int64(crawls), crawls); n > share {
				t.Errorf("%d crawls: one has budgets of %d bytes, its share is %d", crawls, n, share)
			}
		}
		o := &Options{MemoryLimit: 2 << 30, MaxCrawls: crawls, MaxWorkers: 512}
		// One tree must fit.
		if n := o.shared().TreeMemory; n < 128<<20 || n > max(o.MemoryLimit/int64(crawls), 128<<20) {
			t.Errorf("%d crawls: the trees of one have %d bytes", crawls, n)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 1}).run()
	web.Hold(10)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	ts.awaitState(c.ID, Running)
	queued := ts.submit(ts.admin, web.StartURLs()[0])
	if c := ts.do(queued.ID, CommandCancel); c.State != Cancelled || c.EndedAt.IsZero() {
		t.Errorf("a queued crawl that is cancelled is %s", c.State)
	}
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	ts.awaitState(c.ID, Paused)
	ts.do(c.ID, CommandCancel)
	c = ts.awaitState(c.ID, Cancelled)
	checkFiles(t, ts, c.ID)
	if got := ts.eventTypes(c.ID); !slices.Equal(got[len(got)-2:], []EventType{CrawlFinishing, CrawlFinished}) {
		t.Errorf("events %v", got)
	}
}

// After a restore a row without a directory is failed, and a directory without a row is listed and stays.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 5})
	dir := t.TempDir()
	ts := openService(t, Options{Dir: dir, Base: quick(web)}).run()
	lost, kept := ts.submit(ts.admin, web.StartURLs()[0]), ts.submit(ts.admin, web.StartURLs()[0])
	ts.awaitState(lost.ID, Complete)
	ts.awaitState(kept.ID, Complete)
	ts.end()
	// it ran when the copy was made
	err := openService(t, Options{Dir: dir, RecordsOnly: true}).Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET state = 'running', granted = 7, grant_month = ? WHERE id = ?",
			monthOf(time.Now()), lost.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(string(ts.Crawls.DataDir(lost.ID))); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, "crawls", NewID())
	if err := os.Mkdir(stray, 0o700); err != nil {
		t.Fatal(err)
	}
	again := openService(t, Options{Dir: dir, Base: quick(web)}).run()
	if c := again.await(lost.ID, func(c *Crawl) bool { return c.State == Failed }); len(c.Errors) != 1 ||
		!strings.Contains(c.Errors[0], "directory is missing") {
		t.Errorf("%q", c.Errors)
	}
	if used, granted := again.used(); used != 10 || granted != 0 {
		t.Errorf("%d pages are used and %d reserved", used, granted)
	}
	again.awaitState(kept.ID, Complete)
	again.end()
	if strays, err := openService(t, Options{Dir: dir}).strays(t.Context()); err != nil ||
		!slices.Equal(strays, []string{stray}) {
		t.Errorf("strays %v, %v", strays, err)
	}
}

// After three unclean ends within ten minutes the crawls that ran come back one at a time, and one with which the
// process ends again stays paused.
func TestUnstableProcess(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 5})
	const least = 1 << 30
	var free atomic.Int64
	free.Store(least) // crawls are queued, and have no room to start
	ts := openService(t, Options{Base: quick(web), MinFree: least,
		FreeBytes: func(string) (int64, error) { return free.Load(), nil }})
	var ids []string
	for range 2 {
		ids = append(ids, ts.submit(ts.admin, web.StartURLs()[0]).ID)
	}
	unclean := func(at time.Time) {
		if _, err := ts.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ts.db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE crawl SET state = 'running', started_at = 1 WHERE state = 'queued'")
			_, timeErr := tx.Exec("UPDATE process SET started_at = ? WHERE id = (SELECT MAX(id) FROM process)",
				at.UnixMilli())
			return errors.Join(err, timeErr)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		unclean(time.Now().Add(time.Duration(i-3) * time.Minute))
	}
	states := func() (all []string) {
		for _, id := range ids {
			c, err := ts.Crawls.Get(t.Context(), ts.admin, id)
			if err != nil {
				t.Fatal(err)
			}
			text := string(c.State)
			if c.State == Paused {
				text += " " + string(c.Waiting.Code)
			}
			all = append(all, text)
		}
		return all
	}
	if _, err := ts.recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := states(); !slices.Equal(got, []string{"paused recovery", "paused recovery"}) {
		t.Fatalf("after three unclean ends: %v", got)
	}
	// One goes on, and another step does not let a second one go on while that is queued.
	for range 2 {
		if err := ts.Crawls.dispatch.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(2 * least)
	if got := states(); !slices.Equal(got, []string{"queued", "paused recovery"}) {
		t.Fatalf("one at a time: %v", got)
	}
	// The process ends while that one runs.
	unclean(time.Now())
	if _, err := ts.recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	ts.run()
	if c := ts.awaitState(ids[1], Complete); c.Done != 5 {
		t.Errorf("the other crawl: %d pages done", c.Done)
	}
	if c := ts.awaitState(ids[0], Paused); c.Waiting.Detail != convictText {
		t.Errorf("the crawl with which the process ended waits for %+v", c.Waiting)
	}
	ts.do(ids[0], CommandResume)
	ts.awaitState(ids[0], Complete)
}

// Only one process runs the crawls of a directory; others may read and write records.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ts := openService(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil {
		t.Error("a second process may run crawls")
	} else if locked := (*disk.LockedError)(nil); !errors.As(err, &locked) {
		t.Errorf("a second process: %v", err)
	}
	records := openService(t, Options{Dir: dir, RecordsOnly: true})
	key, err := records.Accounts.CreateKey(t.Context(), ts.admin, Key{Scopes: []Scope{ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := ts.Accounts.Authenticate(t.Context(), key.Secret); err != nil || caller.Has(ScopeWrite) ||
		!caller.Has(ScopeRead) {
		t.Errorf("%+v, %v", caller, err)
	}
}

// When the scope of a paused crawl is changed, pending URLs outside of it end as excluded, without a request.
func TestScopeOfAPausedCrawl(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 60})
	ts := openService(t, Options{Base: quick(web)}).run()
	c := ts.submitPaused(web, 10)
	if c.Done == 0 || c.Pending == 0 {
		t.Fatalf("%d pages done, %d pending", c.Done, c.Pending)
	}
	if _, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("exclude", `["."]`)}); err != nil {
		t.Fatal(err)
	}
	before := web.HostStats(0).Pages
	ts.do(c.ID, CommandResume)
	done := ts.awaitState(c.ID, Complete)
	if got := done.Outcomes["excluded"]; got != c.Pending || web.HostStats(0).Pages != before ||
		done.PagesCounted != c.PagesCounted {
		t.Errorf("%d of %d pending pages are excluded, and %d were asked for", got, c.Pending,
			web.HostStats(0).Pages-before)
	}
}

// The hosts that a paused crawl may ask can be changed: pending URLs of others end as excluded, without a request.
func TestHostsOfAPausedCrawl(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 2, Pages: 30, CrossHost: 0.5})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(10)
	c := ts.submit(ts.admin, web.StartURLs()[0], "scope", `"any"`)
	awaitPages(t, web, 11, 1)
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if len(c.Warnings) > 0 {
		t.Fatalf("warnings %q", c.Warnings)
	}
	before := web.HostStats(1).Pages
	c, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("only_hosts", `["h0.test"]`,
		"max_depth", "50")})
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("warnings %q, %v", c.Warnings, err)
	}
	ts.do(c.ID, CommandResume)
	done := ts.awaitState(c.ID, Complete)
	if done.Outcomes["excluded"] == 0 || web.HostStats(1).Pages != before || done.Outcomes["ok"] < 30 {
		t.Errorf("outcomes %v; the other host was asked for %d pages, and for %d before", done.Outcomes,
			web.HostStats(1).Pages, before)
	}
}

// A paused crawl that gets a wider scope reads pages again whose links it left out, and so does a recrawl after a
// complete one.
func TestWiderScopeOfAPausedCrawl(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(4)
	c := ts.submit(ts.admin, web.StartURLs()[0], "max_depth", "1")
	awaitPages(t, web, 5)
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	ts.awaitState(c.ID, Paused)
	widen := func(depth string) {
		t.Helper()
		if c, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("max_depth", depth)}); err != nil ||
			len(c.Warnings) > 0 {
			t.Fatalf("warnings %q, %v", c.Warnings, err)
		}
	}
	widen("2")
	ts.do(c.ID, CommandResume)
	c = ts.awaitState(c.ID, Complete)
	deeper := c.Outcomes["ok"]
	if deeper < 10 {
		t.Errorf("resumed: outcomes %v", c.Outcomes)
	}
	widen("-1")
	ts.do(c.ID, CommandRecrawl)
	if c = ts.awaitState(c.ID, Complete); c.Outcomes["ok"] != 40 || c.Generation != 1 {
		t.Errorf("crawled again: outcomes %v, %d before", c.Outcomes, deeper)
	}
}

// A crawl that waits can be changed in everything, its plan too. Of a plan that has become smaller only what the
// request itself asks for is refused, and every fault of it is named.
func TestEditOfAWaitingCrawl(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	tenant := &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}}
	priority := 9
	c, err := ts.Crawls.Submit(t.Context(), tenant, Submission{StartURLs: []string{"https://a.test/"},
		Priority: &priority, Settings: raw("max_urls", "900", "timeout", `"9s"`)}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: defaultPlan, MaxURLs: 100, MaxPriority: 3,
		Refused: []string{"timeout"}}); err != nil {
		t.Fatal(err)
	}
	if err := ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: "large", MaxPriority: 9}); err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	starts := []string{"https://b.test/"}
	for _, tt := range []struct {
		name   string
		by     *Caller
		edit   Edit
		faults []string
		plan   string
	}{
		{"what the plan would refuse now stays", tenant, Edit{Name: text("n"), StartURLs: &starts,
			Settings: raw("max_depth", "5")}, nil, defaultPlan},
		{"every fault", tenant, Edit{Priority: &priority, Settings: raw("max_urls", "101", "timeout", `"8s"`,
			"nonsense", "1")},
			[]string{"priority", "settings.max_urls", "settings.nonsense", "settings.timeout"}, defaultPlan},
		{"a larger plan", tenant, Edit{Plan: text("large")}, []string{"plan"}, defaultPlan},
		{"no such plan", ts.admin, Edit{Plan: text("none")}, []string{"plan"}, defaultPlan},
		{"a larger plan, by an admin", ts.admin, Edit{Plan: text("large")}, nil, "large"},
		{"back, with all that is refused", tenant, Edit{Plan: text("")},
			[]string{"priority", "settings.max_urls", "settings.timeout"}, "large"},
		{"a safe plan lifts nothing", tenant, Edit{Plan: text("safe")},
			[]string{"priority", "settings.max_urls", "settings.timeout"}, "large"},
		{"a safe plan, by an admin", ts.admin, Edit{Plan: text("safe"), Priority: new(3),
			Settings: raw("max_urls", "null", "timeout", "null")}, nil, "safe"},
	} {
		_, err := ts.Crawls.Edit(t.Context(), tt.by, c.ID, tt.edit)
		var fields []string
		if refusal := (*Error)(nil); errors.As(err, &refusal) {
			for _, f := range refusal.Fields {
				fields = append(fields, f.Field)
			}
		}
		slices.Sort(fields)
		if !slices.Equal(fields, tt.faults) || (err == nil) != (tt.faults == nil) {
			t.Errorf("%s: %v; want faults of %q", tt.name, err, tt.faults)
		}
		if c, err = ts.Crawls.Get(t.Context(), tenant, c.ID); err != nil || c.Plan != tt.plan {
			t.Errorf("%s: the plan is %q, %v", tt.name, c.Plan, err)
		}
	}
	if c.Profile != "safe" || c.Name != "n" || c.StartURLs[0] != starts[0] {
		t.Errorf("%+v", c)
	}
}

// Limits that are nearly used are durable events.
func TestLimitWarnings(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web)}).run()
	// One request at a time: of several that begin together, the last one may be the first to look.
	c := ts.submit(ts.admin, web.StartURLs()[0], "max_urls", "20", "max_inflight_per_host", "1")
	ts.awaitState(c.ID, Partial)
	n := 0
	for _, e := range ts.eventTypes(c.ID) {
		if e == LimitWarning {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d warnings, want 2", n)
	}
}

// The running crawls of an account that is disabled pause, and go on by themselves when it is enabled.
func TestDisabledAccount(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 60})
	ts := openService(t, Options{Base: quick(web)}).run()
	account, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	web.Hold(20)
	c := ts.submit(&Caller{Account: account, System: "test", Scopes: []Scope{ScopeWrite}}, web.StartURLs()[0])
	awaitPages(t, web, 21)
	disable := func(disabled bool) {
		if _, err := ts.Accounts.Edit(t.Context(), ts.admin, account.ID, AccountEdit{Disabled: &disabled}); err != nil {
			t.Fatal(err)
		}
	}
	disable(true)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	if c = ts.awaitState(c.ID, Paused); c.Waiting == nil || c.Waiting.Code != WaitAccount {
		t.Errorf("it waits for %+v", c.Waiting)
	}
	disable(false)
	if c = ts.awaitState(c.ID, Complete); c.Done != 60 || c.PagesCounted != 60 {
		t.Errorf("%d pages done, %d counted", c.Done, c.PagesCounted)
	}
}

// A plan that becomes safe caps the crawls that run under it at once.
func TestPlanBecomesSafe(t *testing.T) {
	t.Parallel()
	t.Run("plan", func(t *testing.T) { planBecomesSafe(t, func(ts *testService) { ts.setPlan(Plan{Safe: true}) }) })
	t.Run("account", func(t *testing.T) {
		planBecomesSafe(t, func(ts *testService) {
			plan := "safe"
			if _, err := ts.Accounts.Edit(ts.t.Context(), ts.admin, DefaultAccount,
				AccountEdit{Plan: &plan}); err != nil {
				ts.t.Fatal(err)
			}
		})
	})
}

func planBecomesSafe(t *testing.T, change func(*testService)) {
	web := startWeb(t, testweb.Config{Pages: 80})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0], "max_urls", "70")
	awaitPages(t, web, 21)
	change(ts)
	awaitStep(ts, c.ID, func(*Crawl) bool {
		live := ts.Crawls.dispatch.runner(c.ID).current().Status()
		return slices.ContainsFunc(live.Limits, func(l monitor.LimitUse) bool {
			return l.Name == "pages" &&
				l.Limit == 50
		})
	})
	if _, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw("max_urls", "1000")}); err != nil {
		t.Fatal(err)
	}
	web.Release()
	const message = "Safety limit: Maximum 50 pages per crawl (requested: 70)"
	if c = ts.awaitState(c.ID, Partial); c.PagesCounted != 50 || c.Reason != message ||
		!slices.Equal(c.Errors, []string{message}) {
		t.Errorf("%d pages, want 50; reason %q, errors %q", c.PagesCounted, c.Reason, c.Errors)
	}
}

// A smaller limit of pages in a plan holds for the crawls that run under it.
func TestPlanOfARunningCrawl(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 80})
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 21)
	ts.setPlan(Plan{MaxURLs: 30})
	awaitStep(ts, c.ID, func(*Crawl) bool {
		live := ts.Crawls.dispatch.runner(c.ID).current().Status()
		return slices.ContainsFunc(live.Limits, func(l monitor.LimitUse) bool { return l.Name == "pages" && l.Limit == 30 })
	})
	web.Release()
	if c = ts.awaitState(c.ID, Partial); c.PagesCounted != 30 {
		t.Errorf("%d pages, want 30", c.PagesCounted)
	}
}

// copyCrawl makes rows that are like that of a crawl.
func (ts *testService) copyCrawl(id string, copies int) {
	ts.t.Helper()
	columns, err := Collect(ts.t.Context(), ts.db.Read(), Column[string], "SELECT name FROM pragma_table_info('crawl') "+
		"WHERE name <> 'id'")
	if err != nil {
		ts.t.Fatal(err)
	}
	list := strings.Join(columns, ", ")
	err = ts.Write(ts.t.Context(), func(tx *Tx) error {
		return tx.Change("WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) INSERT INTO "+
			"crawl (id, "+list+") SELECT ? || n, "+list+" FROM crawl, n WHERE id = ?", copies, id, id)
	})
	if err != nil {
		ts.t.Fatal(err)
	}
}

// An account that deletes many crawls does not delay the deletions of others, nor does retention.
func TestRemovalsTakeTurns(t *testing.T) {
	t.Parallel()
	const many = 1200
	ts := openService(t, Options{Retention: time.Hour})
	b := ts.addCaller("b")
	first := ts.submit(ts.admin, "https://a.test/").ID
	ts.copyCrawl(first, many-1)
	last := ts.submit(b, "https://b.test/").ID
	for _, state := range []State{Deleting, Cancelled} { // those that have ended are deleted by retention
		err := ts.Write(t.Context(), func(tx *Tx) error {
			return tx.Change("UPDATE crawl SET state = ?, desired = 'delete', ended_at = 1000 WHERE id <> ? AND "+
				"rowid % 2 = ?", state, last, map[State]int{Deleting: 0, Cancelled: 1}[state])
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ts.do(last, CommandDelete)
	ts.run()
	awaitGone(ts, last)
	events, err := ts.Events.Since(t.Context(), EventFilter{Limit: 2 * many})
	if err != nil {
		t.Fatal(err)
	}
	events = slices.DeleteFunc(events, func(e Event) bool { return e.Type != CrawlDeleted })
	at := slices.IndexFunc(events, func(e Event) bool { return e.Crawl == last })
	if at < 0 || at > 3*mostRemovals {
		t.Errorf("the crawl of the other account is deleted as number %d", at+1)
	}
}

// Without a limit of its plan, 10,000 crawls of an account wait, whether they are submitted or resumed.
func TestQueueHasABound(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	b := ts.addCaller("b")
	paused := ts.submit(b, "https://a.test/").ID
	if _, err := ts.Crawls.Command(t.Context(), b, paused, CommandPause, nil); err != nil {
		t.Fatal(err)
	}
	id := ts.submit(b, "https://a.test/").ID
	ts.copyCrawl(id, mostQueued-2)
	ts.submit(b, "https://a.test/") // the last
	_, submitErr := ts.Crawls.Submit(t.Context(), b, Submission{StartURLs: []string{"https://a.test/"}}, "")
	_, resumeErr := ts.Crawls.Command(t.Context(), b, paused, CommandResume, nil)
	for what, err := range map[string]error{"submit": submitErr, "resume": resumeErr} {
		if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Code != ErrPlanLimit {
			t.Errorf("%s: %v", what, err)
		}
	}
	ts.submit(ts.admin, "https://a.test/") // of another account
}

// Crawls that are resumed wait in the queue like those that are submitted: no more of them than the plan of their
// account allows, whoever resumes them.
func TestResumedCrawlsCount(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	ts.setPlan(Plan{MaxQueued: 2})
	var ids []string
	for range 3 {
		ids = append(ids, ts.submit(ts.admin, "https://a.test/").ID)
		ts.do(ids[len(ids)-1], CommandPause)
	}
	if err := ts.Accounts.PutPlan(t.Context(), ts.admin, Plan{Name: "large", MaxPriority: 9}); err != nil {
		t.Fatal(err)
	}
	other, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: "other", Plan: "large"})
	if err != nil {
		t.Fatal(err)
	}
	admin := &Caller{Account: other, System: "test", Scopes: []Scope{ScopeAdmin}}
	for i, id := range ids {
		_, err := ts.Crawls.Command(t.Context(), admin, id, CommandResume, nil)
		if refusal := (*Error)(nil); i < 2 && err != nil || i == 2 &&
			(!errors.As(err, &refusal) || refusal.Code != ErrPlanLimit) {
			t.Errorf("crawl %d: %v", i, err)
		}
	}
}

// The caller of an account finds its own crawls only, and only with valid keys.
func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	other, err := ts.Accounts.Create(t.Context(), ts.admin, Account{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ts.Accounts.CreateKey(t.Context(), ts.admin, Key{Account: other.ID, Scopes: []Scope{ScopeWrite}})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := ts.Accounts.Authenticate(t.Context(), key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	theirs := ts.submit(ts.admin, "https://www.example.com/")
	own := ts.submit(caller, "https://www.example.org/")
	code := func(err error) ErrorCode {
		if e := (*Error)(nil); errors.As(err, &e) {
			return e.Code
		}
		return ""
	}
	for _, id := range []string{theirs.ID, NewID(), "../" + own.ID, "", strings.ToUpper(own.ID)} {
		if _, err := ts.Crawls.Get(t.Context(), caller, id); code(err) != ErrNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
	list, err := ts.Crawls.List(t.Context(), caller, CrawlFilter{Account: ts.admin.Account.ID})
	if err != nil || len(list.Items) != 1 || list.Items[0].ID != own.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if all, err := ts.Crawls.List(t.Context(), ts.admin, CrawlFilter{Limit: 1}); err != nil || len(all.Items) != 1 ||
		all.NextCursor == "" {
		t.Errorf("%+v, %v", all, err)
	} else if rest, err := ts.Crawls.List(t.Context(), ts.admin,
		CrawlFilter{Limit: 1, Cursor: all.NextCursor}); err != nil || len(rest.Items) != 1 ||
		rest.NextCursor != "" || rest.Items[0].ID == all.Items[0].ID {
		t.Errorf("%+v, %v", rest, err)
	}
	for name, secret := range map[string]string{"none": "", "cut": key.Secret[:len(key.Secret)-1],
		"longer": key.Secret + "A", "other id": keyPrefix + NewID() + "_" + strings.Repeat("A", 26)} {
		if _, err := ts.Accounts.Authenticate(t.Context(), secret); code(err) != ErrUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ts.Accounts.RevokeKey(t.Context(), ts.admin, "", key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Accounts.Authenticate(t.Context(), key.Secret); code(err) != ErrUnauthorized {
		t.Errorf("a revoked key: %v", err)
	}
}

// A submission with an idempotency key is accepted once; another one with the same key is refused; all faults of one
// are named.
func TestSubmissions(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{})
	long := "https://www.example.com/" + strings.Repeat("x", 4000)
	sub := Submission{StartURLs: []string{long}, Name: strings.Repeat("n", 200), Labels: []string{"l"},
		Settings: raw("max_urls", "10")}
	first, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "key")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "key")
	if err != nil || ToJSON(again) != ToJSON(first) || again.StartURLs[0] != long {
		t.Errorf("the same submission again: %s, %v; want %s", ToJSON(again), err, ToJSON(first))
	}
	kept, err := Value[int](t.Context(), ts.db.Read(), "SELECT LENGTH(answer_json) FROM idempotency")
	if err != nil || kept > 1000 {
		t.Errorf("the answer has %d bytes in the database, %v", kept, err)
	}
	ts.setPlan(Plan{Refused: []string{"max_urls"}, MaxQueued: 1}) // it would be refused now
	if again, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "key"); err != nil || again.ID != first.ID {
		t.Errorf("the same submission after the plan was changed: %+v, %v", again, err)
	}
	sub.Name = "two"
	_, err = ts.Crawls.Submit(t.Context(), ts.admin, sub, "key")
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != ErrReused {
		t.Errorf("another submission with the same key: %v", err)
	}
	// A limit of the operator for all crawls does not refuse a submission under a plan with a lower one.
	limited := openService(t, Options{Base: []config.Layer{{"max-urls": {Texts: []string{"1000"}, From: "test"}}}})
	limited.setPlan(Plan{MaxURLs: 500})
	limited.submit(limited.admin, "https://www.example.com/")
	priority := 11
	bad := Submission{StartURLs: []string{"ftp://x/", "https://www.example.com/", ""}, Priority: &priority,
		Plan: "none", Labels: []string{""},
		Settings: raw("max_urls", `"many"`, "shards", "1", "nonsense", "1")}
	_, err = ts.Crawls.Submit(t.Context(), &Caller{Account: ts.admin.Account, System: "test", Scopes: []Scope{ScopeWrite}},
		bad, "")
	refusal := (*Error)(nil)
	if !errors.As(err, &refusal) || refusal.Code != ErrInvalid {
		t.Fatalf("a bad submission: %v", err)
	}
	var fields []string
	for _, f := range refusal.Fields {
		fields = append(fields, f.Field)
	}
	slices.Sort(fields)
	want := []string{"labels[0]", "plan", "priority", "settings.max_urls", "settings.nonsense", "settings.shards",
		"start_urls[0]", "start_urls[2]"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %v, want %v", fields, want)
	}
}

// Short forms of settings are stored, shown, refused by a plan and changed as the settings that they stand for.
func TestShortForms(t *testing.T) {
	ts := openService(t, Options{})
	sub := Submission{StartURLs: []string{"https://www.example.com/"}, Settings: raw("list", "true", "delay", `"1s"`)}
	c, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"base_delay_ms":0,"max_delay_ms":1000,"max_depth":0,"min_delay_ms":1000}`
	if got := ToJSON(c.Settings); got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
	for change, want := range map[string]string{"max_depth 3": `"max_depth":3`, "list true": `"max_depth":0`,
		"list null": `"min_delay_ms":1000}`} {
		name, value, _ := strings.Cut(change, " ")
		c, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, Edit{Settings: raw(name, value)})
		if err != nil || !strings.Contains(ToJSON(c.Settings), want) {
			t.Errorf("%s: settings %s, %v", change, ToJSON(c.Settings), err)
		}
	}
	ts.setPlan(Plan{Refused: []string{"max_depth"}})
	_, err = ts.Crawls.Submit(t.Context(), ts.admin, sub, "")
	if e := (*Error)(nil); !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Field != "settings.max_depth" {
		t.Errorf("a short form of a setting that the plan refuses: %s", ToJSON(err))
	}
}

// A start URL with a password is refused, and not repeated in the answer. One that an earlier version stored is not
// shown, and does not prevent the crawl.
func TestPasswordsInStartURLs(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 3})
	ts := openService(t, Options{Base: quick(web)})
	_, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: []string{"https://example.com/",
		"http://name:s3cret@h0.test/"}}, "")
	if e := (*Error)(nil); !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Field != "start_urls[1]" ||
		strings.Contains(ToJSON(e), "s3cret") {
		t.Errorf("a start URL with a password: %s", ToJSON(err))
	}
	c := ts.submit(ts.admin, web.StartURLs()[0])
	old := strings.Replace(web.StartURLs()[0], "http://", "http://name:s3cret@", 1)
	err = ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl_input SET starts_json = ?",
			ToJSON([]string{old}))
	})
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	if c = ts.awaitState(c.ID, Complete); c.Done != 3 || !slices.Equal(c.StartURLs, web.StartURLs()[:1]) {
		t.Errorf("%d pages of %q", c.Done, c.StartURLs)
	}
}

// A crawl that finds ever new hosts is paused before it takes all memory. Resumed with a narrower scope, it finishes the
// hosts that it has, unless they are far too many: otherwise each resume could add some.
func TestTooManyHosts(t *testing.T) {
	t.Parallel()
	for _, most := range []int{30, 10} {
		web := startWeb(t, testweb.Config{Hosts: 60, Pages: 10, Links: 30, CrossHost: 0.9})
		ts := openService(t, Options{Base: quick(web)})
		ts.Crawls.dispatch.mostHosts = most
		ts.run()
		web.Hold(40) // so many pages have links to more hosts than may be
		c := ts.submit(ts.admin, web.StartURLs()[0], "scope", `"any"`, "seeding_strategy", `["none"]`)
		ts.awaitState(c.ID, Pausing, Paused)
		web.Release()
		c = ts.awaitState(c.ID, Paused)
		if c.Waiting.Code != WaitOperator || !strings.Contains(c.Waiting.Detail, fmt.Sprintf("more than %d hosts", most)) ||
			c.Desired != DesiredPause {
			t.Errorf("it waits for %+v, desired %s", c.Waiting, c.Desired)
		}
		if most == 10 {
			web.Hold(0) // no host is finished
			ts.do(c.ID, CommandResume)
			ts.awaitState(c.ID, Pausing, Paused)
			web.Release()
			continue
		}
		edit := Edit{Settings: raw("only_hosts", `["h0.test"]`)}
		if _, err := ts.Crawls.Edit(t.Context(), ts.admin, c.ID, edit); err != nil {
			t.Fatal(err)
		}
		ts.do(c.ID, CommandResume)
		ts.awaitState(c.ID, Complete)
	}
}
