package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// live is what tests read of 'status --json'.
type live struct {
	SchemaVersion int            `json:"schema_version"`
	State         string         `json:"state"`
	Generation    int            `json:"generation"`
	PID           int            `json:"pid"`
	Profile       string         `json:"profile"`
	StartURLs     []string       `json:"start_urls"`
	Found         int            `json:"found"`
	Done          int            `json:"done"`
	Pending       int            `json:"pending"`
	InFlight      int            `json:"in_flight"`
	Outcomes      map[string]int `json:"outcomes"`
	StartedAt     string         `json:"started_at"`
	Elapsed       float64        `json:"elapsed_seconds"`
}

// settled reports whether a crawl has nothing in flight but one page and has recorded the others.
func (l live) settled(ok int) bool {
	return l.InFlight == 1 && l.Outcomes["ok"] == ok
}

func status(t *testing.T, dir string) live {
	t.Helper()
	got := run(t, "status", "--json", "--data-dir", dir)
	succeeded(t, got)
	return parse[live](t, got.stdout)
}

// flush makes a running crawl write to disk what it knows, also which page is in flight: an export begins with that.
func flush(t *testing.T, dir string) {
	t.Helper()
	succeeded(t, run(t, "export", "--data-dir", dir, "--output", t.TempDir()))
}

// hanging is a web of which every page answers but one, and a crawl of it that has come to that one.
func hanging(t *testing.T, flags ...string) (web *testweb.Server, dir string, p *process) {
	t.Helper()
	const all = 30
	web = serve(t, testweb.Config{Pages: all, Faults: testweb.OnAll(testweb.Hang{})})
	dir = filepath.Join(t.TempDir(), "data")
	p = start(t, append([]string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
		web.Resolve(), "--data-dir", dir, "--timeout", "1h"}, flags...)...)
	p.until("only the page that hangs is left", func() bool {
		return pages(web) == all+1 &&
			status(t, dir).settled(all)
	})
	return web, dir, p
}

// status and export are answered by a crawl that runs, and without it once it was killed.
func TestStatusAndExport(t *testing.T) {
	t.Parallel()
	web, dir, p := hanging(t)
	const all, hangs = 30, "/hang/0"
	check := func(state string, pid, inFlight int) {
		t.Helper()
		s := status(t, dir)
		if s.SchemaVersion != 1 || s.State != state || s.PID != pid || s.Found != all+1 || s.Done != all ||
			s.Pending != 1 || s.InFlight != inFlight || s.Profile != "own-site" ||
			s.Outcomes["ok"] != all || s.Outcomes["pending"] != 1 || len(s.StartURLs) != 1 ||
			s.StartURLs[0] != web.StartURLs()[0] {
			t.Errorf("status %+v", s)
		}
		out := filepath.Join(t.TempDir(), "out")
		got := run(t, "export", "--data-dir", dir, "--output", out, "--json")
		succeeded(t, got)
		res := parse[struct {
			Pages, Indexable int
			Files            []string
		}](t, got.stdout)
		if res.Pages != all+1 || res.Indexable != all || strings.Join(res.Files, " ") != "sitemap.jsonl sitemap.xml" {
			t.Errorf("exported %+v", res)
		}
		lines := readLines(t, out)
		if len(lines) != all+1 || lines["http://"+web.HostName(0)+hangs].Outcome != "pending" {
			t.Errorf("%d lines, and the page that hangs is %q", len(lines),
				lines["http://"+web.HostName(0)+hangs].Outcome)
		}
	}

	check("running", p.pid(), 1)
	got := run(t, "status", "--data-dir", dir)
	succeeded(t, got)
	if !strings.Contains(got.stdout, "running") || !strings.Contains(got.stdout, "In flight") {
		t.Errorf("status says:\n%s", got.stdout)
	}

	p.kill()
	if exists(t, dir, "sitemap.jsonl") || exists(t, dir, "report.json") {
		t.Error("a crawl that was killed has left outputs")
	}
	check("interrupted", 0, 0)
	got = run(t, "status", "--data-dir", dir)
	succeeded(t, got)
	if !strings.Contains(got.stdout, "interrupted") || !strings.Contains(got.stdout,
		"mapwright resume --data-dir "+dir) {
		t.Errorf("status does not say how to go on:\n%s", got.stdout)
	}
	got = run(t, "export-sitemap", "--data-dir", dir, "--format", "csv")
	succeeded(t, got)
	if !exists(t, dir, "sitemap.csv") || exists(t, dir, "sitemap.jsonl") {
		t.Errorf("not what was asked for: %s", got.stdout)
	}
	if got = run(t, "export", "--data-dir", dir, "--format", "links"); got.code != 0 ||
		!strings.Contains(got.stderr, "--links") {
		t.Errorf("links that were not kept: exit status %d, %q", got.code, got.stderr)
	}

	if got := run(t, "resume", "--data-dir", dir, "--timeout", "1", "--max-retries", "0", "--max-host-backoff-secs",
		"1"); got.code != 0 {
		t.Errorf("resumed: exit status %d, want 0", got.code)
	}
	if s := status(t, dir); s.State != "complete" || s.Pending != 0 || s.PID != 0 {
		t.Errorf("status at the end: %+v", s)
	}
	if l := readLines(t, dir)["http://"+web.HostName(0)+hangs]; l.Outcome != "timeout" {
		t.Errorf("the page that hangs is %q, want timeout", l.Outcome)
	}
	if n := repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
	if got := run(t, "resume", "--data-dir", dir); got.code != 0 || !strings.Contains(got.stdout, "complete") ||
		pages(web) != all+2 {
		t.Errorf("resume of a complete crawl: exit status %d, %d pages in all", got.code, pages(web))
	}
}

