package recrawl

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// recrawl is refused where there is nothing to visit again, and says what to do.
func TestRecrawlIsRefused(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	e2e.Refused(t, e2e.Run(t, "recrawl", "--data-dir", none), none, "mapwright crawl")
	if e2e.Exists(t, filepath.Dir(none), "none") {
		t.Error("it made the directory")
	}

	done := e2e.Crawled(t)
	before := e2e.Picture(t, done)
	for _, tt := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--max-age", "soon"}, []string{"--max-age", "soon"}},
		{[]string{"--max-age", "-1d"}, []string{"--max-age"}},
		{[]string{"--include", "["}, []string{"--include"}},
		{[]string{"--exclude", "("}, []string{"--exclude"}},
		{[]string{"--start-url", "http://else.test/"}, []string{"start-url"}},
		{[]string{done}, []string{"twice"}},
		{[]string{"--max-urls", "many"}, []string{"max-urls"}},
	} {
		e2e.Refused(t, e2e.Run(t, append([]string{"recrawl", "--data-dir", done}, tt.args...)...), tt.words...)
	}
	e2e.Unchanged(t, done, before)

	web, dir, p := e2e.Hanging(t)
	e2e.Refused(t, e2e.Run(t, "recrawl", "--data-dir", dir), dir)
	p.Kill()
	if got := e2e.Run(t, "recrawl", "--data-dir", dir); got.Code != 2 || !strings.Contains(got.Stderr,
		"not finished") ||
		!strings.Contains(got.Stderr, "mapwright resume --data-dir "+dir) {
		t.Errorf("a recrawl of a crawl that was killed ends with %d: %s", got.Code, got.Stderr)
	}
	p = e2e.Start(t, "resume", "--data-dir", dir, "--grace", "100ms")
	p.Until("the page that hangs is asked for again", func() bool { return e2e.Pages(web) > 31 })
	p.Signal(syscall.SIGINT)
	p.Wait()
	e2e.Refused(t, e2e.Run(t, "recrawl", "--data-dir", dir), "not finished", "mapwright resume --data-dir "+dir)
}

// A recrawl that is interrupted is gone on with by resume, not by another recrawl. It ends as one that was not
// interrupted. status shows its generation.
func TestRecrawlInterrupted(t *testing.T) {
	t.Parallel()
	s := newSeries(t, testweb.Config{Seed: 3, Hosts: 2, Pages: 40, PageSize: 3000, Links: 6, Changes: visitedAgain()})
	for generation := range 2 {
		e2e.Ended(t, s.run(t, generation), s.dir, 0, "complete", "")
		s.check(t)
	}
	if l := e2e.Status(t, s.dir); l.Generation != 1 || l.State != "complete" {
		t.Errorf("after a recrawl the state is %s, generation %d", l.State, l.Generation)
	}
	if got := e2e.Run(t, "status", "--data-dir", s.dir); !strings.Contains(e2e.Field(got.Stdout, "Generation"), "1") {
		t.Errorf("status does not show the generation:\n%s", got.Stdout)
	}

	args := s.begin(t, 2)
	s.web.Hold(20)
	p := e2e.Start(t, append(args, "--grace", "1h", "--timeout", "1h")...)
	p.Until("more pages are asked for than are answered", func() bool { return e2e.Pages(s.web) > 20 })
	if l := e2e.Status(t, s.dir); l.Generation != 2 || l.State != "running" {
		t.Errorf("during a recrawl the state is %s, generation %d", l.State, l.Generation)
	}
	p.Signal(syscall.SIGINT)
	p.Says("a second signal ends the process at once")
	s.web.Release()
	e2e.Ended(t, p.Wait(), s.dir, 130, "cancelled", "interrupted")
	e2e.Refused(t, e2e.Run(t, "recrawl", s.dir), "not finished", "mapwright resume --data-dir "+s.dir)
	if got := e2e.Run(t, "changes", s.dir); !strings.Contains(got.Stderr, "generation 2 is not finished") {
		t.Errorf("'changes' does not say that the recrawl is not finished: %s", got.Stderr)
	}
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", s.dir), s.dir, 0, "complete", "")
	s.over[s.last()] = time.Now()
	s.check(t)

	// 'changes' counts what the report counts, for people.
	var rep struct {
		Generation int            `json:"generation"`
		Changes    map[string]int `json:"changes"`
	}
	e2e.ReadJSON(t, s.dir, "report.json", &rep)
	got := e2e.Run(t, "changes", s.dir)
	e2e.Succeeded(t, got)
	if got.Stderr != "" {
		t.Errorf("'changes' of a complete recrawl says %s", got.Stderr)
	}
	head, _, _ := strings.Cut(got.Stdout, "\n")
	for _, kind := range []string{"new", "changed", "gone", "back"} {
		if n := rep.Changes[kind]; n > 0 && !strings.Contains(head, fmt.Sprintf("%d %s", n, kind)) {
			t.Errorf("%q does not say %d %s", head, n, kind)
		}
	}
	if rep.Generation != 2 || rep.Changes["changed"] == 0 || !strings.HasPrefix(head, "Generation 2: ") {
		t.Errorf("%q, and the report says generation %d, changes %v", head, rep.Generation, rep.Changes)
	}
}

