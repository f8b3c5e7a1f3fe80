package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// With too low a limit of open files a crawl does not begin, says which limit it needs, and leaves nothing behind.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := invocation{args: []string{"crawl", "http://127.0.0.1:1/", "--data-dir", dir}, files: 100}.run(t)
	if got.code != 1 || !strings.Contains(got.stderr, "may open 100 files, and at least 256 are needed") ||
		!strings.Contains(got.stderr, "ulimit -n") {
		t.Errorf("exit status %d, want 1 and the limit that is needed:\n%s", got.code, got.stderr)
	}
	if exists(t, filepath.Dir(dir), "data") {
		t.Error("a data directory was made")
	}
}

// With the least limit of open files a crawl of many slow hosts with many workers is completed without running out of
// them.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Hosts: 300, Pages: 4, CrossHost: 0.5,
		Faults: testweb.OnAll(testweb.Slow{Delay: 50_000_000})})
	dir := filepath.Join(t.TempDir(), "data")
	list := write(t, filepath.Join(t.TempDir(), "urls.txt"), strings.Join(web.StartURLs(), "\n"))
	got := invocation{args: []string{"crawl", list, "--scope", "any", "--profile", "own-site", "--workers", "512",
		"--resolve", web.Resolve(), "--data-dir", dir, "--seeding-strategy", "none"}, files: 256}.run(t)
	if got.code != 0 || !strings.Contains(got.stderr, "only 64 of 512 workers are used") {
		t.Errorf("exit status %d, want 0 and a word on the workers:\n%s", got.code, got.stderr)
	}
	if strings.Contains(got.stderr, "too many open files") || strings.Contains(got.stderr, "pausing") {
		t.Errorf("the crawl ran out of files:\n%s", got.stderr)
	}
	foundExactly(t, web, testweb.Crawl{Scope: "any"}, readLines(t, dir))
}
