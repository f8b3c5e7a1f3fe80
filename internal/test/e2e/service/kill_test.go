package service

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// adminKey makes a key with every right.
func adminKey(t testing.TB, dir string) string {
	t.Helper()
	return must(run(t, nil, "keys", "create", "--scope", "admin", "--data-dir", dir))(t)
}

// submitTo submits a crawl of one host of a web.
func submitTo(t testing.TB, c *client.Client, w *testweb.Server, host int) string {
	t.Helper()
	return must(c.Submit(t.Context(), service.Submission{StartURLs: w.StartURLs()[host : host+1],
		Settings: settingsFor(w, nil)}, ""))(t).ID
}

// checkRecords looks at what a server that has ended left behind: a complete crawl has its files, each generation of a
// crawl ended at most once, and the pages that were used are those that the crawls have counted, if counted is given.
func checkRecords(t testing.TB, dir string, pages int, counted int64) {
	t.Helper()
	records := must(service.Open(t.Context(), service.Options{Dir: dir, RecordsOnly: true}))(t)
	defer func() {
		if err := records.Close(); err != nil {
			t.Error(err)
		}
	}()
	admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	list := must(records.Crawls.List(t.Context(), admin, service.CrawlFilter{Limit: 500}))(t)
	for _, crawl := range list.Items {
		if crawl.State != service.Complete {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "crawls", crawl.ID, "sitemap.jsonl"))
		if n := bytes.Count(text, []byte("\n")); err != nil || n != pages {
			t.Errorf("crawl %s is complete and has %d pages in its file, %v", crawl.ID, n, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "crawls", crawl.ID, "report.json")); err != nil {
			t.Error(err)
		}
	}
	type run struct {
		crawl      string
		generation uint32
	}
	ended := map[run]int{}
	for _, e := range must(records.Events.Since(t.Context(), service.EventFilter{Limit: 10_000}))(t) {
		if e.Type == service.CrawlFinished {
			ended[run{e.Crawl, e.Generation}]++
		}
	}
	for of, n := range ended {
		if n > 1 {
			t.Errorf("generation %d of crawl %s ended %d times", of.generation, of.crawl, n)
		}
	}
	used := must(records.Accounts.Usage(t.Context(), service.DefaultAccount))(t)
	if counted > 0 && (used.Pages.Used != counted || used.Pages.Granted != 0) {
		t.Errorf("%d pages are used and %d reserved, the crawls have counted %d", used.Pages.Used, used.Pages.Granted,
			counted)
	}
}

