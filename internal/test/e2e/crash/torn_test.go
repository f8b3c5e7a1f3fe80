package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A log that ends in the middle of a write is repaired, and the command that repairs it says so, with file and offset.
func TestTornTailIsSaid(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 8, Pages: 300})
	web.Hold(50) // so that the crawl is not over when it is killed
	dir := filepath.Join(t.TempDir(), "data")
	p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h")
	p.Until("50 pages are recorded", func() bool {
		return e2e.Pages(web) > 50 && e2e.Status(t,
			dir).Outcomes["ok"] == 50
	})
	e2e.Flush(t, dir) // else the kill may come in the middle of a write
	p.Kill()
	web.Release()
	const said = "the log ended in the middle of a write: torn tail cut from "

	if got := e2e.Run(t, "status", "--data-dir", dir); got.Code != 0 || strings.Contains(got.Stderr, said) {
		t.Errorf("status of a crawl that was killed ends with %d and says %q", got.Code, got.Stderr)
	}
	tear(t, dir) // behind the end of that run: a record that does not end in zeros
	if got := e2e.Run(t, "status", "--data-dir", dir); got.Code != 0 || !strings.Contains(got.Stderr, said) ||
		!strings.Contains(got.Stderr, " at offset ") {
		t.Errorf("status ends with %d and says %q", got.Code, got.Stderr)
	}
	tear(t, dir)
	if got := e2e.Run(t, "export", "--data-dir", dir, "--output", t.TempDir()); got.Code != 0 ||
		!strings.Contains(got.Stderr, said) {
		t.Errorf("export ends with %d and says %q", got.Code, got.Stderr)
	}
	tear(t, dir)
	if got := e2e.Run(t, "resume", "--data-dir", dir); got.Code != 0 || !strings.Contains(got.Stderr, said) {
		t.Errorf("resume ends with %d and says %q", got.Code, got.Stderr)
	}
	if !slices.ContainsFunc(e2e.ReadReport(t, dir).Warnings, func(w string) bool { return strings.Contains(w, said) }) {
		t.Error("the report does not say it")
	}
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
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
