package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
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
		"www.x.test/": plainPage, "api.x.test/": plainPage, "dev.x.test/": plainPage, "www.x.test/old": plainPage, "shop.x.test/a?b=c": plainPage,
		"www.x.test/robots.txt": "User-agent: *\nDisallow: /secret\n",
	})
	ct, _ := certificates(t, "*.x.test", "api.x.test", "*.dev.x.test", "www.x.test", "else.test")
	cc := archive(t, "http://www.x.test/", "http://www.x.test/old", "http://shop.x.test/a?b=c", "http://www.x.test/secret", "http://www.x.test/img.png")
	dir := newDataDir(t)
	rep, lines := s.crawl(dir, func(o *config.Settings) {
		o.SeedingStrategy = []string{"ct", "commoncrawl"}
		o.CTBaseURL, o.CommonCrawlBaseURL = ct.URL, cc.URL
		o.SkipExtensions = []string{"png"}
		o.Headers = []string{"Authorization: Basic c2VjcmV0"}
	}, "http://www.x.test/")
	wantURLs(t, "from certificates", bySource(lines, "ct"), "http://x.test/", "http://api.x.test/", "http://dev.x.test/")
	wantURLs(t, "from the archive", bySource(lines, "commoncrawl"), "http://www.x.test/old", "http://shop.x.test/a?b=c", "http://www.x.test/secret")
	if got := lines["http://www.x.test/secret"].Outcome; got != "blocked_by_robots" || s.requests()["www.x.test/secret"] > 0 {
		t.Errorf("what robots.txt forbids is %s", got)
	}
	if rep.Status != Complete || len(rep.Warnings) > 0 || rep.SkippedLinks[string(ByExtension)] != 1 {
		t.Errorf("%s, warnings %q, skipped %v", rep.Status, rep.Warnings, rep.SkippedLinks)
	}
}

// A dead source is a warning, and the crawl is as complete as it would have been without. A resume asks it again, but not the others.
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
		o.SeedingStrategy = []string{"all"}
		o.CTBaseURL, o.CommonCrawlBaseURL = ct.URL, gate.URL
	}
	rep, lines := s.crawl(dir, change, "http://www.x.test/")
	if rep.Status != Complete || len(rep.Warnings) != 1 || !strings.Contains(rep.Warnings[0], "seeding from commoncrawl") || !strings.Contains(rep.Warnings[0], "status 403") {
		t.Errorf("%s, warnings %q", rep.Status, rep.Warnings)
	}
	wantURLs(t, "from certificates", bySource(lines, "ct"), "http://x.test/", "http://api.x.test/")

	busy.Store(false)
	plan, err := ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	rep, lines = s.run(Options{Settings: s.settings(change), Plan: plan, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	wantURLs(t, "from the archive after a resume", bySource(lines, "commoncrawl"), "http://www.x.test/old")
	if rep.Status != Complete || asked.Load() != 1 {
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
	if _, ok := lines["http://api.x.test/"]; !ok || rep.Status != Complete {
		t.Errorf("%s without what the source named", rep.Status)
	}

	fetched = make(chan struct{})
	close(interrupt)
	s.urls["www.x.test/"] = plainPage
	go func() { close(fetched) }()
	// The source answers no more, so the run ends only if it does not wait for it.
	rep, _ = s.run(Options{Settings: s.settings(change), Starts: []Start{{URL: mustURL(t, "http://www.x.test/")}}, Dir: newDataDir(t), Log: slog.New(slog.DiscardHandler), Interrupted: interrupt})
	if rep.Status != Cancelled {
		t.Errorf("status %s, want %s", rep.Status, Cancelled)
	}
}

func TestSeedDomains(t *testing.T) {
	var list []Start
	for _, u := range []string{"https://www.example.co.uk/", "http://example.co.uk/x", "http://a.github.io/", "http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://b.test/"} {
		list = append(list, Start{URL: mustURL(t, u)})
	}
	if got := seedDomains(list); !slices.Equal(got, []string{"example.co.uk", "a.github.io", "b.test"}) {
		t.Errorf("got %q", got)
	}
}

type fakeDNS map[string]error

func (f fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if err := f[host]; err != nil {
		return nil, err
	}
	return []netip.Addr{netip.IPv4Unspecified()}, nil
}

func TestNames(t *testing.T) {
	down := errors.New("no server answers")
	dns := fakeDNS{"gone.test": &net.DNSError{IsNotFound: true}, "unknown.test": &net.DNSError{Err: "timeout", IsTimeout: true, UnwrapErr: down}}
	for _, c := range []struct {
		resolve []string
		proxy   string
		host    string
		want    string
		err     error
	}{
		{nil, "", "here.test", "https", nil},
		{nil, "", "gone.test", "", nil},
		{nil, "", "unknown.test", "", down},
		{nil, "http://proxy.test", "gone.test", "https", nil},
		{[]string{"*:80:127.0.0.1"}, "", "gone.test", "http", nil},
		{[]string{"*:80:127.0.0.1", "*.test:443:127.0.0.1"}, "", "gone.test", "https", nil},
		{[]string{"*.else:443:127.0.0.1", "else.test:*:127.0.0.1"}, "", "gone.test", "", nil},
		{[]string{"gone.test:*:127.0.0.1"}, "", "gone.test", "https", nil},
	} {
		n, err := newNames(&config.Settings{Resolve: c.resolve, Proxy: c.proxy})
		if err != nil {
			t.Fatal(err)
		}
		n.dns = dns
		if got, err := n.Scheme(t.Context(), c.host); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s by %q and proxy %q: %q, %v", c.host, c.resolve, c.proxy, got, err)
		}
	}
}
