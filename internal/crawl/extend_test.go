package crawl

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

func mustURL(t testing.TB, text string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

// A resume knows what the redirects of start URLs brought into the scope.
func TestResumeKeepsExtendedScope(t *testing.T) {
	t.Parallel()
	// all starts are under way before one of them leads anywhere, so that they are the first run's three pages
	var asked sync.WaitGroup
	asked.Add(3)
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked.Done()
			asked.Wait()
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		}
	}
	s := newHandSite(t, map[string]any{
		"a.test/": to("http://b.example/"), "c.test/": to("http://d.example/"),
		"e.test/":    to("http://f.example/" + strings.Repeat("x", 60<<10)),
		"b.example/": `<html><a href="/1">x</a>`, "b.example/1": plainPage, "d.example/": `<html><a href="/2">x</a>`,
		"d.example/2": plainPage,
	})
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, func(o *config.Settings) { o.MaxURLs = 3 }, "http://a.test/", "http://c.test/",
		"http://e.test/")
	if rep.Outcomes["redirect"] != 3 {
		t.Fatalf("first run: %v", rep.Outcomes)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines := s.run(Options{Settings: s.settings(nil), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	wantURLs(t, "links", bySource(lines, "link"), "http://b.example/1", "http://d.example/2")
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 4 {
		t.Errorf("second run: %s, %v", rep.Status, rep.Outcomes)
	}
}

// A recrawl leaves out a site to which no start URL leads any more by what the one before found, and what that site led
// to. A start that failed still leads where it did, and so does one that came there in several steps.
func TestRecrawlWithdrawsScope(t *testing.T) {
	t.Parallel()
	to := func(target string) http.HandlerFunc { return http.RedirectHandler(target, http.StatusFound).ServeHTTP }
	s := newHandSite(t, map[string]any{
		"a.test/": to("http://www.a.example/"), "www.a.example/": to("http://a2.example/"),
		"a2.example/": `<html><a href="/1">x</a>`, "a2.example/1": `<html><a href="/2">x</a>`,
		"a2.example/2": plainPage,
		"b.test/":      to("http://b.test/home"), "b.test/home": to("http://b.example/"),
		"b.example/": `<html><a href="/1">x</a>`, "b.example/1": plainPage,
		"c.test/": to("http://c.example/"), "c.example/": `<html><a href="/1">x</a>`, "c.example/1": plainPage,
		"d.test/": to("http://b.example/1"), // to the same site as b.test
		"f.test/": to("http://f.example/1"), "g.test/": to("http://f.example/2"),
		"h.test/": to("http://h.example/1"), "i.test/": to("http://h.example/2"),
		"f.example/1": plainPage, "f.example/2": plainPage, "h.example/1": plainPage, "h.example/2": plainPage,
	})
	set := func(url string, answer any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.urls[url] = answer
		s.asked = nil
	}
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, nil, "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/",
		"http://f.test/", "http://g.test/", "http://h.test/", "http://i.test/")
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 11 {
		t.Fatalf("first crawl: %s, %v", rep.Status, rep.Outcomes)
	}
	set("a.test/", `<html>home again`)
	forbid := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	set("c.test/", http.HandlerFunc(forbid))
	set("b.test/home", plainPage)
	// The start that is still a page and the one that fails may be the first or the second that led to the site.
	set("f.test/", plainPage)
	set("g.test/", http.HandlerFunc(forbid))
	set("h.test/", http.HandlerFunc(forbid))
	set("i.test/", plainPage)
	if rep, _ := s.resume(dir, &Recrawl{}, nil); rep.Status != page.Complete {
		t.Fatalf("the recrawl that finds the change: %s", rep.Status)
	}
	set("a2.example/1", `<html><a href="/3">x</a>`)
	rep, lines := s.resume(dir, &Recrawl{}, nil)
	if rep.Status != page.Complete {
		t.Fatalf("the next one: %s", rep.Status)
	}
	asked := s.requests()
	for url := range asked {
		if host, _, _ := strings.Cut(url, "/"); host == "www.a.example" || host == "a2.example" {
			t.Errorf("%s was asked for", url)
		}
	}
	for _, url := range []string{"a.test/", "b.example/1", "c.example/1", "d.test/", "f.example/1", "h.example/2"} {
		if asked[url] == 0 {
			t.Errorf("%s was not asked for: %v", url, asked)
		}
	}
	if _, ok := lines["http://a2.example/3"]; ok {
		t.Error("the site that is left out grows")
	}
	// It belongs to the crawl again in the recrawl in which a start leads there, as late as that is.
	others := make(chan struct{})
	set("b.example/1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(others)
		_, _ = io.WriteString(w, plainPage)
	}))
	set("a.test/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-others
		to("http://a2.example/2")(w, r)
	}))
	rep, lines = s.resume(dir, &Recrawl{}, func(o *config.Settings) { o.SeedingStrategy = nil }) // it does not wait
	if _, ok := lines["http://a2.example/3"]; !ok || rep.Status != page.Complete {
		t.Errorf("%s: the site is not in the crawl again", rep.Status)
	}
	if n := s.requests(); n["a2.example/2"] != 1 || n["a2.example/1"] != 1 || n["b.example/1"] != 1 {
		t.Errorf("requests: %v", n)
	}
	set("a.test/", `<html>home again`)
	set("b.example/1", plainPage)
	for range 2 {
		s.resume(dir, &Recrawl{}, nil)
	}
	if n := s.requests()["a2.example/1"]; n != 1 {
		t.Errorf("it was asked for in %d of two recrawls after that", n)
	}
}

