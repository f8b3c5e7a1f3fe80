//go:build unix

package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// In a directory that never held a crawl nothing is Mapwright's, whatever its name.
func TestWipeWithoutACrawl(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	for _, name := range []string{"sitemap.xml", "sitemap.csv/mine.txt", "sitemap.jsonl", "report.json", "crawl.json",
		"mapwright.log", "state/notes.txt", "sitemap.xml.tmp"} {
		e2e.Write(t, filepath.Join(dir, name), "mine")
	}
	before := e2e.Picture(t, dir)
	e2e.Refused(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	got := e2e.Run(t, "crawl", "--start-url", "http://a.test/", "--data-dir", dir)
	e2e.Refused(t, got, "did not make", "choose another")
	if strings.Contains(got.Stderr, "wipe") {
		t.Errorf("advises wipe for files that are not Mapwright's: %s", got.Stderr)
	}
	e2e.Unchanged(t, dir, before)
	// An empty directory called state makes it no crawl.
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	before = e2e.Picture(t, dir)
	e2e.Refused(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	e2e.Unchanged(t, dir, before)
}

// A wipe follows no link: neither to another crawl's state nor to a file.
func TestWipeFollowsNoLinks(t *testing.T) {
	t.Parallel()
	other, dir := e2e.Crawled(t), filepath.Join(t.TempDir(), "linked")
	before := e2e.Picture(t, other)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(other, "state"), "state")
	link(filepath.Join(other, "sitemap.xml"), "sitemap.xml")
	e2e.Refused(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	e2e.Unchanged(t, other, before)

	// In a directory with a crawl of its own the links stay, and so does what they point to.
	dir = e2e.Crawled(t)
	if err := os.Remove(filepath.Join(dir, "sitemap.xml")); err != nil {
		t.Fatal(err)
	}
	link(filepath.Join(other, "sitemap.xml"), "sitemap.xml")
	if err := os.RemoveAll(filepath.Join(dir, "state", "snap")); err != nil {
		t.Fatal(err)
	}
	link(filepath.Join(other, "state", "snap"), "state/snap")
	if err := os.Rename(filepath.Join(dir, "state"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	link("elsewhere", "state")
	linked := e2e.Picture(t, dir)
	e2e.Refused(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir), "state is a link", "nothing was deleted")
	e2e.Unchanged(t, dir, linked)
	if err := errors.Join(os.Remove(filepath.Join(dir, "state")),
		os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "state"))); err != nil {
		t.Fatal(err)
	}
	got := e2e.Run(t, "wipe", "--yes", "--data-dir", dir)
	e2e.Succeeded(t, got)
	e2e.Unchanged(t, other, before)
	if !strings.Contains(got.Stdout, "sitemap.xml") || !strings.Contains(got.Stdout, "snap") {
		t.Errorf("does not say what stays: %s", got.Stdout)
	}
}

// Files of others inside the crawl's directories stay, and so does a sitemap that its user has replaced. The prompt
// says so.
func TestWipeKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t, "--csv", "--links")
	e2e.Write(t, filepath.Join(dir, "state", "sort-123.tmp"), "of an export that was killed")
	e2e.Write(t, filepath.Join(dir, "sitemap.csv.mapwright.tmp"), "of another")
	mine := []string{
		"sitemap.xml", "state/sort-notes", "state/notes.txt", "state/badger/thesis.doc", "state/wal/0001.txt",
		"sitemap.csv", "links.jsonl",
		"sitemap-00002.xml/mine", "control.sock", "report.json.tmp", "sitemap-00001.xml.tmp", "pages.index.old.tmp",
	}
	for _, name := range mine {
		e2e.Write(t, filepath.Join(dir, name), "mine")
	}
	got := e2e.Invocation{Args: []string{"wipe", "--data-dir", dir}, Stdin: "y\n"}.Run(t)
	e2e.Succeeded(t, got)
	for _, name := range mine {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if !strings.Contains(got.Stdout, "These stay") || !strings.Contains(got.Stdout,
		"control.sock, links.jsonl, pages.index.old.tmp, report.json.tmp, sitemap-00001.xml.tmp, sitemap-00002.xml, "+
			"sitemap.csv, sitemap.xml") || !strings.Contains(got.Stdout, "state/") {
		t.Errorf("says %q", got.Stdout)
	}
	for _, name := range []string{"sitemap.jsonl", "crawl.json", "report.json", "mapwright.files", "state/FORMAT",
		"state/LOCK", "state/sort-123.tmp", "sitemap.csv.mapwright.tmp"} {
		if e2e.Exists(t, dir, name) {
			t.Errorf("%s is left", name)
		}
	}
}

