package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/gate"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/parser"
)

// tellingFetcher tells when a page has arrived.
type tellingFetcher struct {
	fetch.Fetcher
	url  string
	done chan struct{}
}

func (f *tellingFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	resp, err := f.Fetcher.Do(ctx, r)
	if r.URL.String() == f.url {
		close(f.done)
	}
	return resp, err
}

// A stop ends the judging of a page's links, which may take seconds by the largest expressions that are accepted. The
// page goes back to the queue. Links that are too long are traps, and cost nothing.
func TestStopWhileLinksAreJudged(t *testing.T) {
	t.Parallel()
	root := serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range 3900 {
			fmt.Fprintf(w, "<a href=/%d%s>x</a>", i, strings.Repeat("a", 1990))
		}
	}))
	s := small()
	s.Include = []string{`(?:a?){140}$`}
	s.Exclude = []string{`(?:a?){140}!`}
	s.Grace, s.SeedingStrategy = 0, []string{"none"}
	dir, from := newDir(t), starts(t, root)
	client, err := NewFetcher(s, from)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetched := &tellingFetcher{Fetcher: client, url: root + "/", done: make(chan struct{})}
	rep, err := runUntil(t.Context(), Options{Settings: s, Starts: from, Dir: dir, Fetcher: fetched}, fetched.done)
	if err != nil {
		t.Fatal(err)
	}
	if l := readLines(t, dir)[root+"/"]; rep.Status != page.Cancelled || l.Outcome != "pending" || rep.URLs != 1 {
		t.Errorf("%s, the page is %s, %d URLs found; want cancelled, pending and 1", rep.Status, l.Outcome, rep.URLs)
	}
}

// A URL that is too long is a trap, whatever the expressions say of it, and is not held against them.
func TestLongLinksAreNotMatched(t *testing.T) {
	t.Parallel()
	root := serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprintf(w, "<a href=/no/%s>x</a><a href=/no/short>y</a><a href=/yes>z</a>", strings.Repeat("a", 5000))
		}
	}))
	s := small()
	s.Exclude, s.SeedingStrategy = []string{`/no/`}, []string{"none"}
	rep, lines := crawlAll(t, s, root)
	if long := lines[root+"/no/"+strings.Repeat("a", 5000)]; long.trap() != "url_length" ||
		lines[root+"/yes"].Outcome != "ok" || rep.SkippedLinks["excluded"] != 1 {
		t.Errorf("the long URL is %s %s, skipped %v", long.Outcome, long.trap(), rep.SkippedLinks)
	}
}

// The larger the expressions are, the less text of links is kept of a page.
func TestLargePatternsKeepFewerLinks(t *testing.T) {
	t.Parallel()
	s := small()
	if n := linkBytes(s); n != 8<<20 {
		t.Errorf("%d bytes without expressions, want 8 MiB", n)
	}
	s.Include, s.Exclude = []string{`(?:a?){140}$`, "/plain/"}, []string{`[a-z]{100}!`}
	steps := config.PatternSteps(s.Include, s.Exclude)
	if n := linkBytes(s); steps < 400 || n != 2<<30/steps {
		t.Errorf("%d bytes for %d steps", n, steps)
	}
}

// All links of a page are held against the expressions where that ends with the context: those that are followed, files
// that the page loads, and links that are only checked. What follows is applied without a look at the scope.
func TestLinksAreJudgedOnce(t *testing.T) {
	s := small()
	s.CheckAssets, s.CheckExternal, s.Exclude, s.SkipExtensions = true, true, []string{"/no/"}, []string{"jpg"}
	root := starts(t, "http://site.test/")[0].URL
	within, err := scope.New(s, []weburl.URL{root})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{run: &run{settings: s, scope: within},
		pageBuffer: &pageBuffer{}, served: served{link: frontier.Link{URL: root}}}
	in := parser.Input{URL: root, Body: []byte(`<a href=/page>a</a> <a href=/no/page>b</a>
		<script src=/no/script.js></script> <script src=/script.js></script> <img src=/no/image.png>
		<a rel=nofollow href=http://other.test/>c</a> <a rel=nofollow href=/no/more>d</a> <a href=/f.jpg>e</a>`)}
	p, err := parser.New(parser.Options{Assets: true, Images: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Parse(&w.page, in); err != nil {
		t.Fatal(err)
	}
	if err := w.judgeLinks(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.scope = nil
	found, checks := w.follow()
	got := []string{}
	for _, f := range found {
		got = append(got, "follow "+f.URL.String())
	}
	for _, c := range checks {
		got = append(got, "check "+c.URL.String())
	}
	want := []string{"follow http://site.test/page", "check http://site.test/script.js", "check http://other.test/",
		"check http://site.test/f.jpg"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A sitemap counts among the pages that are parsed at once while it is computed, and not while its bytes or the frontier
// are waited for.
func TestSitemapsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gate.New(math.MaxInt, gate.All).Join("", 1)
		use := func(held, waiting int) {
			t.Helper()
			if nowHeld, nowWaiting, _ := s.Use(); nowHeld != held || nowWaiting != waiting {
				t.Errorf("%d in use, %d wait", nowHeld, nowWaiting)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		one, other := &place{of: s, ctx: t.Context()}, &place{of: s, ctx: ctx}
		one.waits()() // before it has its place
		one.take()
		came := make(chan bool)
		go func() {
			other.take()
			came <- other.taken
		}()
		synctest.Wait()
		use(1, 1)
		goOn := one.waits()
		if !<-came {
			t.Error("the place of one that waits is not free")
		}
		other.end()
		goOn()
		if use(1, 0); !one.taken {
			t.Error("it goes on without its place")
		}
		go func() {
			other.take()
			came <- other.taken
		}()
		synctest.Wait()
		cancel()
		if <-came {
			t.Error("it has a place though its run has ended")
		}
		other.end()
		one.end()
		use(0, 0)
	})
}

// A crawl that parses one page at a time reads many sitemaps, though their entries fill its frontier.
func TestOneParserAndManySitemaps(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Config{Hosts: 6, Pages: 200, CrossHost: 0.3,
		Sitemaps: &testweb.Sitemaps{Orphans: 20}})
	s := quick(web)
	s.Scope, s.ParseSemaphoreLimit, s.GlobalFrontierSizeLimit, s.Exclude = "any", 1, 50, []string{"/never/"}
	if rep, _ := crawlAll(t, s, web.StartURLs()...); rep.Outcomes["ok"] != 6*(200+20) {
		t.Errorf("%v", rep.Outcomes)
	}
}

// brokenReads panics while a sitemap is read.
type brokenReads struct{ fetch.Fetcher }

func (f brokenReads) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	res, err := f.Fetcher.Do(ctx, r)
	if err == nil && r.Mode == fetch.Stream && res.OK() {
		res.Reader = brokenReader{}
	}
	return res, err
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("as a fault of the crawler would") }

// A sitemap at which the crawler fails does not keep its place among what is parsed at once.
func TestPlaceAfterAPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Pages: 300, Sitemaps: &testweb.Sitemaps{}})
		s := quick(web.Server)
		s.ParseSemaphoreLimit = 1
		o := web.options(s, newDir(t), web.StartURLs()...)
		o.Fetcher, o.Log = brokenReads{o.Fetcher}, slog.New(slog.DiscardHandler)
		if rep, err := runAlone(t.Context(), o); err != nil || rep.Outcomes["ok"] != 300 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}