// A lateSite is a web in which a start URL redirects to another site, after the crawl has read what leads into that
// site: links, redirects, sitemaps, and its robots.txt.
type lateSite struct {
	*handSite
	opened chan struct{} // closed when that is read
}

// newLateSite makes the web. The given URLs are asked before the redirect is answered.
func newLateSite(t *testing.T, before ...string) *lateSite {
	t.Helper()
	s := &lateSite{opened: make(chan struct{})}
	s.handSite = newHandSite(t, map[string]any{
		"c.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-s.opened:
				http.Redirect(w, r, "http://b.example/", http.StatusFound)
			case <-r.Context().Done():
			}
		}),
		"b.example/": `<html><a href="http://www.b.example/">x</a>`,
		// links and redirects
		"a.test/": `<html><a href="http://b.example/linked">x</a><a href="/next">x</a><a href="/moved">x</a>` +
			`<a href="/listed">x</a>`,
		"a.test/moved": http.HandlerFunc(http.RedirectHandler("http://b.example/moved", http.StatusFound).ServeHTTP),
		// entries of sitemaps, and sitemaps that they name
		"a.test/robots.txt":       "Sitemap: http://b.example/map.xml\nSitemap: http://www.b.example/index.xml\n",
		"b.example/map.xml":       urlset("http://a.test/listed", "http://b.example/listed"),
		"a.test/listed":           `<html><a href="http://b.example/beyond">x</a>`,
		"www.b.example/index.xml": sitemapIndex("http://m.b.example/m.xml"),
		"m.b.example/m.xml":       urlset("http://m.b.example/listed"),
		// robots.txt that is read for the sitemaps above
		"b.example/robots.txt":     "Sitemap: http://b.example/own.xml\n",
		"b.example/own.xml":        urlset("http://b.example/own"),
		"www.b.example/robots.txt": "Sitemap: http://www.b.example/own.xml\n",
		"www.b.example/own.xml":    urlset("http://www.b.example/own"),
		"m.b.example/robots.txt":   "User-agent: *\n",
	})
	for _, url := range []string{"a.test/next", "b.example/linked", "b.example/moved", "b.example/listed",
		"m.b.example/listed", "b.example/own", "b.example/beyond", "www.b.example/", "www.b.example/own"} {
		s.urls[url] = plainPage
	}
	left := int32(len(before))
	for _, url := range before {
		answer, asked := s.urls[url].(string), sync.OnceFunc(func() {
			if atomic.AddInt32(&left, -1) == 0 {
				close(s.opened)
			}
		})
		s.urls[url] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(answer, "<html") {
				w.Header().Set("Content-Type", "text/html")
			}
			_, _ = io.WriteString(w, answer)
			asked()
		})
	}
	return s
}

