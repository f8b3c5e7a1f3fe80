package crash

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A crawl of format version 1 is refused by every command that would read it, with both versions named, and is not
// changed. It can be wiped.
func TestOtherFormat(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5"}
	if got := e2e.Run(t, crawl...); got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	e2e.Unpack(t, filepath.Join("..", "..", "..", "..", "state", "testdata", "v1.tar.gz"), "closed/",
		filepath.Join(dir, "state"))
	before, fetched := e2e.Picture(t, dir), e2e.Pages(web)
	for _, command := range [][]string{
		{"resume", "--data-dir", dir, "--max-urls", "0"},
		{"export", "--data-dir", dir},
		{"status", "--data-dir", dir},
	} {
		e2e.Refused(t, e2e.Run(t, command...), dir, "has format version 1", "reads 2")
		e2e.Unchanged(t, dir, before)
	}
	e2e.Refused(t, e2e.Run(t, crawl...), dir)
	e2e.Unchanged(t, dir, before)
	if n := e2e.Pages(web); n != fetched {
		t.Errorf("%d pages were fetched", n-fetched)
	}
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
}

var oldProgram = flag.String("old-program", "",
	"an older program, which makes the archive of TestDirectoriesOfAnOlderVersion anew")

// oldWeb is the web of the archive.
func oldWeb(t *testing.T) *testweb.Server {
	return e2e.Serve(t, testweb.Config{Seed: 21, Hosts: 2, Pages: 15, Links: 5, CrossHost: 0.3, PageSize: 1000,
		Faults: testweb.OnAll(testweb.StatusPages{Where: testweb.Where{Count: 1}}, testweb.RedirectLoop{})})
}

const oldArchive = "testdata/1123db0.tar.gz"

// makeOldDirectories makes the archive: a crawl that ended, one that was killed after some pages, and one that was
// crawled again.
func makeOldDirectories(t *testing.T) {
	ours := e2e.Binary
	defer func() { e2e.Binary = ours }()
	e2e.Binary = *oldProgram
	web, root := oldWeb(t), t.TempDir()
	crawl := func(name string) []string {
		return []string{"crawl", "--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
			"--resolve", web.Resolve(), "--data-dir", filepath.Join(root, name)}
	}
	e2e.Succeeded(t, e2e.Run(t, crawl("finished")...))
	e2e.Succeeded(t, e2e.Run(t, crawl("recrawled")...))
	e2e.Succeeded(t, e2e.Run(t, "recrawl", "--data-dir", filepath.Join(root, "recrawled")))
	web.Reset()
	web.Hold(8)
	p := e2e.Start(t, crawl("killed")...)
	p.Until("pages are asked for", func() bool { return e2e.Pages(web) > 8 })
	p.Until("pages are recorded", func() bool {
		return e2e.Status(t, filepath.Join(root, "killed")).Done >= 8
	})
	e2e.Flush(t, filepath.Join(root, "killed"))
	p.Kill()
	web.Release()
	e2e.Pack(t, root, oldArchive)
}

// Data directories that version 1123db0 has left are read and continued: what they hold is exported as that version
// exported it, a killed crawl is finished without fetching again what it had, and finished ones are crawled again.
func TestDirectoriesOfAnOlderVersion(t *testing.T) {
	if *oldProgram != "" {
		makeOldDirectories(t)
	}
	for _, name := range []string{"finished", "recrawled"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web, dir := oldWeb(t), filepath.Join(t.TempDir(), "data")
			e2e.Unpack(t, oldArchive, name+"/", dir)
			want, out := e2e.Read(t, dir, "sitemap.jsonl"), t.TempDir()
			e2e.Succeeded(t, e2e.Run(t, "status", "--data-dir", dir))
			e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir, "--output", out))
			if got := e2e.Read(t, out, "sitemap.jsonl"); got != want {
				t.Errorf("the export is\n%s, want\n%s", got, want)
			}
			lines := e2e.ReadLines(t, dir)
			e2e.FoundExactly(t, web, testweb.Crawl{Scope: "any"}, lines)
			got := e2e.Run(t, "recrawl", "--data-dir", dir, "--resolve", web.Resolve())
			e2e.Ended(t, got, dir, 0, "complete", "")
			e2e.SameStory(t, e2e.Story(e2e.ReadLines(t, dir)), e2e.Story(lines))
		})
	}
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		web, dir := oldWeb(t), filepath.Join(t.TempDir(), "data")
		e2e.Unpack(t, oldArchive, "killed/", dir)
		had := e2e.Status(t, dir).Done
		if had < 8 {
			t.Errorf("%d URLs are done, want at least 8", had)
		}
		got := e2e.Run(t, "resume", "--data-dir", dir, "--resolve", web.Resolve())
		e2e.Ended(t, got, dir, 0, "complete", "")
		lines := e2e.ReadLines(t, dir)
		e2e.FoundExactly(t, web, testweb.Crawl{Scope: "any"}, lines)
		e2e.AskedOnce(t, web)
		if n := e2e.Pages(web); n > len(lines)-had {
			t.Errorf("%d pages were fetched, although %d of %d were there", n, had, len(lines))
		}
	})
}
