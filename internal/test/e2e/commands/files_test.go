package commands

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// With too low a limit of open files a crawl does not begin, says which limit it needs, and leaves nothing behind.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Invocation{Args: []string{"crawl", "http://127.0.0.1:1/", "--data-dir", dir}, Files: 100}.Run(t)
	if got.Code != 1 || !strings.Contains(got.Stderr, "may open 100 files, and at least 256 are needed") ||
		!strings.Contains(got.Stderr, "ulimit -n") {
		t.Errorf("exit status %d, want 1 and the limit that is needed:\n%s", got.Code, got.Stderr)
	}
	if e2e.Exists(t, filepath.Dir(dir), "data") {
		t.Error("a data directory was made")
	}
}

// With the least limit of open files a crawl of many slow hosts with many workers is completed without running out of
// them.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 300, Pages: 4, CrossHost: 0.5,
		Faults: testweb.OnAll(testweb.Slow{Delay: 50_000_000})})
	dir := filepath.Join(t.TempDir(), "data")
	list := e2e.Write(t, filepath.Join(t.TempDir(), "urls.txt"), strings.Join(web.StartURLs(), "\n"))
	got := e2e.Invocation{Args: []string{"crawl", list, "--scope", "any", "--profile", "own-site", "--workers", "512",
		"--resolve", web.Resolve(), "--data-dir", dir, "--seeding-strategy", "none"}, Files: 256}.Run(t)
	if got.Code != 0 || !strings.Contains(got.Stderr, "only 64 of 512 workers are used") {
		t.Errorf("exit status %d, want 0 and a word on the workers:\n%s", got.Code, got.Stderr)
	}
	if strings.Contains(got.Stderr, "too many open files") || strings.Contains(got.Stderr, "pausing") {
		t.Errorf("the crawl ran out of files:\n%s", got.Stderr)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{Scope: "any"}, e2e.ReadLines(t, dir))
}