func (s *lateSite) want() []string {
	return []string{"http://a.test/", "http://a.test/next", "http://a.test/listed", "http://b.example/",
		"http://b.example/linked", "http://b.example/moved", "http://b.example/listed", "http://b.example/own",
		"http://b.example/beyond", "http://www.b.example/", "http://www.b.example/own", "http://m.b.example/listed"}
}

// What was read before a start URL led to another site is part of the map, whatever was read first. A page is read at
// most twice for that.
func TestLateRedirectOfStart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Settings){
		"domain":          func(o *config.Settings) { o.Scope = "domain" },
		"depth":           func(o *config.Settings) { o.Scope, o.MaxDepth = "domain", 1 },
		"subdomains":      func(o *config.Settings) { o.Scope = "subdomains" },
		"external checks": func(o *config.Settings) { o.Scope, o.CheckExternal = "domain", true },
		"page limit":      func(o *config.Settings) { o.Scope, o.MaxURLs = "domain", 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := []string{"www.b.example/index.xml", "a.test/next", "a.test/listed"}
			if name == "depth" {
				before = before[:1] // the others are of the next level
			}
			s, dir := newLateSite(t, before...), newDataDir(t)
			rep, lines := s.crawl(dir, change, "http://a.test/", "http://c.test/")
			wantURLs(t, "pages", byOutcome(lines, page.OK), s.want()...)
			if rep.Status != page.Complete || rep.Outcomes["redirect"] != 2 {
				t.Errorf("%s (%s), %v", rep.Status, rep.Reason, rep.Outcomes)
			}
			asked := s.requests()
			for url, n := range asked {
				if n > 2 {
					t.Errorf("%d requests for %s", n, url)
				}
			}
			// Everything is known now.
			s.mu.Lock()
			s.asked = nil
			s.mu.Unlock()
			rep, lines = s.resume(dir, nil, change)
			wantURLs(t, "pages after a resume", byOutcome(lines, page.OK), s.want()...)
			if n := s.requests(); len(n) > 0 || rep.Status != page.Complete {
				t.Errorf("a resume: %s, requests for %v", rep.Status, n)
			}
		})
	}
}

// The same if the run stops at any moment, and another one goes on.
func TestLateRedirectAndStop(t *testing.T) {
	t.Parallel()
	change := func(o *config.Settings) { o.Scope, o.Grace = "domain", 50*time.Millisecond }
	for url, answer := range newLateSite(t).urls {
		if answer == plainPage {
			continue
		}
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			s, dir := newLateSite(t, "www.b.example/index.xml", "a.test/next", "a.test/listed"), newDataDir(t)
			stop := make(chan struct{})
			stopping := sync.OnceFunc(func() { close(stop) })
			inner := s.srv.Config.Handler
			s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Host+r.URL.RequestURI() == url {
					stopping()
				}
				inner.ServeHTTP(w, r)
			})
			o := Options{Settings: s.settings(change), Dir: dir, Log: slog.New(slog.DiscardHandler)}
			for _, u := range []string{"http://a.test/", "http://c.test/"} {
				o.Starts = append(o.Starts, datadir.Start{URL: mustURL(t, u)})
			}
			s.runUntil(o, stop)
			rep, lines := s.resume(dir, nil, change)
			wantURLs(t, "pages", byOutcome(lines, page.OK), s.want()...)
			if rep.Status != page.Complete {
				t.Errorf("%s (%s)", rep.Status, rep.Reason)
			}
		})
	}
}

