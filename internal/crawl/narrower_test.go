package crawl

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
)

// resume goes on with the crawl of a directory, or begins the given recrawl of it.
func (s *handSite) resume(dir datadir.Dir, again *Recrawl, change func(*config.Settings)) (*report.Report,
	map[string]page.Line) {
	s.t.Helper()
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.run(Options{Settings: s.settings(change), Plan: plan, Recrawl: again, Dir: dir,
		Log: slog.New(slog.DiscardHandler)})
}

// byOutcome are the URLs of an outcome, in order of their text.
func byOutcome(lines map[string]page.Line, o page.Outcome) []string {
	list := []string{}
	for url, l := range lines {
		if l.Outcome == o.String() {
			list = append(list, url)
		}
	}
	slices.Sort(list)
	return list
}

// What earlier settings queued and later ones leave out is excluded with its reason, and not asked for. A crawl without
// it is complete.
func TestNarrowerScopeHoldsForTheQueue(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{
		"a.test/robots.txt": "User-agent: *\nAllow: /\nSitemap: http://a.test/map.xml\n",
		"a.test/map.xml":    urlset("http://a.test/listed/1", "http://a.test/listed/2", "http://a.test/listed/3"),
		"a.test/":           `<html><a href="/shop/1">1</a><a href="/shop/2.pdf">2</a><a href="/old">3</a><a href="http://b.a.test/x">4</a>`,
		"a.test/listed/1":   plainPage, "a.test/listed/2": plainPage, "a.test/listed/3": plainPage,
		"a.test/old":    http.HandlerFunc(http.RedirectHandler("/moved", http.StatusFound).ServeHTTP),
		"a.test/moved":  `<html><a href="/deep">6</a>`,
		"a.test/shop/1": plainPage, "a.test/shop/2.pdf": plainPage, "a.test/deep": plainPage,
		"b.a.test/x": plainPage, "b.a.test/robots.txt": "User-agent: *\nAllow: /\n",
	})
	all := []string{"http://a.test/listed/1", "http://a.test/listed/2", "http://a.test/listed/3", "http://a.test/old",
		"http://a.test/shop/1", "http://a.test/shop/2.pdf", "http://b.a.test/x"}
	for name, c := range map[string]struct {
		change func(*config.Settings)
		out    []string // what is excluded
		why    string
	}{
		"exclude": {func(s *config.Settings) { s.Exclude = []string{"/shop/"} }, all[4:6],
			"--exclude matches it"},
		"include": {func(s *config.Settings) { s.Include = []string{"old$", "moved", "deep", "listed"} },
			all[4:], "no --include matches it"},
		"skip extensions": {func(s *config.Settings) { s.SkipExtensions = []string{"pdf"} }, all[5:6],
			"--skip-extensions names its extension"},
		"scope": {func(s *config.Settings) { s.Scope = "host" }, all[6:], "outside of the scope"},
		"only hosts": {func(s *config.Settings) { s.OnlyHosts = []string{"a.test"} }, all[6:],
			"outside of the scope"},
		"no depth": {func(s *config.Settings) { s.MaxDepth = 0 }, all, "deeper than --max-depth 0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDataDir(t)
			// The start page comes first, then the sitemap or one of the pages that both name.
			_, lines := site.crawl(dir, func(s *config.Settings) { s.MaxURLs, s.MaxWorkers = 2, 1 }, "http://a.test/")
			queued := byOutcome(lines, page.Pending)
			if len(queued) < 6 {
				t.Fatalf("only %q are queued", queued)
			}
			before := site.requests()
			rep, lines := site.resume(dir, nil, c.change)
			wantURLs(t, "excluded", byOutcome(lines, page.Excluded),
				slices.DeleteFunc(slices.Clone(c.out), func(url string) bool {
					return !slices.Contains(queued,
						url)
				})...)
			if rep.Status != page.Complete || rep.Outcomes["pending"] != 0 ||
				int(rep.Outcomes["excluded"]) != len(byOutcome(lines, page.Excluded)) {
				t.Errorf("%s, %v", rep.Status, rep.Outcomes)
			}
			after := site.requests()
			for _, url := range c.out {
				if at := strings.TrimPrefix(url, "http://"); after[at] != before[at] {
					t.Errorf("%s was asked for", url)
				}
				if l := lines[url]; slices.Contains(queued, url) && (!strings.Contains(l.Error, c.why) || l.Indexable) {
					t.Errorf("%s: %q, indexable %v; want %q", url, l.Error, l.Indexable, c.why)
				}
			}
		})
	}
}

