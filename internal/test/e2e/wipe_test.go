//go:build unix

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// In a directory that never held a crawl nothing is Mapwright's, whatever its name.
func TestWipeWithoutACrawl(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	for _, name := range []string{"sitemap.xml", "sitemap.csv/mine.txt", "sitemap.jsonl", "report.json", "crawl.json",
		"mapwright.log", "state/notes.txt", "sitemap.xml.tmp"} {
		write(t, filepath.Join(dir, name), "mine")
	}
	before := picture(t, dir)
	refused(t, run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	got := run(t, "crawl", "--start-url", "http://a.test/", "--data-dir", dir)
	refused(t, got, "did not make", "choose another")
	if strings.Contains(got.stderr, "wipe") {
		t.Errorf("advises wipe for files that are not Mapwright's: %s", got.stderr)
	}
	unchanged(t, dir, before)
	// An empty directory called state makes it no crawl.
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	before = picture(t, dir)
	refused(t, run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	unchanged(t, dir, before)
}

// A wipe follows no link: neither to another crawl's state nor to a file.
func TestWipeFollowsNoLinks(t *testing.T) {
	t.Parallel()
	other, dir := crawled(t), filepath.Join(t.TempDir(), "linked")
	before := picture(t, other)
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
	refused(t, run(t, "wipe", "--yes", "--data-dir", dir), "holds no crawl", "nothing was deleted")
	unchanged(t, other, before)

	// In a directory with a crawl of its own the links stay, and so does what they point to.
	dir = crawled(t)
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
	linked := picture(t, dir)
	refused(t, run(t, "wipe", "--yes", "--data-dir", dir), "state is a link", "nothing was deleted")
	unchanged(t, dir, linked)
	if err := errors.Join(os.Remove(filepath.Join(dir, "state")),
		os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "state"))); err != nil {
		t.Fatal(err)
	}
	got := run(t, "wipe", "--yes", "--data-dir", dir)
	succeeded(t, got)
	unchanged(t, other, before)
	if !strings.Contains(got.stdout, "sitemap.xml") || !strings.Contains(got.stdout, "snap") {
		t.Errorf("does not say what stays: %s", got.stdout)
	}
}

// Files of others inside the crawl's directories stay, and so does a sitemap that its user has replaced. The prompt
// says so.
func TestWipeKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := crawled(t, "--csv", "--links")
	write(t, filepath.Join(dir, "state", "sort-123.tmp"), "of an export that was killed")
	write(t, filepath.Join(dir, "sitemap.csv.mapwright.tmp"), "of another")
	mine := []string{
		"sitemap.xml", "state/sort-notes", "state/notes.txt", "state/badger/thesis.doc", "state/wal/0001.txt",
		"sitemap.csv", "links.jsonl",
		"sitemap-00002.xml/mine", "control.sock", "report.json.tmp", "sitemap-00001.xml.tmp", "pages.index.old.tmp",
	}
	for _, name := range mine {
		write(t, filepath.Join(dir, name), "mine")
	}
	got := invocation{args: []string{"wipe", "--data-dir", dir}, stdin: "y\n"}.run(t)
	succeeded(t, got)
	for _, name := range mine {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if !strings.Contains(got.stdout, "These stay") || !strings.Contains(got.stdout,
		"control.sock, links.jsonl, pages.index.old.tmp, report.json.tmp, sitemap-00001.xml.tmp, sitemap-00002.xml, "+
			"sitemap.csv, sitemap.xml") || !strings.Contains(got.stdout, "state/") {
		t.Errorf("says %q", got.stdout)
	}
	for _, name := range []string{"sitemap.jsonl", "crawl.json", "report.json", "mapwright.files", "state/FORMAT",
		"state/LOCK", "state/sort-123.tmp", "sitemap.csv.mapwright.tmp"} {
		if exists(t, dir, name) {
			t.Errorf("%s is left", name)
		}
	}
}

// The directory that is wiped may be the current one.
func TestWipeTheCurrentDirectory(t *testing.T) {
	t.Parallel()
	dir := crawled(t)
	got := invocation{args: []string{"wipe", "--yes", "--data-dir", "."}, dir: dir}.run(t)
	succeeded(t, got)
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 || !strings.Contains(got.stdout, "empty now") {
		t.Errorf("left %v, %v, and says %q", names, err, got.stdout)
	}
}

// An export does not replace a file that another program wrote, and says what to do.
func TestExportKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := crawled(t)
	for _, name := range []string{"sitemap.xml", "sitemap.jsonl", "sitemap.csv", "links.jsonl"} {
		out := t.TempDir()
		write(t, filepath.Join(out, name), "mine")
		got := run(t, "export", "--data-dir", dir, "--output", out, "--format", "jsonl,xml,csv,links")
		if got.code != 1 || !strings.Contains(got.stderr, name) || !strings.Contains(got.stderr, "--output") {
			t.Errorf("%s: exit status %d: %s", name, got.code, got.stderr)
		}
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// Files of an earlier export, of this crawl or another, are replaced.
	out := t.TempDir()
	succeeded(t, run(t, "export", "--data-dir", crawled(t), "--output", out, "--format", "jsonl,xml,csv"))
	succeeded(t, run(t, "export", "--data-dir", dir, "--output", out, "--format", "jsonl,xml,csv"))
}

// A resumed crawl leaves a user's file alone where its control socket and temporary files were, and writes its log and
// its metrics neither through a link nor into a pipe.
func TestResumeLeavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	dir := crawled(t)
	victim := filepath.Join(t.TempDir(), "victim")
	write(t, victim, "untouched")
	for _, name := range []string{"control.sock", "sitemap.jsonl.tmp", "crawl.json.tmp"} {
		write(t, filepath.Join(dir, name), "mine")
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
		got := run(t, "resume", "--data-dir", dir, "--max-depth", "7")
		if got.code != 0 {
			t.Errorf("%s: exit status %d", kind, got.code)
		}
		for _, want := range []string{"the log goes to standard error only", "metrics.jsonl is a link",
			"control.sock is not a socket"} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("%s: standard error does not say %q:\n%s", kind, want, got.stderr)
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
	web := serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	got := run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5")
	if got.code != 3 {
		t.Fatalf("exit status %d, want 3", got.code)
	}
	write(t, filepath.Join(dir, "sitemap.xml"), "mine")
	fetched := pages(web)
	before := picture(t, dir)
	refused(t, run(t, "resume", "--data-dir", dir, "--max-urls", "0"), "sitemap.xml", "not written by Mapwright",
		"move it")
	if pages(web) != fetched {
		t.Errorf("%d pages were fetched", pages(web)-fetched)
	}
	unchanged(t, dir, before)
}

// An export without an indexable page says why there is no sitemap, and that the earlier one is gone.
func TestExportSaysWhyThereIsNoSitemap(t *testing.T) {
	t.Parallel()
	dir := crawled(t)
	got := run(t, "export", "--data-dir", dir, "--xml-types", "application/pdf")
	if got.code != 0 || !strings.Contains(got.stderr, "no page is indexable") ||
		!strings.Contains(got.stderr, "removed sitemap.xml") || exists(t, dir, "sitemap.xml") {
		t.Errorf("exit status %d: %s", got.code, got.stderr)
	}
}
