package crawl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A safe crawl ends at 50 pages with its words, and stays safe when it is resumed.
func TestSafePages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		flags     []string
		requested func(found int) int
	}{
		{"as it is", nil, func(found int) int { return found }},
		{"asked for more", []string{"--max-urls", "80", "--min-delay-ms", "0", "--max-delay-ms", "0", "--workers",
			"64"}, func(int) int { return 80 }},
		{"asked for the cap", []string{"--max-urls", "50"}, func(int) int { return 50 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, testweb.Config{Pages: 70})
			dir := filepath.Join(t.TempDir(), "data")
			got := e2e.Run(t, append([]string{"crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve",
				web.Resolve(), "--data-dir", dir}, tt.flags...)...)
			message, inTime := fmt.Sprintf("Safety limit: Maximum 50 pages per crawl (requested: %d)",
				tt.requested(e2e.ReadReport(t, dir).URLs)), true
			// a machine that is too slow for 50 pages in a minute meets the other limit first
			if got.Took > time.Minute && e2e.Pages(web) < 50 {
				message, inTime = "Safety limit: Crawl timeout exceeded (60000ms)", false
			}
			check := func() {
				t.Helper()
				rep := e2e.Ended(t, got, dir, 3, "partial", message)
				if rep.Success != inTime || len(rep.Errors) != 1 || rep.Errors[0] != message {
					t.Errorf("success %v, errors %q", rep.Success, rep.Errors)
				}
				if n := strings.Count(got.Stderr, message); n != 1 || !strings.Contains(got.Stderr, "level=WARN") ||
					!strings.Contains(got.Stderr, web.StartURLs()[0]) {
					t.Errorf("logged %d times, want once as a warning with the start URL:\n%s", n, got.Stderr)
				}
				if n := e2e.Pages(web); n > 50 || inTime && n < 50 {
					t.Errorf("%d pages were asked for, want 50", n)
				}
			}
			check()
			e2e.WellBehaved(t, web, 1, 1)
			if n := e2e.Pages(web); got.Took < time.Duration(n-1)*200*time.Millisecond {
				t.Errorf("%d pages took %v: the delays are hard", n, got.Took)
			}
			if strings.Contains(got.Stdout, "mapwright resume") {
				t.Errorf("offers to go on, though it cannot:\n%s", got.Stdout)
			}
			got = e2e.Run(t, "resume", "--data-dir", dir)
			check()
			ownSite := e2e.Write(t, filepath.Join(t.TempDir(), "own.yaml"), "profile: own-site\n")
			for _, i := range []e2e.Invocation{
				{Args: []string{"--profile", "own-site"}},
				{Args: []string{"--config", ownSite}},
				{Args: []string{"--safe=false"}},
				{Args: []string{"--profile", "polite", "--safe", "--max-urls",
					fmt.Sprint(tt.requested(e2e.ReadReport(t, dir).URLs))}},
			} {
				i.Args = append([]string{"resume", "--data-dir", dir}, i.Args...)
				got = i.Run(t)
				check()
				if !strings.Contains(got.Stderr, "a safe crawl stays safe") {
					t.Errorf("%q does not say that it stays safe:\n%s", i.Args, got.Stderr)
				}
			}
			got = e2e.Invocation{Args: []string{"resume", "--data-dir", dir},
				Env: []string{"MAPWRIGHT_PROFILE=own-site", "MAPWRIGHT_CONFIG=" + ownSite}}.Run(t)
			check()
		})
	}
}

// A small site is crawled whole, and a limit below the caps is an ordinary one.
func TestSafeBelowTheCaps(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir",
		dir,
		"--max-urls", "10")
	e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 10, stopping crawl")
	got = e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "50")
	e2e.Ended(t, got, dir, 0, "complete", "")
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
}

// A safe crawl ends after a minute, at once and with its words, whatever duration is asked for. The test waits for the
// minute, beside others; the times themselves are tested in internal/crawl, where they are exact.
func TestSafeTime(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 60, Faults: testweb.OnAll(testweb.Slow{Delay: 1700 * time.Millisecond})})
	dir := filepath.Join(t.TempDir(), "data")
	const message = "Safety limit: Crawl timeout exceeded (60000ms)"
	got := e2e.Run(t, "crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir",
		dir,
		"--duration", "1h", "--grace", "1h")
	rep := e2e.Ended(t, got, dir, 3, "partial", message)
	if rep.Success || len(rep.Errors) != 1 || rep.Errors[0] != message {
		t.Errorf("success %v, errors %q", rep.Success, rep.Errors)
	}
	if got.Took < time.Minute {
		t.Errorf("it took %v, want a minute", got.Took)
	}
	for _, text := range []string{message, "80 % of the time limit is used", "95 % of the time limit is used"} {
		if n := strings.Count(got.Stderr, text); n != 1 {
			t.Errorf("%q is logged %d times, want once", text, n)
		}
	}
}

