package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/slot"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/state"
)

// fakeDisk is the disk of a service in a test: what is free of it, less what the stores of running crawls take.
type fakeDisk struct {
	free atomic.Int64
	ts   atomic.Pointer[testService] // nil as long as nothing runs
}

const leastFree = 256 << 20 // of the disk of a test, and of a store

func newFakeDisk() *fakeDisk {
	d := &fakeDisk{}
	d.free.Store(4 << 30)
	return d
}

func (d *fakeDisk) FreeBytes(string) (int64, error) {
	free := d.free.Load()
	if ts := d.ts.Load(); ts != nil {
		for _, r := range ts.Crawls.dispatch.all() {
			if r.isOpen.Load() {
				free -= state.OpenBytes
			}
		}
	}
	return free, nil
}

// count is how many events of a type a crawl has.
func (ts *testService) count(id string, what EventType) (n int) {
	ts.t.Helper()
	for _, e := range ts.eventTypes(id) {
		if e == what {
			n++
		}
	}
	return n
}

// get is a crawl as it is now.
func (ts *testService) get(id string) *Crawl {
	ts.t.Helper()
	c, err := ts.Crawls.Get(ts.t.Context(), ts.admin, id)
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// A crawl is cancelled in every state while the disk is full. It ends, each change of state is one event, and the
// attempts to write its files come later and later. If there is space in time, it has files; else it says why not, and
// its pages can be read.
func TestCancelOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pause bool          // it is paused by a key before the disk is full; else it finds the disk full
		late  bool          // the cancellation comes while the crawl pauses
		after time.Duration // when there is space again; 0 is never
	}{{"paused by a key", true, false, 0}, {"paused for the disk", false, false, 0},
		{"while it pauses", false, true, 0}, {"space again", true, false, 20 * time.Second},
		{"paused for the disk, space again", false, false, 10 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, base, client := startWebInBubble(t, testweb.Config{Pages: 60})
				disk := newFakeDisk()
				var transactions atomic.Int64
				ts := openService(t, Options{Base: base, Fetcher: client, MinFree: leastFree, FreeBytes: disk.FreeBytes,
					Observe: func(time.Duration) { transactions.Add(1) }}).run()
				web.Hold(20)
				id := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`).ID
				awaitPages(t, web, 21)
				if c.pause {
					ts.do(id, CommandPause)
					ts.awaitState(id, Pausing, Paused)
					web.Release()
					ts.awaitState(id, Paused)
				}
				disk.free.Store(1 << 20)
				if !c.pause {
					ts.awaitState(id, Pausing, Paused)
					if !c.late {
						web.Release()
						ts.awaitState(id, Paused)
					}
				}
				began := transactions.Load()
				ts.do(id, CommandCancel)
				web.Release()
				if c.after > 0 {
					time.Sleep(c.after)
					if got := ts.get(id); got.State.Ended() {
						t.Errorf("%s before there was space", got.State)
					}
					disk.free.Store(4 << 30)
				}
				time.Sleep(2 * time.Minute)
				got := ts.get(id)
				if got.State != Cancelled || got.Status != page.Cancelled {
					t.Fatalf("%s, desired %s, waiting %+v", got.State, got.Desired, got.Waiting)
				}
				events := ts.eventTypes(id)
				for _, what := range []EventType{CrawlPausing, CrawlPaused, CrawlFinishing, CrawlFinished} {
					if n := ts.count(id, what); n > 1 {
						t.Errorf("%d events %s: %v", n, what, events)
					}
				}
				if n := transactions.Load() - began; n > 40 {
					t.Errorf("%d transactions since the cancellation", n)
				}
				_, err := os.Stat(ts.Crawls.DataDir(id).JSONL())
				if (err == nil) != (c.after > 0) {
					t.Errorf("its file: %v", err)
				}
				if noFiles := strings.Contains(strings.Join(got.Errors, ""),
					"disk is full"); noFiles != (c.after == 0) {
					t.Errorf("errors %q", got.Errors)
				}
				disk.free.Store(4 << 30)
				time.Sleep(2 * time.Second)
				if lines, _, _, err := ts.Crawls.RecordedPages(t.Context(), id, report.Search{Most: 5}); err != nil ||
					len(lines) != 5 {
					t.Errorf("%d pages can be read, %v", len(lines), err)
				}
				ts.end()
			})
		})
	}
}

// A pause gives the disk back that a running crawl takes. That alone does not make the crawl go on: it would pause
// again at once.
func TestPauseFreesDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Pages: 60})
		disk := newFakeDisk()
		ts := openService(t, Options{Base: base, Fetcher: client, MinFree: leastFree, FreeBytes: disk.FreeBytes}).run()
		disk.ts.Store(ts)
		web.Hold(20)
		id := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`).ID
		awaitPages(t, web, 21)
		// it falls below the least while the crawl runs, and is a fifth above it when it does not
		disk.free.Store(leastFree + state.OpenBytes - 1)
		ts.awaitState(id, Pausing, Paused)
		web.Release()
		ts.awaitState(id, Paused)
		synctest.Wait() // its store is closed
		other := ts.submit(ts.admin, web.StartURLs()[0])
		time.Sleep(time.Minute)
		if got := ts.get(id); got.State != Paused || got.Waiting.Code != WaitDisk || ts.count(id, CrawlPaused) != 1 {
			t.Errorf("%s %+v, events %v", got.State, got.Waiting, ts.eventTypes(id))
		}
		if got := ts.get(other.ID); got.State != Queued || got.Waiting.Code != WaitDisk {
			t.Errorf("a crawl that would pause at once is %s, waiting %+v", got.State, got.Waiting)
		}
		disk.free.Store(leastFree + leastFree/10 + state.OpenBytes) // for one of the two
		for _, id := range []string{id, other.ID} {
			if got := ts.awaitState(id, Complete); got.Done != 60 || ts.count(id, CrawlPaused) > 1 {
				t.Errorf("%d pages done, events %v", got.Done, ts.eventTypes(id))
			}
		}
		ts.end()
	})
}