// A lower depth limit excludes what is queued beyond it, and a URL that a sitemap lists has depth 0 whatever page links
// to it.
func TestLowerDepthHoldsForTheQueue(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{
		"a.test/robots.txt": "User-agent: *\nAllow: /\nSitemap: http://a.test/map.xml\n",
		"a.test/":           `<html><a href="/1">1</a>`,
		"a.test/1":          `<html><a href="/1/1">2</a><a href="/1/2">3</a><a href="/1/listed">4</a>`,
		"a.test/1/1":        plainPage, "a.test/1/2": plainPage, "a.test/1/listed": plainPage,
	})
	// The first run ends while the sitemap and one page have no answer, which are all that may be in flight. So links
	// are the first to name what the sitemap lists.
	asked, found := make(chan struct{}), make(chan struct{})
	site.urls["a.test/map.xml"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	site.urls["a.test/1/1"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-asked
		close(found)
		<-r.Context().Done()
	})
	dir := newDataDir(t)
	o := Options{Settings: site.settings(func(s *config.Settings) { s.MaxInflightPerHost, s.Grace = 2, 0 }), Dir: dir,
		Starts: starts(t, "http://a.test/"), Log: slog.New(slog.DiscardHandler)}
	_, _ = site.runUntil(o, found)
	site.urls["a.test/1/1"], site.urls["a.test/map.xml"] = plainPage, urlset("http://a.test/1/listed")
	rep, lines := site.resume(dir, nil, func(s *config.Settings) { s.MaxDepth = 1 })
	wantURLs(t, "excluded", byOutcome(lines, page.Excluded), "http://a.test/1/1", "http://a.test/1/2")
	if rep.Status != page.Complete || lines["http://a.test/1/listed"].Outcome != page.OK.String() {
		t.Errorf("%s: %v", rep.Status, rep.Outcomes)
	}
}

// A recrawl that goes on with a narrower scope visits no page outside of it, and what was known of such pages stays.
func TestNarrowerScopeOfARecrawl(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{
		"a.test/":       `<html><a href="/shop/1">1</a><a href="/shop/2">2</a><a href="/b">3</a>`,
		"a.test/shop/1": `<html><title>one</title>`, "a.test/shop/2": `<html><title>two</title>`, "a.test/b": plainPage,
	})
	dir := newDataDir(t)
	site.crawl(dir, nil, "http://a.test/")
	// The start page is visited first, and uses the limit up. By then all visits are queued, or will be by the next
	// run.
	rep, _ := site.resume(dir, &Recrawl{}, func(s *config.Settings) { s.MaxURLs = 1 })
	if rep.Status != page.Partial {
		t.Fatalf("%s: %v", rep.Status, rep.Outcomes)
	}
	before := site.requests()
	rep, lines := site.resume(dir, nil, func(s *config.Settings) { s.Exclude = []string{"shop"} })
	after := site.requests()
	for url, title := range map[string]string{"a.test/shop/1": "one", "a.test/shop/2": "two"} {
		if l := lines["http://"+url]; after[url] != before[url] || l.Title != title || !l.Indexable {
			t.Errorf("%s: %d requests, title %q, indexable %v", url, after[url]-before[url], l.Title, l.Indexable)
		}
	}
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 4 || after["a.test/b"] != before["a.test/b"]+1 {
		t.Errorf("%s: %v", rep.Status, rep.Outcomes)
	}
}

