package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func flags(kv ...string) Layer {
	l := Layer{}
	for i := 0; i < len(kv); i += 2 {
		g := l[kv[i]]
		l[kv[i]] = Given{Texts: append(g.Texts, kv[i+1]), From: "flag --" + kv[i]}
	}
	return l
}

func mustLoad(t *testing.T, layers ...Layer) *Loaded {
	t.Helper()
	l, err := Load(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPrecedence(t *testing.T) {
	env, err := FromEnv([]string{"MAX_WORKERS=100", "MAPWRIGHT_MAX_WORKERS=200", "MIN_DELAY_MS=7",
		"MAX_SCAN_TIME_MINUTES=1.5", "USER_AGENT=x/1"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path,
		[]byte("max_workers: 50\nparse_semaphore_limit: 9\nprofile: own-site\ninclude: ['a,b', c]\nbloom_capacity: "+
			"20000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := FromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := mustLoad(t, file, env, flags("max-urls", "5", "max-delay-ms", "9"))
	s := got.Settings
	for _, c := range []struct {
		name       string
		have, want any
		origin     string
	}{
		{"max-workers", s.MaxWorkers, 200, "environment MAPWRIGHT_MAX_WORKERS"},
		{"min-delay-ms", s.MinDelayMS, 7, "environment MIN_DELAY_MS"},
		{"parse-semaphore-limit", s.ParseSemaphoreLimit, 9, "file " + path + " parse_semaphore_limit"},
		{"max-inflight-per-host", s.MaxInflightPerHost, 150, "profile own-site"},
		{"max-urls", s.MaxURLs, 5, "flag --max-urls"},
		{"duration", s.Duration, 90 * time.Second, "environment MAX_SCAN_TIME_MINUTES"},
		{"user-agent", s.UserAgent, "x/1", "environment USER_AGENT"},
		{"include", s.Include, []string{"a,b", "c"}, "file " + path + " include"},
		{"bloom-capacity", s.BloomCapacity, 20_000_000, "file " + path + " bloom_capacity"},
		{"timeout", s.Timeout, 20 * time.Second, "default"},
	} {
		if !reflect.DeepEqual(c.have, c.want) || got.Origin[c.name] != c.origin {
			t.Errorf("%s = %v from %q, want %v from %q", c.name, c.have, got.Origin[c.name], c.want, c.origin)
		}
	}
}

func TestAllBadValuesAreNamedAtOnce(t *testing.T) {
	_, err := Load(flags("max-workers", "0", "bloom-fp-rate", "2", "timeout", "soon", "include", "(", "scope", "world",
		"profile", "rude",
		"resolve", "here", "proxy", "://", "extract", "price", "header", "x", "base-url", "ftp://x/", "metrics-addr",
		"here", "seeding-strategy", "index"))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"--max-workers", "--bloom-fp-rate", "--timeout", "--include", "--scope", "--profile",
		"--resolve", "--proxy", "--extract", "--header", "--base-url", "--metrics-addr", "--seeding-strategy"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

// An index repeats the address for each of its files.
func TestLongBaseURLIsRefused(t *testing.T) {
	for more, ok := range map[int]bool{0: true, 1: false, 60_000: false} {
		text := "https://example.com/"
		text += strings.Repeat("x", mostBase-len(text)+more)
		if _, err := Load(flags("base-url", text)); (err == nil) != ok {
			t.Errorf("an address of %d bytes: %v", len(text), err)
		}
	}
}

func TestUnknownKeysInAFileAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("max_wrokers: 5\nfoo: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FromFile(path); err == nil || !strings.Contains(err.Error(), `"foo", "max_wrokers"`) {
		t.Errorf("got %v", err)
	}
}

func TestStoredRoundTrip(t *testing.T) {
	a := mustLoad(t, flags("include", "a,b", "include", "c", "profile", "own-site", "duration", "90", "max-body-size",
		"1MiB", "seeding-strategy", "none")).Settings
	b := mustLoad(t, FromStored(a.Stored()))
	if !reflect.DeepEqual(a.Stored(), b.Settings.Stored()) {
		t.Errorf("stored and loaded again:\n%v\n%v", a.Stored(), b.Settings.Stored())
	}
	c := mustLoad(t, FromStored(a.Stored()), flags("include", "d")).Settings
	if !reflect.DeepEqual(c.Include, []string{"d"}) {
		t.Errorf("a flag does not replace a stored list: %v", c.Include)
	}
}

// No layer can exceed a bound of the safe profile, and the number of pages that was requested is kept for the message.
func TestSafeBoundsHold(t *testing.T) {
	ask := map[string]string{"max-workers": "64", "max-inflight-per-host": "9", "duration": "3600", "max-urls": "1000",
		"min-delay-ms": "0", "max-delay-ms": "1", "max-checks": "51"}
	for name, text := range ask {
		env, err := FromEnv([]string{EnvName(name) + "=" + text, "MAPWRIGHT_SAFE=yes"})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(FileKey(name)+": "+text+"\nprofile: safe\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := FromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		stored := mustLoad(t, flags(SafeName, "true", name, text)).Settings.Stored()
		for form, layers := range map[string][]Layer{
			"flag": {flags(name, text, "profile", "safe")}, "environment": {env}, "file": {file},
			"below":  {file, flags("profile", "own-site")},
			"resume": {FromStored(stored), flags(name, text, "profile", "polite")},
		} {
			l := mustLoad(t, layers...)
			s := l.Settings
			if s.Profile != Safe || s.MaxWorkers != 1 || s.MaxInflightPerHost != 1 || s.Duration != SafeDuration ||
				s.MaxURLs != 50 || s.MaxChecks != 50 || s.PageCap() != 50 || s.MinDelayMS != 200 || s.MaxDelayMS != 500 {
				t.Errorf("%s %s=%s: %s, %d workers, %d in flight, %s, %d pages, delays %d to %d", form, name, text,
					s.Profile, s.MaxWorkers, s.MaxInflightPerHost, s.Duration, s.MaxURLs, s.MinDelayMS, s.MaxDelayMS)
			}
			if len(l.Warnings) == 0 || !strings.HasPrefix(l.Origin[name], "profile safe, instead of ") {
				t.Errorf("%s %s=%s: warnings %q, origin %q", form, name, text, l.Warnings, l.Origin[name])
			}
			if want := 1000; name == "max-urls" && s.RequestedURLs != want {
				t.Errorf("%s: %d pages were requested, want %d", form, s.RequestedURLs, want)
			}
		}
	}
	politer := mustLoad(t, flags("profile", "safe", "min-delay-ms", "700", "max-delay-ms", "900", "max-urls", "10",
		"duration", "5"))
	if s := politer.Settings; s.MinDelayMS != 700 || s.MaxDelayMS != 900 || s.MaxURLs != 10 ||
		s.Duration != 5*time.Second || len(politer.Warnings) > 0 {
		t.Errorf("values within the bounds: %d to %d ms, %d pages, %s, warnings %q", s.MinDelayMS, s.MaxDelayMS,
			s.MaxURLs, s.Duration, politer.Warnings)
	}
}

// A safe crawl that was started without a number of pages requests none when it is resumed either.
func TestSafeWithoutRequestedPages(t *testing.T) {
	first := mustLoad(t, flags(SafeName, "true"))
	again, err := Resume(first.Settings.Stored(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Loaded{first, again} {
		if s := l.Settings; s.RequestedURLs != 0 || s.MaxURLs != 50 || len(l.Warnings) > 0 ||
			l.Origin["max-urls"] != "profile safe" {
			t.Errorf("%d requested, at most %d, warnings %q, from %q", s.RequestedURLs, s.MaxURLs, l.Warnings,
				l.Origin["max-urls"])
		}
	}
}

func TestEveryNameIsUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range new(Settings).Table() {
		for _, n := range append(append([]string{e.Name}, e.Flags...), e.Env...) {
			if seen[n] {
				t.Errorf("%s stands twice", n)
			}
			seen[n] = true
		}
		if e.Usage == "" || e.Group == "" {
			t.Errorf("%s: no usage or group", e.Name)
		}
	}
}

func TestParseAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "2w": 14 * day, "1w3d12h": 10*day + 12*time.Hour, "36h": 36 * time.Hour, "1d30m": day +
			30*time.Minute, "90s": 90 * time.Second, "0": 0, "0s": 0, "0d": 0, "0w0d": 0,
	} {
		for _, read := range []func(string) (time.Duration, error){ParseAge, ParseDuration} {
			if got, err := read(text); err != nil || got != want {
				t.Errorf("%s is %v (%v), want %v", text, got, err, want)
			}
		}
	}
	for _, text := range []string{"", "7", "d", "-1d", "1.5d", "-1s", "-3h", "7 days", "1d1w", "99999999999w",
		"4000000000w", "1y"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
