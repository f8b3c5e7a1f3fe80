package testweb

import (
	"slices"
	"strings"
	"testing"
)

func expected(t *testing.T, s *Server, c Crawl) map[string]Expectation {
	t.Helper()
	all, err := s.Expected(c)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]Expectation)
	for e := range all {
		if _, ok := m[e.URL]; ok {
			t.Errorf("%s is expected twice", e.URL)
		}
		m[e.URL] = e
	}
	return m
}

func onlyIn(t *testing.T, cfg Config, c Crawl) map[string]Expectation {
	t.Helper()
	s, err := StartOn(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return expected(t, s, c)
}

// TestReachable checks that every page of every tree is reached from its root, at
// all shapes of tree.
func TestReachable(t *testing.T) {
	for _, cfg := range []Config{
		{Pages: 1}, {Pages: 2, Links: 1}, {Pages: 40, Links: 1}, {Pages: 41, Links: 2}, {Pages: 1000, Links: 3},
		{Pages: 5000, Links: 30}, {Hosts: 2000, Pages: 5, Links: 5, CrossHost: 1},
	} {
		if got, want := len(onlyIn(t, cfg, Crawl{})), max(cfg.Hosts, 1)*cfg.Pages; got != want {
			t.Errorf("%+v: %d URLs, want %d", cfg, got, want)
		}
	}
}

func TestScope(t *testing.T) {
	apart := Config{Hosts: 4, Pages: 20, CrossHost: 0.5}
	together := apart
	together.HostName = "h%d.example.test"
	nested := Config{Hosts: 1, HostName: "example.test", Pages: 20}
	for _, tt := range []struct {
		name string
		cfg  Config
		c    Crawl
		want int
	}{
		{"all starts", apart, Crawl{}, 80},
		{"one start, own domain", apart, Crawl{Starts: []string{"http://h1.test/"}}, 20},
		{"two starts, own domains", apart, Crawl{Starts: []string{"http://h1.test/", "http://h3.test/d1/p1.html"}}, 40},
		{"any", apart, Crawl{Starts: []string{"http://h1.test/"}, Scope: "any"}, 80},
		{"one domain", together, Crawl{Starts: []string{"http://h1.example.test/"}}, 80},
		{"one host", together, Crawl{Starts: []string{"http://h1.example.test/"}, Scope: "host"}, 20},
		{"siblings are no subdomains", together, Crawl{Starts: []string{"http://h1.example.test/"},
			Scope: "subdomains"}, 20},
		{"itself is a subdomain", nested, Crawl{Scope: "subdomains"}, 20},
		{"prefix of the root", together, Crawl{Starts: []string{"http://h1.example.test/"}, Scope: "prefix"}, 20},
		{"prefix of a directory", apart, Crawl{Starts: []string{"http://h1.test/d3/p3.html"}, Scope: "prefix"}, 1},
		{"depth", apart, Crawl{Starts: []string{"http://h1.test/"}, MaxDepth: 1, Scope: "host"}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := onlyIn(t, tt.cfg, tt.c)
			if tt.want >= 0 && len(got) != tt.want {
				t.Errorf("%d URLs, want %d", len(got), tt.want)
			}
			for _, e := range got {
				if tt.c.MaxDepth > 0 && e.Depth > tt.c.MaxDepth {
					t.Errorf("%+v is too deep", e)
				}
			}
		})
	}
}

func TestSubdomainScope(t *testing.T) {
	s := &scope{kind: "subdomains", keys: map[string]bool{"example.test": true}}
	w := mustWeb(t, Config{Hosts: 2, HostName: "a.h%d.example.test"})
	if !s.contains(w, ref{1, 0}) {
		t.Error("a.h1.example.test is not below example.test")
	}
	if w := mustWeb(t, Config{HostName: "notexample.test"}); s.contains(w, ref{0, 0}) {
		t.Error("notexample.test is below example.test")
	}
}

