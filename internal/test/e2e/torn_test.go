package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A log that ends in the middle of a write is repaired, and the command that repairs it says so, with file and offset.
func TestTornTailIsSaid(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Seed: 8, Pages: 300})
	web.Hold(50) // so that the crawl is not over when it is killed
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h")
	p.until("50 pages are recorded", func() bool { return pages(web) > 50 && status(t, dir).Outcomes["ok"] == 50 })
	flush(t, dir) // else the kill may come in the middle of a write
	p.kill()
	web.Release()
	const said = "the log ended in the middle of a write: torn tail cut from "

	if got := run(t, "status", "--data-dir", dir); got.code != 0 || strings.Contains(got.stderr, said) {
		t.Errorf("status of a crawl that was killed ends with %d and says %q", got.code, got.stderr)
	}
	tear(t, dir) // behind the end of that run: a record that does not end in zeros
	if got := run(t, "status", "--data-dir", dir); got.code != 0 || !strings.Contains(got.stderr, said) ||
		!strings.Contains(got.stderr, " at offset ") {
		t.Errorf("status ends with %d and says %q", got.code, got.stderr)
	}
	tear(t, dir)
	if got := run(t, "export", "--data-dir", dir, "--output", t.TempDir()); got.code != 0 ||
		!strings.Contains(got.stderr, said) {
		t.Errorf("export ends with %d and says %q", got.code, got.stderr)
	}
	tear(t, dir)
	if got := run(t, "resume", "--data-dir", dir); got.code != 0 || !strings.Contains(got.stderr, said) {
		t.Errorf("resume ends with %d and says %q", got.code, got.stderr)
	}
	if !slices.ContainsFunc(readReport(t, dir).Warnings, func(w string) bool { return strings.Contains(w, said) }) {
		t.Error("the report does not say it")
	}
	foundExactly(t, web, testweb.Crawl{}, readLines(t, dir))
}

// tear writes the beginning of a record behind the last one of a log.
func tear(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "state", "wal", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	last := slices.Max(segments)
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	if err := os.WriteFile(last, slices.Concat(b[:end], bytes.Repeat([]byte{7}, 100), b[min(len(b), end+100):]),
		0o644); err != nil {
		t.Fatal(err)
	}
}