// A recrawl that is cancelled, in whatever state, leaves the crawl as the last generation that ended left it, with its
// files; the next recrawl is another generation.
func TestCancelledRecrawl(t *testing.T) {
	t.Parallel()
	const unseen = State("unseen") // it runs, and ends before the dispatcher looks
	for _, at := range []State{Queued, Running, Pausing, Paused, unseen} {
		t.Run(string(at), func(t *testing.T) {
			web := startWeb(t, testweb.Config{Pages: 40, Hosts: 2})
			ts := openService(t, Options{Base: quick(web), MaxCrawls: 1}).run()
			id := ts.submit(ts.admin, web.StartURLs()[0]).ID
			first := ts.awaitState(id, Complete)
			before := filesOf(t, ts, id)
			asked := web.HostStats(0).Pages
			web.Hold(10)
			blocker := ""
			if at == Queued {
				blocker = ts.submit(ts.admin, web.StartURLs()[1]).ID
				ts.awaitState(blocker, Running)
			}
			ts.do(id, CommandRecrawl)
			if at != Queued {
				awaitPages(t, web, asked+11)
			}
			if at == Pausing || at == Paused {
				ts.do(id, CommandPause)
				ts.awaitState(id, Pausing, Paused)
			}
			if at == Paused {
				web.Release()
				ts.awaitState(id, Paused)
			}
			if at == unseen {
				if err := ts.Write(t.Context(), func(tx *Tx) error {
					return tx.Change("UPDATE crawl SET desired = ? WHERE id = ?", DesiredCancel, id)
				}); err != nil {
					t.Fatal(err)
				}
			} else {
				ts.do(id, CommandCancel)
			}
			web.Release()
			got := ts.await(id, func(c *Crawl) bool { return c.State.Ended() })
			if got.State != Complete || got.Generation != 0 || got.Found != first.Found || got.Done != first.Done ||
				got.Reason != first.Reason || got.PagesCounted != first.PagesCounted {
				t.Errorf("after the cancellation: %s, generation %d, %d of %d, %q", got.State, got.Generation, got.Done,
					got.Found, got.Reason)
			}
			if len(got.Warnings) != len(first.Warnings)+1 {
				t.Errorf("warnings %q", got.Warnings)
			}
			if after := filesOf(t, ts, id); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the files have changed:\n%v\n%v", before, after)
			}
			ts.do(id, CommandCancel) // again
			events, err := ts.Events.Since(t.Context(), EventFilter{Crawl: id})
			if err != nil {
				t.Fatal(err)
			}
			last := events[len(events)-1]
			if last.Type != CrawlFinished || last.Generation != 1 ||
				!strings.Contains(string(last.Data), `"state":"cancelled"`) {
				t.Errorf("the last event is %s of generation %d: %s", last.Type, last.Generation, last.Data)
			}
			if used, granted := ts.used(); granted != 0 || used < 40 {
				t.Errorf("%d pages used, %d reserved", used, granted)
			}
			if blocker != "" {
				ts.awaitState(blocker, Complete)
			}
			next := ts.do(id, CommandRecrawl)
			got = ts.await(id, func(c *Crawl) bool { return c.Generation > 0 && c.State.Ended() })
			if got.State != Complete || got.Generation != next.Generation || got.Done != 40 {
				t.Errorf("the next recrawl: %s, generation %d, %d of %d", got.State, got.Generation, got.Done,
					got.Found)
			}
			runs, err := ts.Crawls.Runs(t.Context(), ts.admin, id)
			if err != nil {
				t.Fatal(err)
			}
			var states []string
			for _, r := range runs {
				states = append(states, fmt.Sprint(r.Generation, " ", r.State))
			}
			want := []string{"2 complete", "1 cancelled", "0 complete"}
			if at == Queued {
				want = []string{"1 complete", "0 complete"} // that one had no run
			}
			if !slices.Equal(states, want) {
				t.Errorf("runs %v, want %v", states, want)
			}
		})
	}
}