func TestExpectedOptions(t *testing.T) {
	faults := OnAll(
		NoFollow{}, Disallow{Count: 1}, Hang{For: 5e9}, Huge{Size: 1000}, RefuseFirst{Count: 2}, NoIndex{},
		RedirectChain{Length: 12}, LongURL{}, PathTrap{},
	)
	cfg := Config{Sitemaps: &Sitemaps{Orphans: 3}, Faults: faults}
	outcome := func(c Crawl, path string) string {
		t.Helper()
		return strings.Join(onlyIn(t, cfg, c)["http://h0.test"+path].Outcomes, "|")
	}
	long := "/long/" + strings.Repeat("a", 2994)
	for _, tt := range []struct {
		name string
		c    Crawl
		path string
		want string
	}{
		{"nofollow", Crawl{}, "/nofollow/0", ""},
		{"nofollow by meta", Crawl{}, "/nofollow/by-meta", ""},
		{"nofollow followed", Crawl{FollowNofollow: true}, "/nofollow/0", "ok"},
		{"nofollow by meta followed", Crawl{FollowNofollow: true}, "/nofollow/by-meta", "ok"},
		{"disallowed", Crawl{}, "/private/0", "blocked_by_robots"},
		{"disallowed but ignored", Crawl{IgnoreRobots: true}, "/private/0", "ok"},
		{"orphan", Crawl{}, "/o/p2.html", "ok"},
		{"orphan unseen", Crawl{NoSitemaps: true}, "/o/p2.html", ""},
		{"patience", Crawl{}, "/hang/0", "ok"},
		{"impatience", Crawl{Timeout: 4e9}, "/hang/0", "timeout"},
		{"large enough", Crawl{}, "/huge/0", "ok"},
		{"too large", Crawl{BodyLimit: 999}, "/huge/0", "too_large"},
		{"retries", Crawl{MaxRetries: 1}, "/", "throttled|host_blocked"},
		{"tenth redirect", Crawl{}, "/chain-0/9", "redirect"},
		{"eleventh redirect", Crawl{}, "/chain-0/10", "redirect|redirect_loop"},
		{"past the last redirect", Crawl{}, "/chain-0/11", ""},
		{"more redirects", Crawl{MaxRedirects: 20}, "/chain-0/12", "ok"},
		{"too long", Crawl{}, long, "trap"},
		{"trap", Crawl{}, "/deep/", ""},
	} {
		if got := outcome(tt.c, tt.path); got != tt.want {
			t.Errorf("%s: %s is %q, want %q", tt.name, tt.path[:min(len(tt.path), 30)], got, tt.want)
		}
	}
	for u, e := range onlyIn(t, cfg, Crawl{}) {
		open := e.Outcomes[0] == OutcomeOK && !strings.Contains(u, "/noindex/0") && !strings.HasSuffix(u, "/noindex/1")
		open = open || strings.HasSuffix(u, "/below")
		if e.Indexable != open {
			t.Errorf("%s: indexable %v, want %v", u, e.Indexable, open)
		}
	}
	strict := onlyIn(t, Config{Faults: OnAll(Robots{Status: 503})}, Crawl{RobotsStrict: true})
	if e := strict["http://h0.test/"]; len(strict) != 1 || e.Outcomes[0] != OutcomeBlockedByRobots {
		t.Errorf("strict about a failing robots.txt: %+v", strict)
	}
}

// TestStartMoved checks that the redirect of a start URL extends the scope.
func TestStartMoved(t *testing.T) {
	cfg := Config{Hosts: 3, Pages: 8, CrossHost: 0.5, Faults: On("0", Moved{To: 2})}
	got := onlyIn(t, cfg, Crawl{Starts: []string{"http://h0.test/"}})
	counts := make(map[string]int)
	for u, e := range got {
		host := strings.Split(u, "/")[2]
		counts[host]++
		if host == "h0.test" && (e.Outcomes[0] != OutcomeRedirect || e.Location != strings.Replace(u, "h0", "h2", 1)) {
			t.Errorf("%+v", e)
		}
	}
	if counts["h2.test"] != 8 || counts["h1.test"] != 0 || counts["h0.test"] < 2 {
		t.Errorf("URLs by host: %v", counts)
	}
}

func TestExpectedErrors(t *testing.T) {
	s, err := StartOn(Config{Sitemaps: &Sitemaps{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []Crawl{
		{Scope: "world"}, {MaxDepth: 3}, {Starts: []string{"http://h9.test/"}}, {Starts: []string{"https://h0.test/"}},
		{Starts: []string{"http://h0.test"}}, {Starts: []string{"http://h0.test/nothing"}}, {Starts: []string{"::"}},
	} {
		if _, err := s.Expected(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestCompare(t *testing.T) {
	want := slices.Values([]Expectation{
		{URL: "http://a/1", Outcomes: []string{"ok"}, Status: 200},
		{URL: "http://a/2", Outcomes: []string{"timeout", "host_blocked"}},
		{URL: "http://a/3", Outcomes: []string{"http_error", "host_blocked"}, Status: 500},
	})
	traps := []Trap{{Prefix: "http://a/trap/"}}
	good := func() map[string]Result {
		return map[string]Result{
			"http://a/1": {"ok", 200}, "http://a/2": {"host_blocked", 0}, "http://a/3": {"host_blocked", 0},
			"http://a/trap/9": {"trap", 0},
		}
	}
	if err := Compare(want, traps, good()); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(map[string]Result){
		"1 missing:\n\thttp://a/2 (timeout or host_blocked)": func(m map[string]Result) { delete(m, "http://a/2") },
		"1 wrong:\n\thttp://a/1: outcome redirect, want ok":  func(m map[string]Result) { m["http://a/1"] = Result{"redirect", 301} },
		"1 wrong:\n\thttp://a/3: status 502, want 500":       func(m map[string]Result) { m["http://a/3"] = Result{"http_error", 502} },
		"1 not expected:\n\thttp://a/4 (ok)": func(m map[string]Result) {
			m["http://a/4"] = Result{"ok",
				200}
		},
	} {
		got := good()
		change(got)
		if err := Compare(want, traps, got); err == nil || err.Error() != name {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}