// wipe asks, deletes only what Mapwright made, and leaves the rest.
func TestWipe(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{})
	crawl := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "data")
		got := run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
			"--data-dir", dir, "--csv", "--links", "--gzip")
		if got.code != 0 {
			t.Fatalf("exit status %d, want 0", got.code)
		}
		return dir
	}
	t.Run("asks", func(t *testing.T) {
		t.Parallel()
		dir := crawl(t)
		before := picture(t, dir)
		for _, answer := range []string{"", "n\n", "no\n", "what\n"} {
			got := invocation{args: []string{"wipe", "--data-dir", dir}, stdin: answer}.run(t)
			if got.code != 1 || !strings.Contains(got.stdout, "Delete") ||
				!strings.Contains(got.stdout, "sitemap.jsonl") || !strings.Contains(got.stderr, "nothing was deleted") {
				t.Errorf("answered %q: exit status %d, says %q and %q", answer, got.code, got.stdout, got.stderr)
			}
		}
		unchanged(t, dir, before)
		got := invocation{args: []string{"wipe", "--data-dir", dir}, stdin: "y\n"}.run(t)
		succeeded(t, got)
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
	})
	t.Run("leaves what it did not make", func(t *testing.T) {
		t.Parallel()
		dir := crawl(t)
		mine := []string{"notes.txt", "state.txt", filepath.Join("sitemaps", "mine.xml"), "sitemap.html"}
		for _, name := range mine {
			write(t, filepath.Join(dir, name), "mine")
		}
		got := run(t, "wipe", "--yes", "--data-dir", dir)
		succeeded(t, got)
		left := picture(t, dir)
		for _, name := range mine {
			if _, ok := left[filepath.Join(dir, name)]; !ok {
				t.Errorf("%s is gone", name)
			}
		}
		if len(left) != len(mine)+2 { // and the two directories
			t.Errorf("left: %v", left)
		}
		if !strings.Contains(got.stdout, "notes.txt") {
			t.Errorf("does not say what it left: %q", got.stdout)
		}
		refused(t, run(t, "status", "--data-dir", dir), "holds no crawl")
	})
}