// A recrawl that ended partial, was resumed and is then cancelled leaves the crawl as that end left it: the files are of
// that end.
func TestCancelledAfterAPartialEnd(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 40})
	ts := openService(t, Options{Base: quick(web)}).run()
	id := ts.submit(ts.admin, web.StartURLs()[0]).ID
	ts.awaitState(id, Complete)
	limit := func(pages string) {
		if _, err := ts.Crawls.Edit(t.Context(), ts.admin, id, Edit{Settings: raw("max_urls", pages)}); err != nil {
			t.Fatal(err)
		}
	}
	limit("25")
	ts.do(id, CommandRecrawl)
	partial := ts.awaitState(id, Partial)
	files := filesOf(t, ts, id)
	limit("null")
	web.Hold(5)
	asked := web.HostStats(0).Pages
	ts.do(id, CommandResume)
	awaitPages(t, web, asked+6)
	ts.do(id, CommandCancel)
	web.Release()
	got := ts.await(id, func(c *Crawl) bool { return c.State.Ended() })
	if got.State != Partial || got.Generation != 1 || got.Done != partial.Done || got.Reason != partial.Reason {
		t.Errorf("after the cancellation: %s, generation %d, %d done, %q", got.State, got.Generation, got.Done, got.Reason)
	}
	if after := filesOf(t, ts, id); fmt.Sprint(after) != fmt.Sprint(files) {
		t.Errorf("the files have changed:\n%v\n%v", files, after)
	}
	ts.do(id, CommandResume)
	if got = ts.awaitState(id, Complete); got.Generation != 1 || got.Done != 40 {
		t.Errorf("resumed again: generation %d, %d done", got.Generation, got.Done)
	}
	if used, _ := ts.used(); used != int64(web.HostStats(0).Pages) {
		t.Errorf("%d pages used, want %d", used, web.HostStats(0).Pages)
	}
}

// A recrawl that is cancelled after one that failed leaves the crawl as that one left it: failed, as its report says.
func TestCancelledAfterAFailedRecrawl(t *testing.T) {
	t.Parallel()
	dir, web, gone := t.TempDir(), startWeb(t, testweb.Config{Pages: 20}), startWeb(t, testweb.Config{Pages: 1})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	var ts *testService
	open := func(web *testweb.Server) {
		if ts != nil {
			ts.end()
		}
		ts = openService(t, Options{Dir: dir, Base: quick(web)}).run()
	}
	open(web)
	id := ts.submit(ts.admin, web.StartURLs()[0], "max_retries", "0", "max_host_failures", "1").ID
	ts.awaitState(id, Complete)
	open(gone)
	ts.do(id, CommandRecrawl)
	failed := ts.await(id, func(c *Crawl) bool { return c.Generation == 1 && c.State.Ended() })
	open(web)
	files := filesOf(t, ts, id)
	web.Hold(2)
	asked := web.HostStats(0).Pages
	ts.do(id, CommandRecrawl)
	awaitPages(t, web, asked+3)
	ts.do(id, CommandCancel)
	web.Release()
	got := ts.await(id, func(c *Crawl) bool { return c.State.Ended() })
	if failed.State != Failed || got.State != Failed || got.Generation != 1 || got.Reason != failed.Reason {
		t.Errorf("%s, %q; after the cancellation %s, generation %d, %q", failed.State, failed.Reason, got.State,
			got.Generation, got.Reason)
	}
	text, err := os.ReadFile(ts.Crawls.DataDir(id).Report())
	var rep report.Report
	if err := errors.Join(err, json.Unmarshal(text, &rep)); err != nil || rep.Generation != got.Generation ||
		string(rep.Status) != string(got.State) {
		t.Errorf("the report is of generation %d, %s: %v", rep.Generation, rep.Status, err)
	}
	if after := filesOf(t, ts, id); fmt.Sprint(after) != fmt.Sprint(files) {
		t.Errorf("the files have changed:\n%v\n%v", files, after)
	}
	ts.do(id, CommandRecrawl)
	if got = ts.awaitState(id, Complete); got.Generation != 3 || got.Done != 20 {
		t.Errorf("the next recrawl: generation %d, %d done", got.Generation, got.Done)
	}
}

