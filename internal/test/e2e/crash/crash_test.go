package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// killsPerCrawl is how often one crawl is killed. A page that is in flight at three unclean ends waits for ten seconds
// of the next run, which is another test.
const killsPerCrawl = 3

// A crawl that is killed anywhere, and resumed with whatever settings, ends as one that was never killed: the same
// URLs, outcomes and statuses, none lost and none twice.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := *e2e.CrashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d", seed)
	whole := e2e.Serve(t, slowWeb(seed%8))
	dir := filepath.Join(t.TempDir(), "whole")
	got := e2e.Run(t, slowCrawl(whole, dir)...)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	lines := e2e.ReadLines(t, dir)
	e2e.FoundExactly(t, whole, testweb.Crawl{Starts: whole.StartURLs()[:1], Scope: "any"}, lines)
	if t.Failed() {
		t.FailNow()
	}
	if len(rep.SkippedLinks) < 2 {
		t.Fatalf("links were skipped for %v, want at least two reasons", rep.SkippedLinks)
	}
	c := killing{want: e2e.Story(lines), skipped: rep.SkippedLinks, pages: e2e.Pages(whole), took: got.Took,
		web: seed % 8}
	for n, left := 0, *e2e.Crashes; left > 0; n, left = n+1, left-killsPerCrawl {
		t.Run(fmt.Sprint("crawl ", n), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			for kills := min(left, killsPerCrawl); kills > 0 && !t.Failed(); {
				kills -= c.crawl(t, rnd, kills)
			}
		})
	}
}

// killing is what an unkilled crawl was like.
type killing struct {
	want    map[string]string
	skipped map[string]int // links, by reason
	pages   int
	took    time.Duration
	web     uint64 // its seed
}

// crawl kills one crawl up to so many times, and holds its end against the unkilled one. It returns how often the crawl
// was killed before it was done.
func (k *killing) crawl(t *testing.T, rnd *rand.Rand, most int) (killed int) {
	web := e2e.Serve(t, slowWeb(k.web))
	dir := filepath.Join(t.TempDir(), "data")
	begin := slowCrawl(web, dir)
	args := begin
	lost := 0 // pages that were answered and not on disk when the crawl was killed
	for killed < most {
		p := e2e.Invocation{Args: append(args, e2e.Whim(rnd)...), Env: []string{fmt.Sprint("GOMAXPROCS=",
			1+rnd.IntN(4))}}.Start(t)
		k.wait(rnd, web, p)
		got := p.Kill()
		args = []string{"resume", "--data-dir", dir}
		if got.Code == 0 {
			break // it was done before
		}
		if got.Code != -1 {
			t.Fatalf("exit status %d, want 0", got.Code)
		}
		killed++
		t.Logf("killed after %d of %d pages", e2e.Pages(web), k.pages)
		if begun(t, dir, web) {
			lost += unrecorded(t, web, dir)
		} else {
			args = begin
		}
	}
	got := e2e.Run(t, append(args, e2e.Whim(rnd)...)...)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	if !maps.Equal(rep.SkippedLinks, k.skipped) {
		t.Errorf("links were skipped for %v, want %v", rep.SkippedLinks, k.skipped)
	}
	lines := e2e.ReadLines(t, dir)
	e2e.FoundExactly(t, web, testweb.Crawl{Starts: web.StartURLs()[:1], Scope: "any"}, lines)
	e2e.SameStory(t, e2e.Story(lines), k.want)
	k.checkRequests(t, web, lost)
	return killed
}

// wait waits until the moment to kill, or the end: after some pages, or after some time, which may be while the program
// begins, recovers or exports.
func (k *killing) wait(rnd *rand.Rand, web *testweb.Server, p *e2e.Process) {
	delay := time.Duration(rnd.Int64N(int64(k.took + k.took/4)))
	if rnd.IntN(2) == 0 {
		enough := e2e.Pages(web) + rnd.IntN(max(k.pages-e2e.Pages(web), 1))
		p.UntilEnded(func() bool { return e2e.Pages(web) >= enough })
		delay = time.Duration(rnd.IntN(20)) * time.Millisecond
	}
	select {
	case <-time.After(delay):
	case <-p.Done:
	}
}

// begun says whether a crawl that was killed had begun. One that had not made no request, and is wiped away if there is
// anything of it.
func begun(t *testing.T, dir string, web *testweb.Server) bool {
	t.Helper()
	got := e2e.Run(t, "status", "--data-dir", dir)
	if got.Code == 0 {
		return true
	}
	if n := web.Stats().Requests; n > 0 {
		t.Fatalf("after %d requests there is no crawl to go on with: %s", n, got.Stderr)
	}
	e2e.Refused(t, got, dir)
	if strings.Contains(got.Stderr, "mapwright wipe") {
		e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
	}
	return false
}

// unrecorded is how many pages the web may have answered that are not on disk, after a crawl was killed: those asked
// for, without those asked for again and those recorded, and with those that the web has yet to read from its
// connections.
func unrecorded(t *testing.T, web *testweb.Server, dir string) int {
	t.Helper()
	n := e2e.Pages(web) - e2e.Repeats(web)
	recorded := e2e.Status(t, dir).Outcomes
	n -= recorded["ok"] + recorded["redirect"] + recorded["http_error"]
	return max(0, n) + slowInflight
}

