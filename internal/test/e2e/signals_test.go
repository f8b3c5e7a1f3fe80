package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// One signal ends a crawl in good order: outputs, and how to go on. SIGINT, SIGTERM and SIGHUP are the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	// Under nohup the program would ignore it too, and rightly so. Who catches a signal does not hand down that it is
	// ignored.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangup) })
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			web := serve(t, testweb.Config{Pages: 60})
			web.Hold(2)
			dir := filepath.Join(t.TempDir(), "data")
			p := start(t, "crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
				"--grace", "1h", "--timeout", "1h")
			p.until("a page is in flight", func() bool { return pages(web) >= 3 })
			p.signal(sig)
			p.says("a second signal ends the process at once")
			web.Release()
			got := p.wait()
			rep := ended(t, got, dir, 130, "cancelled", "interrupted")
			if rep.Success || rep.Outcomes["pending"] == 0 || rep.Outcomes["ok"] < 2 {
				t.Errorf("success %v, outcomes %v", rep.Success, rep.Outcomes)
			}
			if !strings.Contains(got.stdout, "mapwright resume --data-dir "+dir) {
				t.Errorf("does not say how to go on:\n%s", got.stdout)
			}
			asked := pages(web)
			if asked != rep.Outcomes["ok"] {
				t.Errorf("%d pages were asked for, %d are recorded: what was in flight was not let finish", asked,
					rep.Outcomes["ok"])
			}
			if s := status(t, dir); s.State != "cancelled" || s.PID != 0 {
				t.Errorf("status %+v", s)
			}
			got = run(t, "resume", "--data-dir", dir, "--profile", "own-site")
			ended(t, got, dir, 0, "complete", "")
			foundExactly(t, web, testweb.Crawl{}, readLines(t, dir))
			askedOnce(t, web)
		})
	}
}

// What is in flight has the grace period to finish, and then goes back.
func TestGraceEnds(t *testing.T) {
	t.Parallel()
	web, dir, p := hanging(t, "--grace", "300ms")
	begin := time.Now()
	p.signal(os.Interrupt)
	got := p.wait()
	ended(t, got, dir, 130, "cancelled", "interrupted")
	// That it did not wait for the page is in the page's outcome.
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("it took %v to end, want at least 300 ms", took)
	}
	if l := readLines(t, dir)["http://"+web.HostName(0)+"/hang/0"]; l.Outcome != "pending" {
		t.Errorf("the page that hangs is %q, want pending", l.Outcome)
	}
}

// A second signal ends it at once: consistent, and the outputs are left for export.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	web, dir, p := hanging(t, "--grace", "1h")
	flush(t, dir)
	p.signal(os.Interrupt)
	p.says("a second signal ends the process at once")
	got := p.signalUntilEnded(os.Interrupt)
	if got.code != 130 {
		t.Errorf("exit status %d, want 130", got.code)
	}
	for _, word := range []string{"mapwright export --data-dir " + dir, "mapwright resume --data-dir " + dir} {
		if !strings.Contains(got.stderr, word) {
			t.Errorf("does not say %q:\n%s", word, got.stderr)
		}
	}
	if exists(t, dir, "sitemap.jsonl") || exists(t, dir, "report.json") {
		t.Error("it took the time to write outputs")
	}
	succeeded(t, run(t, "export", "--data-dir", dir))
	if lines := readLines(t, dir); len(lines) != 31 || lines["http://"+web.HostName(0)+"/hang/0"].Outcome != "pending" {
		t.Errorf("%d lines, and the page that hangs is %q", len(lines),
			lines["http://"+web.HostName(0)+"/hang/0"].Outcome)
	}
	got = run(t, "resume", "--data-dir", dir, "--timeout", "1", "--max-retries", "0", "--max-host-backoff-secs", "1")
	ended(t, got, dir, 0, "complete", "")
	if n := repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
}