// --max-age, --include and --exclude choose what is visited in one recrawl, and --max-urls limits each generation
// alone.
func TestRecrawlOfAPart(t *testing.T) {
	t.Parallel()
	s := newSeries(t, testweb.Config{Seed: 3, Pages: 40, PageSize: 3000, Links: 6,
		Changes: &testweb.Changes{Always: 0.5}})
	e2e.Ended(t, s.run(t, 0), s.dir, 0, "complete", "")
	first := s.web.StartURLs()[0]
	visited := func(generation int) map[string]bool {
		t.Helper()
		all := map[string]bool{}
		for url, l := range e2e.ReadLines(t, s.dir) {
			if l.Generation == generation {
				all[url] = true
			}
		}
		return all
	}

	e2e.Ended(t, s.run(t, 1, "--max-age", "1h"), s.dir, 0, "complete", "")
	if got := visited(1); len(got) != 1 || !got[first] {
		t.Errorf("with --max-age, URLs were visited that were just checked: %v", got)
	}

	e2e.Ended(t, s.run(t, 2, "--include", `/p\d\.html`, "--exclude", `p3\.html`), s.dir, 0, "complete", "")
	got := visited(2)
	for url := range e2e.ReadLines(t, s.dir) {
		_, name, _ := strings.Cut(url, "/p")
		if want := url == first || len(name) == len("1.html") && name != "3.html"; got[url] != want {
			t.Errorf("%s was visited: %v", url, got[url])
		}
	}
	if n := len(got); n != 1+9-1 {
		t.Errorf("%d URLs were visited: %v", n, got)
	}

	e2e.Ended(t, s.run(t, 3, "--max-urls", "15"), s.dir, 3, "partial", "Reached max_urls limit of 15")
	if n := e2e.Pages(s.web); n != 15 {
		t.Errorf("%d pages were asked for, want 15", n)
	}
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", s.dir, "--max-urls", "1000"), s.dir, 0, "complete", "")
	if n := len(visited(3)); n != 40 {
		t.Errorf("%d URLs were visited in the end, want 40", n)
	}

	// What was chosen held for one recrawl.
	e2e.Ended(t, s.run(t, 4), s.dir, 0, "complete", "")
	if n := len(visited(4)); n != 40 {
		t.Errorf("%d URLs were visited, want 40", n)
	}
	for url, e := range s.expected(t) {
		if l := e2e.ReadLines(t, s.dir)[url]; l.Title != e.Title || e.Kind == "always" && l.Change != "changed" {
			t.Errorf("%s (%s): %s, %q, want %q", url, e.Kind, l.Change, l.Title, e.Title)
		}
	}
}

// A recrawl of a safe crawl is safe: the same delays, and the number of pages holds for each generation.
func TestRecrawlStaysSafe(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 10})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir",
		dir,
		"--max-urls", "4")
	e2e.Ended(t, got, dir, 3, "partial", "")
	web.Reset()
	got = e2e.Run(t, "recrawl", "--data-dir", dir, "--profile", "own-site", "--min-delay-ms", "0", "--max-delay-ms",
		"0")
	e2e.Ended(t, got, dir, 3, "partial", "")
	if n := e2e.Pages(web); n != 4 {
		t.Errorf("%d pages were asked for, want 4", n)
	}
	if least := 3 * 200 * time.Millisecond; got.Took < least {
		t.Errorf("4 pages took %v, want at least %v: the delays are hard", got.Took, least)
	}
	if !strings.Contains(got.Stderr, "a safe crawl stays safe") {
		t.Errorf("it does not say that the crawl stays safe:\n%s", got.Stderr)
	}
	if l := e2e.Status(t, dir); l.Profile != "safe" || l.Generation != 1 {
		t.Errorf("profile %s, generation %d", l.Profile, l.Generation)
	}
	wellBehavedAgain(t, web)
}

// wellBehavedAgain wants one request at a time, and none that robots.txt forbids, which was read before the statistics
// began.
func wellBehavedAgain(t *testing.T, web *testweb.Server) {
	t.Helper()
	stats := web.Stats()
	if stats.MostInFlight > 1 {
		t.Errorf("%d requests were in flight at once", stats.MostInFlight)
	}
	for name, h := range stats.Hosts {
		if h.Disallowed.Count+h.Baits.Count+h.Unknown.Count > 0 {
			t.Errorf("%s: against robots.txt %v, baits %v, never named %v", name, h.Disallowed, h.Baits, h.Unknown)
		}
	}
}