// The usual places for sitemaps are looked into at the site that a start URL leads to, also if its robots.txt was read
// before, or is ignored.
func TestSitemapInUsualPlaceOfTarget(t *testing.T) {
	t.Parallel()
	for name, ignore := range map[string]bool{"robots.txt": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := make(chan struct{})
			s := newHandSite(t, map[string]any{
				"a.test/robots.txt": "Sitemap: http://b.example/map.xml\n",
				"a.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !ignore {
						<-read
					}
					http.Redirect(w, r, "http://b.example/", http.StatusFound)
				}),
				"b.example/sitemap.xml": urlset("http://b.example/2"),
				"b.example/":            plainPage, "b.example/1": plainPage, "b.example/2": plainPage,
			})
			want := []string{"http://b.example/", "http://b.example/2"}
			if !ignore {
				want = append(want, "http://b.example/1")
				s.urls["b.example/map.xml"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, urlset("http://b.example/1"))
					if s.requests()[r.Host+r.URL.Path] == 1 {
						close(read)
					}
				})
			}
			change := func(o *config.Settings) { o.Scope, o.IgnoreRobots = "host", ignore }
			rep, lines := s.crawl(newDataDir(t), change, "http://a.test/")
			wantURLs(t, "pages", byOutcome(lines, page.OK), want...)
			if rep.Status != page.Complete {
				t.Errorf("%s (%s)", rep.Status, rep.Reason)
			}
		})
	}
}

// A recrawl follows a site that has moved on, though the start URL leads where it did.
func TestRecrawlFollowsMovedSite(t *testing.T) {
	t.Parallel()
	to := func(target string) http.HandlerFunc { return http.RedirectHandler(target, http.StatusFound).ServeHTTP }
	s := newHandSite(t, map[string]any{
		"a.test/": to("http://b.example/"), "b.example/": plainPage,
		"c.example/": `<html><a href="/1">x</a>`, "c.example/1": plainPage,
	})
	dir := newDataDir(t)
	s.crawl(dir, nil, "http://a.test/")
	s.urls["b.example/"] = to("http://c.example/")
	rep, lines := s.resume(dir, &Recrawl{}, nil)
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://c.example/", "http://c.example/1")
	if rep.Status != page.Complete {
		t.Errorf("%s (%s)", rep.Status, rep.Reason)
	}
}

// redirectTo is the answer that leads to another URL, once the channel is closed.
func redirectTo(target string, after <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-after:
			http.Redirect(w, r, target, http.StatusFound)
		case <-r.Context().Done():
		}
	}
}