// Safe crawls of one machine run one after the other, in the order in which they came; a dead one does not hold the
// others up, and one that waits can be interrupted.
func TestSafeCrawlsQueue(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 5, Pages: 6, Faults: testweb.On("0", testweb.Hang{})})
	shared := "TMPDIR=" + t.TempDir()
	dirs := make([]string, 5)
	begin := func(host int) *e2e.Process {
		dirs[host] = filepath.Join(t.TempDir(), "data")
		return e2e.Invocation{Env: []string{shared}, Args: []string{"crawl", "--safe",
			"--start-url", web.StartURLs()[host], "--resolve", web.Resolve(), "--data-dir", dirs[host]}}.Start(t)
	}
	const waits = "Waiting for another safe crawl to end"
	owner := begin(0)
	owner.Until("the first one is at the page that hangs", func() bool { return web.HostStats(0).Pages == 7 })
	owner.Freeze() // a safe crawl ends after a minute
	var queue []*e2e.Process
	for host := 1; host < 5; host++ {
		p := begin(host)
		p.Says(waits)
		queue = append(queue, p)
	}
	for i, p := range queue {
		for _, word := range []string{fmt.Sprint("pid=", owner.Pid()), web.StartURLs()[0], fmt.Sprint("ahead=", i+1)} {
			if !strings.Contains(p.Err.String(), word) {
				t.Errorf("crawl %d does not say %q:\n%s", i+1, word, p.Err.String())
			}
		}
	}

	waiting := e2e.Parse[struct {
		Phase   string
		Elapsed float64 `json:"elapsed_seconds"`
		Limits  []struct{ Used float64 }
	}](t, e2e.Run(t, "status", "--json", "--data-dir", dirs[1]).Stdout)
	if waiting.Phase != "queueing" || waiting.Elapsed != 0 || len(waiting.Limits) != 2 || waiting.Limits[0].Used != 0 ||
		waiting.Limits[1].Used != 0 {
		t.Errorf("while it waits, its status is %+v, want no seconds used", waiting)
	}
	if text := e2e.Run(t, "status", "--data-dir", dirs[1]).Stdout; !strings.Contains(text,
		fmt.Sprintf("queued (pid %d)", queue[0].Pid())) {
		t.Errorf("while it waits, its status is\n%s", text)
	}
	queue[1].Signal(os.Interrupt)
	if got := queue[1].Wait(); got.Code != 130 {
		t.Errorf("interrupted while it waited: exit status %d, want 130", got.Code)
	}
	if rep := e2e.ReadReport(t, dirs[2]); rep.Status != "cancelled" || !strings.Contains(rep.Reason, "waiting") {
		t.Errorf("interrupted while it waited: %q (%s)", rep.Status, rep.Reason)
	}

	owner.Kill()
	for _, host := range []int{1, 3, 4} {
		e2e.Ended(t, queue[host-1].Wait(), dirs[host], 0, "complete", "")
	}
	for _, pair := range [][2]int{{1, 3}, {3, 4}} {
		before, after := web.HostStats(pair[0]), web.HostStats(pair[1])
		if !before.Last.Before(after.First) {
			t.Errorf("crawl %d asked until %v, crawl %d from %v on", pair[0], before.Last, pair[1], after.First)
		}
	}
	if n := web.HostStats(2).Requests; n != 0 {
		t.Errorf("the interrupted one has made %d requests", n)
	}
	got := e2e.Invocation{Env: []string{shared}, Args: []string{"resume", "--data-dir", dirs[2]}}.Run(t)
	e2e.Ended(t, got, dirs[2], 0, "complete", "")
}

// Three safe crawls that start together run one after the other.
func TestSafeCrawlsTogether(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 3, Pages: 5})
	shared := "TMPDIR=" + t.TempDir()
	var all []*e2e.Process
	var dirs []string
	for host := range 3 {
		dirs = append(dirs, filepath.Join(t.TempDir(), "data"))
		all = append(all, e2e.Invocation{Env: []string{shared}, Args: []string{"crawl", "--safe", "--start-url",
			web.StartURLs()[host], "--resolve", web.Resolve(), "--data-dir", dirs[host]}}.Start(t))
	}
	for host, p := range all {
		e2e.Ended(t, p.Wait(), dirs[host], 0, "complete", "")
	}
	for a := range 3 {
		for b := range a {
			x, y := web.HostStats(a), web.HostStats(b)
			if x.First.Before(y.Last) && y.First.Before(x.Last) {
				t.Errorf("crawls %d and %d ran at once: %v to %v, and %v to %v", b, a, y.First, y.Last, x.First, x.Last)
			}
		}
	}
}