// A crawl falls back to the last run that wrote files, if only the report of a failed one, however many recrawls failed
// or were cancelled since, and though that run's generation was resumed and failed.
func TestFilesOutliveRecrawls(t *testing.T) {
	t.Parallel()
	const reported = State("reported") // it fails with a report
	for name, ends := range map[string][]State{
		"failed with a report": {reported, Failed, Cancelled},
		"failed with a report, then often": slices.Concat([]State{reported},
			slices.Repeat([]State{Failed}, keptRuns+5), []State{Cancelled}),
		"partial, and failed with a report":      {Partial, reported, Failed, Cancelled},
		"complete after it failed with a report": {reported, Complete, Cancelled},
		"cancelled often":                        slices.Repeat([]State{Cancelled}, keptRuns+5),
		"failed often":                           append(slices.Repeat([]State{Failed}, keptRuns+5), Cancelled),
		"failed after it was resumed":            {Partial, Failed, Cancelled},
	} {
		ts := openService(t, Options{RecordsOnly: true})
		id := ts.submit(ts.admin, "https://a.test/").ID
		end := func(r *row, tx *Tx, state State) error {
			r.StartedAt, r.begun = page.Time{Time: tx.now}, true
			switch state {
			case Cancelled:
				r.State = Running
				return r.endOrFinish(tx, Actor{})
			case Failed:
				r.State = Running
				return r.fail(tx, Actor{}, "a fault")
			}
			if state == reported {
				state = Failed
			}
			return r.finish(tx, Actor{}, &report.Report{Status: page.Status(state)})
		}
		want, last := "complete 0", Complete
		err := ts.Write(t.Context(), func(tx *Tx) error {
			r, err := getRow(t.Context(), tx, "", id)
			if err := errors.Join(err, end(r, tx, Complete)); err != nil {
				return err
			}
			for _, state := range ends {
				if r, err = getRow(t.Context(), tx, "", id); err != nil {
					return err
				}
				r.next = &config.Settings{}
				if last == Partial {
					_, err = r.decide(CommandResume, tx.now)
				} else {
					_, err = r.decide(CommandRecrawl, tx.now)
				}
				if err := errors.Join(err, end(r, tx, state)); err != nil {
					return err
				}
				switch last = state; state {
				case Partial, Complete:
					want = fmt.Sprint(state, " ", r.Generation)
				case reported:
					want = fmt.Sprint(Failed, " ", r.Generation)
				}
			}
			return nil
		})
		if c := ts.get(id); err != nil || fmt.Sprint(c.State, " ", c.Generation) != want {
			t.Errorf("%s: %s, generation %d, want %s, %v", name, c.State, c.Generation, want, err)
		}
		if runs, err := ts.Crawls.Runs(t.Context(), ts.admin, id); err != nil || len(runs) > keptRuns+1 {
			t.Errorf("%s: %d runs, %v", name, len(runs), err)
		}
	}
}

