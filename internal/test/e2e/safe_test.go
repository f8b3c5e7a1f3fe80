package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
			web := serve(t, testweb.Config{Pages: 70})
			dir := filepath.Join(t.TempDir(), "data")
			got := run(t, append([]string{"crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve",
				web.Resolve(), "--data-dir", dir}, tt.flags...)...)
			message, inTime := fmt.Sprintf("Safety limit: Maximum 50 pages per crawl (requested: %d)",
				tt.requested(readReport(t, dir).URLs)), true
			// a machine that is too slow for 50 pages in a minute meets the other limit first
			if got.took > time.Minute && pages(web) < 50 {
				message, inTime = "Safety limit: Crawl timeout exceeded (60000ms)", false
			}
			check := func() {
				t.Helper()
				rep := ended(t, got, dir, 3, "partial", message)
				if rep.Success != inTime || len(rep.Errors) != 1 || rep.Errors[0] != message {
					t.Errorf("success %v, errors %q", rep.Success, rep.Errors)
				}
				if n := strings.Count(got.stderr, message); n != 1 || !strings.Contains(got.stderr, "level=WARN") ||
					!strings.Contains(got.stderr, web.StartURLs()[0]) {
					t.Errorf("logged %d times, want once as a warning with the start URL:\n%s", n, got.stderr)
				}
				if n := pages(web); n > 50 || inTime && n < 50 {
					t.Errorf("%d pages were asked for, want 50", n)
				}
			}
			check()
			wellBehaved(t, web, 1, 1)
			if n := pages(web); got.took < time.Duration(n-1)*200*time.Millisecond {
				t.Errorf("%d pages took %v: the delays are hard", n, got.took)
			}
			if strings.Contains(got.stdout, "mapwright resume") {
				t.Errorf("offers to go on, though it cannot:\n%s", got.stdout)
			}
			got = run(t, "resume", "--data-dir", dir)
			check()
			ownSite := write(t, filepath.Join(t.TempDir(), "own.yaml"), "profile: own-site\n")
			for _, i := range []invocation{
				{args: []string{"--profile", "own-site"}},
				{args: []string{"--config", ownSite}},
				{args: []string{"--safe=false"}},
				{args: []string{"--profile", "polite", "--safe", "--max-urls",
					fmt.Sprint(tt.requested(readReport(t, dir).URLs))}},
			} {
				i.args = append([]string{"resume", "--data-dir", dir}, i.args...)
				got = i.run(t)
				check()
				if !strings.Contains(got.stderr, "a safe crawl stays safe") {
					t.Errorf("%q does not say that it stays safe:\n%s", i.args, got.stderr)
				}
			}
			got = invocation{args: []string{"resume", "--data-dir", dir},
				env: []string{"MAPWRIGHT_PROFILE=own-site", "MAPWRIGHT_CONFIG=" + ownSite}}.run(t)
			check()
		})
	}
}

// A small site is crawled whole, and a limit below the caps is an ordinary one.
func TestSafeBelowTheCaps(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	got := run(t, "crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--max-urls", "10")
	ended(t, got, dir, 3, "partial", "Reached max_urls limit of 10, stopping crawl")
	got = run(t, "resume", "--data-dir", dir, "--max-urls", "50")
	ended(t, got, dir, 0, "complete", "")
	foundExactly(t, web, testweb.Crawl{}, readLines(t, dir))
}

// A safe crawl ends after a minute, at once and with its words, whatever duration is asked for. The test waits for the
// minute, beside others; the times themselves are tested in internal/crawl, where they are exact.
func TestSafeTime(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Pages: 60, Faults: testweb.OnAll(testweb.Slow{Delay: 1700 * time.Millisecond})})
	dir := filepath.Join(t.TempDir(), "data")
	const message = "Safety limit: Crawl timeout exceeded (60000ms)"
	got := run(t, "crawl", "--safe", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--duration", "1h", "--grace", "1h")
	rep := ended(t, got, dir, 3, "partial", message)
	if rep.Success || len(rep.Errors) != 1 || rep.Errors[0] != message {
		t.Errorf("success %v, errors %q", rep.Success, rep.Errors)
	}
	if got.took < time.Minute {
		t.Errorf("it took %v, want a minute", got.took)
	}
	for _, text := range []string{message, "80 % of the time limit is used", "95 % of the time limit is used"} {
		if n := strings.Count(got.stderr, text); n != 1 {
			t.Errorf("%q is logged %d times, want once", text, n)
		}
	}
}