// Visits of a recrawl that a narrower scope left out are made when the scope is as wide as before.
func TestExcludedVisitsComeBack(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{
		"a.test/":  `<html><a href="/x1">1</a><a href="/x2">2</a><a href="/b">3</a>`,
		"a.test/b": plainPage, "a.test/x1": plainPage, "a.test/x2": plainPage,
	})
	dir := newDataDir(t)
	site.crawl(dir, nil, "http://a.test/")
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	// The run stops at the first of them, when all are queued.
	asked := make(chan struct{})
	wait := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	site.urls["a.test/b"], site.urls["a.test/x1"], site.urls["a.test/x2"] = wait, wait, wait
	site.runUntil(Options{Settings: site.settings(func(s *config.Settings) { s.MaxInflightPerHost, s.Grace = 1, 0 }),
		Plan: plan, Recrawl: &Recrawl{}, Dir: dir, Log: slog.New(slog.DiscardHandler)}, asked)
	site.urls["a.test/b"], site.urls["a.test/x1"] = plainPage, plainPage
	site.urls["a.test/x2"], site.urls["a.test/x3"] = `<html><a href="/x3">3</a>`, plainPage
	site.resume(dir, nil, func(s *config.Settings) { s.Exclude = []string{"/x[0-9]"} })
	before := site.requests()
	rep, lines := site.resume(dir, nil, nil)
	if l := lines["http://a.test/x3"]; rep.Status != page.Complete || l.Outcome != page.OK.String() {
		t.Errorf("%s, and what a page names that was left out is %q", rep.Status, l.Outcome)
	}
	after := site.requests()
	for url, want := range map[string]int{"a.test/": 0, "a.test/b": 0, "a.test/x1": 1, "a.test/x2": 1} {
		if n := after[url] - before[url]; n != want {
			t.Errorf("%d requests for %s, want %d", n, url, want)
		}
	}
}

// With a depth limit of 0 a crawl has its start pages and what they redirect to, and reads no sitemap.
func TestStartPagesAlone(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{
		"a.test/robots.txt": "User-agent: *\nAllow: /\nSitemap: http://a.test/map.xml\n",
		"a.test/map.xml":    urlset("http://a.test/listed"),
		"a.test/":           http.HandlerFunc(http.RedirectHandler("/home", http.StatusFound).ServeHTTP),
		"a.test/home":       `<html><a href="/1">1</a>`, "a.test/1": plainPage, "a.test/listed": plainPage,
		"b.test/start": plainPage,
	})
	rep, lines := site.crawl(newDataDir(t), func(s *config.Settings) { s.MaxDepth = 0 }, "http://a.test/",
		"http://b.test/start")
	wantURLs(t, "URLs", slices.Sorted(maps.Keys(lines)), "http://a.test/", "http://a.test/home", "http://b.test/start")
	if rep.Status != page.Complete || rep.SkippedLinks["too_deep"] != 1 || site.requests()["a.test/map.xml"] != 0 {
		t.Errorf("%s, skipped %v, requests %v", rep.Status, rep.SkippedLinks, site.requests())
	}
}

// A page limit per host that is lowered below what the host has had leaves the rest pending, and the crawl is not
// complete.
func TestLowerLimitPerHost(t *testing.T) {
	t.Parallel()
	site := newHandSite(t, map[string]any{"a.test/": `<html><a href="/1">1</a><a href="/2">2</a><a href="/3">3</a><a href="/4">4</a>`})
	dir := newDataDir(t)
	site.crawl(dir, func(s *config.Settings) { s.MaxURLsPerHost = 3 }, "http://a.test/")
	rep, _ := site.resume(dir, nil, func(s *config.Settings) { s.MaxURLsPerHost = 2 })
	if rep.Status != page.Partial || !strings.Contains(rep.Reason, "max_urls_per_host") ||
		rep.Outcomes["pending"] != 2 {
		t.Errorf("%s (%s): %v", rep.Status, rep.Reason, rep.Outcomes)
	}
}
