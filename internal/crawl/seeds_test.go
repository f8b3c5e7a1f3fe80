package crawl

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/long"
)

func newDataDir(t *testing.T) datadir.Dir { return datadir.Dir(filepath.Join(t.TempDir(), "data")) }

func TestSinceSkipsOldEntriesAndWholeSitemaps(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "Sitemap: http://a.test/index.xml\n",
		"a.test/index.xml": sitemapIndex("http://a.test/new.xml 2024-06-01", "http://a.test/old.xml 2023-01-01",
			"http://a.test/undated.xml"),
		"a.test/new.xml": urlset("http://a.test/1 2024-06-01T00:00:00Z", "http://a.test/2 2024-01-31",
			"http://a.test/3 2024-02-01", "http://a.test/4"),
		"a.test/old.xml": urlset("http://a.test/5 2024-06-01"), "a.test/undated.xml": urlset("http://a.test/6"),
	})
	rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.Since = "2024-02-01" }, "http://a.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1", "http://a.test/3", "http://a.test/4",
		"http://a.test/6")
	if s.requests()["a.test/old.xml"] > 0 {
		t.Error("an old sitemap was fetched")
	}
	if rep.SkippedLinks[scope.OlderThan.String()] != 2 {
		t.Errorf("skipped %v", rep.SkippedLinks)
	}
	if at := lines["http://a.test/1"].LastModified; !at.Equal(time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("last_modified %v", at)
	}
}

// A sitemap speaks for what lies beside or below it, and for hosts whose robots.txt names it.
func TestSitemapLocationRule(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.x.test/": plainPage, "a.x.test/robots.txt": "Sitemap: http://maps.x.test/of/a.xml\n",
		"b.x.test/": plainPage, "b.x.test/robots.txt": "",
		"maps.x.test/of/a.xml": urlset("http://a.x.test/1", "http://b.x.test/1", "http://maps.x.test/of/1",
			"http://maps.x.test/1", "http://else.test/1"),
	})
	rep, lines := s.crawl(newDataDir(t), nil, "http://a.x.test/", "http://b.x.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.x.test/1", "http://maps.x.test/of/1")
	if rep.SkippedLinks[scope.CrossSiteSeed.String()] != 3 {
		t.Errorf("skipped %v", rep.SkippedLinks)
	}
}

// A host whose robots.txt is known only after a sitemap was read vouches for it all the same.
func TestLateVoucherReadsTheSitemapAgain(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}, 4)
	s := newHandSite(t, map[string]any{
		"a.x.test/": plainPage, "a.x.test/robots.txt": "Sitemap: http://maps.x.test/s.xml\n",
		"b.x.test/": plainPage, "b.x.test/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-read
			fmt.Fprint(w, "Sitemap: http://maps.x.test/s.xml\n")
		}),
		"maps.x.test/s.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, urlset("http://a.x.test/1", "http://b.x.test/1"))
			read <- struct{}{}
		}),
	})
	_, lines := s.crawl(newDataDir(t), nil, "http://a.x.test/", "http://b.x.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.x.test/1", "http://b.x.test/1")
	if n := s.requests()["maps.x.test/s.xml"]; n > 2 {
		t.Errorf("the sitemap was read %d times", n)
	}
}

// The same holds for an index: what it leads to was read without the host's entries.
func TestLateVoucherOfAnIndex(t *testing.T) {
	t.Parallel()
	read := make(chan struct{}, 4)
	index := sitemapIndex("http://maps.x.test/moved.xml", "http://maps.x.test/own.xml")
	s := newHandSite(t, map[string]any{
		"a.x.test/": plainPage, "a.x.test/robots.txt": "Sitemap: http://maps.x.test/index.xml\n",
		"b.x.test/": plainPage, "b.x.test/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-read
			fmt.Fprint(w, "Sitemap: http://maps.x.test/index.xml\n")
		}),
		"maps.x.test/index.xml": index, "maps.x.test/own.xml": urlset("http://maps.x.test/1"),
		"maps.x.test/moved.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/s.xml", http.StatusMovedPermanently)
		}),
		"maps.x.test/s.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, urlset("http://a.x.test/1", "http://b.x.test/1"))
			read <- struct{}{}
		}),
	})
	_, lines := s.crawl(newDataDir(t), nil, "http://a.x.test/", "http://b.x.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.x.test/1", "http://b.x.test/1",
		"http://maps.x.test/1")
	if n := s.requests(); n["maps.x.test/s.xml"] > 2 || n["maps.x.test/own.xml"] != 1 {
		t.Errorf("asked %v", n)
	}
}

