package crawl

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// Flags and values that users of other programs try work, or are refused with what to use instead.
func TestHabits(t *testing.T) {
	t.Parallel()
	e2e.Succeeded(t, e2e.Run(t, "--version"))
	if got, want := e2e.Run(t, "--version").Stdout, e2e.Run(t, "version").Stdout; got != want {
		t.Errorf("--version says %q, version says %q", got, want)
	}
	for _, tt := range []struct{ args, words string }{
		{"crawl a.test --wait 2", "--delay 2s"},
		{"crawl a.test --delay 2s --min-delay-ms 5 --list --max-depth 3", "flag --delay: it sets min-delay-ms, which " +
			"flag --min-delay-ms sets too: give one of the two; flag --list: it sets max-depth, which flag --max-depth"},
		{"crawl a.test --delay soon", `flag --delay: "soon" is not a duration`},
		{"crawl a.test --delay 2d", `flag --delay: "2d" is not between 0s and 24h0m0s`},
		{"crawl a.test -q -v", "contradict"},
		{"join --cluster postgres://127.0.0.1:1/x --delay 2s", "--delay cannot be given here"},
		{"resume --warc-file x", "--warc writes"}, {"crawl --http-user ann", "--basic-auth"},
		{"crawl a.test --login http://a.test/ --login-data user=ann&pass=x", "it must be a file with lines NAME=VALUE"},
		{"crawl a.test --login http://ann:s3cret@a.test/ --login-data x", "--login: it has a user name or a password"},
		{"crawl a.test --concurrency 4", "--workers"},
		{"crawl a.test --seeding sitemap,none", "none does not go with others"},
		{"crawl a.test --user-agent=", "user-agent is blank"},
		{"crawl a.test --user-agent=\t", "user-agent is blank"},
		{"crawl a.test --cluster postgres://127.0.0.1:1/x --profile safe", "one machine"},
		{"resume --cluster postgres://127.0.0.1:1/x --safe", "one machine"},
		{"changes --since yesterday", `flag --since: "yesterday"`},
		{"crawl a.test --duration 7days", `"7days"`},
	} {
		e2e.Refused(t, e2e.Run(t, strings.Split(tt.args, " ")...), tt.words)
	}
	// A flag that only a crawl could have used is no hint for a command without settings.
	if got := e2e.Run(t, "status", "--delay", "2s"); got.Code != 2 || strings.Contains(got.Stderr, "min-delay-ms") {
		t.Errorf("status --delay: %d, %s", got.Code, got.Stderr)
	}
	got := e2e.Effective(t, e2e.Run(t, "crawl", "--print-config", "--duration", "1w2d", "--timeout", "1m",
		"--save-interval",
		"1d"))
	for name, want := range map[string]string{"duration": "216h0m0s", "timeout": "1m0s", "save-interval": "24h0m0s"} {
		if got[name][0] != want {
			t.Errorf("%s is %s, want %s", name, got[name][0], want)
		}
	}
}

// wipe and export take the directory as an argument. export does not write into the state, or over the files of another
// crawl.
func TestDirectoriesOfCommands(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	before := e2e.Picture(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "state"), link); err != nil {
		t.Fatal(err)
	}
	for _, into := range []string{filepath.Join(dir, "state"), filepath.Join(dir, "state", "new", "maps"), link} {
		e2e.Refused(t, e2e.Run(t, "export", dir, "--output", into), into, "state")
	}
	other := e2e.Crawled(t)
	e2e.Refused(t, e2e.Run(t, "export", other, "--output", dir), "another crawl")
	e2e.Unchanged(t, dir, before)
	e2e.Succeeded(t, e2e.Run(t, "export", other, "--output", other))
	got := e2e.Run(t, "wipe", "--yes", dir)
	e2e.Succeeded(t, got)
	if e2e.Exists(t, filepath.Dir(dir), filepath.Base(dir)) {
		t.Errorf("the directory is still there: %s", got.Stdout)
	}
}

// changes takes a date as well as a generation.
func TestChangesSinceADate(t *testing.T) {
	t.Parallel()
	var body atomic.Value
	body.Store("first")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(fmt.Sprintf("<title>%[1]v</title><p>a page of text that changes: %[1]v", body.Load())))
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "data")
	if got := e2e.Run(t, "crawl", site.URL+"/", "--data-dir", dir, "--seeding-strategy", "none"); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	body.Store("second")
	if got := e2e.Run(t, "recrawl", dir); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	day := 24 * time.Hour
	for since, want := range map[string]int{
		time.Now().UTC().Add(-day).Format(time.DateOnly):    1,
		time.Now().UTC().Add(-day).Format(time.RFC3339):     1,
		time.Now().UTC().Add(2 * day).Format(time.DateOnly): 0,
		time.Now().UTC().Add(2 * day).Format(time.RFC3339):  0,
		"1": 1,
	} {
		got := e2e.Run(t, "changes", dir, "--json", "--since", since)
		e2e.Succeeded(t, got)
		if n := strings.Count(got.Stdout, "\n"); n != want {
			t.Errorf("since %s: %d changes, want %d", since, n, want)
		}
		text := e2e.Run(t, "changes", dir, "--since", since)
		e2e.Succeeded(t, text)
		if nothing := strings.Contains(text.Stdout, "nothing changed"); nothing != (want == 0) {
			t.Errorf("since %s it says\n%s", since, text.Stdout)
		}
	}
}

