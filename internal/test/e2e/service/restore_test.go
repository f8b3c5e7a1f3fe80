package service

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Yesterday's database is put over today's directories. Nothing is deleted; a crawl without a directory is failed; a
// directory without a crawl is named in the log; what was not finished yesterday and is today needs no request; and a
// crawl that was crawled again since can be crawled once more.
func TestYesterdaysDatabase(t *testing.T) {
	t.Parallel()
	const pages = 20
	w := e2e.Serve(t, testweb.Config{Seed: 12, Hosts: 6, Pages: pages, PageSize: 2000, Links: 8})
	dir := filepath.Join(t.TempDir(), "data")
	start := func() *server { return startServer(t, dir, "--max-crawls", "2", "--min-free", "0") }
	s := start()
	key := adminKey(t, dir)
	c := s.client(key)
	kept, gone, again := submitTo(t, c, w, 0), submitTo(t, c, w, 1), submitTo(t, c, w, 2)
	for _, id := range []string{kept, gone, again} {
		s.reaches(c, id, service.Complete)
	}
	w.Hold(10)
	running := submitTo(t, c, w, 3)
	s.until("the first pages were asked for", func() bool { return w.HostStats(3).Pages > 10 })
	must(c.Command(t.Context(), kept, service.CommandRecrawl))(t) // it takes the other slot
	s.reaches(c, kept, service.Running)
	queued := submitTo(t, c, w, 4)
	s.kill()
	w.Release()
	yesterday := readDatabase(t, dir)

	s = start()
	c = s.client(key)
	must(c.Command(t.Context(), again, service.CommandRecrawl))(t)
	fresh := submitTo(t, c, w, 5)
	for _, id := range []string{kept, again, running, queued, fresh} {
		s.reaches(c, id, service.Complete)
	}
	must(c.Command(t.Context(), gone, service.CommandDelete))(t)
	s.until("the crawl is gone", func() bool { return isGone(c, gone) })
	s.stop()

	writeDatabase(t, dir, yesterday)
	before := exports(t, dir)
	if len(before) != 5 {
		t.Fatalf("exports %v", slices.Collect(maps.Keys(before)))
	}
	asked := w.Stats().Requests
	s = start()
	c = s.client(key)
	s.until("the log names the directory of "+fresh, func() bool { return strings.Contains(s.out.String(), fresh) })
	for _, id := range []string{kept, running, queued} {
		if crawl := s.reaches(c, id, service.Complete); crawl.Outcomes["ok"] != pages {
			t.Errorf("%s: %v", id, crawl.Outcomes)
		}
	}
	if now := w.Stats().Requests; now != asked {
		t.Errorf("%d requests were sent again", now-asked)
	}
	if crawl := must(c.Crawl(t.Context(), gone))(t); crawl.State != service.Failed || len(crawl.Errors) != 1 ||
		!strings.Contains(crawl.Errors[0], "directory is missing") {
		t.Errorf("the crawl without a directory is %s, %v", crawl.State, crawl.Errors)
	}
	if !isGone(c, fresh) {
		t.Error("the database of yesterday knows a crawl of today")
	}
	must(c.Command(t.Context(), again, service.CommandRecrawl))(t)
	if crawl := s.reaches(c, again, service.Complete); crawl.Outcomes["ok"] != pages {
		t.Errorf("another recrawl: %v", crawl.Outcomes)
	}
	s.stop()
	after := exports(t, dir)
	for id, text := range before {
		switch {
		case after[id] == "":
			t.Errorf("the files of crawl %s are gone", id)
		case id == fresh && after[id] != text:
			t.Errorf("the files of crawl %s have changed", id)
		}
	}
	checkDirectories(t, dir, kept, again, running, queued, fresh)
}

// readDatabase reads the files of the database of a server that has ended.
func readDatabase(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, path := range must(filepath.Glob(filepath.Join(dir, "service.db*")))(t) {
		files[path] = must(os.ReadFile(path))(t)
	}
	return files
}

// writeDatabase puts files of a database in the place of those that are there.
func writeDatabase(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for path := range readDatabase(t, dir) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// exports are the sitemap.jsonl of all crawls of a server.
func exports(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	crawls := os.DirFS(filepath.Join(dir, "crawls"))
	for _, path := range must(fs.Glob(crawls, "*/sitemap.jsonl"))(t) {
		found[filepath.Dir(path)] = string(must(fs.ReadFile(crawls, path))(t))
	}
	return found
}
