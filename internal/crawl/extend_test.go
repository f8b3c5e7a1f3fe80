package crawl

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
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
	})
	set := func(url string, answer any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.urls[url] = answer
		s.asked = nil
	}
	dir := newDataDir(t)
	rep, _ := s.crawl(dir, nil, "http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 7 {
		t.Fatalf("first crawl: %s, %v", rep.Status, rep.Outcomes)
	}
	set("a.test/", `<html>home again`)
	forbid := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	set("c.test/", http.HandlerFunc(forbid))
	set("b.test/home", plainPage)
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
	for _, url := range []string{"a.test/", "b.example/1", "c.example/1", "d.test/"} {
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
