package crash

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
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
			web := e2e.Serve(t, testweb.Config{Pages: 60})
			web.Hold(2)
			dir := filepath.Join(t.TempDir(), "data")
			p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
				"--grace", "1h", "--timeout", "1h")
			p.Until("a page is in flight", func() bool { return e2e.Pages(web) >= 3 })
			p.Signal(sig)
			p.Says("a second signal ends the process at once")
			web.Release()
			got := p.Wait()
			rep := e2e.Ended(t, got, dir, 130, "cancelled", "interrupted")
			if rep.Success || rep.Outcomes["pending"] == 0 || rep.Outcomes["ok"] < 2 {
				t.Errorf("success %v, outcomes %v", rep.Success, rep.Outcomes)
			}
			if !strings.Contains(got.Stdout, "mapwright resume --data-dir "+dir) {
				t.Errorf("does not say how to go on:\n%s", got.Stdout)
			}
			asked := e2e.Pages(web)
			if asked != rep.Outcomes["ok"] {
				t.Errorf("%d pages were asked for, %d are recorded: what was in flight was not let finish", asked,
					rep.Outcomes["ok"])
			}
			if s := e2e.Status(t, dir); s.State != "cancelled" || s.PID != 0 {
				t.Errorf("status %+v", s)
			}
			got = e2e.Run(t, "resume", "--data-dir", dir, "--profile", "own-site")
			e2e.Ended(t, got, dir, 0, "complete", "")
			e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
			e2e.AskedOnce(t, web)
		})
	}
}

// What is in flight has the grace period to finish, and then goes back.
func TestGraceEnds(t *testing.T) {
	t.Parallel()
	web, dir, p := e2e.Hanging(t, "--grace", "300ms")
	begin := time.Now()
	p.Signal(os.Interrupt)
	got := p.Wait()
	e2e.Ended(t, got, dir, 130, "cancelled", "interrupted")
	// That it did not wait for the page is in the page's outcome.
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("it took %v to end, want at least 300 ms", took)
	}
	if l := e2e.ReadLines(t, dir)["http://"+web.HostName(0)+"/hang/0"]; l.Outcome != "pending" {
		t.Errorf("the page that hangs is %q, want pending", l.Outcome)
	}
}

// A second signal ends it at once: consistent, and the outputs are left for export.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	web, dir, p := e2e.Hanging(t, "--grace", "1h")
	e2e.Flush(t, dir)
	p.Signal(os.Interrupt)
	p.Says("a second signal ends the process at once")
	got := p.SignalUntilEnded(os.Interrupt)
	if got.Code != 130 {
		t.Errorf("exit status %d, want 130", got.Code)
	}
	for _, word := range []string{"mapwright export --data-dir " + dir, "mapwright resume --data-dir " + dir} {
		if !strings.Contains(got.Stderr, word) {
			t.Errorf("does not say %q:\n%s", word, got.Stderr)
		}
	}
	if e2e.Exists(t, dir, "sitemap.jsonl") || e2e.Exists(t, dir, "report.json") {
		t.Error("it took the time to write outputs")
	}
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir))
	if lines := e2e.ReadLines(t,
		dir); len(lines) != 31 || lines["http://"+web.HostName(0)+"/hang/0"].Outcome != "pending" {
		t.Errorf("%d lines, and the page that hangs is %q", len(lines),
			lines["http://"+web.HostName(0)+"/hang/0"].Outcome)
	}
	got = e2e.Run(t, "resume", "--data-dir", dir, "--timeout", "1", "--max-retries", "0", "--max-host-backoff-secs",
		"1")
	e2e.Ended(t, got, dir, 0, "complete", "")
	if n := e2e.Repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
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
	whole := e2e.Serve(t, slowWeb(5))
	dir := filepath.Join(t.TempDir(), "whole")
	skipped := e2e.Ended(t, e2e.Run(t, slowCrawl(whole, dir)...), dir, 0, "complete", "").SkippedLinks
	c := testweb.Crawl{Starts: whole.StartURLs()[:1], Scope: "any"}
	e2e.FoundExactly(t, whole, c, e2e.ReadLines(t, dir))
	want := e2e.Story(e2e.ReadLines(t, dir))

	web := e2e.Serve(t, slowWeb(5))
	dir = filepath.Join(t.TempDir(), "pieces")
	args := append(slowCrawl(web, dir), "--grace", "1h", "--timeout", "1h")
	total := e2e.Pages(whole)
	for i := range 5 {
		// Each run gets to see a part of the rest, at least one page. What is in flight then is answered after the
		// signal.
		more := 1 + rand.IntN(total/10)
		enough := e2e.Pages(web) + more
		web.Hold(more)
		p := e2e.Start(t, args...)
		p.Until("some more pages are there", func() bool { return e2e.Pages(web) > enough })
		p.Signal(syscall.SIGINT)
		p.Says("a second signal ends the process at once")
		web.Release()
		e2e.Ended(t, p.Wait(), dir, 130, "cancelled", "interrupted")
		args = []string{"resume", "--data-dir", dir}
		if t.Failed() {
			t.Fatalf("interrupt %d at %d pages", i, enough)
		}
	}
	if got := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "").SkippedLinks; !maps.Equal(got, skipped) {
		t.Errorf("links were skipped for %v, want %v", got, skipped)
	}
	lines := e2e.ReadLines(t, dir)
	e2e.FoundExactly(t, web, c, lines)
	e2e.SameStory(t, e2e.Story(lines), want)
	if n := e2e.Repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}
	// Files are left unread, and in flight for a server until it has noticed.
	e2e.WellBehaved(t, web, 3+2, 512)
}
