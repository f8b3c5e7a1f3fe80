package results

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// links is a page with links.
func links(w http.ResponseWriter, urls ...string) {
	for _, u := range urls {
		fmt.Fprintf(w, "<a href=%q>%s</a>\n", u, u)
	}
}

// The report lists each redirect chain once, from its first URL, with its hops in order, and each loop once.
func TestRedirectChainsAreWhole(t *testing.T) {
	t.Parallel()
	const at = "http://a.test"
	leads := map[string]string{
		"/a": "/b", "/b": "/c", "/c": "/end", "/d": "/b", // two chains with one tail
		"/x": "/l1", "/l1": "/l2", "/l2": "/l1", // a loop, and what leads into it
		"/p": "/q", "/q": "/r", "/r": "/p", // a loop that nothing leads into
		"/self": "/self", "/alone": "/end",
	}
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"a.test": func(w http.ResponseWriter, r *http.Request) {
		switch to, ok := leads[r.URL.Path]; {
		case ok:
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
		case r.URL.Path == "/":
			// tails are linked to as well
			links(w, "/c", "/b", "/a", "/d", "/l2", "/x", "/q", "/self", "/alone", "/far0")
		case strings.HasPrefix(r.URL.Path, "/far"):
			var n int
			fmt.Sscanf(r.URL.Path, "/far%d", &n)
			http.Redirect(w, r, fmt.Sprintf("/far%d", n+1), http.StatusFound)
		case r.URL.Path == "/end":
			fmt.Fprint(w, "the end")
		default:
			http.NotFound(w, r)
		}
	}})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "crawl", "-u", at+"/", "--resolve", resolve, "--profile", "own-site", "--data-dir",
		dir))
	type chain struct {
		URL  string   `json:"url"`
		Hops []string `json:"hops"`
	}
	type list struct {
		Total int     `json:"total"`
		Items []chain `json:"items"`
	}
	var rep struct {
		Chains list `json:"redirect_chains"`
		Loops  list `json:"redirect_loops"`
	}
	e2e.ReadJSON(t, dir, "report.json", &rep)
	far := make([]string, 11)
	for i := range far {
		far[i] = fmt.Sprintf("/far%d", i+1)
	}
	for name, tt := range map[string]struct {
		got  list
		want map[string][]string
	}{
		"chains": {rep.Chains, map[string][]string{"/a": {"/b", "/c", "/end"}, "/d": {"/b", "/c", "/end"},
			"/alone": {"/end"}}},
		"loops": {rep.Loops, map[string][]string{"/x": {"/l1", "/l2", "/l1"}, "/q": {"/r", "/p", "/q"},
			"/self": {"/self"}, "/far0": far}},
	} {
		got := map[string][]string{}
		for _, c := range tt.got.Items {
			for i := range c.Hops {
				c.Hops[i] = strings.TrimPrefix(c.Hops[i], at)
			}
			got[strings.TrimPrefix(c.URL, at)] = c.Hops
		}
		if tt.got.Total != len(tt.want) || len(tt.got.Items) != len(tt.want) {
			t.Errorf("%s: %d in all, %d listed, want %d", name, tt.got.Total, len(tt.got.Items), len(tt.want))
		}
		for url, want := range tt.want {
			if !slices.Equal(got[url], want) {
				t.Errorf("%s: %s leads to %q, want %q", name, url, got[url], want)
			}
		}
	}
}