// What an ended crawl may do follows from the plan that its next run would have, not from the one that it had: what the
// run could not do is refused at once.
func TestNextRunHasThePlanOfNow(t *testing.T) {
	t.Parallel()
	ts := openService(t, Options{RecordsOnly: true})
	for _, c := range []struct {
		plan    Plan
		allowed []Command // of resume and recrawl
	}{
		{Plan{}, []Command{CommandResume, CommandRecrawl}},
		{Plan{Safe: true}, nil},
		{Plan{MaxURLs: 50}, []Command{CommandRecrawl}},
		{Plan{MaxURLs: 51}, []Command{CommandResume, CommandRecrawl}},
	} {
		for _, command := range []Command{CommandResume, CommandRecrawl} {
			ts.setPlan(Plan{})
			id := ts.submit(ts.admin, "https://a.test/", "max_urls", "100").ID
			if err := ts.Write(t.Context(), func(tx *Tx) error {
				r, err := getRow(t.Context(), tx, "", id)
				if err != nil {
					return err
				}
				r.StartedAt, r.begun, r.counted = page.Time{Time: tx.now}, true, 50
				return r.finish(tx, Actor{}, &report.Report{Status: page.Partial, Reason: "Safety limit: Maximum 50"})
			}); err != nil {
				t.Fatal(err)
			}
			ts.setPlan(c.plan)
			_, err := ts.Crawls.Command(t.Context(), ts.admin, id, command, nil)
			if err == nil {
				if !slices.Contains(c.allowed, command) {
					t.Errorf("plan %+v: %s was accepted", c.plan, command)
				}
				continue
			}
			refused, ok := errors.AsType[*Error](err)
			if want := append(slices.Clone(c.allowed), CommandDelete); !ok || refused.Code != ErrState ||
				slices.Contains(c.allowed, command) || !slices.Equal(refused.Allowed, want) ||
				!strings.Contains(refused.Detail, `plan "default"`) {
				t.Errorf("plan %+v, %s: %v, allowed %v", c.plan, command, err, refused.Allowed)
			}
		}
	}
}

// A crawl that had its pages under a safe plan is crawled again to its end under another plan.
func TestRecrawlAfterASafePlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Pages: 60})
		ts := openService(t, Options{Base: base, Fetcher: client}).run()
		id := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`).ID
		ts.awaitState(id, Complete)
		ts.setPlan(Plan{Safe: true})
		ts.do(id, CommandRecrawl)
		if c := ts.awaitState(id, Partial); c.Generation != 1 || c.PagesCounted > 50 {
			t.Errorf("under a safe plan: generation %d, %d pages", c.Generation, c.PagesCounted)
		}
		if _, err := ts.Crawls.Command(t.Context(), ts.admin, id, CommandRecrawl, nil); err == nil {
			t.Error("a safe crawl that had its pages is crawled again")
		}
		ts.setPlan(Plan{})
		ts.do(id, CommandRecrawl)
		if c := ts.awaitState(id, Complete); c.Generation != 2 || c.Done != 60 {
			t.Errorf("under another plan: generation %d, %d pages done", c.Generation, c.Done)
		}
		ts.end()
	})
}

// A recrawl that has begun to write its files writes all of them, also if the disk is full meanwhile: it cannot be
// cancelled any more, because some of the files may be new.
func TestRecrawlFinishesAfterAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Pages: 40})
		disk := newFakeDisk()
		var ts *testService
		fill := func(time.Duration) { // the disk, as soon as it is recorded that the recrawl writes its files
			var n int
			if ts != nil && ts.db.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM crawl WHERE state = ? AND "+
				"generation = 1", Finishing).Scan(&n) == nil && n > 0 {
				disk.free.CompareAndSwap(4<<30, 1<<20)
			}
		}
		ts = openService(t, Options{Base: base, Fetcher: client, FreeBytes: disk.FreeBytes, Observe: fill}).run()
		id := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`).ID
		ts.awaitState(id, Complete)
		ts.do(id, CommandRecrawl)
		ts.awaitState(id, Finishing)
		time.Sleep(10 * time.Minute)
		if _, err := ts.Crawls.Command(t.Context(), ts.admin, id, CommandCancel, nil); err == nil {
			t.Error("it was cancelled")
		}
		if c := ts.get(id); c.State != Finishing || c.Generation != 1 || ts.count(id, CrawlFinishing) != 2 {
			t.Errorf("%s, generation %d, events %v", c.State, c.Generation, ts.eventTypes(id))
		}
		disk.free.Store(8 << 30)
		if c := ts.awaitState(id, Complete); c.Generation != 1 || c.Done != 40 {
			t.Errorf("generation %d, %d pages done", c.Generation, c.Done)
		}
		ts.end()
	})
}

// filesOf are the files that a crawl has written for its users, with when they were written.
func filesOf(t *testing.T, ts *testService, id string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(string(ts.Crawls.DataDir(id)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".xml" || ext == ".html" || strings.HasPrefix(e.Name(), "report") ||
			strings.HasSuffix(e.Name(), "map.jsonl") {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprint(e.Name(), info.ModTime(), info.Size()))
		}
	}
	return list
}

