package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/state"
)

// recorded counts the pages that a crawl has recorded, each once.
func recorded(ts *testService, id string) (n int, err error) {
	var after weburl.Key
	seen := map[string]bool{}
	for {
		lines, next, more, err := ts.Crawls.RecordedPages(ts.t.Context(), id, report.Search{After: after, Most: 7})
		if isUnavailable(err) { // on a busy machine a start or an end takes longer than a reader waits
			continue
		}
		if err != nil {
			return len(seen), err
		}
		for _, l := range lines {
			seen[l.URL.String()] = true
		}
		if after = next; !more {
			return len(seen), nil
		}
	}
}

// The pages of a crawl that does not run and has written no files can be read. Its start waits for readers, and they
// for it: neither fails for the other.
func TestRecordedPages(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 60})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 1}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 21)
	never := ts.submit(ts.admin, web.StartURLs()[0]) // it waits for the first one
	if got := ts.do(never.ID, CommandCancel); got.State != Cancelled {
		t.Errorf("a queued crawl that is cancelled is %s", got.State)
	}
	if n, err := recorded(ts, never.ID); err != nil || n != 0 {
		t.Errorf("%d pages of a crawl that has not begun, %v", n, err)
	}
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if n, err := recorded(ts, c.ID); err != nil || int64(n) != c.Found {
		t.Errorf("%d pages of a paused crawl are recorded, %v; it has found %d", n, err, c.Found)
	}
	u, err := weburl.Parse(web.StartURLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if line, err := ts.Crawls.RecordedPage(t.Context(), c.ID, u); err != nil || line == nil || line.StatusCode != 200 {
		t.Errorf("the start page of a paused crawl: %+v, %v", line, err)
	}

	// Readers go on while the crawl is resumed and ends.
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := recorded(ts, c.ID); err != nil {
				done <- err
				return
			}
		}
	}()
	ts.do(c.ID, CommandResume)
	c = ts.awaitState(c.ID, Complete)
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("reading a crawl that is resumed: %v", err)
	}
	if c.Done != 60 {
		t.Errorf("%d pages done", c.Done)
	}

	// One that is deleted is gone with its store.
	ts.Crawls.dispatch.resting.sweep(time.Now().Add(restingFor))
	ts.do(c.ID, CommandDelete)
	awaitGone(ts, c.ID)
}

// A crawl that is to start waits for the readers of its store; others start, pause and are deleted meanwhile. If it need
// not start any more, its pages can be read again.
func TestReadersHoldUpOneCrawl(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 2, Pages: 30})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 2}).run()
	d := ts.Crawls.dispatch
	c, other := ts.submitPaused(web, 3), ts.submit(ts.admin, web.StartURLs()[1])
	ts.awaitState(other.ID, Complete)
	for range 2 {
		began, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			err := error(&Error{Code: ErrUnavailable})
			for isUnavailable(err) { // its end is recorded, and its run has not yet gone
				err = ts.Crawls.read(t.Context(), c.ID, func(*state.Store, []string) error {
					close(began)
					<-release
					return nil
				})
			}
			done <- err
		}()
		select {
		case <-began:
		case err := <-done:
			t.Fatal(err)
		}
		ts.do(c.ID, CommandResume)
		awaitStep(ts, c.ID, func(c *Crawl) bool {
			return c.Waiting != nil && strings.Contains(c.Waiting.Detail, "its pages are being read")
		})
		one := ts.submit(ts.admin, web.StartURLs()[1])
		ts.awaitState(one.ID, Complete)
		ts.do(one.ID, CommandDelete)
		awaitGone(ts, one.ID)
		if got := ts.get(c.ID); got.State != Queued {
			t.Errorf("a crawl whose store is read is %s", got.State)
		}
		ts.do(c.ID, CommandPause)
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		awaitStep(ts, c.ID, func(*Crawl) bool { // readers are refused until the dispatcher has looked again
			d.resting.mu.Lock()
			defer d.resting.mu.Unlock()
			return !d.resting.barred[c.ID]
		})
		if n, err := recorded(ts, c.ID); err != nil || n == 0 {
			t.Errorf("%d pages, %v", n, err)
		}
	}
	ts.do(c.ID, CommandResume)
	if c = ts.awaitState(c.ID, Complete); c.Done != 30 {
		t.Errorf("%d pages", c.Done)
	}
}

// isUnavailable says whether a reader is told to try again.
func isUnavailable(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Code == ErrUnavailable
}

// A search that few pages pass ends when its time is over, and goes on behind the last page that it has read: it finds
// each page once.
func TestSearchOfRecordedPages(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 100}) // more than are under way when it is paused
	ts := openService(t, Options{Base: quick(web)}).run()
	web.Hold(20)
	c := ts.submit(ts.admin, web.StartURLs()[0])
	awaitPages(t, web, 21)
	awaitStep(ts, c.ID, func(c *Crawl) bool { return c.State == Running && c.StatusClasses["2xx"] > 0 })
	ts.do(c.ID, CommandPause)
	ts.awaitState(c.ID, Pausing, Paused)
	web.Release()
	c = ts.awaitState(c.ID, Paused)
	if c.StatusClasses["2xx"] != c.Outcomes["ok"] || c.Outcomes["ok"] == 0 {
		t.Errorf("classes %v, outcomes %v", c.StatusClasses, c.Outcomes)
	}
	want := web.StartURLs()[0]
	search := report.Search{Most: 5, Passes: func(l *page.Line) bool { return l.URL.String() == want },
		Until: time.Now().Add(-time.Hour)}
	var found []string
	for parts := int64(1); ; parts++ {
		lines, next, more, err := ts.Crawls.RecordedPages(t.Context(), c.ID, search)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			found = append(found, l.URL.String())
		}
		if search.After = next; !more {
			if parts != c.Found {
				t.Errorf("%d searches, one for each of %d pages", parts, c.Found)
			}
			break
		}
	}
	if !slices.Equal(found, []string{want}) {
		t.Errorf("found %q", found)
	}
}