// Whichever answer comes first, the map is the same.
func TestOrderOfStarts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*config.Settings)
		starts []string
		late   string // is answered when this one was asked
		waits  string // by this one
		to     string // which it redirects to
		web    map[string]any
		want   []string
	}{
		{name: "a page on the way is visited before", late: "a.test/", waits: "home.a.test/", to: "http://home.a.test/",
			starts: []string{"http://a.test/", "http://b.test/"},
			web: map[string]any{"b.test/": `<html><a href="http://home.a.test/">x</a>`,
				"home.a.test/": "http://c.example/", "c.example/": `<html><a href=/1>x</a>`, "c.example/1": plainPage},
			want: []string{"http://b.test/", "http://c.example/", "http://c.example/1"}},
		{name: "sitemaps of a host of which nothing is queued", late: "b.test/", waits: "c.example/doc/m.xml",
			to: "http://www.c.example/", starts: []string{"http://a.test/", "http://b.test/"},
			web: map[string]any{"a.test/": plainPage, "a.test/robots.txt": "Sitemap: http://c.example/doc/m.xml\n",
				"c.example/robots.txt": "Sitemap: http://c.example/doc/m.xml\n", "www.c.example/": plainPage,
				"c.example/doc/m.xml": urlset("http://c.example/x"), "c.example/x": plainPage},
			want: []string{"http://a.test/", "http://c.example/x", "http://www.c.example/"}},
		{name: "usual places", late: "b.test/", waits: "www.c.example/1", to: "http://www.c.example/",
			starts: []string{"http://a.test/", "http://b.test/"},
			web: map[string]any{"a.test/": "http://c.example/",
				"c.example/":     `<html><a href="http://www.c.example/1">x</a>`,
				"www.c.example/": plainPage, "www.c.example/1": plainPage, "c.example/sitemap.xml": urlset(),
				"www.c.example/sitemap.xml": urlset("http://www.c.example/hidden"), "www.c.example/hidden": plainPage},
			want: []string{"http://c.example/", "http://www.c.example/", "http://www.c.example/1",
				"http://www.c.example/hidden"}},
		{name: "depth", change: func(o *config.Settings) { o.MaxDepth = 3 }, late: "b.test/", waits: "a.test/",
			to: "http://c.example/", starts: []string{"http://a.test/", "http://b.test/"},
			web: map[string]any{"a.test/": `<html><a href="http://c.example/deep">x</a>`,
				"c.example/": `<html><a href=/1>x</a>`, "c.example/1": `<html><a href=/2>x</a>`,
				"c.example/2": `<html><a href=/deep>x</a>`, "c.example/deep": `<html><a href=/deeper>x</a>`,
				"c.example/deeper": plainPage},
			want: []string{"http://a.test/", "http://c.example/", "http://c.example/1", "http://c.example/2",
				"http://c.example/deep", "http://c.example/deeper"}},
		{name: "several sites on the way", late: "a.test/", waits: "home.a.test/", to: "http://home.a.test/",
			starts: []string{"http://a.test/", "http://b.test/"},
			web: map[string]any{"b.test/": `<html><a href="http://home.a.test/">x</a>`,
				"home.a.test/": "http://c.example/", "c.example/": "http://d.example/",
				"d.example/": "http://e.example/", "e.example/": `<html><a href=/1>x</a>`, "e.example/1": plainPage},
			want: []string{"http://b.test/", "http://e.example/", "http://e.example/1"}},
	} {
		for _, isLate := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, isLate), func(t *testing.T) {
				t.Parallel()
				asked := make(chan struct{})
				if !isLate {
					close(asked)
				}
				once := sync.OnceFunc(func() { close(asked) })
				urls := map[string]any{}
				for url, answer := range tt.web {
					if text, ok := answer.(string); ok && strings.HasPrefix(text, "http://") {
						answer = http.HandlerFunc(http.RedirectHandler(text, http.StatusFound).ServeHTTP)
					}
					urls[url] = answer
				}
				urls[tt.late] = redirectTo(tt.to, asked)
				s := newHandSite(t, urls)
				if inner := s.srv.Config.Handler; isLate {
					s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						inner.ServeHTTP(w, r)
						if r.Host+r.URL.RequestURI() == tt.waits {
							once()
						}
					})
				}
				rep, lines := s.crawl(newDataDir(t), tt.change, tt.starts...)
				wantURLs(t, "pages", byOutcome(lines, page.OK), tt.want...)
				if rep.Status != page.Complete {
					t.Errorf("%s (%s)", rep.Status, rep.Reason)
				}
			})
		}
	}
}

// A resume with a narrower kind of scope knows where the start URLs lead.
func TestNarrowerScopeOfTarget(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/":     http.HandlerFunc(http.RedirectHandler("http://www.a.test/", http.StatusFound).ServeHTTP),
		"www.a.test/": `<html><a href=/1>x</a><a href="http://m.a.test/">x</a>`, "www.a.test/1": plainPage,
		"m.a.test/": plainPage,
	})
	dir := newDataDir(t)
	s.crawl(dir, func(o *config.Settings) { o.MaxURLs, o.Scope = 1, "domain" }, "http://a.test/")
	rep, lines := s.resume(dir, nil, func(o *config.Settings) { o.Scope = "host" })
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://www.a.test/", "http://www.a.test/1")
	rep2, lines2 := s.resume(dir, &Recrawl{}, func(o *config.Settings) { o.Scope = "host" })
	wantURLs(t, "pages of a recrawl", byOutcome(lines2, page.OK), "http://www.a.test/", "http://www.a.test/1")
	if rep.Status != page.Complete || rep2.Status != page.Complete {
		t.Errorf("%s, %s", rep.Status, rep2.Status)
	}
}

