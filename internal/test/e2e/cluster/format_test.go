//go:build cluster

package cluster

import (
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

var oldProgram = flag.String("old-program", "",
	"an older program, which makes the database of TestDatabaseOfAnOlderVersion anew")

const (
	oldDatabase = "testdata/1123db0.tar.gz"
	oldDump     = "dump.sql"
	oldHad      = 8 // so many pages it has at least
)

// oldWeb is the web of the database.
func oldWeb(t *testing.T) *testweb.Server {
	return e2e.Serve(t, testweb.Config{Seed: 21, Hosts: 6, Pages: 8, Links: 5, CrossHost: 0.3, PageSize: 1000,
		Faults: testweb.OnAll(testweb.StatusPages{Where: testweb.Where{Count: 1}})})
}

// makeOldDatabase lets the older program begin a crawl with two machines, kills both, and keeps the database.
func makeOldDatabase(t *testing.T) {
	ours := e2e.Binary
	defer func() { e2e.Binary = ours }()
	e2e.Binary = *oldProgram
	web := oldWeb(t)
	f, _ := newFleet(t, web, "--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
		"--resolve", web.Resolve())
	web.Hold(0)
	f.start(2)
	f.shares(f.machines[0], 2)
	web.Release()
	web.Hold(2 * oldHad)
	f.until(f.machines[0], "pages are recorded", func() bool { return f.status().Done >= oldHad })
	for _, m := range f.machines {
		m.Kill()
	}
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(f.address)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := server.Dump(strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, oldDump), []byte(sql), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.Pack(t, root, oldDatabase)
}

// A database that version 1123db0 has left, with a crawl whose two machines were killed, is read and the crawl
// finished: nothing is lost, and nothing that was recorded is fetched again.
func TestDatabaseOfAnOlderVersion(t *testing.T) {
	onlyPostgres(t)
	t.Parallel()
	if *oldProgram != "" {
		makeOldDatabase(t)
	}
	dir := t.TempDir()
	e2e.Unpack(t, oldDatabase, "", dir)
	web := oldWeb(t)
	f, _ := newFleet(t, web)
	query(t, f.address, e2e.Read(t, dir, oldDump))
	had := f.status().Done
	if had < oldHad {
		t.Errorf("%d URLs are done, want at least %d", had, oldHad)
	}
	web.Hold(0)
	f.machines = append(f.machines, f.invoke("resume", "--data-dir", f.dir(0), "--resolve", web.Resolve()).Start(t))
	f.shares(f.machines[0], 1)
	f.join(1)
	f.shares(f.machines[0], 2)
	web.Release()
	f.ends(0, "complete")
	lines := f.export().lines
	e2e.FoundExactly(t, web, testweb.Crawl{Scope: "any"}, lines)
	e2e.AskedOnce(t, web)
	if n := e2e.Pages(web); n > len(lines)-had {
		t.Errorf("%d pages were fetched, although %d of %d were there", n, had, len(lines))
	}
}
