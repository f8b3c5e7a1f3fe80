package commands

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A boolean flag takes its value with an equals sign or with a space, whatever stands before and behind it.
func TestBooleanFlags(t *testing.T) {
	t.Parallel()
	help := e2e.Run(t, "crawl", "--help").Stdout
	tests := []struct {
		args, setting, want string
	}{
		{"--http2 false", "http2", "false"},
		{"--http2=false", "http2", "false"},
		{"--http2 off --links", "http2", "false"},
		{"--links --http2 no", "links", "true"},
		{"--governor-enabled false", "governor-enabled", "false"},
		{"--governor-enabled 0 --workers 5", "governor-enabled", "false"},
		{"--user-agent --http2 --links false", "http2", "true"},
		{"--gzip", "gzip", "true"},
		{"--gzip yes", "gzip", "true"},
		{"-d false --gzip a.test", "gzip", "true"},
		{"--safe false", "profile", "polite"},
		{"--safe true", "profile", "safe"},
		{"--list false", "max-depth", "-1"},
		{"--list true", "max-depth", "0"},
	}
	for _, name := range regexp.MustCompile(`(?m)^ +--([a-z0-9-]+)(?:   |  +[^ ]*$)`).FindAllStringSubmatch(help, -1) {
		if name := name[1]; !slices.Contains([]string{"safe", "list", "dry-run", "print-config", "json", "help"}, name) {
			tests = append(tests, struct{ args, setting, want string }{"--" + name + " false", name, "false"})
		}
	}
	if len(tests) < 20 {
		t.Fatalf("%d cases: the help does not name the boolean flags", len(tests))
	}
	for _, tt := range tests {
		got := e2e.Run(t, append(strings.Fields("crawl --print-config "), strings.Fields(tt.args)...)...)
		if got.Code != 0 {
			t.Errorf("%s: exit status %d: %s", tt.args, got.Code, got.Stderr)
		} else if value := e2e.Effective(t, got)[tt.setting][0]; value != tt.want {
			t.Errorf("%s: %s is %q, want %s", tt.args, tt.setting, value, tt.want)
		}
	}
	e2e.Refused(t, e2e.Run(t, "crawl", "--print-config", "--http2=perhaps"), "flag --http2", `"perhaps"`)
	dir := t.TempDir()
	if got := e2e.Run(t, "wipe", "--yes", "false", "--data-dir", dir); got.Code == 0 {
		t.Error("wipe --yes false deletes")
	}
}