// A robots.txt that redirects to a host that --only-hosts left out is asked for again when it does not any more.
func TestRobotsOfHostAllowedLater(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": `<html><a href=/1>x</a><a href=/secret>x</a>`, "a.test/1": plainPage, "a.test/secret": plainPage,
		"a.test/robots.txt":  http.HandlerFunc(http.RedirectHandler("http://cdn.a.test/r", http.StatusFound).ServeHTTP),
		"cdn.a.test/r":       "User-agent: *\nDisallow: /secret\nSitemap: http://cdn.a.test/map.xml\n",
		"cdn.a.test/map.xml": urlset("http://a.test/2"), "a.test/2": plainPage,
		"cdn.a.test/robots.txt": "User-agent: *\n",
	})
	dir := newDataDir(t)
	s.crawl(dir, func(o *config.Settings) { o.MaxURLs, o.OnlyHosts = 1, []string{"a.test"} }, "http://a.test/")
	rep, lines := s.resume(dir, nil, nil)
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://a.test/", "http://a.test/1", "http://a.test/2")
	if rep.Status != page.Complete || lines["http://a.test/secret"].Outcome != "blocked_by_robots" {
		t.Errorf("%s, %v", rep.Status, rep.Outcomes)
	}
}

// A URL that was checked as one of another site, and then belongs to the crawl, is judged and visited as a page alone.
func TestCheckedURLBecomesPage(t *testing.T) {
	t.Parallel()
	checked := make(chan struct{})
	s := newHandSite(t, map[string]any{
		"a.test/": `<html><a href="http://b.example/dead">x</a>`, "c.test/": redirectTo("http://b.example/", checked),
		"b.example/": plainPage,
	})
	once := sync.OnceFunc(func() { close(checked) })
	s.other = func(w http.ResponseWriter, r *http.Request) {
		http.NotFound(w, r)
		if r.Host+r.URL.Path == "b.example/dead" && r.Method == http.MethodGet { // the second request of a check
			once()
		}
	}
	dir, settings := newDataDir(t), checking(func(o *config.Settings) { o.Links = true })
	rep, _ := s.crawl(dir, settings, "http://a.test/", "http://c.test/")
	for again := range 2 {
		if n := len(found(t, rep, problems.BrokenExternal)); n != 0 || len(found(t, rep, problems.BrokenLink)) != 1 {
			t.Errorf("crawl %d: %d broken links to other sites, and %v", again, n, found(t, rep, problems.BrokenLink))
		}
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		rep, _ = s.resume(dir, &Recrawl{}, settings)
		if n := s.requests()["b.example/dead"]; n != 1 {
			t.Errorf("recrawl %d: %d requests for the page", again, n)
		}
	}
}

// Under a depth limit, what a start URL redirects to has depth 0 in later runs too, though a link had found it before.
func TestDepthOfTarget(t *testing.T) {
	t.Parallel()
	site := func(t *testing.T) *handSite {
		t.Helper()
		asked := make(chan struct{})
		once := sync.OnceFunc(func() { close(asked) })
		return newHandSite(t, map[string]any{
			"a.test/robots.txt": "User-agent: *\n",
			"b.test/robots.txt": redirectTo("http://r.test/1", asked), "r.test/1": redirectTo("http://r.test/2", asked),
			"r.test/2": "User-agent: *\n", // meanwhile the link is recorded
			"a.test/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, `<html><a href="http://b.test/t">x</a>`)
				once()
			}),
			"b.test/":  http.HandlerFunc(http.RedirectHandler("http://b.test/t", http.StatusFound).ServeHTTP),
			"b.test/t": `<html><a href=/1>x</a>`,
			"b.test/1": `<html><a href=/2>x</a>`, "b.test/2": plainPage,
		})
	}
	depth := func(n int) func(*config.Settings) {
		return func(o *config.Settings) { o.MaxDepth, o.SeedingStrategy = n, nil }
	}
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		s, dir := site(t), newDataDir(t)
		s.crawl(dir, func(o *config.Settings) { depth(1)(o); o.MaxURLs = 2 }, "http://a.test/", "http://b.test/")
		_, lines := s.resume(dir, nil, depth(1))
		wantURLs(t, "pages", byOutcome(lines, page.OK), "http://a.test/", "http://b.test/t", "http://b.test/1")
	})
	t.Run("recrawl", func(t *testing.T) {
		t.Parallel()
		s, dir := site(t), newDataDir(t)
		s.crawl(dir, depth(2), "http://a.test/", "http://b.test/")
		s.urls["b.test/t"] = `<html><a href=/new>x</a>`
		s.urls["b.test/new"], s.urls["b.test/newer"] = `<html><a href=/newer>x</a>`, plainPage
		_, lines := s.resume(dir, &Recrawl{}, depth(2))
		if l := lines["http://b.test/newer"]; l.Outcome != "ok" {
			t.Errorf("a page two links from a start is %q", l.Outcome)
		}
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		s.resume(dir, &Recrawl{}, depth(0))
		if n := s.requests(); n["b.test/t"] != 1 || n["b.test/new"] != 0 {
			t.Errorf("requests of a recrawl without links: %v", n)
		}
	})
}