// The same holds after a resume: whose entries were left out is stored.
func TestLateVoucherAfterAResume(t *testing.T) {
	t.Parallel()
	interrupt := make(chan struct{})
	var once sync.Once
	s := newHandSite(t, map[string]any{
		"a.x.test/": plainPage, "a.x.test/robots.txt": "Sitemap: http://maps.x.test/index.xml\n",
		"b.x.test/": plainPage, "b.x.test/robots.txt": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-interrupt:
				fmt.Fprint(w, "Sitemap: http://maps.x.test/index.xml\n")
			case <-r.Context().Done():
			}
		}),
		"maps.x.test/index.xml": sitemapIndex("http://maps.x.test/s.xml", "http://maps.x.test/own.xml"),
		"maps.x.test/s.xml":     urlset("http://a.x.test/1", "http://b.x.test/1"),
		"maps.x.test/own.xml":   urlset("http://maps.x.test/1"),
		"maps.x.test/1":         plainPage, "a.x.test/1": plainPage,
	})
	// The last page of the sitemaps is fetched after they were read.
	s.urls["maps.x.test/1"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, plainPage)
		once.Do(func() { close(interrupt) })
	})
	dir := newDataDir(t)
	set := s.settings(func(o *config.Settings) { o.MaxWorkers = 2 })
	starts := []datadir.Start{{URL: mustURL(t, "http://a.x.test/")}, {URL: mustURL(t, "http://b.x.test/")}}
	s.runUntil(Options{Settings: set, Starts: starts, Dir: dir, Log: slog.New(slog.DiscardHandler)}, interrupt)
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines := s.run(Options{Settings: set, Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if rep.Status != page.Complete {
		t.Errorf("second run: %s", rep.Status)
	}
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.x.test/1", "http://b.x.test/1",
		"http://maps.x.test/1")
	if n := s.requests(); n["maps.x.test/s.xml"] > 2 || n["maps.x.test/index.xml"] > 2 ||
		n["maps.x.test/own.xml"] != 1 {
		t.Errorf("asked %v", n)
	}
}

// A sitemap that robots.txt names may redirect to another host of its domain, and no further.
func TestSitemapRedirectsWithinTheDomain(t *testing.T) {
	t.Parallel()
	to := func(url string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusMovedPermanently) }
	}
	s := newHandSite(t, map[string]any{
		"x.test/": plainPage, "x.test/1": plainPage, "x.test/robots.txt": "Sitemap: /near.xml\nSitemap: /far.xml\n",
		"x.test/near.xml": to("http://www.x.test/s.xml"), "x.test/far.xml": to("http://other.test/s.xml"),
		"www.x.test/s.xml": urlset("http://x.test/1", "http://www.x.test/2"),
		"other.test/s.xml": urlset("http://x.test/3"),
	})
	rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.Scope = "host" }, "http://x.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://x.test/1")
	asked := s.requests()
	if asked["www.x.test/robots.txt"] != 1 || asked["www.x.test/s.xml"] != 1 ||
		asked["other.test/robots.txt"]+asked["other.test/s.xml"] > 0 {
		t.Errorf("asked %v", asked)
	}
	if !strings.Contains(strings.Join(rep.Warnings, "\n"), "http://other.test/s.xml was not read") {
		t.Errorf("warnings %q", rep.Warnings)
	}
}

// Many hosts name one sitemap, at any time while it is read. It lists a page of each, and all are found up to the
// number of hosts that can vouch for it.
func TestManyVouchers(t *testing.T) {
	long.Test(t)
	t.Parallel()
	var starts, entries []string
	urls := map[string]any{}
	for i := range seeding.MaxVouchers + 5 {
		host := fmt.Sprintf("h%d.x.test", i)
		starts, entries = append(starts, "http://"+host+"/"), append(entries, "http://"+host+"/listed")
		urls[host+"/"], urls[host+"/listed"], urls[host+"/robots.txt"] = plainPage, plainPage,
			"Sitemap: http://maps.x.test/s.xml\n"
	}
	urls["maps.x.test/s.xml"] = urlset(entries...)
	s := newHandSite(t, urls)
	rep, lines := s.crawl(newDataDir(t), nil, starts...)
	if n := len(bySource(lines, "sitemap")); n != seeding.MaxVouchers {
		t.Errorf("%d pages of the sitemap, want %d", n, seeding.MaxVouchers)
	}
	if n := strings.Count(strings.Join(rep.Warnings, "\n"), "more than 1000 hosts"); n != 1 {
		t.Errorf("%d warnings say that there are too many hosts: %q", n, rep.Warnings)
	}
	t.Logf("the sitemap was read %d times", s.requests()["maps.x.test/s.xml"])
}