// story is what a crawl found, without what depends on the moment.
func story(lines map[string]line) map[string]string {
	all := make(map[string]string, len(lines))
	for url, l := range lines {
		all[url] = fmt.Sprintf("%s %d %q %q %s %v %s", l.Outcome, l.StatusCode, l.RedirectTo, l.Title, l.ContentHash,
			l.Indexable, l.IndexableReason)
	}
	return all
}

// sameStory holds one crawl against another.
func sameStory(t *testing.T, got, want map[string]string) {
	t.Helper()
	for url, w := range want {
		if g, ok := got[url]; !ok {
			t.Errorf("%s is missing", url)
		} else if g != w {
			t.Errorf("%s: %s, want %s", url, g, w)
		}
	}
	for url := range got {
		if _, ok := want[url]; !ok {
			t.Errorf("%s should not be there", url)
		}
	}
}

// slowWeb takes long enough to crawl that there are many moments to end it in, and has a little of everything that
// needs no patience.
func slowWeb(seed uint64) testweb.Config {
	return testweb.Config{Seed: seed, Hosts: 4, Pages: 80, CrossHost: 0.3, Sitemaps: &testweb.Sitemaps{Orphans: 3},
		Faults: testweb.OnAll(
			testweb.Slow{Delay: 5 * time.Millisecond, Jitter: 20 * time.Millisecond},
			testweb.Disallow{Count: 3}, testweb.StatusPages{Where: testweb.Where{Count: 2}},
			testweb.RedirectChain{Length: 3}, testweb.RedirectLoop{},
			testweb.NoIndex{}, testweb.NoFollow{}, testweb.Files{}, testweb.LongURL{},
		)}
}

// slowInflight is how many requests slowCrawl has in flight at most: three to each of four hosts.
const slowInflight = 3 * 4

// slowCrawl crawls it with few requests at a time.
func slowCrawl(web *testweb.Server, dir string) []string {
	return []string{"crawl", "--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
		"--max-inflight-per-host", "3", "--resolve", web.Resolve(), "--data-dir", dir}
}

// A crawl that was interrupted five times and resumed equals one that was not.
func TestInterruptedFiveTimes(t *testing.T) {
	t.Parallel()
	whole := serve(t, slowWeb(5))
	dir := filepath.Join(t.TempDir(), "whole")
	skipped := ended(t, run(t, slowCrawl(whole, dir)...), dir, 0, "complete", "").SkippedLinks
	c := testweb.Crawl{Starts: whole.StartURLs()[:1], Scope: "any"}
	foundExactly(t, whole, c, readLines(t, dir))
	want := story(readLines(t, dir))

	web := serve(t, slowWeb(5))
	dir = filepath.Join(t.TempDir(), "pieces")
	args := append(slowCrawl(web, dir), "--grace", "1h", "--timeout", "1h")
	total := pages(whole)
	for i := range 5 {
		// Each run gets to see a part of the rest, at least one page. What is in flight then is answered after the
		// signal.
		more := 1 + rand.IntN(total/10)
		enough := pages(web) + more
		web.Hold(more)
		p := start(t, args...)
		p.until("some more pages are there", func() bool { return pages(web) > enough })
		p.signal(syscall.SIGINT)
		p.says("a second signal ends the process at once")
		web.Release()
		ended(t, p.wait(), dir, 130, "cancelled", "interrupted")
		args = []string{"resume", "--data-dir", dir}
		if t.Failed() {
			t.Fatalf("interrupt %d at %d pages", i, enough)
		}
	}
	if got := ended(t, run(t, args...), dir, 0, "complete", "").SkippedLinks; !maps.Equal(got, skipped) {
		t.Errorf("links were skipped for %v, want %v", got, skipped)
	}
	lines := readLines(t, dir)
	foundExactly(t, web, c, lines)
	sameStory(t, story(lines), want)
	if n := repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
	// Files are left unread, and in flight for a server until it has noticed.
	wellBehaved(t, web, 3+2, 512)
}
