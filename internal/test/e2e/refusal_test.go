package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// refused wants exit status 2 and exactly one line on standard error, with all the words in it.
func refused(t *testing.T, got result, words ...string) {
	t.Helper()
	if got.code != 2 {
		t.Errorf("exit status %d, want 2", got.code)
	}
	if n := strings.Count(got.stderr, "\n"); n != 1 || !strings.HasSuffix(got.stderr, "\n") {
		t.Errorf("%d lines on standard error, want one:\n%s", n, got.stderr)
	}
	if got.stdout != "" {
		t.Errorf("standard output: %q, want none", got.stdout)
	}
	for _, w := range words {
		if !strings.Contains(got.stderr, w) {
			t.Errorf("the error does not say %q: %s", w, got.stderr)
		}
	}
}

// picture is every file below a directory, with its content.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSocket != 0 {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[path] += fmt.Sprintf(" %x", sha256.Sum256(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unchanged holds a directory against its picture.
func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := picture(t, dir)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was changed: %q, was %q", path, after[path], was)
		}
	}
	for path := range after {
		if _, had := before[path]; !had {
			t.Errorf("%s was made", path)
		}
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A refused command says why in one line, and has made or changed nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args string // $D is a directory of the test's
		env  []string
		says []string
	}{
		{"no URL", "crawl", nil, []string{"no start URL", "--start-url"}},
		{"no scheme that is known", "crawl --start-url ftp://a.test/", nil, []string{`"ftp://a.test/"`, "http"}},
		{"broken URL", "crawl --start-url http://[::1", nil, []string{`"http://[::1"`, "host"}},
		{"several broken URLs", "crawl -u http://[::1 -u http:// http://a.test:x/", nil,
			[]string{`"http://[::1"`, `"http://"`, `"http://a.test:x/"`}},
		{"mail address", "crawl -u mailto:a@b.test", nil, []string{"neither a URL nor a domain"}},
		{"missing file of URLs", "crawl -u $D/missing.txt", nil, []string{"missing.txt", "no such file"}},
		{"broken line in a file of URLs", "crawl -u $D/urls.txt", nil, []string{"urls.txt line 3", "http://[::1"}},
		{"unknown command", "frobnicate", nil, []string{`"frobnicate"`, "mapwright help"}},
		{"mistyped command", "crwal", nil, []string{`"crwal"`, "did you mean crawl?"}},
		{"unknown flag", "crawl -u a.test --frobnicate", nil, []string{"--frobnicate", "crawl --help"}},
		{"mistyped flag", "crawl -u a.test --max-url 3", nil, []string{"--max-url", "did you mean --max-urls?"}},
		{"flag without its value", "crawl -u a.test --scope", nil, []string{"--scope"}},
		{"argument where none is wanted", "demo a.test", nil, []string{"demo takes no argument"}},
		{"two directories", "status a b", nil, []string{"status takes one directory", `"b"`}},
		{"a directory twice", "resume a --data-dir b", nil, []string{"given twice"}},
		{"bad values", "crawl -u a.test --max-workers 0 --scope world --timeout soon --include ( --profile rude " +
			"--resolve here --since once", nil,
			[]string{"--max-workers", "--scope", "--timeout", "--include", "--profile", "--resolve", "--since"}},
		{"values out of range", "crawl -u a.test --data-dir $D/new --max-inflight-per-host 10001 --max-host-failures " +
			"256 --probe-after-successes 60001 --max-delay-ms 86400001 --base-delay-ms 9223372036855",
			[]string{"MAX_RETRIES=251", "MAX_ADAPTIVE_DELAY_SECS=86401", "MAX_HOST_BACKOFF_SECS=9223372036854775808"},
			[]string{"--max-inflight-per-host: 10001 is not between 1 and 10000", "--max-host-failures",
				"--probe-after-successes", "--max-delay-ms", "--base-delay-ms",
				"MAX_RETRIES", "MAX_ADAPTIVE_DELAY_SECS", "MAX_HOST_BACKOFF_SECS: 9223372036854775808 is not between"}},
		{"regular expressions in selectors", "crawl -u a.test --extract a=p:matchesOwn(a+) --extract b=a[href#=(x+)+]",
			nil, []string{"a=p:matchesOwn", "b=a[href#=", "regular expressions"}},
		{"regular expressions that take too long",
			"crawl -u a.test --exclude (?:a?b?c?){100}$ --include (?:[a-z]{1,400}\\d?)x --extract a=b --extract a=i",
			nil,
			[]string{"include and exclude have more than 2000 steps", `two extractors are named "a"`}},
		{"bad selector", "crawl -u a.test --extract a=[[", nil, []string{"--extract", `"a=[["`}},
		{"bad values everywhere", "crawl -u a.test --max-urls many --config $D/bad.yaml",
			[]string{"MAX_RETRIES=some", "MAX_SCAN_TIME_MINUTES=long"},
			[]string{"flag --max-urls", "environment MAX_RETRIES", "environment MAX_SCAN_TIME_MINUTES",
				"bad.yaml max_depth"}},
		{"values that contradict", "crawl -u a.test --min-delay-ms 900", nil, []string{"min-delay-ms", "max-delay-ms"}},
		{"unknown key in a file", "crawl -u a.test --config $D/unknown.yaml", nil,
			[]string{"unknown.yaml", `"max_wrokers"`}},
		{"missing configuration", "crawl -u a.test --config $D/none.yaml", nil, []string{"none.yaml", "no such file"}},
		{"data directory of another program", "crawl -u a.test --data-dir $D/foreign", nil,
			[]string{"foreign", "did not make", "thesis.doc"}},
		{"state directory of another program", "crawl -u a.test --data-dir $D/terraform", nil,
			[]string{"terraform", "did not make", "state"}},
		{"data directory that is a file", "crawl -u a.test --data-dir $D/urls.txt", nil,
			[]string{"urls.txt is not a directory"}},
		{"data directory below a file", "crawl -u a.test --data-dir $D/urls.txt/a/b", nil,
			[]string{"urls.txt is not a directory"}},
		{"data directory that cannot be made", "crawl -u a.test --data-dir /proc/mapwright/data", nil,
			[]string{"/proc/mapwright/data"}},
		{"outputs without a crawl", "crawl -u a.test --data-dir $D/outputs", nil,
			[]string{"outputs", "sitemap.jsonl", "did not make", "choose another"}},
		{"log that cannot be opened", "crawl -u a.test --data-dir $D/new --log-file $D/urls.txt/log", nil,
			[]string{"urls.txt/log"}},
		{"metrics that cannot be served", "crawl -u a.test --data-dir $D/new --metrics-addr 192.0.2.1:1", nil,
			[]string{"192.0.2.1:1"}},
		{"no data directory", "crawl -u a.test --data-dir=", nil, []string{"--data-dir is empty"}},
		{"more workers than any machine has room for", "crawl -u a.test --workers 5000000", nil,
			[]string{"--workers", "5000000"}},
		{"wipe of no directory", "wipe --yes --data-dir=", nil, []string{"--data-dir is empty"}},
		{"resume of nothing", "resume --data-dir $D/none", nil, []string{"none holds no crawl", "mapwright crawl"}},
		{"resume of another program's", "resume --data-dir $D/terraform", nil, []string{"terraform holds no crawl"}},
		{"status of nothing", "status --data-dir $D/none", nil, []string{"none holds no crawl"}},
		{"export of nothing", "export --data-dir $D/none", nil, []string{"none holds no crawl"}},
		{"export in no known form", "export --data-dir $D/none --format pdf", nil, []string{"pdf", "jsonl"}},
		{"wipe of nothing", "wipe --data-dir $D/none --yes", nil, []string{"none holds no crawl"}},
		{"wipe of another program's", "wipe --data-dir $D/terraform --yes", nil, []string{"terraform holds no crawl"}},
		{"inspect of nothing", "inspect", nil, []string{"one page"}},
		{"inspect of a missing file", "inspect $D/missing.html", nil, []string{"missing.html", "no such file"}},
		{"robots of nothing", "robots", nil, []string{"URLs"}},
		{"robots of no URL", "robots http://[::1", nil, []string{"http://[::1"}},
		{"robots by a missing file", "robots --file $D/missing.txt http://a.test/", nil,
			[]string{"missing.txt", "no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "urls.txt"), "# some\n\nhttp://[::1\n")
			write(t, filepath.Join(dir, "bad.yaml"), "max_depth: deep\n")
			write(t, filepath.Join(dir, "unknown.yaml"), "max_wrokers: 5\n")
			write(t, filepath.Join(dir, "foreign", "thesis.doc"), "chapter 1")
			write(t, filepath.Join(dir, "terraform", "state", "terraform.tfstate"), "{}")
			write(t, filepath.Join(dir, "outputs", "sitemap.jsonl"), "")
			before := picture(t, dir)
			args := strings.Fields(tt.args) // before the directory is put in, whose name may have a space
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "$D", dir)
			}
			got := invocation{args: args, env: tt.env, dir: dir}.run(t)
			refused(t, got, tt.says...)
			unchanged(t, dir, before)
		})
	}
}

