package crawl

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// certificates serves a search of certificate logs that knows the names of x.test, and counts how often it is asked.
func certificates(t *testing.T, names ...string) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Query().Get("q") != "%.x.test" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		fmt.Fprintf(w, `[{"issuer_ca_id":1,"common_name":"x.test","name_value":%q,"id":1}]`, strings.Join(names, "\n"))
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

// archive serves a Common Crawl index of one page.
func archive(t *testing.T, urls ...string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.URL.Path == "/collinfo.json":
			fmt.Fprintf(w, `[{"id":"CC-MAIN-2026-05","cdx-api":"http://%s/CC-MAIN-2026-05-index"}]`, r.Host)
		case q.Get("url") != "x.test":
			t.Errorf("asked for %s", r.URL)
		case q.Get("showNumPages") != "":
			fmt.Fprint(w, `{"pages": 1, "pageSize": 5, "blocks": 1}`)
		default:
			for _, url := range urls {
				fmt.Fprintf(w, `{"urlkey":"test,x)/","timestamp":"20260101000000","url":%q,"status":"200"}`+"\n", url)
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestSourcesSeedTheCrawl(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"www.x.test/": plainPage, "api.x.test/": plainPage, "dev.x.test/": plainPage, "www.x.test/old": plainPage,
		"shop.x.test/a?b=c":     plainPage,
		"www.x.test/robots.txt": "User-agent: *\nDisallow: /secret\n",
	})
	ct, _ := certificates(t, "*.x.test", "api.x.test", "*.dev.x.test", "www.x.test", "else.test")
	cc := archive(t, "http://www.x.test/", "http://www.x.test/old", "http://shop.x.test/a?b=c",
		"http://www.x.test/secret", "http://www.x.test/img.png")
	dir := newDataDir(t)
	rep, lines := s.crawl(dir, func(o *config.Settings) {
		o.SeedingStrategy = []string{"ct", "commoncrawl"}
		o.CTBaseURL, o.CommonCrawlBaseURL = ct.URL, cc.URL
		o.SkipExtensions = []string{"png"}
		o.Headers = []string{"Authorization: Basic c2VjcmV0"}
	}, "http://www.x.test/")
	wantURLs(t, "from certificates", bySource(lines, "ct"), "http://x.test/", "http://api.x.test/",
		"http://dev.x.test/")
	wantURLs(t, "from the archive", bySource(lines, "commoncrawl"), "http://www.x.test/old", "http://shop.x.test/a?b=c",
		"http://www.x.test/secret")
	if got := lines["http://www.x.test/secret"].Outcome; got != "blocked_by_robots" ||
		s.requests()["www.x.test/secret"] > 0 {
		t.Errorf("what robots.txt forbids is %s", got)
	}
	if rep.Status != page.Complete || len(rep.Warnings) > 0 || rep.SkippedLinks[scope.ByExtension.String()] != 1 {
		t.Errorf("%s, warnings %q, skipped %v", rep.Status, rep.Warnings, rep.SkippedLinks)
	}
}

// A dead source is a warning, and the crawl is as complete as it would have been without. A resume asks it again, but
// not the others.
func TestDeadSourceIsAWarning(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{"www.x.test/": plainPage, "api.x.test/": plainPage})
	ct, asked := certificates(t, "api.x.test")
	var busy atomic.Bool
	busy.Store(true)
	cc := archive(t, "http://www.x.test/old")
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() {
			http.Error(w, "this agent is blocked", http.StatusForbidden)
			return
		}
		cc.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(gate.Close)
	dir := newDataDir(t)
	change := func(o *config.Settings) {
		o.SeedingStrategy = []string{"sitemap", "ct", "commoncrawl"}
		o.CTBaseURL, o.CommonCrawlBaseURL = ct.URL, gate.URL
	}
	rep, lines := s.crawl(dir, change, "http://www.x.test/")
	if rep.Status != page.Complete || len(rep.Warnings) != 1 ||
		!strings.Contains(rep.Warnings[0], "seeding from commoncrawl") ||
		!strings.Contains(rep.Warnings[0], "status 403") {
		t.Errorf("%s, warnings %q", rep.Status, rep.Warnings)
	}
	wantURLs(t, "from certificates", bySource(lines, "ct"), "http://x.test/", "http://api.x.test/")

	busy.Store(false)
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines = s.run(Options{Settings: s.settings(change), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	wantURLs(t, "from the archive after a resume", bySource(lines, "commoncrawl"), "http://www.x.test/old")
	if rep.Status != page.Complete || asked.Load() != 1 {
		t.Errorf("%s; certificates were asked for %d times", rep.Status, asked.Load())
	}
}

// The crawl goes on while a source is slow, does not end before it, and does not wait for it when it is interrupted.
func TestSlowSource(t *testing.T) {
	t.Parallel()
	fetched, interrupt := make(chan struct{}), make(chan struct{})
	s := newHandSite(t, map[string]any{
		"www.x.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(fetched)
			fmt.Fprint(w, plainPage)
		}),
	})
	ct, _ := certificates(t, "api.x.test")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-fetched // the crawl does not wait for us
		select {
		case <-interrupt:
			<-r.Context().Done()
		default:
			ct.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(slow.Close)
	change := func(o *config.Settings) {
		o.SeedingStrategy, o.CTBaseURL, o.Grace = []string{"ct"}, slow.URL, time.Millisecond
	}
	rep, lines := s.crawl(newDataDir(t), change, "http://www.x.test/")
	if _, ok := lines["http://api.x.test/"]; !ok || rep.Status != page.Complete {
		t.Errorf("%s without what the source named", rep.Status)
	}

	fetched = make(chan struct{})
	close(interrupt)
	s.urls["www.x.test/"] = plainPage
	go func() { close(fetched) }()
	// The source answers no more, so the run ends only if it does not wait for it.
	rep, _ = s.runUntil(Options{Settings: s.settings(change),
		Starts: []datadir.Start{{URL: mustURL(t, "http://www.x.test/")}}, Dir: newDataDir(t),
		Log: slog.New(slog.DiscardHandler)}, interrupt)
	if rep.Status != page.Cancelled {
		t.Errorf("status %s, want %s", rep.Status, page.Cancelled)
	}
}