// checkRequests compares the web's statistics with what a killed crawl may do: it may ask again for pages that were not
// on disk, and must not do anything else that other crawls must not do.
func (k *killing) checkRequests(t *testing.T, web *testweb.Server, lost int) {
	t.Helper()
	if n := e2e.Repeats(web); n > lost {
		t.Errorf("%d pages were fetched again, and at most %d were not on disk", n, lost)
	} else {
		t.Logf("%d pages were fetched again, of at most %d that were not on disk", n, lost)
	}
	for name, h := range web.Stats().Hosts {
		if h.Disallowed.Count+h.BeforeRobots.Count+h.Baits.Count+h.Unknown.Count > 0 {
			t.Errorf("%s: against robots.txt %v, before it %v, baits %v, never named %v", name, h.Disallowed,
				h.BeforeRobots, h.Baits, h.Unknown)
		}
	}
}

// A crawl that is killed again and again after a fraction of a second, so that the same pages are in flight at many
// ends, has no page that is crashed: it ends as one that was never killed.
func TestCrashManyKills(t *testing.T) {
	t.Parallel()
	kills, size := 10, 100
	if *e2e.Crashes >= 60 {
		kills, size = 60, 1000
	}
	seed := *e2e.CrashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	slow := testweb.OnAll(testweb.Slow{Delay: 30 * time.Millisecond})
	web := e2e.Serve(t, testweb.Config{Hosts: 4, Pages: size, CrossHost: 0.3, Faults: slow})
	dir := filepath.Join(t.TempDir(), "data")
	begin := slowCrawl(web, dir)
	args := begin
	for range kills {
		p := e2e.Start(t, args...)
		select {
		case <-time.After(time.Duration(80+rnd.IntN(221)) * time.Millisecond):
		case <-p.Done:
		}
		if got := p.Kill(); got.Code == 0 {
			break // it was done before
		} else if got.Code != -1 {
			t.Fatalf("exit status %d, want 0", got.Code)
		}
		args = []string{"resume", "--data-dir", dir}
		if !begun(t, dir, web) {
			args = begin
		}
	}
	rep := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
	if len(rep.Outcomes) != 1 || rep.Outcomes["ok"] == 0 {
		t.Errorf("outcomes %v, want ok only", rep.Outcomes)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{Starts: web.StartURLs()[:1], Scope: "any"}, e2e.ReadLines(t, dir))
}

// A page that is in flight whenever the program is killed is tried alone after the third time, when the run is ten
// seconds old. If the program is killed then too, and once more, the page is given up, instead of killing it for ever,
// whatever looks at the crawl in between. It is tried again when the user asks for that.
func TestPageThatKills(t *testing.T) {
	t.Parallel()
	web, dir, p := e2e.Hanging(t)
	asked := e2e.Pages(web)
	for deaths := 1; deaths < 5; deaths++ {
		p.Kill()
		for _, looks := range []string{"status", "export", "changes"}[:deaths-1] {
			e2e.Run(t, looks, "--data-dir", dir)
		}
		p = e2e.Start(t, "resume", "--data-dir", dir)
		asked++
		p.Until("the page that hangs is asked for again", func() bool { return e2e.Pages(web) == asked })
		p.Until("only that page is in flight", func() bool { return e2e.Status(t, dir).Settled(30) })
		if age := time.Since(p.Began); deaths >= 3 && age < time.Duration(deaths-2)*10*time.Second {
			t.Errorf("after %d deaths it is asked for again when the run is %v old", deaths, age)
		}
	}
	p.Says("trying a URL alone")
	p.Kill()
	got := e2e.Run(t, "resume", "--data-dir", dir)
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	hangs := "http://" + web.HostName(0) + "/hang/0"
	l := e2e.ReadLines(t, dir)[hangs]
	if l.Outcome != "crashed" || l.Error == "" || rep.Outcomes["crashed"] != 1 ||
		!strings.Contains(strings.Join(rep.Warnings, " "), "resume --data-dir "+dir+" --retry-crashed") {
		t.Errorf("the page that hangs is %q (%s), want crashed and why; warnings %q", l.Outcome, l.Error, rep.Warnings)
	}
	if n := e2e.Pages(web); n != asked {
		t.Errorf("it was asked for again: %d pages in all, want %d", n, asked)
	}
	if n := e2e.Repeats(web); n != 0 {
		t.Errorf("%d pages were fetched again", n)
	}

	// A run that does not finish the page leaves it queued, once, whether the run is interrupted or killed.
	for _, end := range []func(*e2e.Process) e2e.Result{func(p *e2e.Process) e2e.Result { return p.SignalUntilEnded(syscall.SIGINT) },
		(*e2e.Process).Kill} {
		p = e2e.Start(t, "resume", "--data-dir", dir, "--retry-crashed")
		asked++
		p.Until("the page that hangs is asked for again", func() bool { return e2e.Pages(web) == asked })
		e2e.Flush(t, dir)
		end(p)
	}
	for _, again := range []string{"--retry-crashed", "--retry-crashed=false"} {
		got = e2e.Run(t, "resume", "--data-dir", dir, again, "--timeout", "1", "--max-retries", "0",
			"--max-host-backoff-secs", "1")
		if says := strings.Contains(got.Stderr, "trying 1 page again"); says != (again == "--retry-crashed") {
			t.Errorf("with %s the program says %s", again, got.Stderr)
		}
		rep = e2e.Ended(t, got, dir, 0, "complete", "")
		if l := e2e.ReadLines(t, dir)[hangs]; l.Outcome != "timeout" || rep.Outcomes["crashed"] != 0 || rep.URLs != 31 {
			t.Errorf("the page that hangs is %q (%s), and there are %d URLs; want timeout and 31", l.Outcome, l.Error,
				rep.URLs)
		}
	}
	if n := e2e.Pages(web); n != asked+1 {
		t.Errorf("%d pages were asked for, want %d", n, asked+1)
	}
}