// When there are pages of the quota again, the crawl that was submitted first goes on before one that was submitted
// while it was paused.
func TestOlderGoesOnFirst(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 2, Pages: 30})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 1})
	ts.setPlan(Plan{PagesPerMonth: 10})
	ts.run()
	older := ts.submit(ts.admin, web.StartURLs()[0]).ID
	ts.await(older, func(c *Crawl) bool { return c.State == Paused && c.Waiting.Code == WaitQuota })
	younger := ts.submit(ts.admin, web.StartURLs()[1]).ID
	ts.setPlan(Plan{})
	ts.awaitState(older, Complete)
	ts.awaitState(younger, Complete)
	events, err := ts.Events.Since(t.Context(), EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var started []string
	for _, e := range events {
		if e.Type == CrawlStarted {
			started = append(started, e.Crawl)
		}
	}
	if !slices.Equal(started, []string{older, older, younger}) {
		t.Errorf("started %v; older is %s", started, older)
	}
}

// A request that is repeated gets the answer of the first, whatever became of the crawl.
func TestRepeatedSubmission(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 5})
	ts := openService(t, Options{Base: quick(web)})
	sub := Submission{StartURLs: web.StartURLs()[:1], Name: "first", Settings: raw("max_urls", "4", "exclude", `["x"]`)}
	first, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "key")
	if err != nil {
		t.Fatal(err)
	}
	want := ToJSON(first)
	same := func(when string) {
		t.Helper()
		again, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, "key")
		if err != nil || ToJSON(again) != want {
			t.Errorf("%s: %s, %v; want %s", when, ToJSON(again), err, want)
		}
	}
	same("at once")
	name := "renamed"
	if _, err := ts.Crawls.Edit(t.Context(), ts.admin, first.ID,
		Edit{Name: &name, Settings: raw("max_urls", "3")}); err != nil {
		t.Fatal(err)
	}
	same("after a change")
	ts.run()
	ts.awaitState(first.ID, Partial)
	same("after its end")
	ts.do(first.ID, CommandDelete)
	awaitGone(ts, first.ID)
	same("after its deletion")
	if list, err := ts.Crawls.List(t.Context(), ts.admin, CrawlFilter{}); err != nil || len(list.Items) != 0 {
		t.Errorf("%d crawls, %v", len(list.Items), err)
	}
}

