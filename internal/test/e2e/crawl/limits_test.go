package crawl

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// --max-urls fetches that many pages, with 512 workers and across resumes: by the web's count, not by ours.
func TestMaxURLsIsExact(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 20, Pages: 100, CrossHost: 0.3, Faults: testweb.OnAll(
		testweb.Disallow{Count: 3}, testweb.StatusPages{Where: testweb.Where{Count: 2}}, testweb.RedirectChain{})})
	dir := filepath.Join(t.TempDir(), "data")
	first := web.StartURLs()[0]
	c := testweb.Crawl{Starts: []string{first}, Scope: "any"}
	got := e2e.Run(t, "crawl", "--start-url", first, "--scope", "any", "--profile", "own-site", "--workers", "512",
		"--resolve", web.Resolve(), "--data-dir", dir, "--max-urls", "137")
	e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 137, stopping crawl")
	if !strings.Contains(got.Stderr, "Reached max_urls limit of 137, stopping crawl") {
		t.Errorf("the log does not say so:\n%s", got.Stderr)
	}
	if n := e2e.Pages(web); n != 137 {
		t.Errorf("%d pages were asked for, want 137", n)
	}
	if !strings.Contains(got.Stdout, "mapwright resume --data-dir "+dir+" --max-urls") {
		t.Errorf("does not say how to go on:\n%s", got.Stdout)
	}

	for _, limit := range []int{137, 138, 600} {
		got = e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", fmt.Sprint(limit))
		e2e.Ended(t, got, dir, 3, "partial", fmt.Sprintf("Reached max_urls limit of %d", limit))
		if n := e2e.Pages(web); n != limit {
			t.Errorf("%d pages were asked for by now, want %d", n, limit)
		}
	}
	got = e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "0")
	e2e.Ended(t, got, dir, 0, "complete", "")
	e2e.FoundExactly(t, web, c, e2e.ReadLines(t, dir))
	e2e.AskedOnce(t, web)
	e2e.WellBehaved(t, web, 150, 512)
}

// The warnings of a page limit come with the pages that reach 80 % and 95 % of it, also when the crawl lasts an
// instant.
func TestPageLimitWarnings(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 60})
	dir := filepath.Join(t.TempDir(), "data")
	command := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve()}
	for _, limit := range []string{"37", "45"} {
		got := e2e.Run(t, append(command, "--data-dir", dir, "--max-urls", limit)...)
		for _, text := range []string{"80 % of the page limit is used", "95 % of the page limit is used"} {
			if n := strings.Count(got.Stderr, text); n != 1 {
				t.Errorf("limit %s: %q is logged %d times, want once", limit, text, n)
			}
		}
		if got.Code != 3 {
			t.Errorf("exit status %d, want 3", got.Code)
		}
		command = []string{"resume"}
	}
}

// A limit that cuts nothing off is none: the crawl is complete.
func TestLimitThatIsNotReached(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 40})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "40")
	e2e.Ended(t, got, dir, 0, "complete", "")
	if n := e2e.Pages(web); n != 40 {
		t.Errorf("%d pages were asked for, want 40", n)
	}
}

// --max-urls-per-host bounds each host and leaves the rest recorded.
func TestMaxURLsPerHost(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 5, Pages: 50, CrossHost: 0.3})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
		"--resolve",
		web.Resolve(), "--data-dir", dir, "--max-urls-per-host", "17")
	rep := e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls_per_host limit of 17 on some hosts")
	if !strings.Contains(got.Stdout, "mapwright resume --data-dir "+dir+" --max-urls-per-host N") {
		t.Errorf("does not say how to go on:\n%s", got.Stdout)
	}
	for i := range 5 {
		if n := web.HostStats(i).Pages; n != 17 {
			t.Errorf("%s: %d pages were asked for, want 17", web.HostName(i), n)
		}
	}
	if rep.Outcomes["ok"] != 5*17 || rep.Outcomes["pending"] == 0 {
		t.Errorf("outcomes %v", rep.Outcomes)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 60})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--duration", "1500ms")
	rep := e2e.Ended(t, got, dir, 3, "partial", "Reached duration limit of 1.5s (elapsed: ")
	elapsed := 0.0
	if _, err := fmt.Sscanf(rep.Reason, "Reached duration limit of 1.5s (elapsed: %gs), stopping crawl",
		&elapsed); err != nil || elapsed < 1.5 {
		t.Errorf("the reason is %q", rep.Reason)
	}
	if !strings.Contains(got.Stdout, "mapwright resume --data-dir "+dir) {
		t.Errorf("does not say how to go on:\n%s", got.Stdout)
	}
	if got.Took < 1500*time.Millisecond {
		t.Errorf("it took %v", got.Took)
	}
	got = e2e.Run(t, "resume", "--data-dir", dir, "--duration", "0", "--profile", "own-site")
	e2e.Ended(t, got, dir, 0, "complete", "")
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
	e2e.AskedOnce(t, web)
}

// What is too deep is counted and not listed, so that a crawl to a depth is complete; and it finds the same whatever
// the timing.
func TestMaxDepth(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 3, Pages: 300, Links: 6, CrossHost: 0.2,
		Faults: testweb.OnAll(testweb.Slow{Delay: time.Millisecond, Jitter: 30 * time.Millisecond})})
	for depth := 1; depth <= 3; depth++ {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			first := web.StartURLs()[0]
			got := e2e.Run(t, "crawl", "--start-url", first, "--scope", "any", "--profile", "own-site", "--resolve",
				web.Resolve(), "--data-dir", dir, "--max-depth", fmt.Sprint(depth))
			rep := e2e.Ended(t, got, dir, 0, "complete", "")
			c := testweb.Crawl{Starts: []string{first}, Scope: "any", MaxDepth: depth}
			lines := e2e.ReadLines(t, dir)
			e2e.FoundExactly(t, web, c, lines)
			for url, e := range e2e.Expected(t, web, c) {
				if lines[url].Depth != e.Depth {
					t.Errorf("%s: depth %d, want %d", url, lines[url].Depth, e.Depth)
				}
			}
			if rep.SkippedLinks["too_deep"] == 0 {
				t.Errorf("nothing was too deep: %v", rep.SkippedLinks)
			}
		})
	}
}

// A crawl whose every start domain is abandoned has failed.
func TestEveryStartIsAbandoned(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 60,
		Faults: testweb.OnAll(testweb.StatusPages{Where: testweb.Where{All: true},
			Status: 500})})
	dir := filepath.Join(t.TempDir(), "data")
	urls := "http://" + web.HostName(0) + "/\n"
	for i := range 30 {
		urls += fmt.Sprintf("http://%s/start/%d\n", web.HostName(0), i)
	}
	got := e2e.Invocation{Stdin: urls, Args: []string{"crawl", "--start-url", "-", "--profile", "own-site", "--resolve",
		web.Resolve(), "--data-dir", dir,
		"--failure-threshold", "5", "--max-inflight-per-host", "4", "--max-retries", "0", "--max-host-backoff-secs",
		"1", "--max-host-failures", "100"}}.Run(t)
	rep := e2e.Ended(t, got, dir, 1, "failed", "abandoned")
	if rep.Success || len(rep.Errors) == 0 {
		t.Errorf("success %v, errors %q", rep.Success, rep.Errors)
	}
	if n := e2e.Pages(web); n >= 31 {
		t.Errorf("%d pages were asked for: nothing was abandoned", n)
	}
	if len(e2e.ReadLines(t, dir)) != 31 {
		t.Errorf("%d URLs, want 31: nothing found may disappear", len(e2e.ReadLines(t, dir)))
	}
}