// In a recrawl that a limit ended, what is done and what is pending make what was found, and every URL has one outcome.
func TestStatusOfALimitedRecrawl(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	if got := e2e.Run(t, "recrawl", dir, "--max-urls", "4"); got.Code != 3 {
		t.Fatalf("exit status %d, want 3", got.Code)
	}
	var status struct {
		Found, Done, Pending int64
		Outcomes             map[string]int64
	}
	got := e2e.Run(t, "status", dir, "--json")
	e2e.Succeeded(t, got)
	if err := json.Unmarshal([]byte(got.Stdout), &status); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, n := range status.Outcomes {
		sum += n
	}
	if status.Found == 0 || status.Pending == 0 || status.Done+status.Pending != status.Found || sum != status.Found {
		t.Errorf("%+v does not add up", status)
	}
}

// localhost with a dot at the end is this machine too.
func TestLocalhostWithADot(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<p>here"))
	}))
	t.Cleanup(site.Close)
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []string{"http://localhost.:" + port + "/", "LOCALHOST.:" + port} {
		dir := filepath.Join(t.TempDir(), "data")
		if got := e2e.Run(t, "crawl", start, "--data-dir", dir, "--seeding-strategy", "none"); got.Code != 0 {
			t.Errorf("%s: exit status %d: %s", start, got.Code, got.Stderr)
		}
	}
}

// A robots.txt that cannot be had is a warning, which says why and what that means. There is one warning, also after
// several attempts and after redirects.
func TestRobotsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	answers := map[string]http.HandlerFunc{
		"/silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/headers": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("User-agent: *\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"/500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"/502": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	}
	const goesOn, stops = "URLs are fetched as if it allowed everything", "URLs are not fetched"
	for _, c := range []struct{ name, answer, to, flag, why, what string }{
		{"status", "/502", "", "--robots-strict=false", "it answers 502", goesOn},
		{"strict", "/502", "", "--robots-strict", "it answers 502", stops},
		{"silent", "/silent", "", "--robots-strict=false", "it does not answer", goesOn},
		{"silent, strict", "/silent", "", "--robots-strict", "it does not answer", stops},
		{"silent after headers", "/headers", "", "--robots-strict=false", "its answer does not end", goesOn},
		{"redirect", "/500", "/moved", "--robots-strict=false", "it answers 500", goesOn},
		{"redirect, silent", "/silent", "/moved", "--robots-strict", "it does not answer", stops},
		{"redirect to a host", "/500", "http://other.test/robots.txt", "--robots-strict", "it answers 500", stops},
		{"certificate", "tls", "", "--robots-strict=false", "tls: failed to verify certificate", goesOn},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" && r.Host == "start.test" && c.to != "" {
					http.Redirect(w, r, c.to, http.StatusFound)
				} else if r.URL.Path == "/robots.txt" || r.URL.Path == c.to {
					answers[c.answer](w, r)
				} else {
					w.Header().Set("Content-Type", "text/html")
					_, _ = w.Write([]byte("<p>here"))
				}
			}))
			origin := "http://start.test"
			if c.answer == "tls" {
				origin = "https://start.test"
				site.Config.ErrorLog = log.New(io.Discard, "", 0)
				site.StartTLS()
			} else {
				site.Start()
			}
			t.Cleanup(site.Close)
			dir := filepath.Join(t.TempDir(), "data")
			got := e2e.Run(t, "crawl", origin+"/", "--data-dir", dir, "--seeding-strategy", "none", "--profile",
				"own-site", "--resolve", "*:*:"+site.Listener.Addr().String(), "--max-retries", "0", c.flag)
			begin := "robots.txt of " + origin + " cannot be had ("
			for name, text := range map[string]string{"report.json": e2e.Read(t, dir, "report.json"),
				"the table": got.Stdout, "the log": got.Stderr} {
				_, rest, _ := strings.Cut(text, begin+c.why)
				if strings.Count(text, begin) != 1 || !strings.Contains(rest[:min(len(rest), 200)], "): its "+c.what) {
					t.Errorf("%s does not warn once that %s%s), and that its %s", name, begin, c.why, c.what)
				}
			}
		})
	}
}