// A directory that holds a crawl is safe from another one.
func TestDirectoryThatHoldsACrawl(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir}
	if got := run(t, crawl...); got.code != 0 {
		t.Fatalf("exit status %d, want 0", got.code)
	}
	before := picture(t, dir)
	refused(t, run(t, crawl...), dir, "already holds a crawl", "mapwright resume --data-dir "+dir,
		"mapwright wipe --data-dir "+dir)
	unchanged(t, dir, before)
	for _, command := range []string{"resume", "recrawl"} {
		refused(t, run(t, command, dir, "--max-host-failures", "1000", "--max-adaptive-delay-secs", "100000"),
			"--max-host-failures", "--max-adaptive-delay-secs")
		unchanged(t, dir, before)
	}
	if got := run(t, "resume", dir); got.code != 0 {
		t.Errorf("a plain resume after refused ones: exit status %d, want 0", got.code)
	}
}

// One process owns a data directory; another one that tries to write names it.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Faults: testweb.OnAll(testweb.Hang{})})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h"}
	p := start(t, crawl...)
	p.until("all pages but the one that hangs are there", func() bool { return pages(web) == 11 })
	pid := fmt.Sprintf("process %d", p.pid())
	refused(t, run(t, crawl...), dir, "in use", pid)
	refused(t, run(t, "resume", "--data-dir", dir), dir, "in use", pid)
	refused(t, run(t, "wipe", "--yes", "--data-dir", dir), dir, "in use", pid)
	p.signal(os.Interrupt)
	if got := p.wait(); got.code != 130 {
		t.Errorf("the crawl was disturbed: exit status %d, want 130", got.code)
	}
}

