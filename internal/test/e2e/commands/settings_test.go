package commands

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Flag beats environment beats file beats profile beats default, and each value says where it came from.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	file := e2e.Write(t, filepath.Join(t.TempDir(), "crawl.yaml"), `
profile: own-site
max_workers: 10
max_retries: 1
parse_semaphore_limit: 9
timeout: 1m30s
include: ['a,b', c]
`)
	dir := t.TempDir()
	got := e2e.Invocation{
		Args: []string{"crawl", "--print-config", "--config", file, "--workers", "40", "--grace", "7"},
		Env: []string{"MAX_WORKERS=20", "MAPWRIGHT_MAX_WORKERS=30", "MAX_RETRIES=2", "GLOBAL_FRONTIER_SIZE_LIMIT=99",
			"MAX_PAGES=77", "MAX_SCAN_TIME_MINUTES=1.5", "USER_AGENT=Tester/1"},
		Dir: dir,
	}.Run(t)
	all := e2e.Effective(t, got)
	for name, want := range map[string][2]string{
		"profile":                    {"own-site", "file " + file + " profile"},
		"max-workers":                {"40", "flag --workers"},
		"max-retries":                {"2", "environment MAX_RETRIES"},
		"global-frontier-size-limit": {"99", "environment GLOBAL_FRONTIER_SIZE_LIMIT"},
		"parse-semaphore-limit":      {"9", "file " + file + " parse_semaphore_limit"},
		"max-inflight-per-host":      {"150", "profile own-site"},
		"max-urls":                   {"77", "environment MAX_PAGES"},
		"duration":                   {"1m30s", "environment MAX_SCAN_TIME_MINUTES"},
		"timeout":                    {"1m30s", "file " + file + " timeout"},
		"include":                    {"a,b,c", "file " + file + " include"},
		"user-agent":                 {"Tester/1", "environment USER_AGENT"},
		"grace":                      {"7s", "flag --grace"},
		"max-depth":                  {"-1", "default"},
		"proxy":                      {`""`, "default"},
	} {
		if all[name] != want {
			t.Errorf("%s is %q, want %q", name, all[name], want)
		}
	}
	if len(e2e.Picture(t, dir)) != 1 {
		t.Error("something was made")
	}
}

// Start URLs come in every form, and all of them are crawled.
func TestStartURLForms(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 3, Pages: 3})
	urls := web.StartURLs()
	file := e2e.Write(t, filepath.Join(t.TempDir(), "urls.txt"),
		"# the first\n\n"+urls[0]+"\n  "+urls[1]+"   # the second\n"+urls[0]+"\n")
	config := e2e.Write(t, filepath.Join(t.TempDir(), "crawl.yaml"), "start_url: ["+urls[0]+", "+urls[1]+"]\n")
	tests := []struct {
		name string
		e2e.Invocation
		want []string
	}{
		{"flag", e2e.Invocation{Args: []string{"--start-url", urls[0]}}, urls[:1]},
		{"flags", e2e.Invocation{Args: []string{"--start-url", urls[0], "-u", urls[2]}}, []string{urls[0], urls[2]}},
		{"arguments", e2e.Invocation{Args: urls}, urls},
		{"file", e2e.Invocation{Args: []string{"--start-url", file}}, urls[:2]},
		{"standard input", e2e.Invocation{Args: []string{"--start-url", "-"}, Stdin: urls[1] + "\n#no\n" + urls[2]},
			urls[1:]},
		{"environment", e2e.Invocation{Env: []string{"MAPWRIGHT_START_URL=" + urls[1]}}, urls[1:2]},
		{"configuration", e2e.Invocation{Args: []string{"--config", config}}, urls[:2]},
		{"bare domain without https", e2e.Invocation{Args: []string{"-u", web.HostName(0), "--resolve", "*:443:" +
			e2e.ClosedPort(t), "--max-host-backoff-secs", "1", "--max-retries", "0"}},
			[]string{"https://" + web.HostName(0) + "/", urls[0]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			tt.Args = append([]string{"crawl", "--profile", "own-site", "--resolve", web.Resolve()}, tt.Args...)
			tt.Env = append(tt.Env, "MAPWRIGHT_DATA_DIR="+dir)
			if got := tt.Run(t); got.Code != 0 {
				t.Fatalf("exit status %d, want 0", got.Code)
			}
			var starts []string
			for url, l := range e2e.ReadLines(t, dir) {
				if l.Source == "start" {
					starts = append(starts, url)
				}
			}
			if !e2e.SameSet(starts, tt.want) {
				t.Errorf("started from %q, want %q", starts, tt.want)
			}
		})
	}
}

// A bare domain is tried with https first.
func TestBareDomainWithHTTPS(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 3, TLS: true})
	authority := e2e.Write(t, filepath.Join(t.TempDir(), "ca.pem"), string(web.Authority().PEM()))
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Invocation{
		Args: []string{"crawl", web.HostName(0), "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir",
			dir},
		Env: []string{"SSL_CERT_FILE=" + authority},
	}.Run(t)
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))

	// A host that has answered over https is away if it refuses that later, and is not asked over plain http.
	var plain atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { plain.Add(1) }))
	defer server.Close()
	again := e2e.Invocation{
		Args: []string{"recrawl", "--data-dir", dir, "--max-host-backoff-secs", "1", "--max-retries", "0",
			"--resolve", "*:443:" + e2e.ClosedPort(t), "--resolve", "*:80:" + server.Listener.Addr().String()},
	}.Run(t)
	for url := range e2e.ReadLines(t, dir) {
		if !strings.HasPrefix(url, "https://") {
			t.Errorf("the map has %s", url)
		}
	}
	if n := plain.Load(); n > 0 {
		t.Errorf("exit status %d, %d requests of plain http", again.Code, n)
	}
}

// A variable with the program's prefix that names no setting gives a warning, whether it is misspelt or an alias that
// only flags have. The variables of other programs give none, and neither do empty ones.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	const want = "no such setting: ignored environment MAPWRIGHT_MAX_URL, MAPWRIGHT_WORKERS ("
	got := e2e.Invocation{
		Args: []string{"crawl", "--print-config", "http://a.test/"},
		Env: []string{"MAPWRIGHT_WORKERS=3", "MAPWRIGHT_MAX_URL=5", "MAPWRIGHT_MAX_URLS=6", "MAPWRIGHT_EMPTY=",
			"MAX_URL=7", "MAPWRIGHT_DATA_DIR=x"},
	}.Run(t)
	if got.Code != 0 || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, want) {
		t.Errorf("exit %d, %q does not say %q alone", got.Code, got.Stderr, want)
	}
	if all := e2e.Effective(t, got); all["max-urls"][0] != "6" {
		t.Errorf("max-urls %q", all["max-urls"])
	}
}