// The URL of a sitemap may be of any length, wherever it stands. (Of robots.txt long lines are cut.)
func TestLongSitemapsAreWarnings(t *testing.T) {
	t.Parallel()
	long := "http://a.test/" + strings.Repeat("x", 70<<10)
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "Sitemap: " + long +
			"/robots\nSitemap: /index.xml\nSitemap: /moved.xml\n",
		"a.test/index.xml": sitemapIndex(long+"/index", "http://"+strings.Repeat("abc.", 100)+"test/",
			"http://a.test/good.xml"),
		"a.test/good.xml": urlset("http://a.test/1", long),
		"a.test/moved.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", long+"/moved")
			w.WriteHeader(http.StatusFound)
		}),
	})
	rep, lines := s.crawl(newDataDir(t), nil, "http://a.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1")
	// Of two of them the same is said, since long URLs are cut in warnings; the report says it once.
	if n := strings.Count(strings.Join(rep.Warnings, "\n"), "too long"); n != 2 || rep.Status != page.Complete {
		t.Errorf("%s with %d warnings: %q", rep.Status, n, rep.Warnings)
	}
}

func TestSitemapsAreReadOnceAndCyclesCut(t *testing.T) {
	t.Parallel()
	urls := map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "Sitemap: http://a.test/x.xml\nSitemap: http://a.test/x.xml\n",
		"a.test/x.xml": sitemapIndex("http://a.test/x.xml", "http://a.test/y.xml", "http://a.test/moved.xml",
			"http://a.test/deep/0"),
		"a.test/y.xml": sitemapIndex("http://a.test/x.xml", "http://a.test/z.xml"),
		"a.test/z.xml": urlset("http://a.test/1"),
		"a.test/moved.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/z.xml", http.StatusMovedPermanently)
		}),
	}
	for i := range 10 {
		urls[fmt.Sprintf("a.test/deep/%d", i)] = sitemapIndex(fmt.Sprintf("http://a.test/deep/%d", i+1),
			fmt.Sprintf("http://a.test/leaf/%d", i))
		urls[fmt.Sprintf("a.test/leaf/%d", i)] = urlset(fmt.Sprintf("http://a.test/of/%d", i))
	}
	s := newHandSite(t, urls)
	rep, lines := s.crawl(newDataDir(t), nil, "http://a.test/")
	for url, n := range s.requests() {
		if n > 1 {
			t.Errorf("%s was asked for %d times", url, n)
		}
	}
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1", "http://a.test/of/0",
		"http://a.test/of/1", "http://a.test/of/2", "http://a.test/of/3")
	if len(rep.Warnings) == 0 || !strings.Contains(strings.Join(rep.Warnings, "\n"), "more than 5 index files") {
		t.Errorf("warnings %q", rep.Warnings)
	}
}

// What is wrong with a sitemap is said once, and what could be read of it counts.
func TestBrokenSitemapsAreWarnings(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/robots.txt": "Sitemap: /cut.xml\nSitemap: /gone.xml\nSitemap: " +
			"/busy.xml\nSitemap: /page.xml\nSitemap: /torn.xml\n",
		"a.test/cut.xml":  strings.TrimSuffix(urlset("http://a.test/1", "http://a.test/2"), "</url></urlset>"),
		"a.test/page.xml": plainPage,
		"a.test/busy.xml": http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		}),
		"a.test/torn.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10000")
			fmt.Fprint(w, "<urlset><url><loc>http://a.test/3</loc></url>")
		}),
	})
	rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.MaxRetries, o.MaxHostBackoffSecs = 1, 1 },
		"http://a.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1", "http://a.test/3")
	for _, name := range []string{"cut", "gone", "busy", "page", "torn"} {
		if n := strings.Count(strings.Join(rep.Warnings, "\n"), "/"+name+".xml: "); n != 1 {
			t.Errorf("%d warnings about %s.xml in %q", n, name, rep.Warnings)
		}
	}
	if n := s.requests()["a.test/torn.xml"]; n != 2 {
		t.Errorf("a sitemap that broke off was asked for %d times", n)
	}
	if rep.Status != page.Complete {
		t.Errorf("status %s", rep.Status)
	}
}