// No more than a few stores are open for readers at once.
func TestRecordedOfManyCrawls(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 2})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 2}).run()
	var all []string
	for range mostResting + 2 {
		all = append(all, ts.submit(ts.admin, web.StartURLs()[0]).ID)
	}
	for _, id := range all {
		ts.awaitState(id, Complete)
	}
	resting := &ts.Crawls.dispatch.resting
	for _, id := range all {
		open := 0
		look := func(*page.Line) bool { // while the store is read
			resting.mu.Lock()
			defer resting.mu.Unlock()
			open = 0
			for _, one := range resting.all {
				if one.store != nil { // this reader alone opens and closes them
					open++
				}
			}
			return true
		}
		lines, _, _, err := ts.Crawls.RecordedPages(t.Context(), id,
			report.Search{Most: 7, Passes: look, Until: time.Now().Add(time.Hour)})
		for isUnavailable(err) { // its end is recorded, and its run has not yet gone
			lines, _, _, err = ts.Crawls.RecordedPages(t.Context(), id,
				report.Search{Most: 7, Passes: look, Until: time.Now().Add(time.Hour)})
		}
		if err != nil || len(lines) != 2 || open == 0 || open > mostResting {
			t.Errorf("%d pages, %d stores are open, %v", len(lines), open, err)
		}
	}
}

// An account that reads as many of its crawls as it can leaves stores for others, one by one, and has its own share
// again when its readers have ended.
func TestRestingStoresOfAccounts(t *testing.T) {
	t.Parallel()
	r := newRestingStores()
	r.open()
	release := make(chan struct{})
	var readers sync.WaitGroup
	dirs := map[string]string{}
	// hold reads a store of an account until the test releases it, and says whether it could.
	hold := func(account string, n int) error {
		id := fmt.Sprint(account, n)
		if dirs[id] == "" {
			dirs[id] = t.TempDir()
			s, err := state.Open(dirs[id], state.Options{GCInterval: state.Off, MinFree: state.Off})
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		began := make(chan error, 1)
		readers.Go(func() {
			began <- r.read(t.Context(), account, id, dirs[id], func(context.Context, *state.Store) error {
				began <- nil
				<-release
				return nil
			})
		})
		return <-began
	}
	greedy := 0
	for n := range mostRead {
		if err := hold("greedy", n); err == nil {
			greedy++
		} else if !isUnavailable(err) {
			t.Fatal(err)
		}
	}
	if greedy != mostRead/2 {
		t.Errorf("an account reads %d stores, want %d", greedy, mostRead/2)
	}
	for _, account := range []string{"b", "c", "d"} {
		if err := hold(account, 0); err != nil {
			t.Errorf("account %s: %v", account, err)
		}
	}
	if err := hold("greedy", mostRead); !isUnavailable(err) {
		t.Errorf("a store more for the first account: %v", err)
	}
	close(release)
	readers.Wait()
	if err := hold("greedy", mostRead); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
	readers.Wait()
	open := 0
	for _, one := range r.all {
		if one.store != nil {
			open++
		}
	}
	if open != mostResting {
		t.Errorf("%d stores stay open, want %d", open, mostResting)
	}
	r.sweep(time.Now().Add(restingFor))
	for id, one := range r.all {
		if one.store != nil {
			t.Errorf("the store of %s is open", id)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// An index of pages that is missing is made from the store, with the same files; while the crawl runs it is not.
func TestMakeIndex(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Pages: 30})
	ts := openService(t, Options{Base: quick(web)}).run()
	c := ts.awaitState(ts.submit(ts.admin, web.StartURLs()[0]).ID, Complete)
	dir := string(ts.Crawls.DataDir(c.ID))
	index, lines := filepath.Join(dir, "pages.index"), filepath.Join(dir, "sitemap.jsonl")
	before, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	for ts.Crawls.dispatch.runner(c.ID) != nil {
		runtime.Gosched()
	}
	cache := pageindex.Cache{Make: ts.Crawls.MakeIndex}
	defer cache.Close()
	err = cache.Use(t.Context(), dir, func(x *pageindex.Index) error {
		if x.Len() != c.Done || !x.KnowsProblems() {
			t.Errorf("the index has %d pages, want %d with problems", x.Len(), c.Done)
		}
		return nil
	})
	if after, _ := os.ReadFile(lines); err != nil || string(after) != string(before) {
		t.Errorf("sitemap.jsonl differs, or %v", err)
	}
	web.Hold(1)
	ts.do(c.ID, CommandRecrawl)
	ts.awaitState(c.ID, Running)
	defer web.Release()
	if err := ts.Crawls.MakeIndex(t.Context(), dir); !errors.Is(err, pageindex.ErrBusy) {
		t.Errorf("the files of a crawl that runs are written: %v", err)
	}
}