// A host name is one host of the report, whatever ports its URLs have and whether it ends in a dot.
func TestHostsOfTheReportHaveNoPorts(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Host == "a.test" {
			for port := range 12 {
				links(w, fmt.Sprintf("http://a.test:%d/", 8000+port), fmt.Sprintf("http://b.test:%d/", 9000+port),
					fmt.Sprintf("http://b.test.:%d/dot", 9000+port))
			}
		}
	}
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"a.test": page, "b.test": page})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "crawl", "-u", "http://a.test/", "--scope", "any", "--seeding-strategy", "none",
		"--resolve",
		resolve, "--profile", "own-site", "--data-dir", dir))
	var rep struct {
		Slowest []struct {
			Host  string `json:"host"`
			Pages int    `json:"pages"`
		} `json:"slowest_hosts"`
	}
	e2e.ReadJSON(t, dir, "report.json", &rep)
	pages := map[string]int{}
	for _, h := range rep.Slowest {
		pages[h.Host] = h.Pages
	}
	if len(rep.Slowest) != 2 || pages["a.test"] != 13 || pages["b.test"] != 24 {
		t.Errorf("slowest hosts %+v, want a.test with 13 pages and b.test with 24", rep.Slowest)
	}
}

// A blocked host is a warning of a complete crawl that says how to try again, and its URLs are host_blocked wherever
// outcomes are counted.
func TestBlockedHostIsReported(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"down.test": func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			for i := range 20 {
				links(w, fmt.Sprintf("/%d", i))
			}
		case !repaired.Load() && r.URL.Path != "/robots.txt":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "-u", "http://down.test/", "--seeding-strategy", "none", "--resolve", resolve,
		"--max-inflight-per-host", "1", "--max-retries", "0",
		"--max-host-failures", "2", "--max-host-backoff-secs", "1", "--min-delay-ms", "0", "--max-delay-ms", "0",
		"--data-dir", dir)
	if got.Code != 0 {
		t.Errorf("exit status %d, want 0", got.Code)
	}
	if want := "failures=2 waiting=18"; !strings.Contains(got.Stderr, "[BLOCKED]") ||
		!strings.Contains(got.Stderr, want) {
		t.Errorf("the log does not say [BLOCKED] and %s", want)
	}
	again := "mapwright resume --data-dir " + dir
	for _, want := range []string{"host_blocked 18", "down.test: failed too often in a row; 18 URLs not fetched",
		again + "' tries again", again + " (tries the blocked hosts again)"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("the closing table does not say %q", want)
		}
	}
	rep := e2e.ReadReport(t, dir)
	if rep.Status != "complete" || rep.Outcomes["host_blocked"] != 18 ||
		!slices.ContainsFunc(rep.Warnings, func(w string) bool {
			return strings.Contains(w, "1 host was given up") &&
				strings.Contains(w, again)
		}) {
		t.Errorf("status %q, outcomes %v, warnings %q", rep.Status, rep.Outcomes, rep.Warnings)
	}
	status := e2e.Run(t, "status", "--json", "--data-dir", dir)
	live := e2e.Parse[struct {
		Outcomes map[string]int `json:"outcomes"`
	}](t, status.Stdout)
	if fmt.Sprint(live.Outcomes) != fmt.Sprint(rep.Outcomes) {
		t.Errorf("status counts %v, the report %v", live.Outcomes, rep.Outcomes)
	}
	if got := e2e.Run(t, "status", "--data-dir", dir); !strings.Contains(got.Stdout, "host_blocked 18") ||
		!strings.Contains(got.Stdout, again) {
		t.Errorf("status does not say what is blocked and how to go on:\n%s", got.Stdout)
	}
	repaired.Store(true)
	if got := e2e.Run(t, "resume", "--data-dir", dir); got.Code != 0 {
		t.Errorf("resume: exit status %d, want 0", got.Code)
	}
	if rep := e2e.ReadReport(t, dir); rep.Outcomes["ok"] != 19 || len(rep.BlockedHosts) > 0 {
		t.Errorf("after a resume: outcomes %v, blocked hosts %v", rep.Outcomes, rep.BlockedHosts)
	}
}