func TestUsualPlacesAreTriedQuietly(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{"a.test/": plainPage, "a.test/sitemap_index.xml": urlset("http://a.test/1")})
	rep, lines := s.crawl(newDataDir(t), nil, "http://a.test/")
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1")
	if len(rep.Warnings) > 0 {
		t.Errorf("warnings %q", rep.Warnings)
	}
}

// A sitemap in a usual place that is there and cannot be read is asked for again, and is a warning then.
func TestUsualPlacesThatFail(t *testing.T) {
	t.Parallel()
	good := urlset("http://a.test/1", "http://a.test/2")
	torn := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "10000")
		fmt.Fprint(w, "<urlset><url><loc>http://a.test/1</loc></url>")
	}
	answers := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status) }
	}
	says := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
	}
	for name, c := range map[string]struct {
		answers                   []func(http.ResponseWriter) // the last one again and again
		requests, found, warnings int
	}{
		"torn once":  {[]func(http.ResponseWriter){torn, says(good)}, 2, 2, 0},
		"torn":       {[]func(http.ResponseWriter){torn}, 2, 1, 1},
		"busy once":  {[]func(http.ResponseWriter){answers(503), says(good)}, 2, 2, 0},
		"busy":       {[]func(http.ResponseWriter){answers(500)}, 2, 0, 1},
		"too short":  {[]func(http.ResponseWriter){says(strings.TrimSuffix(good, "</urlset>"))}, 1, 2, 1},
		"no answer":  {[]func(http.ResponseWriter){func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}, 2, 0, 1},
		"not there":  {[]func(http.ResponseWriter){answers(410)}, 1, 0, 0},
		"forbidden":  {[]func(http.ResponseWriter){answers(403)}, 1, 0, 0},
		"a web page": {[]func(http.ResponseWriter){says(plainPage)}, 1, 0, 0},
	} {
		n := 0
		s := newHandSite(t, map[string]any{"a.test/": plainPage, "a.test/1": plainPage, "a.test/2": plainPage,
			"a.test/sitemap.xml": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n++ // the crawl asks for it once at a time
				c.answers[min(n, len(c.answers))-1](w)
			})})
		rep, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.MaxRetries, o.MaxHostBackoffSecs = 1, 1 },
			"http://a.test/")
		requests, found := s.requests()["a.test/sitemap.xml"], len(bySource(lines, "sitemap"))
		if requests != c.requests || found != c.found || len(rep.Warnings) != c.warnings {
			t.Errorf("%s: %d requests, %d URLs, warnings %q", name, requests, found, rep.Warnings)
		}
	}
}

