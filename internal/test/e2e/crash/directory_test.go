package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// status and export are answered by a crawl that runs, and without it once it was killed.
func TestStatusAndExport(t *testing.T) {
	t.Parallel()
	web, dir, p := e2e.Hanging(t)
	const all, hangs = 30, "/hang/0"
	check := func(state string, pid, inFlight int) {
		t.Helper()
		s := e2e.Status(t, dir)
		if s.SchemaVersion != 1 || s.State != state || s.PID != pid || s.Found != all+1 || s.Done != all ||
			s.Pending != 1 || s.InFlight != inFlight || s.Profile != "own-site" ||
			s.Outcomes["ok"] != all || s.Outcomes["pending"] != 1 || len(s.StartURLs) != 1 ||
			s.StartURLs[0] != web.StartURLs()[0] {
			t.Errorf("status %+v", s)
		}
		out := filepath.Join(t.TempDir(), "out")
		got := e2e.Run(t, "export", "--data-dir", dir, "--output", out, "--json")
		e2e.Succeeded(t, got)
		res := e2e.Parse[struct {
			Pages, Indexable int
			Files            []string
		}](t, got.Stdout)
		if res.Pages != all+1 || res.Indexable != all || strings.Join(res.Files, " ") != "sitemap.jsonl sitemap.xml" {
			t.Errorf("exported %+v", res)
		}
		lines := e2e.ReadLines(t, out)
		if len(lines) != all+1 || lines["http://"+web.HostName(0)+hangs].Outcome != "pending" {
			t.Errorf("%d lines, and the page that hangs is %q", len(lines),
				lines["http://"+web.HostName(0)+hangs].Outcome)
		}
	}

	check("running", p.Pid(), 1)
	got := e2e.Run(t, "status", "--data-dir", dir)
	e2e.Succeeded(t, got)
	if !strings.Contains(got.Stdout, "running") || !strings.Contains(got.Stdout, "In flight") {
		t.Errorf("status says:\n%s", got.Stdout)
	}

	p.Kill()
	if e2e.Exists(t, dir, "sitemap.jsonl") || e2e.Exists(t, dir, "report.json") {
		t.Error("a crawl that was killed has left outputs")
	}
	check("interrupted", 0, 0)
	got = e2e.Run(t, "status", "--data-dir", dir)
	e2e.Succeeded(t, got)
	if !strings.Contains(got.Stdout, "interrupted") || !strings.Contains(got.Stdout,
		"mapwright resume --data-dir "+dir) {
		t.Errorf("status does not say how to go on:\n%s", got.Stdout)
	}
	got = e2e.Run(t, "export-sitemap", "--data-dir", dir, "--format", "csv")
	e2e.Succeeded(t, got)
	if !e2e.Exists(t, dir, "sitemap.csv") || e2e.Exists(t, dir, "sitemap.jsonl") {
		t.Errorf("not what was asked for: %s", got.Stdout)
	}
	if got = e2e.Run(t, "export", "--data-dir", dir, "--format", "links"); got.Code != 0 ||
		!strings.Contains(got.Stderr, "--links") {
		t.Errorf("links that were not kept: exit status %d, %q", got.Code, got.Stderr)
	}

	if got := e2e.Run(t, "resume", "--data-dir", dir, "--timeout", "1", "--max-retries", "0", "--max-host-backoff-secs",
		"1"); got.Code != 0 {
		t.Errorf("resumed: exit status %d, want 0", got.Code)
	}
	if s := e2e.Status(t, dir); s.State != "complete" || s.Pending != 0 || s.PID != 0 {
		t.Errorf("status at the end: %+v", s)
	}
	if l := e2e.ReadLines(t, dir)["http://"+web.HostName(0)+hangs]; l.Outcome != "timeout" {
		t.Errorf("the page that hangs is %q, want timeout", l.Outcome)
	}
	if n := e2e.Repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
	if got := e2e.Run(t, "resume", "--data-dir", dir); got.Code != 0 || !strings.Contains(got.Stdout, "complete") ||
		e2e.Pages(web) != all+2 {
		t.Errorf("resume of a complete crawl: exit status %d, %d pages in all", got.Code, e2e.Pages(web))
	}
}

// wipe asks, deletes only what Mapwright made, and leaves the rest.
func TestWipe(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{})
	crawl := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "data")
		got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
			web.Resolve(),
			"--data-dir", dir, "--csv", "--links", "--gzip")
		if got.Code != 0 {
			t.Fatalf("exit status %d, want 0", got.Code)
		}
		return dir
	}
	t.Run("asks", func(t *testing.T) {
		t.Parallel()
		dir := crawl(t)
		before := e2e.Picture(t, dir)
		for _, answer := range []string{"", "n\n", "no\n", "what\n"} {
			got := e2e.Invocation{Args: []string{"wipe", "--data-dir", dir}, Stdin: answer}.Run(t)
			if got.Code != 1 || !strings.Contains(got.Stdout, "Delete") ||
				!strings.Contains(got.Stdout, "sitemap.jsonl") || !strings.Contains(got.Stderr, "nothing was deleted") {
				t.Errorf("answered %q: exit status %d, says %q and %q", answer, got.Code, got.Stdout, got.Stderr)
			}
		}
		e2e.Unchanged(t, dir, before)
		got := e2e.Invocation{Args: []string{"wipe", "--data-dir", dir}, Stdin: "y\n"}.Run(t)
		e2e.Succeeded(t, got)
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
	})
	t.Run("leaves what it did not make", func(t *testing.T) {
		t.Parallel()
		dir := crawl(t)
		mine := []string{"notes.txt", "state.txt", filepath.Join("sitemaps", "mine.xml"), "sitemap.html"}
		for _, name := range mine {
			e2e.Write(t, filepath.Join(dir, name), "mine")
		}
		got := e2e.Run(t, "wipe", "--yes", "--data-dir", dir)
		e2e.Succeeded(t, got)
		left := e2e.Picture(t, dir)
		for _, name := range mine {
			if _, ok := left[filepath.Join(dir, name)]; !ok {
				t.Errorf("%s is gone", name)
			}
		}
		if len(left) != len(mine)+2 { // and the two directories
			t.Errorf("left: %v", left)
		}
		if !strings.Contains(got.Stdout, "notes.txt") {
			t.Errorf("does not say what it left: %q", got.Stdout)
		}
		e2e.Refused(t, e2e.Run(t, "status", "--data-dir", dir), "holds no crawl")
	})
}