// A host that is given up in a recrawl is named too, although its pages keep what earlier visits found.
func TestHostThatIsGivenUpInARecrawl(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{"away.test": func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			for i := range 20 {
				links(w, fmt.Sprintf("/%d", i))
			}
		case away.Load() && r.URL.Path != "/robots.txt":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Run(t, "crawl", "-u", "http://away.test/", "--seeding-strategy", "none", "--resolve", resolve,
		"--max-inflight-per-host", "1", "--max-retries", "0",
		"--max-host-failures", "2", "--max-host-backoff-secs", "1", "--min-delay-ms", "0", "--max-delay-ms", "0",
		"--data-dir", dir)
	away.Store(true)
	got := e2e.Run(t, "recrawl", "--data-dir", dir)
	again := "mapwright resume --data-dir " + dir
	for _, want := range []string{"away.test: failed too often in a row; 18 URLs not fetched", again + "' tries again",
		again + " (tries the blocked hosts again)"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("the closing table does not say %q:\n%s", want, got.Stdout)
		}
	}
	if rep := e2e.ReadReport(t, dir); len(rep.BlockedHosts) != 1 || rep.Outcomes["ok"] != 21 {
		t.Errorf("blocked hosts %v, outcomes %v", rep.BlockedHosts, rep.Outcomes)
	}
	if got := e2e.Run(t, "status", "--data-dir", dir); !strings.Contains(got.Stdout, "18 URLs wait") ||
		!strings.Contains(got.Stdout, again) {
		t.Errorf("status does not say what is blocked and how to go on:\n%s", got.Stdout)
	}
	away.Store(false)
	e2e.Run(t, "resume", "--data-dir", dir)
	if rep := e2e.ReadReport(t, dir); len(rep.BlockedHosts) > 0 || rep.Changes["not_checked"] > 0 {
		t.Errorf("after a resume: blocked hosts %v, changes %v", rep.BlockedHosts, rep.Changes)
	}
	if got := e2e.Run(t, "status", "--data-dir", dir); strings.Contains(got.Stdout, "Blocked") {
		t.Errorf("after a resume: %s", got.Stdout)
	}
}

// A limit that was reached exactly leaves a crawl complete, though URLs of a blocked host are pending.
func TestBlockedHostBesideALimitIsComplete(t *testing.T) {
	t.Parallel()
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{
		"whole.test": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				links(w, "/1", "/2", "/3", "/4", "http://down.test/1", "http://down.test/2", "http://down.test/3")
			}
		},
		"down.test": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		},
	})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "-u", "http://whole.test/", "--scope", "any", "--seeding-strategy", "none", "--resolve",
		resolve, "--max-inflight-per-host", "1", "--max-retries", "0",
		"--max-host-failures", "2", "--max-host-backoff-secs", "1", "--min-delay-ms", "0", "--max-delay-ms", "0",
		"--max-urls-per-host", "5", "--data-dir", dir)
	rep := e2e.ReadReport(t, dir)
	if got.Code != 0 || rep.Status != "complete" || rep.Outcomes["ok"] != 5 || rep.Outcomes["host_blocked"] != 1 {
		t.Errorf("exit status %d, %s (%s), outcomes %v; want 0, complete, 5 ok and 1 host_blocked", got.Code,
			rep.Status, rep.Reason, rep.Outcomes)
	}
}