// A host that is not there, or does not listen, is a failed crawl and not bad usage.
func TestHostThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, resolve, outcome string }{
		{"refuses", "http://a.test/", "*:80:" + closedPort(t), "connect_error"},
		// a name that is never asked for, by RFC 7686
		{"does not exist", "http://nowhere.onion/", "b.test:80:127.0.0.1", "dns_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			got := invocation{env: []string{"GODEBUG=netdns=go"},
				args: []string{"crawl", "-u", tt.url, "--resolve", tt.resolve, "--data-dir", dir,
					"--max-retries", "0", "--max-host-backoff-secs", "1", "--timeout", "5"}}.run(t)
			if got.code != 1 {
				t.Errorf("exit status %d, want 1", got.code)
			}
			rep := readReport(t, dir)
			if rep.Status != "failed" || rep.Success || len(rep.Errors) != 1 ||
				!strings.Contains(rep.Errors[0], tt.url) || !strings.Contains(rep.Errors[0], tt.outcome) {
				t.Errorf("the report says %q, success %v, errors %q", rep.Status, rep.Success, rep.Errors)
			}
			if l := readLines(t, dir)[tt.url]; l.Outcome != tt.outcome || l.Error == "" {
				t.Errorf("outcome %q, error %q; want %q and why", l.Outcome, l.Error, tt.outcome)
			}
			if !strings.Contains(got.stdout, "failed") || !strings.Contains(got.stdout, tt.url) {
				t.Errorf("the closing table does not say so:\n%s", got.stdout)
			}
			if exists(t, dir, "sitemap.xml") {
				t.Error("there is an XML sitemap, of nothing")
			}
		})
	}
}
