package service

import (
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/testweb"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// recorded counts the pages that a crawl has recorded, each once.
func recorded(ts *testService, id string) (n int, err error) {
	var after frontier.Key
	seen := map[string]bool{}
	for {
		lines, next, more, err := ts.Crawls.Recorded(id).Pages(ts.t.Context(), report.Search{After: after, Most: 7})
		if err != nil {
			return len(seen), err
		}
		for _, l := range lines {
			seen[l.URL] = true
		}
		if after = next; !more {
			return len(seen), nil
		}
	}
}

// The pages of a crawl that does not run and has written no files can be read. Its start waits for readers, and they for it: neither fails for the other.
func TestRecordedPages(t *testing.T) {
	web := startWeb(t, testweb.Config{Pages: 60})
	ts := openService(t, Options{Base: quick(web)}).run()
	c := ts.submitPaused(web, 20)
	if n, err := recorded(ts, c.ID); err != nil || int64(n) != c.Found {
		t.Errorf("%d pages of a paused crawl are recorded, %v; it has found %d", n, err, c.Found)
	}
	u, err := urlnorm.Parse(web.StartURLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if line, err := ts.Crawls.Recorded(c.ID).Page(t.Context(), u); err != nil || line == nil || line.StatusCode != 200 {
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

	// A crawl that has not begun has no pages, and one that is deleted is gone with its store.
	ts.Crawls.dispatch.resting.sweep(time.Now().Add(restingFor))
	never := ts.submit(ts.admin, web.StartURLs()[0])
	ts.do(never.ID, CommandCancel)
	if got := ts.awaitState(never.ID, Cancelled, Complete); got.StartedAt.IsZero() { // the dispatcher may be faster
		if n, err := recorded(ts, never.ID); err != nil || n != 0 {
			t.Errorf("%d pages of a crawl that has not begun, %v", n, err)
		}
	}
	ts.do(c.ID, CommandDelete)
	awaitGone(ts, c.ID)
}

// A search that few pages pass ends when its time is over, and goes on behind the last page that it has read: it finds each page once.
func TestSearchOfRecordedPages(t *testing.T) {
	web := startWeb(t, testweb.Config{Pages: 30})
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
	search := report.Search{Most: 5, Passes: func(l *page.Line) bool { return l.URL == want }, Until: time.Now().Add(-time.Hour)}
	var found []string
	for parts := int64(1); ; parts++ {
		lines, next, more, err := ts.Crawls.Recorded(c.ID).Pages(t.Context(), search)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			found = append(found, l.URL)
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
	web := startWeb(t, testweb.Config{Pages: 2})
	ts := openService(t, Options{Base: quick(web), MaxCrawls: 2}).run()
	var all []string
	for range mostResting + 2 {
		all = append(all, ts.submit(ts.admin, web.StartURLs()[0]).ID)
	}
	for _, id := range all {
		ts.awaitState(id, Complete)
	}
	for _, id := range all {
		if n, err := recorded(ts, id); err != nil || n != 2 {
			t.Errorf("%d pages, %v", n, err)
		}
	}
	open := 0
	for _, one := range ts.Crawls.dispatch.resting.all {
		if one.store != nil {
			open++
		}
	}
	if open == 0 || open > mostResting {
		t.Errorf("%d stores are open", open)
	}
}
