package service

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

var oldProgram = flag.String("old-program", "",
	"an older program, which makes the archive of TestDatabaseOfAnOlderVersion anew")

const oldArchive = "testdata/1123db0.tar.gz"

// makeOldDatabase makes the archive: the directory of a server with a crawl that is complete and was crawled again, and
// a paused one, and a key.
func makeOldDatabase(t *testing.T) {
	ours := e2e.Binary
	defer func() { e2e.Binary = ours }()
	e2e.Binary = *oldProgram
	w := e2e.Serve(t, testweb.Config{Seed: 22, Hosts: 2, Pages: 12, PageSize: 1000, Links: 6})
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, dir, "--min-free", "0")
	key := adminKey(t, dir)
	c := s.client(key)
	id := submitTo(t, c, w, 0)
	s.reaches(c, id, service.Complete)
	must(c.Command(t.Context(), id, service.CommandRecrawl))(t)
	s.until("the crawl was crawled again", func() bool {
		crawl := must(c.Crawl(t.Context(), id))(t)
		return crawl.State == service.Complete && crawl.Generation == 1
	})
	w.Hold(3)
	paused := submitTo(t, c, w, 1)
	s.until("the first pages were asked for", func() bool { return w.HostStats(1).Pages > 3 })
	must(c.Command(t.Context(), paused, service.CommandPause))(t)
	w.Release()
	s.reaches(c, paused, service.Paused)
	s.stop()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.Pack(t, dir, oldArchive)
}

// A database and crawls that the service of version 1123db0 has left are served: keys, states, outcomes and results.
func TestDatabaseOfAnOlderVersion(t *testing.T) {
	if *oldProgram != "" {
		makeOldDatabase(t)
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Unpack(t, oldArchive, "", dir)
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, dir, "--min-free", "0")
	c := s.client(strings.TrimSpace(string(key)))
	crawls := must(c.Crawls(t.Context(), service.CrawlFilter{}))(t).Items
	states := map[service.State]int{}
	for _, crawl := range crawls {
		states[crawl.State]++
		if crawl.State != service.Complete {
			continue
		}
		if crawl.Generation != 1 || crawl.Outcomes["ok"] != 12 {
			t.Errorf("%s: generation %d, outcomes %v", crawl.ID, crawl.Generation, crawl.Outcomes)
		}
		body := must(c.Result(t.Context(), crawl.ID, "sitemap.jsonl"))(t)
		got := must(io.ReadAll(body))(t)
		if err := body.Close(); err != nil {
			t.Error(err)
		}
		if want := e2e.Read(t, filepath.Join(dir, "crawls", crawl.ID), "sitemap.jsonl"); string(got) != want {
			t.Errorf("the result is\n%s, want\n%s", got, want)
		}
	}
	if len(crawls) != 2 || states[service.Complete] != 1 || states[service.Paused] != 1 {
		t.Errorf("%d crawls in the states %v", len(crawls), states)
	}
	s.stop()
}
