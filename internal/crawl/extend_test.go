package crawl

import (
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