// A start URL that robots.txt does not allow is named with the rule: as an error if nothing else could be fetched, else
// as a warning.
func TestStartForbiddenByRobots(t *testing.T) {
	t.Parallel()
	rules := func(lines ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprintln(w, strings.Join(lines, "\n"))
			case "/map.txt":
				fmt.Fprintf(w, "http://%s/listed\n", r.Host)
			}
		}
	}
	resolve := e2e.Handlers(t, map[string]http.HandlerFunc{
		"all.test":  rules("User-agent: *", "Disallow: /"),
		"root.test": rules("User-agent: *", "Disallow: /$", "Sitemap: http://root.test/map.txt"),
		"down.test": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	})
	for _, tt := range []struct {
		name, host string
		flags      []string
		code       int
		status     string
		says       string
	}{
		{"nothing else", "all.test", nil, 1, "failed", `robots.txt does not allow it (rule "Disallow: /")`},
		{"a sitemap has more", "root.test", nil, 0, "complete", `robots.txt does not allow it (rule "Disallow: /$")`},
		{"robots.txt is not to be had", "down.test", []string{"--robots-strict", "--seeding-strategy", "none",
			"--max-host-backoff-secs", "1"}, 1, "failed", "--robots-strict treats that as a prohibition"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			got := e2e.Run(t, append([]string{"crawl", "-u", "http://" + tt.host + "/", "--resolve", resolve,
				"--profile",
				"own-site", "--data-dir", dir}, tt.flags...)...)
			rep := e2e.ReadReport(t, dir)
			list := rep.Warnings
			if tt.code != 0 {
				list = rep.Errors
			}
			if got.Code != tt.code || rep.Status != tt.status || rep.Success != (tt.code == 0) {
				t.Errorf("exit status %d, %q, success %v; want %d, %q", got.Code, rep.Status, rep.Success, tt.code,
					tt.status)
			}
			if !slices.ContainsFunc(list, func(s string) bool {
				return strings.Contains(s, tt.says) && strings.Contains(s, "http://"+tt.host+"/ ")
			}) {
				t.Errorf("errors %q and warnings %q do not say %s", rep.Errors, rep.Warnings, tt.says)
			}
			if escaped := strings.ReplaceAll(tt.says, `"`, `\"`); !strings.Contains(got.Stderr, escaped) ||
				!strings.Contains(got.Stdout, tt.says) {
				t.Errorf("log or closing table do not say %s", tt.says)
			}
		})
	}
}

// busySite answers for busy.test, which refuses everything but robots.txt.
func busySite(t *testing.T, retryAfter string) (resolve string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	return e2e.Handlers(t, map[string]http.HandlerFunc{"busy.test": func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil // else a date is measured against it
		if r.URL.Path != "/robots.txt" {
			asked.Add(1)
			w.Header().Set("Retry-After", retryAfter)
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}}), asked
}

// A Retry-After of hours is waited for, over a resume too, with a warning that says until when and what to do.
func TestRetryAfterOfHours(t *testing.T) {
	t.Parallel()
	resolve, asked := busySite(t, "72000")
	dir := filepath.Join(t.TempDir(), "data")
	const says = "busy.test asked by Retry-After for no requests until "
	for _, args := range [][]string{{"crawl", "-u", "http://busy.test/", "--seeding-strategy", "none", "--resolve",
		resolve}, {"resume"}} {
		p := e2e.Start(t, append(args, "--data-dir", dir)...)
		p.Says(says)
		p.Signal(syscall.SIGINT)
		got := p.Wait()
		rep := e2e.ReadReport(t, dir)
		if got.Code != 130 || rep.Outcomes["pending"] != 1 || !slices.ContainsFunc(rep.Warnings, func(s string) bool {
			return strings.Contains(s, says) && strings.Contains(s, " from now)") && strings.Contains(s, "--duration")
		}) {
			t.Errorf("%s: exit status %d, outcomes %v, warnings %q", args[0], got.Code, rep.Outcomes, rep.Warnings)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%s: %d requests so far, want 1", args[0], n)
		}
	}
	if got := e2e.Run(t, "resume", "--data-dir", dir, "--duration", "1"); got.Code != 3 || asked.Load() != 1 {
		t.Errorf("with a duration: exit status %d, want 3; %d requests, want 1", got.Code, asked.Load())
	}
}

