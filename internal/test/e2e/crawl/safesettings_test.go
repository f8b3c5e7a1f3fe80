package crawl

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A safe crawl stays within its bounds, and stays safe, whatever flag, variable, key or order asks for something else.
// --print-config shows the value that rules and says where it came from.
func TestSafeBoundsHold(t *testing.T) {
	t.Parallel()
	bounds := map[string]struct{ ask, stays string }{
		"max-workers": {"64", "1"}, "max-inflight-per-host": {"9", "1"}, "duration": {"1h0m0s", "1m0s"},
		"max-urls":     {"1000", "50"},
		"min-delay-ms": {"0", "200"}, "max-delay-ms": {"0", "500"},
	}
	var names []string
	for name := range bounds {
		names = append(names, name)
	}
	key := func(name string) string { return strings.ReplaceAll(name, "-", "_") }
	variable := func(name string) string { return "MAPWRIGHT_" + strings.ToUpper(key(name)) }
	var flags, env []string
	file := "safe: true\n"
	for _, name := range names {
		flags = append(flags, "--"+name, bounds[name].ask)
		env = append(env, variable(name)+"="+bounds[name].ask)
		file += key(name) + ": " + bounds[name].ask + "\n"
	}
	faster := e2e.Write(t, filepath.Join(t.TempDir(), "faster.yaml"), file)
	ownSite := e2e.Write(t, filepath.Join(t.TempDir(), "own.yaml"), "profile: own-site\n")
	safe := e2e.Write(t, filepath.Join(t.TempDir(), "safe.yaml"), "profile: safe\n")
	tests := []struct {
		name string
		e2e.Invocation
		contradicts string // what the warning names
	}{
		{"flags", e2e.Invocation{Args: append([]string{"--safe"}, flags...)}, ""},
		{"environment", e2e.Invocation{Args: []string{"--profile", "safe"}, Env: env}, ""},
		{"variable safe", e2e.Invocation{Args: flags, Env: []string{"MAPWRIGHT_SAFE=1"}}, ""},
		{"file", e2e.Invocation{Args: []string{"--config", faster}}, ""},
		{"profile after safe", e2e.Invocation{Args: append([]string{"--safe", "--profile", "own-site"}, flags...)},
			"flag --profile"},
		{"profile before safe", e2e.Invocation{Args: append([]string{"--profile", "own-site", "--safe"}, flags...)},
			"flag --profile"},
		{"profile twice", e2e.Invocation{Args: append([]string{"--profile", "safe", "--profile", "own-site"},
			flags...)},
			"flag --profile"},
		{"profile over variable safe", e2e.Invocation{Args: append([]string{"--profile", "own-site"}, flags...),
			Env: []string{"MAPWRIGHT_SAFE=true"}}, "flag --profile"},
		{"safe=false over variable safe", e2e.Invocation{Args: append([]string{"--safe=false"}, flags...),
			Env: []string{"MAPWRIGHT_SAFE=true"}}, "flag --safe=false"},
		{"variable over file", e2e.Invocation{Args: append([]string{"--config", safe}, flags...),
			Env: []string{"MAPWRIGHT_PROFILE=own-site"}}, "environment MAPWRIGHT_PROFILE"},
		{"safe over file", e2e.Invocation{Args: append([]string{"--config", ownSite, "--safe"}, flags...)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.Args = append([]string{"crawl", "--print-config"}, tt.Args...)
			got := tt.Run(t)
			all := e2e.Effective(t, got)
			if all["profile"][0] != "safe" {
				t.Errorf("the profile is %q", all["profile"])
			}
			for name, b := range bounds {
				if value, from := all[name][0], all[name][1]; value != b.stays ||
					!strings.HasPrefix(from, "profile safe, instead of "+b.ask+" from ") {
					t.Errorf("%s is %q from %q, want %s instead of %s", name, value, from, b.stays, b.ask)
				}
				change := "caps " + name + " at "
				if strings.HasSuffix(name, "-delay-ms") {
					change = "raises " + name + " to "
				}
				if want := "profile safe " + change + b.stays + " (requested: " +
					b.ask; !strings.Contains(got.Stderr, want) {
					t.Errorf("does not warn %q:\n%s", want, got.Stderr)
				}
			}
			if said := strings.Contains(got.Stderr,
				"a safe crawl stays safe: "+tt.contradicts+" is ignored"); said != (tt.contradicts != "") {
				t.Errorf("warned of a contradiction: %v, want %q:\n%s", said, tt.contradicts, got.Stderr)
			}
		})
	}
}

// A request for safe that comes with the environment alone does not change a crawl of another profile for good; nor is
// it ignored.
func TestResumeWithVariableSafe(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 20})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5")
	e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 5")
	got = e2e.Invocation{Args: []string{"resume", "--data-dir", dir, "--max-urls", "0"},
		Env: []string{"MAPWRIGHT_SAFE=1"}}.Run(t)
	e2e.Refused(t, got, "MAPWRIGHT_SAFE", "own-site", "--safe")
	if n := e2e.Pages(web); n != 5 {
		t.Errorf("%d pages were asked for, want 5", n)
	}
	got = e2e.Run(t, "resume", "--data-dir", dir, "--safe", "--print-config")
	if all := e2e.Effective(t, got); all["profile"][0] != "safe" || all["max-workers"][0] != "1" ||
		all["min-delay-ms"][0] != "200" {
		t.Errorf("resume --safe: profile %q, max-workers %q, min-delay-ms %q", all["profile"], all["max-workers"],
			all["min-delay-ms"])
	}
}

// A resumed crawl keeps its settings, and names the variables that it therefore ignores. Those about the process count.
func TestResumeNamesIgnoredVariables(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 3})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-retries", "7")
	e2e.Ended(t, got, dir, 0, "complete", "")
	got = e2e.Invocation{
		Args: []string{"resume", "--data-dir", dir, "--print-config", "--profile", "polite"},
		Env: []string{"MAX_RETRIES=1", "MAPWRIGHT_HEADER=Authorization: geheim", "MAX_WORKERS=512",
			"MAPWRIGHT_LOG_LEVEL=warn"},
	}.Run(t)
	all := e2e.Effective(t, got)
	if all["max-retries"][0] != "7" || all["log-level"][0] != "warn" || all["header"][0] != `""` {
		t.Errorf("max-retries %q, log-level %q, header %q", all["max-retries"], all["log-level"], all["header"])
	}
	for word, want := range map[string]bool{
		"environment MAX_RETRIES": true, "environment MAPWRIGHT_HEADER": true,
		"environment MAX_WORKERS": false, "LOG_LEVEL": false, "geheim": false,
	} {
		if strings.Contains(got.Stderr, word) != want {
			t.Errorf("names %q: %v, want %v:\n%s", word, !want, want, got.Stderr)
		}
	}
}