// A run that a limit ends is not complete if start URLs lead to more: here a page on the way was visited before.
func TestLimitBeforeStartsAreFollowed(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	asked := make(chan struct{})
	s := newHandSite(t, map[string]any{
		"b.test/":    `<html><a href="http://home.a.test/">x</a>`,
		"c.example/": `<html><a href=/1>x</a>`, "c.example/1": plainPage,
		"home.a.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://c.example/", http.StatusFound)
			close(asked)
		}),
		"a.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-asked
			<-time.After(limit) // the run is longer than this
			http.Redirect(w, r, "http://home.a.test/", http.StatusFound)
		}),
	})
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, func(o *config.Settings) {
		o.Duration, o.Grace, o.SeedingStrategy = limit, time.Minute, nil
	}, "http://a.test/", "http://b.test/")
	if rep.Status != page.Partial {
		t.Errorf("%s (%s)", rep.Status, rep.Reason)
	}
	redirect := http.RedirectHandler("http://c.example/", http.StatusFound)
	s.urls["home.a.test/"] = http.HandlerFunc(redirect.ServeHTTP)
	rep, lines := s.resume(dir, nil, nil)
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://b.test/", "http://c.example/", "http://c.example/1")
	if rep.Status != page.Complete {
		t.Errorf("a resume: %s (%s)", rep.Status, rep.Reason)
	}
}

// withoutHTTPS are settings for a site that offers no https.
func withoutHTTPS(t *testing.T, change func(*config.Settings)) func(*config.Settings) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			c.Close()
		}
	}()
	return func(o *config.Settings) {
		o.Resolve = append(o.Resolve, "*:443:"+l.Addr().String())
		if change != nil {
			change(o)
		}
	}
}

// A start URL that is a bare domain stands for its site over http, if there is none over https: in the scope, and in a
// recrawl that visits few pages.
func TestBareStartWithoutHTTPS(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/docs/": `<html><a href="1">x</a><a href="sub/2">x</a><a href="/else">x</a>`, "a.test/docs/1": plainPage,
		"a.test/docs/sub/2": plainPage, "a.test/else": plainPage,
	})
	prefix := withoutHTTPS(t, func(o *config.Settings) { o.Scope = "prefix" })
	dir := newDataDir(t)
	rep, lines := s.run(Options{Settings: s.settings(prefix), Dir: dir, Log: slog.New(slog.DiscardHandler),
		Starts: []datadir.Start{{URL: mustURL(t, "https://a.test/docs/"), Bare: true}}})
	wantURLs(t, "pages", byOutcome(lines, page.OK), "http://a.test/docs/", "http://a.test/docs/1",
		"http://a.test/docs/sub/2")
	if rep.Status != page.Complete {
		t.Errorf("%s (%s)", rep.Status, rep.Reason)
	}
	s.mu.Lock()
	s.urls["a.test/docs/"], s.asked = `<html><a href="1">x</a><a href="new">x</a>`, nil
	s.urls["a.test/docs/new"] = plainPage
	s.mu.Unlock()
	rep, lines = s.resume(dir, &Recrawl{Exclude: []string{"/docs/."}}, prefix)
	if l := lines["http://a.test/docs/new"]; rep.Status != page.Complete || l.Outcome != "ok" {
		t.Errorf("a recrawl of the start page: %s (%s), what is new is %q", rep.Status, rep.Reason, l.Outcome)
	}
	if n := s.requests(); n["a.test/docs/"] != 1 || n["a.test/docs/1"] != 0 {
		t.Errorf("requests of the recrawl: %v", n)
	}
}