// Without the prefix, only the documented variables are read, and help lists them.
func TestBareVariables(t *testing.T) {
	t.Parallel()
	help := e2e.Run(t, "crawl", "--help").Stdout
	documented := map[string]string{}
	_, list, _ := strings.Cut(help, "without MAPWRIGHT_ too:\n")
	for _, name := range regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]+)`).FindAllStringSubmatch(list, -1) {
		documented[name[1]] = strings.ToLower(strings.ReplaceAll(name[1], "_", "-"))
	}
	documented["MAX_PAGES"], documented["MAX_SCAN_TIME_MINUTES"] = "max-urls", "duration"
	if len(documented) != 25 {
		t.Errorf("help names %d variables: %q", len(documented), slices.Sorted(maps.Keys(documented)))
	}
	all := e2e.Effective(t, e2e.Run(t, "crawl", "--print-config"))
	var env []string
	for name := range all {
		env = append(env, strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"=1")
	}
	env = append(env, "MAX_PAGES=1", "MAX_SCAN_TIME_MINUTES=1", "BLOOM_FP_RATE=0.1", "SAFE=1", "START_URL=a.test",
		"DATA_DIR=x", "CONFIG=y", "MAX_DELAY_MS=500", "UNTHROTTLE_THRESHOLD_MS=1")
	read := map[string]bool{}
	for _, shown := range e2e.Effective(t, e2e.Invocation{Args: []string{"crawl", "--print-config"}, Env: env}.Run(t)) {
		if name, ok := strings.CutPrefix(shown[1], "environment "); ok {
			read[name] = true
		}
	}
	for name := range documented {
		if !read[name] {
			t.Errorf("%s is documented, and not read", name)
		}
		delete(read, name)
	}
	if len(read) > 0 {
		t.Errorf("read and not documented: %v", slices.Sorted(maps.Keys(read)))
	}
}

// Help names the exit statuses and the other names of flags.
func TestHelpNamesStatusesAndAliases(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--help", "crawl --help", "resume --help"} {
		help := e2e.Run(t, strings.Fields(args)...).Stdout
		for _, line := range []string{"Exit status:", "0    complete", "1    failed", "2    bad usage", "3    partial",
			"130  interrupted"} {
			if !strings.Contains(help, line) {
				t.Errorf("%s does not say %q", args, line)
			}
		}
		if args == "--help" {
			continue
		}
		for _, line := range []string{"--workers is --max-workers", "--max-pages is --max-urls",
			"--seeding is --seeding-strategy"} {
			if !strings.Contains(help, line) {
				t.Errorf("%s does not say %q", args, line)
			}
		}
	}
}

// All faults of flags, environment, configuration file and start URLs are named by one run.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := e2e.Write(t, filepath.Join(dir, "bad.yaml"), `max_wrokers: 5
max-depth: deep
scope: {a: b}
timeout: [1, 2]
include: ['(', ok, '[']
max_retries: 1
max-retries: 2
profile: rude
since: someday
foo: 1
safe: perhaps
`)
	urls := e2e.Write(t, filepath.Join(dir, "urls.txt"), "http://[::1\nftp://b.test/\n")
	got := e2e.Invocation{
		Args: []string{"crawl", "--config", config, "--max-urls", "many", "--safe=maybe", "-u", urls, "-u", "http://",
			"--data-dir=", "--min-delay-ms", "x", "--max-delay-ms", "1"},
		Env: []string{"BLOOM_FP_RATE=2", "MAX_SCAN_TIME_MINUTES=long", "MAPWRIGHT_GRACE=later"},
	}.Run(t)
	e2e.Refused(t, got, `"foo", "max_wrokers"`, "bad.yaml max-depth", "line 3: scope", "line 4: timeout takes one value",
		`"("`, `"["`, "line 7: max-retries is given twice",
		`"rude"`, "bad.yaml since", "bad.yaml safe", "flag --max-urls", "flag --safe", "environment BLOOM_FP_RATE",
		"environment MAX_SCAN_TIME_MINUTES", "environment MAPWRIGHT_GRACE",
		"urls.txt line 1", "urls.txt line 2", `"http://"`, "--data-dir is empty", "flag --min-delay-ms")
	if strings.Contains(got.Stderr, "is larger than") {
		t.Errorf("compares a value that is bad:\n%s", got.Stderr)
	}
	syntax := e2e.Write(t, filepath.Join(dir, "syntax.yaml"), "max_urls: [1\n")
	for _, command := range []string{"crawl -u http://", "resume", "export", "status", "wipe --yes"} {
		got := e2e.Invocation{Args: strings.Fields(command), Env: []string{"MAPWRIGHT_CONFIG=" + syntax,
			"MAX_SCAN_TIME_MINUTES=long"}, Dir: dir}.Run(t)
		e2e.Refused(t, got, "syntax.yaml")
	}
}

// A file takes a key in the form of a flag too, and its values as they are written.
func TestConfigurationKeys(t *testing.T) {
	t.Parallel()
	file := e2e.Write(t, filepath.Join(t.TempDir(), "crawl.yaml"),
		"\ufeffmax-urls: 1_000\nmax_workers: 7\nsince: 2026-01-31\ninclude: []\nhttp2: no\nduration: 90\nuser_agent: "+
			"010\n")
	all := e2e.Effective(t, e2e.Run(t, "crawl", "--print-config", "--config", file))
	for name, want := range map[string]string{"max-urls": "1000", "max-workers": "7", "since": "2026-01-31",
		"http2": "false", "duration": "1m30s", "user-agent": "010", "include": `""`} {
		if all[name][0] != want {
			t.Errorf("%s is %q, want %s", name, all[name], want)
		}
	}
}

// --print-config --json is one object by the keys of a configuration file, with numbers as numbers, and no output shows
// a secret.
func TestPrintConfigAsJSON(t *testing.T) {
	t.Parallel()
	args := []string{"crawl", "--print-config", "--safe", "--max-urls", "500", "--timeout", "1m30s", "--header",
		"Authorization: Bearer geheim", "--proxy", "http://me:geheim@proxy.test:1", "--include", "a,b", "--include",
		"c"}
	got := e2e.Run(t, append(args, "--json")...)
	all := e2e.Parse[map[string]struct {
		Value  any
		Source string
	}](t, got.Stdout)
	for name, want := range map[string]any{
		"max_urls": 50.0, "timeout": 90.0, "http2": true, "bloom_fp_rate": 0.01, "max_body_size": 10485760.0,
		"profile": "safe", "include": []any{"a,b", "c"},
	} {
		if fmt.Sprint(all[name].Value) != fmt.Sprint(want) ||
			fmt.Sprintf("%T", all[name].Value) != fmt.Sprintf("%T", want) {
			t.Errorf("%s is %v (%T), want %v", name, all[name].Value, all[name].Value, want)
		}
	}
	if from := all["max_urls"].Source; from != "profile safe, instead of 500 from flag --max-urls" {
		t.Errorf("max_urls comes from %q", from)
	}
	if text := e2e.Run(t, args...); strings.Contains(got.Stdout+text.Stdout+text.Stderr, "geheim") {
		t.Error("shows a secret")
	} else if !strings.Contains(text.Stdout, "Authorization: (hidden)") {
		t.Error("does not show that a header is set")
	}
}

// A list of URLs may start with a byte order mark.
func TestListWithByteOrderMark(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 2, Pages: 1})
	text := "\ufeff" + web.StartURLs()[0] + "\r\n" + web.StartURLs()[1] + "\r\n"
	var little, big []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		little, big = append(little, byte(unit), byte(unit>>8)), append(big, byte(unit>>8), byte(unit))
	}
	for name, list := range map[string]string{"UTF-8": text, "UTF-16, little endian": string(little),
		"UTF-16, big endian": string(big)} {
		dir := filepath.Join(t.TempDir(), "data")
		got := e2e.Invocation{Stdin: list, Args: []string{"crawl", "-u", "-", "--profile", "own-site", "--resolve",
			web.Resolve(), "--data-dir", dir}}.Run(t)
		if lines := e2e.ReadLines(t, dir); got.Code != 0 || lines[web.StartURLs()[0]].Source != "start" ||
			lines[web.StartURLs()[1]].Source != "start" {
			t.Errorf("%s: exit status %d, %d lines", name, got.Code, len(lines))
		}
	}
}

// A start may be a host with a port and a path, without a scheme.
func TestStartWithPort(t *testing.T) {
	t.Parallel()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" || strings.Contains(r.URL.Path, "sitemap") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "<title>here</title>")
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	port := listener.Addr().(*net.TCPAddr).Port
	for _, start := range []string{"localhost:%d", "localhost:%d/path", "localhost:%d/a/page.html",
		"127.0.0.1:%d/list.txt?x=1", "www.localhost:%d/"} {
		start = fmt.Sprintf(start, port)
		dir := filepath.Join(t.TempDir(), "data")
		got := e2e.Run(t, "crawl", start, "--profile", "own-site", "--resolve", "*:*:127.0.0.1", "--data-dir", dir)
		url := "http://" + start
		if !strings.Contains(start, "/") {
			url += "/"
		}
		if lines := e2e.ReadLines(t, dir); got.Code != 0 || len(lines) != 1 || lines[url].Title != "here" {
			t.Errorf("%s: exit status %d, %v", start, got.Code, slices.Collect(maps.Keys(lines)))
		}
	}
}