// Sitemaps that are not asked for, because their host has failed too often, are a warning, and a resume reads them.
func TestSitemapsOfAHostThatIsGivenUp(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	urls := map[string]any{"a.test/": plainPage, "a.test/robots.txt": "Sitemap: /index.xml\n"}
	var children []string
	for i := range 12 {
		children = append(children, fmt.Sprintf("http://a.test/s%d.xml", i))
		urls[fmt.Sprintf("a.test/p%d", i)] = plainPage
		urls[fmt.Sprintf("a.test/s%d.xml", i)] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if away.Load() {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, urlset(fmt.Sprintf("http://a.test/p%d", i)))
		})
	}
	urls["a.test/index.xml"] = sitemapIndex(children...)
	s := newHandSite(t, urls)
	dir := newDataDir(t)
	away.Store(true)
	rep, _ := s.crawl(dir, func(o *config.Settings) {
		o.MaxRetries, o.MaxHostFailures, o.MaxHostBackoffSecs, o.MaxInflightPerHost = 1, 3, 1, 1
	}, "http://a.test/")
	const want = "not read, because their hosts were given up"
	if n := strings.Count(strings.Join(rep.Warnings, "\n"), want); rep.Status != page.Complete || n != 1 {
		t.Errorf("%s, warnings %q", rep.Status, rep.Warnings)
	}
	away.Store(false)
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines := s.run(Options{Settings: s.settings(nil), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	// The report has the warnings of all runs.
	if n := len(bySource(lines, "sitemap")); n < 5 || strings.Count(strings.Join(rep.Warnings, "\n"), want) != 1 {
		t.Errorf("after a resume %d URLs of sitemaps, warnings %q", n, rep.Warnings)
	}
}

var sitemapURLs = flag.Int("sitemap-urls", 4*seeding.Batch,
	"entries of the sitemap in TestFetchingBeginsBeforeTheSitemapEnds")

// Pages of a large sitemap are fetched before it has been read to its end, and the crawl ends when both are done: the
// server keeps the second half until pages of the first have been asked for. Nothing else names the pages.
func TestFetchingBeginsBeforeTheSitemapEnds(t *testing.T) {
	t.Parallel()
	entries, seen := *sitemapURLs, make(chan struct{}, 1)
	s := newHandSite(t, map[string]any{
		"a.test/robots.txt": "Sitemap: /big.xml\n", "a.test/": plainPage,
		"a.test/big.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<urlset>")
			for i := range entries {
				if i == entries/2 {
					w.(http.Flusher).Flush()
					select {
					case <-seen:
					case <-time.After(2 * time.Minute):
						t.Error("nothing was fetched while the sitemap was read")
					}
				}
				fmt.Fprintf(w, "<url><loc>http://a.test/p/%d</loc></url>", i)
			}
			fmt.Fprint(w, "</urlset>")
		}),
	})
	s.other = func(w http.ResponseWriter, r *http.Request) {
		select {
		case seen <- struct{}{}:
		default:
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, plainPage)
	}
	rep, lines := s.crawl(newDataDir(t), nil, "http://a.test/")
	if got := len(bySource(lines, "sitemap")); rep.Status != page.Complete || got != entries ||
		rep.Outcomes["ok"] != int64(entries)+1 {
		t.Errorf("%s with %d URLs of the sitemap, outcomes %v", rep.Status, got, rep.Outcomes)
	}
}

// A crawl that is interrupted while a sitemap is read goes on with it, though nothing else was left to do; what has
// been read is not asked for again.
func TestResumeGoesOnWithSitemaps(t *testing.T) {
	t.Parallel()
	interrupt := make(chan struct{})
	half := true // only the first run sees it so
	s := newHandSite(t, map[string]any{
		"a.test/": plainPage, "a.test/1": plainPage, "a.test/2": plainPage, "a.test/3": plainPage,
		"a.test/robots.txt": "Sitemap: /index.xml\n", "a.test/index.xml": sitemapIndex("http://a.test/whole.xml",
			"http://a.test/slow.xml"),
		"a.test/whole.xml": urlset("http://a.test/1"),
		"a.test/slow.xml": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !half {
				fmt.Fprint(w, urlset("http://a.test/2", "http://a.test/3"))
				return
			}
			fmt.Fprint(w, "<urlset><url><loc>http://a.test/2</loc></url>")
			w.(http.Flusher).Flush()
			close(interrupt)
			<-r.Context().Done()
		}),
	})
	dir := newDataDir(t)
	// One worker has finished the first sitemap when it begins with the second, which the grace period cuts off.
	set := s.settings(func(o *config.Settings) { o.MaxWorkers, o.Grace = 1, 200*time.Millisecond })
	rep, _ := s.runUntil(Options{Settings: set, Starts: []datadir.Start{{URL: mustURL(t, "http://a.test/")}}, Dir: dir,
		Log: slog.New(slog.DiscardHandler)}, interrupt)
	if rep.Status != page.Cancelled {
		t.Fatalf("first run: %s", rep.Status)
	}
	half = false
	before := s.requests()
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines := s.run(Options{Settings: set, Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	wantURLs(t, "from sitemaps", bySource(lines, "sitemap"), "http://a.test/1", "http://a.test/2", "http://a.test/3")
	if rep.Status != page.Complete {
		t.Errorf("second run: %s", rep.Status)
	}
	after := s.requests()
	if after["a.test/slow.xml"] != 2 || after["a.test/whole.xml"] != 1 || after["a.test/index.xml"] != 1 {
		t.Errorf("asked before %v, after %v", before, after)
	}
	// A third run has nothing to ask for at all.
	s.run(Options{Settings: set, Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if again := s.requests(); len(again) != len(after) || again["a.test/slow.xml"] != 2 {
		t.Errorf("a third run asked again: %v", again)
	}
}
