package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// effective is what --print-config says of each setting: its value, and where that came from.
func effective(t *testing.T, got result) map[string][2]string {
	t.Helper()
	if got.code != 0 {
		t.Fatalf("exit status %d, want 0", got.code)
	}
	all := map[string][2]string{}
	for text := range strings.Lines(got.stdout) {
		name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		value, from, ok := strings.Cut(strings.TrimSpace(rest), "  ")
		if !ok { // a long value leaves one space
			i := strings.LastIndex(rest, " default")
			value, from = strings.TrimSpace(rest[:max(i, 0)]), strings.TrimSpace(rest[max(i, 0):])
		}
		all[name] = [2]string{strings.TrimSpace(value), strings.TrimSpace(from)}
	}
	return all
}

// Flag beats environment beats file beats profile beats default, and each value says where it came from.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "crawl.yaml"), `
profile: own-site
max_workers: 10
max_retries: 1
parse_semaphore_limit: 9
timeout: 1m30s
include: ['a,b', c]
`)
	dir := t.TempDir()
	got := invocation{
		args: []string{"crawl", "--print-config", "--config", file, "--workers", "40", "--grace", "7"},
		env: []string{"MAX_WORKERS=20", "MAPWRIGHT_MAX_WORKERS=30", "MAX_RETRIES=2", "GLOBAL_FRONTIER_SIZE_LIMIT=99",
			"MAX_PAGES=77", "MAX_SCAN_TIME_MINUTES=1.5", "USER_AGENT=Tester/1"},
		dir: dir,
	}.run(t)
	all := effective(t, got)
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
	if len(picture(t, dir)) != 1 {
		t.Error("something was made")
	}
}

// Start URLs come in every form, and all of them are crawled.
func TestStartURLForms(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Hosts: 3, Pages: 3})
	urls := web.StartURLs()
	file := write(t, filepath.Join(t.TempDir(), "urls.txt"),
		"# the first\n\n"+urls[0]+"\n  "+urls[1]+"   # the second\n"+urls[0]+"\n")
	config := write(t, filepath.Join(t.TempDir(), "crawl.yaml"), "start_url: ["+urls[0]+", "+urls[1]+"]\n")
	tests := []struct {
		name string
		invocation
		want []string
	}{
		{"flag", invocation{args: []string{"--start-url", urls[0]}}, urls[:1]},
		{"flags", invocation{args: []string{"--start-url", urls[0], "-u", urls[2]}}, []string{urls[0], urls[2]}},
		{"arguments", invocation{args: urls}, urls},
		{"file", invocation{args: []string{"--start-url", file}}, urls[:2]},
		{"standard input", invocation{args: []string{"--start-url", "-"}, stdin: urls[1] + "\n#no\n" + urls[2]},
			urls[1:]},
		{"environment", invocation{env: []string{"MAPWRIGHT_START_URL=" + urls[1]}}, urls[1:2]},
		{"configuration", invocation{args: []string{"--config", config}}, urls[:2]},
		{"bare domain without https", invocation{args: []string{"-u", web.HostName(0), "--resolve", "*:443:" +
			closedPort(t), "--max-host-backoff-secs", "1", "--max-retries", "0"}},
			[]string{"https://" + web.HostName(0) + "/", urls[0]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			tt.args = append([]string{"crawl", "--profile", "own-site", "--resolve", web.Resolve()}, tt.args...)
			tt.env = append(tt.env, "MAPWRIGHT_DATA_DIR="+dir)
			if got := tt.run(t); got.code != 0 {
				t.Fatalf("exit status %d, want 0", got.code)
			}
			var starts []string
			for url, l := range readLines(t, dir) {
				if l.Source == "start" {
					starts = append(starts, url)
				}
			}
			if !sameSet(starts, tt.want) {
				t.Errorf("started from %q, want %q", starts, tt.want)
			}
		})
	}
}

// A bare domain is tried with https first.
func TestBareDomainWithHTTPS(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Pages: 3, TLS: true})
	authority := write(t, filepath.Join(t.TempDir(), "ca.pem"), string(web.Authority().PEM()))
	dir := filepath.Join(t.TempDir(), "data")
	got := invocation{
		args: []string{"crawl", web.HostName(0), "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir",
			dir},
		env: []string{"SSL_CERT_FILE=" + authority},
	}.run(t)
	if got.code != 0 {
		t.Fatalf("exit status %d, want 0", got.code)
	}
	foundExactly(t, web, testweb.Crawl{}, readLines(t, dir))
}

func sameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// A variable with the program's prefix that names no setting gives a warning, whether it is misspelt or an alias that
// only flags have. The variables of other programs give none, and neither do empty ones.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	const want = "no such setting: ignored environment MAPWRIGHT_MAX_URL, MAPWRIGHT_WORKERS ("
	got := invocation{
		args: []string{"crawl", "--print-config", "http://a.test/"},
		env: []string{"MAPWRIGHT_WORKERS=3", "MAPWRIGHT_MAX_URL=5", "MAPWRIGHT_MAX_URLS=6", "MAPWRIGHT_EMPTY=",
			"MAX_URL=7", "MAPWRIGHT_DATA_DIR=x"},
	}.run(t)
	if got.code != 0 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, want) {
		t.Errorf("exit %d, %q does not say %q alone", got.code, got.stderr, want)
	}
	if all := effective(t, got); all["max-urls"][0] != "6" {
		t.Errorf("max-urls %q", all["max-urls"])
	}
}