// The directory that is wiped may be the current one.
func TestWipeTheCurrentDirectory(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	got := e2e.Invocation{Args: []string{"wipe", "--yes", "--data-dir", "."}, Dir: dir}.Run(t)
	e2e.Succeeded(t, got)
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 || !strings.Contains(got.Stdout, "empty now") {
		t.Errorf("left %v, %v, and says %q", names, err, got.Stdout)
	}
}

// An export does not replace a file that another program wrote, and says what to do.
func TestExportKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	for _, name := range []string{"sitemap.xml", "sitemap.jsonl", "sitemap.csv", "links.jsonl"} {
		out := t.TempDir()
		e2e.Write(t, filepath.Join(out, name), "mine")
		got := e2e.Run(t, "export", "--data-dir", dir, "--output", out, "--format", "jsonl,xml,csv,links")
		if got.Code != 1 || !strings.Contains(got.Stderr, name) || !strings.Contains(got.Stderr, "--output") {
			t.Errorf("%s: exit status %d: %s", name, got.Code, got.Stderr)
		}
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// Files of an earlier export, of this crawl or another, are replaced.
	out := t.TempDir()
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", e2e.Crawled(t), "--output", out, "--format", "jsonl,xml,csv"))
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir, "--output", out, "--format", "jsonl,xml,csv"))
}

// A resumed crawl leaves a user's file alone where its control socket and temporary files were, and writes its log and
// its metrics neither through a link nor into a pipe.
func TestResumeLeavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	victim := filepath.Join(t.TempDir(), "victim")
	e2e.Write(t, victim, "untouched")
	for _, name := range []string{"control.sock", "sitemap.jsonl.tmp", "crawl.json.tmp"} {
		e2e.Write(t, filepath.Join(dir, name), "mine")
	}
	for _, name := range []string{"mapwright.log", "metrics.jsonl"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(victim, filepath.Join(dir, "metrics.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"a link", "a pipe"} {
		log := filepath.Join(dir, "mapwright.log")
		err := os.Symlink(victim, log)
		if kind == "a pipe" {
			err = errors.Join(os.Remove(log), syscall.Mkfifo(log, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		got := e2e.Run(t, "resume", "--data-dir", dir, "--max-depth", "7")
		if got.Code != 0 {
			t.Errorf("%s: exit status %d", kind, got.Code)
		}
		for _, want := range []string{"the log goes to standard error only", "metrics.jsonl is a link",
			"control.sock is not a socket"} {
			if !strings.Contains(got.Stderr, want) {
				t.Errorf("%s: standard error does not say %q:\n%s", kind, want, got.Stderr)
			}
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
		t.Errorf("the file that the links point to: %q, %v", text, err)
	}
	for _, name := range []string{"control.sock", "sitemap.jsonl.tmp", "crawl.json.tmp"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// A resumed crawl refuses such a file before it fetches anything.
func TestResumeKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5")
	if got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	e2e.Write(t, filepath.Join(dir, "sitemap.xml"), "mine")
	fetched := e2e.Pages(web)
	before := e2e.Picture(t, dir)
	e2e.Refused(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0"), "sitemap.xml",
		"not written by Mapwright",
		"move it")
	if e2e.Pages(web) != fetched {
		t.Errorf("%d pages were fetched", e2e.Pages(web)-fetched)
	}
	e2e.Unchanged(t, dir, before)
}

// An export without an indexable page says why there is no sitemap, and that the earlier one is gone.
func TestExportSaysWhyThereIsNoSitemap(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	got := e2e.Run(t, "export", "--data-dir", dir, "--xml-types", "application/pdf")
	if got.Code != 0 || !strings.Contains(got.Stderr, "no page is indexable") ||
		!strings.Contains(got.Stderr, "removed sitemap.xml") || e2e.Exists(t, dir, "sitemap.xml") {
		t.Errorf("exit status %d: %s", got.Code, got.Stderr)
	}
}