// A run that ends while a source is being asked is not complete, and a resume asks it.
func TestLimitWhileSourceIsAsked(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{"www.x.test/": plainPage, "www.x.test/hidden": plainPage})
	cc := archive(t, "http://www.x.test/hidden")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	dir := newDataDir(t)
	from := func(url string, d time.Duration) func(*config.Settings) {
		return func(o *config.Settings) {
			o.SeedingStrategy, o.CommonCrawlBaseURL, o.Duration = []string{"commoncrawl"}, url, d
		}
	}
	if rep, _ := s.crawl(dir, from(slow.URL, time.Second), "http://www.x.test/"); rep.Status != page.Partial {
		t.Errorf("%s (%s)", rep.Status, rep.Reason)
	}
	rep, lines := s.resume(dir, nil, from(cc.URL, 0))
	wantURLs(t, "from the archive", bySource(lines, "commoncrawl"), "http://www.x.test/hidden")
	if rep.Status != page.Complete {
		t.Errorf("a resume: %s (%s)", rep.Status, rep.Reason)
	}
}

// What a source knows of the site that a start URL leads to belongs to the map, whichever answers first. The source is
// asked again only if the start URL was later.
func TestSourceAndLateRedirect(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			told, led, times := make(chan struct{}), make(chan struct{}), new(atomic.Int64)
			telling, leading := sync.OnceFunc(func() { close(told) }), sync.OnceFunc(func() { close(led) })
			if !late {
				telling()
			}
			s := newHandSite(t, map[string]any{
				"x.test/": redirectTo("http://www.x.test/", told), "www.x.test/1": plainPage, "www.x.test/2": plainPage,
				"www.x.test/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = w.Write([]byte(plainPage))
					leading()
				}),
			})
			source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				row := `{"urlkey":"test,x)/","timestamp":"20260101000000","url":"http://www.x.test/%d","status":"200"}` + "\n"
				switch q := r.URL.Query(); {
				case r.URL.Path == "/collinfo.json":
					fmt.Fprintf(w, `[{"id":"CC-MAIN-2026-05","cdx-api":"http://%s/CC-MAIN-2026-05-index"}]`, r.Host)
				case q.Get("showNumPages") != "":
					fmt.Fprint(w, `{"pages": 2, "pageSize": 5, "blocks": 1}`)
				case q.Get("page") == "0":
					times.Add(1)
					if !late {
						<-led
					}
					fmt.Fprintf(w, row, 1)
				default:
					telling() // the page before is judged
					fmt.Fprintf(w, row, 2)
				}
			}))
			t.Cleanup(source.Close)
			rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) {
				o.SeedingStrategy, o.CommonCrawlBaseURL, o.Scope = []string{"commoncrawl"}, source.URL, "host"
			}, "http://x.test/")
			wantURLs(t, "pages", byOutcome(lines, page.OK), "http://www.x.test/", "http://www.x.test/1",
				"http://www.x.test/2")
			want := int64(1)
			if late {
				want = 2
			}
			if rep.Status != page.Complete || times.Load() != want {
				t.Errorf("%s (%s), asked %d times, want %d", rep.Status, rep.Reason, times.Load(), want)
			}
		})
	}
}