// A Retry-After of weeks is honoured over a resume, and one of years as if it were 30 days. No run waits for its end:
// each ends at once and says until when the host is left alone.
func TestRetryAfterOfYears(t *testing.T) {
	t.Parallel()
	const day, says = 24 * time.Hour, "busy.test asks by Retry-After or Crawl-delay for no requests until "
	began := time.Now()
	for _, tt := range []struct {
		name, value string
		after       time.Duration
	}{
		{"seconds", "1814400", 21 * day},
		{"date", began.Add(1000 * day).UTC().Format(http.TimeFormat), 30 * day},
		{"absurd", "99999999999999999999", 30 * day},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resolve, asked := busySite(t, tt.value)
			dir := filepath.Join(t.TempDir(), "data")
			for _, args := range [][]string{{"crawl", "-u", "http://busy.test/", "--seeding-strategy", "none",
				"--resolve", resolve}, {"resume"}} {
				got := e2e.Run(t, append(args, "--data-dir", dir)...)
				rep := e2e.ReadReport(t, dir)
				until, err := time.Parse(says+time.DateTime+" MST", rep.Reason)
				late := until.Sub(began.Add(tt.after))
				if err != nil || late < -2*time.Second || late > time.Since(began) {
					t.Errorf("%s: reason %q", args[0], rep.Reason)
				}
				if got.Code != 1 || rep.Outcomes["host_blocked"] != 1 ||
					!slices.ContainsFunc(rep.Warnings, func(s string) bool { return strings.HasPrefix(s, says) }) {
					t.Errorf("%s: exit status %d, outcomes %v, warnings %q", args[0], got.Code, rep.Outcomes,
						rep.Warnings)
				}
				if n := asked.Load(); n != 1 {
					t.Errorf("%s: %d requests so far, want 1", args[0], n)
				}
			}
		})
	}
}

// The report of a crawl that was killed twice tells when its first run began, how many there were, and what each of
// them warned of.
func TestReportAfterKills(t *testing.T) {
	t.Parallel()
	var open atomic.Int32 // so many hosts answer when they are asked for a sitemap
	hosts := []string{"a.test", "b.test", "c.test"}
	site := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprintf(w, "Sitemap: http://%s/no-map.xml\n", r.Host)
		case "/no-map.xml":
			if slices.Index(hosts, r.Host) > int(open.Load()) {
				<-r.Context().Done()
			}
			fmt.Fprint(w, "<html>no sitemap</html>")
		default:
			e2e.WritePage(w, r.URL.Path)
		}
		return true
	})
	dir := filepath.Join(t.TempDir(), "data")
	args := site.Flags(dir, "--profile", "own-site", "-u", "http://b.test/", "-u", "http://c.test/", "--timeout", "1h")
	began := ""
	for i := range 2 {
		p := e2e.Start(t, args...)
		p.Says("sitemap http://" + hosts[i] + "/no-map.xml:")
		p.Until("the sitemaps are asked for that are not answered", func() bool {
			return !slices.ContainsFunc(hosts[i+1:],
				func(host string) bool { return len(site.Requests(host+"/no-map.xml")) <= i })
		})
		if began == "" {
			began = e2e.Status(t, dir).StartedAt
		}
		e2e.Flush(t, dir)
		p.Kill()
		open.Add(1)
		args = []string{"resume", "--data-dir", dir}
	}
	got := e2e.Run(t, args...)
	e2e.Ended(t, got, dir, 0, "complete", "")
	var rep struct {
		StartedAt string `json:"started_at"`
		Runs      int
		Warnings  []string
	}
	e2e.ReadJSON(t, dir, "report.json", &rep)
	if rep.StartedAt != began || rep.Runs != 3 || !strings.Contains(got.Stdout, "\nAll runs ") {
		t.Errorf("%d runs since %s, want 3 since %s", rep.Runs, rep.StartedAt, began)
	}
	var warned []string
	for _, text := range rep.Warnings {
		if name, _, is := strings.Cut(text, "/no-map.xml: "); is {
			warned = append(warned, strings.TrimPrefix(name, "sitemap http://"))
		}
	}
	if !slices.Equal(warned, hosts) {
		t.Errorf("warnings %q, want one for each host", rep.Warnings)
	}
}