// A site to which the http URL of a bare domain leads no more leaves the scope, though the domain offers no https.
func TestRecrawlWithdrawsScopeOfBareStart(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/":    http.HandlerFunc(http.RedirectHandler("http://c.example/", http.StatusFound).ServeHTTP),
		"c.example/": plainPage,
	})
	change := withoutHTTPS(t, nil)
	dir := newDataDir(t)
	s.run(Options{Settings: s.settings(change), Dir: dir, Log: slog.New(slog.DiscardHandler),
		Starts: []datadir.Start{{URL: mustURL(t, "https://a.test/"), Bare: true}}})
	s.urls["a.test/"] = plainPage
	for range 2 {
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		s.resume(dir, &Recrawl{}, change)
	}
	if n := s.requests(); n["c.example/"] != 0 || n["a.test/"] != 1 {
		t.Errorf("requests of the second recrawl: %v", n)
	}
}

// A bare domain that answers over https does not lead where its URL over http does.
func TestBareStartWithHTTPS(t *testing.T) {
	t.Parallel()
	to := func(url string) http.HandlerFunc { return http.RedirectHandler(url, http.StatusFound).ServeHTTP }
	s := newHandSite(t, map[string]any{
		"b.test/": to("http://www.b.test/"), "www.b.test/": plainPage, // so that the starts are followed
		"c.example/": plainPage,
	})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<html><a href="http://a.test/">x</a>`)
	}))
	t.Cleanup(secure.Close)
	s.urls["a.test/"] = to("http://c.example/")
	rep, lines := s.run(Options{Dir: newDataDir(t), Log: slog.New(slog.DiscardHandler),
		Settings: s.settings(func(o *config.Settings) {
			o.Insecure, o.Resolve = true, append(o.Resolve, "*:443:"+secure.Listener.Addr().String())
		}),
		Starts: []datadir.Start{{URL: mustURL(t, "https://a.test/"), Bare: true}, {URL: mustURL(t, "http://b.test/")}}})
	wantURLs(t, "pages", byOutcome(lines, page.OK), "https://a.test/", "http://www.b.test/")
	if rep.Status != page.Complete {
		t.Errorf("%s (%s)", rep.Status, rep.Reason)
	}
}

// A start that is forbidden may still lead to a site at the end of several redirects.
func TestRecrawlKeepsScopeOfForbiddenStart(t *testing.T) {
	t.Parallel()
	to := func(url string) http.HandlerFunc { return http.RedirectHandler(url, http.StatusFound).ServeHTTP }
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	s := newHandSite(t, map[string]any{
		"a.test/": redirectTo("http://home.a.test/", asked), "home.a.test/": to("http://b.example/"),
		"b.example/": to("http://c.example/"), "c.example/": plainPage,
		"d.test/": `<html><a href="http://home.a.test/">x</a>`,
	})
	inner := s.srv.Config.Handler
	s.srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		if r.Host == "home.a.test" && r.URL.Path == "/" {
			once()
		}
	})
	dir := newDataDir(t)
	s.crawl(dir, nil, "http://a.test/", "http://d.test/")
	s.mu.Lock()
	s.urls["a.test/"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	s.mu.Unlock()
	for again := range 3 {
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		s.resume(dir, &Recrawl{}, nil)
		if n := s.requests()["c.example/"]; n != 1 {
			t.Errorf("recrawl %d: %d requests for where the start led", again, n)
		}
	}
}
