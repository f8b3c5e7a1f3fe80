package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

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
		{"a frontier for everybody", "frontier --listen 0.0.0.0:7071 --data-dir $D/f", nil,
			[]string{"--listen 0.0.0.0:7071", "--tls-cert", "--token-file", "--insecure"}},
		{"bad values of a frontier", "frontier --listen nowhere --tls-cert $D/c.pem --token-file $D/missing --log-level loud",
			nil, []string{"--listen", "--tls-key", "--token-file", "--log-level"}},
		{"a frontier where other files are", "frontier --listen 127.0.0.1:0 --data-dir $D", nil,
			[]string{"holds other files", "--data-dir"}},
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
		{"files for access", "crawl -u a.test --ca-file $D/bad.yaml --client-cert $D/none.pem", nil,
			[]string{"ca-file", "bad.yaml has no certificate", "client-cert", "none.pem", "no such file"}},
		{"user without a host", "crawl -u a.test --basic-auth ann:pw", nil,
			[]string{"flag --basic-auth", "USER:PASSWORD@HOST"}},
		{"bad line in a file of users", "crawl -u a.test --basic-auth @$D/bad.yaml", nil,
			[]string{"basic-auth", "bad.yaml line 1", "USER:PASSWORD@HOST"}},
		{"bad cookie", "crawl -u a.test --cookie name", nil,
			[]string{"flag --cookie", "NAME=VALUE"}},
		{"cookies twice", "crawl -u a.test --cookie a=b --header Cookie:c=d", nil,
			[]string{"the header Cookie does not go with cookie"}},
		{"bad cookie file", "crawl -u a.test --cookie-file $D/bad.yaml", nil,
			[]string{"cookie-file", "bad.yaml line 1", "Netscape"}},
		{"login without its fields", "crawl -u a.test --login http://a.test/in", nil, []string{"login-data"}},
		{"bad file of a login", "crawl -u a.test --login http://a.test/in --login-data $D/bad.yaml", nil,
			[]string{"login-data", "bad.yaml line 1", "NAME=VALUE"}},
		{"certificates not checked by a variable", "crawl -u a.test", []string{"MAPWRIGHT_INSECURE=1"},
			[]string{"environment MAPWRIGHT_INSECURE", "own-site", "--insecure"}},
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
			e2e.Write(t, filepath.Join(dir, "urls.txt"), "# some\n\nhttp://[::1\n")
			e2e.Write(t, filepath.Join(dir, "bad.yaml"), "max_depth: deep\n")
			e2e.Write(t, filepath.Join(dir, "unknown.yaml"), "max_wrokers: 5\n")
			e2e.Write(t, filepath.Join(dir, "foreign", "thesis.doc"), "chapter 1")
			e2e.Write(t, filepath.Join(dir, "terraform", "state", "terraform.tfstate"), "{}")
			e2e.Write(t, filepath.Join(dir, "outputs", "sitemap.jsonl"), "")
			before := e2e.Picture(t, dir)
			args := strings.Fields(tt.args) // before the directory is put in, whose name may have a space
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "$D", dir)
			}
			got := e2e.Invocation{Args: args, Env: tt.env, Dir: dir}.Run(t)
			e2e.Refused(t, got, tt.says...)
			e2e.Unchanged(t, dir, before)
		})
	}
}

// A directory that holds a crawl is safe from another one.
func TestDirectoryThatHoldsACrawl(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir}
	if got := e2e.Run(t, crawl...); got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	before := e2e.Picture(t, dir)
	e2e.Refused(t, e2e.Run(t, crawl...), dir, "already holds a crawl", "mapwright resume --data-dir "+dir,
		"mapwright wipe --data-dir "+dir)
	e2e.Unchanged(t, dir, before)
	for _, command := range []string{"resume", "recrawl"} {
		e2e.Refused(t, e2e.Run(t, command, dir, "--max-host-failures", "1000", "--max-adaptive-delay-secs", "100000"),
			"--max-host-failures", "--max-adaptive-delay-secs")
		e2e.Unchanged(t, dir, before)
	}
	if got := e2e.Run(t, "resume", dir); got.Code != 0 {
		t.Errorf("a plain resume after refused ones: exit status %d, want 0", got.Code)
	}
	// A kill between the store and its plan leaves what cannot be resumed.
	if err := os.Remove(filepath.Join(dir, "crawl.json")); err != nil {
		t.Fatal(err)
	}
	got := e2e.Run(t, crawl...)
	e2e.Refused(t, got, dir, "crawl.json is missing", "mapwright wipe --data-dir "+dir)
	if strings.Contains(got.Stderr, "resume") {
		t.Errorf("it advises to resume: %s", got.Stderr)
	}
}

// One process owns a data directory; another one that tries to write names it.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Faults: testweb.OnAll(testweb.Hang{})})
	dir := filepath.Join(t.TempDir(), "data")
	crawl := []string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h"}
	p := e2e.Start(t, crawl...)
	p.Until("all pages but the one that hangs are there", func() bool { return e2e.Pages(web) == 11 })
	pid := fmt.Sprintf("process %d", p.Pid())
	e2e.Refused(t, e2e.Run(t, crawl...), dir, "in use", pid)
	e2e.Refused(t, e2e.Run(t, "resume", "--data-dir", dir), dir, "in use", pid)
	e2e.Refused(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir), dir, "in use", pid)
	p.Signal(os.Interrupt)
	if got := p.Wait(); got.Code != 130 {
		t.Errorf("the crawl was disturbed: exit status %d, want 130", got.Code)
	}
}

// A host that is not there, or does not listen, is a failed crawl and not bad usage.
func TestHostThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, resolve, outcome string }{
		{"refuses", "http://a.test/", "*:80:" + e2e.ClosedPort(t), "connect_error"},
		// a name that is never asked for, by RFC 7686
		{"does not exist", "http://nowhere.onion/", "b.test:80:127.0.0.1", "dns_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			got := e2e.Invocation{Env: []string{"GODEBUG=netdns=go"},
				Args: []string{"crawl", "-u", tt.url, "--resolve", tt.resolve, "--data-dir", dir,
					"--max-retries", "0", "--max-host-backoff-secs", "1", "--timeout", "5"}}.Run(t)
			if got.Code != 1 {
				t.Errorf("exit status %d, want 1", got.Code)
			}
			rep := e2e.ReadReport(t, dir)
			if rep.Status != "failed" || rep.Success || len(rep.Errors) != 1 ||
				!strings.Contains(rep.Errors[0], tt.url) || !strings.Contains(rep.Errors[0], tt.outcome) {
				t.Errorf("the report says %q, success %v, errors %q", rep.Status, rep.Success, rep.Errors)
			}
			if l := e2e.ReadLines(t, dir)[tt.url]; l.Outcome != tt.outcome || l.Error == "" {
				t.Errorf("outcome %q, error %q; want %q and why", l.Outcome, l.Error, tt.outcome)
			}
			if !strings.Contains(got.Stdout, "failed") || !strings.Contains(got.Stdout, tt.url) {
				t.Errorf("the closing table does not say so:\n%s", got.Stdout)
			}
			if e2e.Exists(t, dir, "sitemap.xml") {
				t.Error("there is an XML sitemap, of nothing")
			}
		})
	}
}
