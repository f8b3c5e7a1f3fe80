package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// sections serves a site of sections: the start page links to them, each section to its pages, and each page to a
// further one.
func sections(t *testing.T, names ...string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		section, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case strings.HasSuffix(r.URL.Path, ".txt"), strings.HasSuffix(r.URL.Path, ".xml"):
			w.WriteHeader(http.StatusNotFound)
		case section == "":
			for _, name := range names {
				fmt.Fprintf(w, `<a href="/%s/">%s</a>`, name, name)
			}
		case rest == "":
			for i := range 8 {
				fmt.Fprintf(w, `<title>%s</title><a href="/%s/%d">%d</a>`, section, section, i, i)
			}
		case !strings.Contains(rest, "/"):
			fmt.Fprintf(w, `<title>%s %s</title><a href="%s/more">more</a>`, section, rest, rest)
		default:
			fmt.Fprintf(w, `<title>%s %s</title>`, section, rest)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL + "/"
}

// A crawl that found too much is resumed with a narrower scope: what is queued outside of it is excluded, in every
// output.
func TestResumeWithANarrowerScope(t *testing.T) {
	t.Parallel()
	start := sections(t, "forum", "shop", "news")
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--profile", "own-site", "--data-dir", dir, "--max-urls", "5", "--start-url", start)
	e2e.Ended(t, got, dir, 3, "partial", "max_urls")
	queued := 0
	for url, l := range e2e.ReadLines(t, dir) {
		if l.Outcome == "pending" && strings.Contains(url, "/forum/") {
			queued++
		}
	}
	got = e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0", "--exclude", "/forum/")
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	lines, excluded := e2e.ReadLines(t, dir), 0
	for url, l := range lines {
		if l.Outcome != "excluded" {
			continue
		}
		if excluded++; !strings.Contains(url, "/forum/") || !strings.Contains(l.Error, "--exclude matches it") {
			t.Errorf("%s is excluded: %q", url, l.Error)
		}
	}
	e2e.FitsSchema(t, dir)
	if excluded != queued || queued == 0 || rep.Outcomes["excluded"] != excluded || rep.Outcomes["pending"] != 0 {
		t.Errorf("%d were queued, %d are excluded; the report says %v", queued, excluded, rep.Outcomes)
	}
	if n := fmt.Sprintf("excluded %d", excluded); !strings.Contains(got.Stdout, n) {
		t.Errorf("the closing table does not say %q:\n%s", n, got.Stdout)
	}
	status := e2e.Run(t, "status", dir)
	if n := fmt.Sprintf("excluded %d", excluded); !strings.Contains(status.Stdout, n) {
		t.Errorf("status does not say %q:\n%s", n, status.Stdout)
	}
	e2e.Succeeded(t, e2e.Run(t, "export", dir, "--format", "csv"))
}

// A recrawl and a resume with a wider scope find all that a crawl with it finds, and say so.
func TestWiderScope(t *testing.T) {
	t.Parallel()
	start := sections(t, "forum", "shop", "news")
	whole := filepath.Join(t.TempDir(), "whole")
	e2e.Ended(t, e2e.Run(t, "crawl", "--profile", "own-site", "--data-dir", whole, "--start-url", start), whole, 0,
		"complete",
		"")
	want := e2e.ReadLines(t, whole)
	for _, command := range []string{"resume", "recrawl"} {
		dir := filepath.Join(t.TempDir(), "data")
		e2e.Ended(t, e2e.Run(t, "crawl", "--profile", "own-site", "--data-dir", dir, "--max-depth", "2", "--exclude",
			"/news/",
			"--start-url", start), dir, 0, "complete", "")
		if command == "recrawl" { // its --exclude is for one recrawl, and not a setting of the crawl
			e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--exclude", ""), dir, 0, "complete", "")
		}
		args := []string{command, "--data-dir", dir, "--max-depth", "-1"}
		if command == "resume" {
			args = append(args, "--exclude", "")
		}
		rep := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
		got := e2e.ReadLines(t, dir)
		for url := range want {
			if got[url].Outcome != "ok" {
				t.Errorf("%s: %s is %q", command, url, got[url].Outcome)
			}
		}
		if len(got) != len(want) || len(rep.SkippedLinks) != 0 {
			t.Errorf("%s: %d URLs, want %d; skipped %v", command, len(got), len(want), rep.SkippedLinks)
		}
		e2e.FitsSchema(t, dir)
	}
}