// However commands, the disk, the quota, the account and restarts meet: every crawl that is cancelled is cancelled in
// the end, a change of state is one event, and nothing is tried without pause.
func TestStatesMeet(t *testing.T) {
	t.Parallel()
	long.Test(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { statesMeet(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func statesMeet(t *testing.T, random *rand.Rand) {
	web, base, client := startWebInBubble(t, testweb.Config{Hosts: 3, Pages: 30})
	web.SetLatency(4 * time.Second)
	disk := newFakeDisk()
	var transactions atomic.Int64
	o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: base, Fetcher: client, MaxCrawls: 2,
		MinFree: leastFree, FreeBytes: disk.FreeBytes,
		Observe: func(time.Duration) { transactions.Add(1) }}
	ts := openService(t, o)
	start := func() { disk.ts.Store(ts.run()) }
	start()
	var ids []string
	for i := range 3 {
		ids = append(ids, ts.submit(ts.admin, web.StartURLs()[i], "seeding_strategy", `["none"]`).ID)
	}
	deleted := map[string]bool{}
	disabled := false
	restart := func(well bool) {
		ts.end()
		disk.ts.Store(nil)
		free := disk.free.Swap(4 << 30)
		if err := ts.Crawls.dispatch.unclosed.reclaimAll(); err != nil { // as the end of a process would
			t.Error(err)
		}
		disk.free.Store(free)
		ts = openService(t, o)
		if !well {
			if err := ts.Write(t.Context(),
				func(tx *Tx) error { return tx.Change("UPDATE process SET ended_well = 0") }); err != nil {
				t.Fatal(err)
			}
		}
		start()
	}
	actions := []func(id string) string{
		func(id string) string { return string(CommandPause) },
		func(id string) string { return string(CommandResume) },
		func(id string) string { return string(CommandCancel) },
		func(id string) string { return string(CommandRecrawl) },
		func(id string) string { return string(CommandDelete) },
		func(string) string { disk.free.Store(1 << 20); return "disk full" },
		func(string) string { disk.free.Store(leastFree + state.OpenBytes - 1); return "disk low" },
		func(string) string { disk.free.Store(4 << 30); return "disk free" },
		func(string) string { ts.setPlan(Plan{PagesPerMonth: 1}); return "no quota" },
		func(string) string { ts.setPlan(Plan{}); return "quota" },
		func(string) string { restart(true); return "restart" },
		func(string) string { restart(false); return "restart after an unclean end" },
		func(string) string {
			disabled = !disabled
			if _, err := ts.Accounts.Edit(t.Context(), ts.admin, DefaultAccount,
				AccountEdit{Disabled: &disabled}); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint("account disabled: ", disabled)
		},
	}
	var story []string
	for range 14 {
		id := ids[random.IntN(len(ids))]
		before, events := transactions.Load(), len(ts.eventTypes(id))
		what := actions[random.IntN(len(actions))](id)
		story = append(story, fmt.Sprint(slices.Index(ids, id), " ", what))
		if slices.Contains(Commands(), Command(what)) {
			_, err := ts.Crawls.Command(t.Context(), ts.admin, id, Command(what), nil)
			deleted[id] = deleted[id] || err == nil && what == string(CommandDelete)
		}
		wait := time.Duration(random.IntN(30)) * time.Second
		time.Sleep(wait)
		// A second has one step, a crawl in it a few transactions for its pages; a cause has the events of its way.
		if n := transactions.Load() - before; n > 60+20*int64(wait/time.Second) {
			t.Errorf("%d transactions in %v: %q", n, wait, story)
		}
		if n := len(ts.eventTypes(id)) - events; n > 8 {
			t.Errorf("%d events in %v: %q, %v", n, wait, story, ts.eventTypes(id))
		}
	}
	web.SetLatency(0)
	if disabled {
		actions[len(actions)-1]("")
	}
	for _, id := range ids {
		if deleted[id] {
			continue
		}
		if c := ts.get(id); !c.State.Ended() {
			_, err := ts.Crawls.Command(t.Context(), ts.admin, id, CommandCancel, nil)
			if err != nil && c.State != Finishing {
				t.Errorf("cancel a crawl that is %s: %v", c.State, err)
			}
		}
	}
	time.Sleep(5 * time.Minute)
	disk.free.Store(4 << 30) // a crawl that was finishing by itself waits for it
	time.Sleep(5 * time.Minute)
	for _, id := range ids {
		if deleted[id] {
			if _, err := ts.Crawls.Get(t.Context(), ts.admin, id); err == nil {
				t.Errorf("a deleted crawl is there: %q", story)
			}
			continue
		}
		c := ts.get(id)
		crashed := strings.Contains(strings.Join(c.Errors, ""), "the server ended while it wrote them")
		if !c.State.Ended() || c.State == Failed && !crashed {
			t.Errorf("crawl %d is %s, desired %s, waiting %+v, errors %q: %q", slices.Index(ids, id), c.State,
				c.Desired, c.Waiting, c.Errors, story)
		}
	}
	if used, granted := ts.used(); granted != 0 {
		t.Errorf("%d pages used, %d reserved: %q", used, granted, story)
	}
	ts.end()
}

// Requests are answered while a new process reads what the crawls have left: a command that is accepted then holds,
// whether the crawls go on or wait for their turn.
func TestCommandsDuringRecovery(t *testing.T) {
	t.Parallel()
	for _, ends := range []int{1, uncleanEnds} {
		t.Run(fmt.Sprint(ends), func(t *testing.T) {
			web := startWeb(t, testweb.Config{Pages: 60})
			dir, slot := t.TempDir(), t.TempDir()+"/slot"
			ts := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			ids := map[Command]string{}
			for _, command := range []Command{CommandPause, CommandCancel, CommandDelete} {
				ids[command] = ts.submit(ts.admin, web.StartURLs()[0]).ID
			}
			for range ends { // processes that ended without notice, the last while the crawls ran
				if _, err := ts.recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := ts.Write(t.Context(), func(tx *Tx) error {
				return tx.Change("UPDATE crawl SET state = 'running', started_at = 1")
			}); err != nil {
				t.Fatal(err)
			}
			ts.end()
			again := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			left, err := again.readRan(t.Context())
			if err != nil || len(left) != len(ids) {
				t.Fatalf("%v, %v", left, err)
			}
			for command, id := range ids {
				again.do(id, command)
			}
			if _, err := again.begin(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			again.run()
			awaitGone(again, ids[CommandDelete])
			if err := again.removeCrawl(t.Context(), ids[CommandDelete]); err != nil {
				t.Errorf("a crawl that is gone cannot be removed once more: %v", err)
			}
			again.awaitState(ids[CommandCancel], Cancelled)
			if c := again.awaitState(ids[CommandPause], Paused); c.Waiting.Code != WaitOperator {
				t.Errorf("the crawl that was paused waits for %+v", c.Waiting)
			}
		})
	}
}

// After a kill a crawl shows what its store has, and the disk that it takes then, before it runs again: also one whose
// row was never written while it ran, and one that waits because the server ended too often.
func TestCountsAfterAKill(t *testing.T) {
	t.Parallel()
	for _, ends := range []int{1, uncleanEnds} {
		t.Run(fmt.Sprint(ends), func(t *testing.T) {
			web := startWeb(t, testweb.Config{Pages: 60})
			dir, slot := t.TempDir(), t.TempDir()+"/slot"
			ts := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			id := ts.submit(ts.admin, web.StartURLs()[0]).ID
			for range ends - 1 { // processes before
				if _, err := ts.recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ts.end()
			web.Hold(25)
			child := startChild(t, dir, slot, web)
			child.await(done(25))
			child.kill()
			again := openService(t, Options{Dir: dir, SlotDir: slot, Base: quick(web)})
			const peak = 1 << 40 // what was stored while it ran
			if err := again.Write(t.Context(), func(tx *Tx) error {
				return tx.Change("UPDATE crawl SET disk_bytes = ?, progress_json = json_set(progress_json, "+
					"'$.pages_counted', ?) WHERE id = ?", int64(peak), peak, id)
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := again.recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if u, err := again.Accounts.Usage(t.Context(), DefaultAccount); err != nil ||
				u.Disk.Used >= peak || u.Disk.Used < sizeOf(again.crawlDir(id)) {
				t.Errorf("%d bytes of disk are used, %d are on it, %v", u.Disk.Used, sizeOf(again.crawlDir(id)), err)
			}
			c := again.get(id)
			if c.Done < 25 || c.PagesCounted < 25 || c.Found != c.Done+c.Pending || c.Outcomes["ok"] != c.Done {
				t.Errorf("%s: %d of %d done, %d pending, %d counted, %v", c.State, c.Done, c.Found, c.Pending,
					c.PagesCounted, c.Outcomes)
			}
			if used, _ := again.used(); used != c.PagesCounted {
				t.Errorf("%d pages are used, the crawl has counted %d", used, c.PagesCounted)
			}
			if waits := c.State == Paused && c.Waiting.Code == WaitRecovery; waits != (ends == uncleanEnds) {
				t.Errorf("after %d ends it is %s, waiting %+v", ends, c.State, c.Waiting)
			}
		})
	}
}

// After three unclean ends the crawls that ran go on one after the other, before those that never ran. One of them that
// waits for the slot of safe crawls does not keep the others waiting.
func TestTrialsComeFirst(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 20})
	dir, slots := t.TempDir(), t.TempDir()+"/slot"
	o := Options{Dir: dir, SlotDir: slots, Base: quick(web), MaxCrawls: 2}
	ts := openService(t, o)
	safe := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true").ID
	var ran, queued []string
	for range 2 {
		ran = append(ran, ts.submit(ts.admin, web.StartURLs()[0]).ID)
	}
	priority := 9
	for range 2 {
		c, err := ts.Crawls.Submit(t.Context(), ts.admin, Submission{StartURLs: web.StartURLs()[:1], Priority: &priority}, "")
		if err != nil {
			t.Fatal(err)
		}
		queued = append(queued, c.ID)
	}
	for range uncleanEnds { // processes that ended without notice, the last while some crawls ran
		if _, err := ts.recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := ts.Write(t.Context(), func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET state = 'running', started_at = 1 WHERE id IN (?, ?, ?)", safe, ran[0], ran[1])
	}); err != nil {
		t.Fatal(err)
	}
	ts.end()
	taken, err := (&slot.Queue{Dir: slots}).Acquire(t.Context(), slot.Info{PID: os.Getpid()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := openService(t, o).run()
	for _, id := range queued {
		again.await(id, func(c *Crawl) bool { return c.State != Queued })
		for _, first := range ran {
			if c := again.get(first); c.State == Paused || c.State == Queued {
				t.Errorf("a crawl that never ran has begun, and one that ran is %s, waiting %+v", c.State, c.Waiting)
			}
		}
	}
	if c := again.get(safe); c.State != Queued {
		t.Errorf("the safe crawl is %s without its slot", c.State)
	}
	if err := taken.Release(); err != nil {
		t.Fatal(err)
	}
	again.awaitState(safe, Running)
}