// Safe crawls of one machine run one after the other, in the order in which they came; a dead one does not hold the
// others up, and one that waits can be interrupted.
func TestSafeCrawlsQueue(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Hosts: 5, Pages: 6, Faults: testweb.On("0", testweb.Hang{})})
	shared := "TMPDIR=" + t.TempDir()
	dirs := make([]string, 5)
	begin := func(host int) *process {
		dirs[host] = filepath.Join(t.TempDir(), "data")
		return invocation{env: []string{shared}, args: []string{"crawl", "--safe",
			"--start-url", web.StartURLs()[host], "--resolve", web.Resolve(), "--data-dir", dirs[host]}}.start(t)
	}
	const waits = "Waiting for another safe crawl to end"
	owner := begin(0)
	owner.until("the first one is at the page that hangs", func() bool { return web.HostStats(0).Pages == 7 })
	owner.freeze() // a safe crawl ends after a minute
	var queue []*process
	for host := 1; host < 5; host++ {
		p := begin(host)
		p.says(waits)
		queue = append(queue, p)
	}
	for i, p := range queue {
		for _, word := range []string{fmt.Sprint("pid=", owner.pid()), web.StartURLs()[0], fmt.Sprint("ahead=", i+1)} {
			if !strings.Contains(p.err.String(), word) {
				t.Errorf("crawl %d does not say %q:\n%s", i+1, word, p.err.String())
			}
		}
	}

	waiting := parse[struct {
		Phase   string
		Elapsed float64 `json:"elapsed_seconds"`
		Limits  []struct{ Used float64 }
	}](t, run(t, "status", "--json", "--data-dir", dirs[1]).stdout)
	if waiting.Phase != "queueing" || waiting.Elapsed != 0 || len(waiting.Limits) != 2 || waiting.Limits[0].Used != 0 ||
		waiting.Limits[1].Used != 0 {
		t.Errorf("while it waits, its status is %+v, want no seconds used", waiting)
	}
	if text := run(t, "status", "--data-dir", dirs[1]).stdout; !strings.Contains(text,
		fmt.Sprintf("queued (pid %d)", queue[0].pid())) {
		t.Errorf("while it waits, its status is\n%s", text)
	}
	queue[1].signal(os.Interrupt)
	if got := queue[1].wait(); got.code != 130 {
		t.Errorf("interrupted while it waited: exit status %d, want 130", got.code)
	}
	if rep := readReport(t, dirs[2]); rep.Status != "cancelled" || !strings.Contains(rep.Reason, "waiting") {
		t.Errorf("interrupted while it waited: %q (%s)", rep.Status, rep.Reason)
	}

	owner.kill()
	for _, host := range []int{1, 3, 4} {
		ended(t, queue[host-1].wait(), dirs[host], 0, "complete", "")
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
	got := invocation{env: []string{shared}, args: []string{"resume", "--data-dir", dirs[2]}}.run(t)
	ended(t, got, dirs[2], 0, "complete", "")
}

// Three safe crawls that start together run one after the other.
func TestSafeCrawlsTogether(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Hosts: 3, Pages: 5})
	shared := "TMPDIR=" + t.TempDir()
	var all []*process
	var dirs []string
	for host := range 3 {
		dirs = append(dirs, filepath.Join(t.TempDir(), "data"))
		all = append(all, invocation{env: []string{shared}, args: []string{"crawl", "--safe", "--start-url",
			web.StartURLs()[host], "--resolve", web.Resolve(), "--data-dir", dirs[host]}}.start(t))
	}
	for host, p := range all {
		ended(t, p.wait(), dirs[host], 0, "complete", "")
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