// The program is killed while crawls are in every state that lasts. After the next start no accepted crawl is lost,
// none runs twice, and each goes on as its state demands.
func TestKilled(t *testing.T) {
	t.Parallel()
	const pages = 30
	w := e2e.Serve(t, testweb.Config{Seed: 6, Hosts: 7, Pages: pages, PageSize: 2000, Links: 8})
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, append(patient(t), "--max-crawls", "4")...)
	key := adminKey(t, dir)
	c := s.client(key)
	s.send(c, "PUT", "/v1/plans/default", `{"pages_per_month": 1000}`, nil)

	again, deleted := submitTo(t, c, w, 0), submitTo(t, c, w, 1)
	s.reaches(c, again, service.Complete)
	s.reaches(c, deleted, service.Complete)
	w.Hold(10)
	paused := submitTo(t, c, w, 2)
	s.until("a page is held", func() bool { return w.Held(2) > 0 })
	must(c.Command(t.Context(), paused, service.CommandPause))(t)
	s.reaches(c, paused, service.Pausing, service.Paused)
	w.Release()
	s.reaches(c, paused, service.Paused)

	w.Hold(20)
	must(c.Command(t.Context(), again, service.CommandRecrawl))(t)
	running, pausing, cancelled := submitTo(t, c, w, 3), submitTo(t, c, w, 4), submitTo(t, c, w, 5)
	for _, host := range []int{0, 3, 4, 5} {
		s.until("each of the crawls waits for a page", func() bool { return w.Held(host) > 0 })
	}
	queued := submitTo(t, c, w, 6)
	must(c.Command(t.Context(), pausing, service.CommandPause))(t)
	s.reaches(c, pausing, service.Pausing)
	must(c.Command(t.Context(), cancelled, service.CommandCancel))(t)
	must(c.Command(t.Context(), deleted, service.CommandDelete))(t)
	s.kill()
	w.Release()
	checkRecords(t, dir, pages, 0)
	if w.HostStats(6).Requests > 0 {
		t.Error("a crawl runs that should have waited")
	}

	s = startServer(t, dir, "--max-crawls", "4", "--min-free", "0")
	c = s.client(key)
	counted := int64(2 * pages) // of the first two crawls
	add := func(crawl *service.Crawl) {
		counted += crawl.PagesCounted
		if crawl.State == service.Complete && crawl.Outcomes["ok"] != pages {
			t.Errorf("%s: %v", crawl.ID, crawl.Outcomes)
		}
	}
	for _, id := range []string{pausing, paused} {
		s.reaches(c, id, service.Paused)
		must(c.Command(t.Context(), id, service.CommandResume))(t)
		add(s.reaches(c, id, service.Complete))
	}
	for _, id := range []string{running, queued, again} {
		add(s.reaches(c, id, service.Complete))
	}
	if crawl := must(c.Crawl(t.Context(), again))(t); crawl.Generation != 1 {
		t.Errorf("the recrawl is generation %d", crawl.Generation)
	}
	add(s.reaches(c, cancelled, service.Cancelled))
	s.until("the crawl is deleted", func() bool { return isGone(c, deleted) })
	if list := must(c.Crawls(t.Context(), service.CrawlFilter{}))(t); len(list.Items) != 6 {
		t.Errorf("there are %d crawls, want 6", len(list.Items))
	}
	for _, id := range []string{again, cancelled} {
		must(run(t, []string{"MAPWRIGHT_SERVER=" + s.url, "MAPWRIGHT_KEY=" + key}, "remote", "get", id,
			"pages.jsonl"))(t)
	}
	s.stop()
	checkRecords(t, dir, pages, counted)
	checkDirectories(t, dir, again, paused, running, pausing, cancelled, queued)
}

// isGone says whether a crawl does not exist.
func isGone(c *client.Client, id string) bool {
	_, err := c.Crawl(context.Background(), id)
	return client.IsNotFound(err)
}

// checkDirectories checks that there are the directories of these crawls, and no others.
func checkDirectories(t testing.TB, dir string, ids ...string) {
	t.Helper()
	var names []string
	for _, e := range must(os.ReadDir(filepath.Join(dir, "crawls")))(t) {
		names = append(names, e.Name())
	}
	slices.Sort(ids)
	if !slices.Equal(names, ids) {
		t.Errorf("directories %v, want %v", names, ids)
	}
	if trash := must(os.ReadDir(filepath.Join(dir, "trash")))(t); len(trash) > 0 {
		t.Errorf("left in the trash: %v", trash)
	}
}

// The program is killed in the moment in which a client learns of a step. Each of them is durable by then, and the rest
// follows after the next start.
func TestKilledAtAnEvent(t *testing.T) {
	const pages = 20
	for _, at := range []service.EventType{service.CrawlQueued, service.CrawlStarted, service.CrawlFinishing,
		service.CrawlFinished, service.CrawlDeleted} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := e2e.Serve(t, testweb.Config{Seed: 8, Pages: pages, PageSize: 2000, Links: 8})
			dir := filepath.Join(t.TempDir(), "data")
			s := startServer(t, dir, "--min-free", "0")
			key := adminKey(t, dir)
			c := s.client(key)
			id := submitTo(t, c, w, 0)
			for event, err := range c.Events(t.Context(), "", 0) {
				if err != nil {
					t.Fatal(err)
				}
				if at == service.CrawlDeleted && event.Type == service.CrawlFinished {
					// the event of the deletion comes when all is gone
					must(c.Command(t.Context(), id, service.CommandDelete))(t)
					break
				}
				if event.Type == at {
					break
				}
			}
			s.kill()
			checkRecords(t, dir, pages, 0)
			s = startServer(t, dir, "--min-free", "0")
			c = s.client(key)
			if at == service.CrawlDeleted {
				s.until("the crawl is gone", func() bool { return isGone(c, id) })
			} else {
				s.reaches(c, id, service.Complete)
			}
			s.stop()
			checkRecords(t, dir, pages, pages)
			if at == service.CrawlDeleted {
				checkDirectories(t, dir)
			} else {
				checkDirectories(t, dir, id)
			}
		})
	}
}
