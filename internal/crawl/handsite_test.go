package crawl

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
)

// handSite is a web of hand-written hosts: each URL, without its scheme, and what it answers. A text is a page; a
// handler is asked. Everything else is a 404, unless there is another answer to it.
type handSite struct {
	t     *testing.T
	srv   *httptest.Server
	urls  map[string]any
	other http.HandlerFunc

	mu    sync.Mutex
	asked []string // guarded by mu; URLs without their scheme, in order
}

func newHandSite(t *testing.T, urls map[string]any) *handSite {
	t.Helper()
	s := &handSite{t: t, urls: urls}
	s.srv = httptest.NewServer(s)
	t.Cleanup(s.srv.Close)
	return s
}

func (s *handSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	url := r.Host + r.URL.RequestURI()
	s.mu.Lock()
	s.asked = append(s.asked, url)
	s.mu.Unlock()
	switch answer := s.urls[url].(type) {
	case nil:
		if s.other != nil {
			s.other(w, r)
			return
		}
		http.NotFound(w, r)
	case string:
		if strings.HasPrefix(answer, "<html") {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write([]byte(answer))
	case http.HandlerFunc:
		answer(w, r)
	default:
		s.t.Errorf("%s: an answer of type %T", url, answer)
	}
}

// requests are how often each URL was asked for.
func (s *handSite) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, url := range s.asked {
		n[url]++
	}
	return n
}

// settings crawl the site as fast as it goes.
func (s *handSite) settings(change func(*config.Settings)) *config.Settings {
	o := config.Defaults(config.OwnSite)
	o.MaxWorkers, o.BloomCapacity = 8, 10_000
	o.Resolve = []string{"*:80:" + s.srv.Listener.Addr().String()}
	if change != nil {
		change(o)
	}
	return o
}

// crawl runs a crawl of the site to its end.
func (s *handSite) crawl(dir datadir.Dir, change func(*config.Settings), starts ...string) (*report.Report,
	map[string]page.Line) {
	s.t.Helper()
	o := Options{Settings: s.settings(change), Dir: dir, Log: slog.New(slog.DiscardHandler)}
	for _, u := range starts {
		o.Starts = append(o.Starts, datadir.Start{URL: mustURL(s.t, u)})
	}
	return s.run(o)
}

func (s *handSite) run(o Options) (*report.Report, map[string]page.Line) {
	s.t.Helper()
	return s.runUntil(o, nil)
}

// runUntil runs a crawl and stops it gracefully when the channel is closed, if it is not nil.
func (s *handSite) runUntil(o Options, interrupt <-chan struct{}) (*report.Report, map[string]page.Line) {
	s.t.Helper()
	rep, err := runUntil(s.t.Context(), o, interrupt)
	if err != nil {
		s.t.Fatal(err)
	}
	return rep, recorded(s.t, o.Dir)
}

func recorded(t *testing.T, dir datadir.Dir) map[string]page.Line {
	t.Helper()
	file, err := os.Open(dir.JSONL())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := map[string]page.Line{}
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var l page.Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		lines[l.URL.String()] = l
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// bySource are the URLs of a source, in order of their text.
func bySource(lines map[string]page.Line, source string) []string {
	list := []string{}
	for url, l := range lines {
		if l.Source == source {
			list = append(list, url)
		}
	}
	slices.Sort(list)
	return list
}

func wantURLs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

const plainPage = "<html><title>a page</title></html>"

// urlset is a sitemap of the given entries; each is a URL, or a URL and a lastmod.
func urlset(entries ...string) string { return xmlList("urlset", "url", entries) }

func sitemapIndex(entries ...string) string { return xmlList("sitemapindex", "sitemap", entries) }

func xmlList(root, item string, entries []string) string {
	text := "<" + root + ">"
	for _, e := range entries {
		loc, lastmod, dated := strings.Cut(e, " ")
		text += "<" + item + "><loc>" + loc + "</loc>"
		if dated {
			text += "<lastmod>" + lastmod + "</lastmod>"
		}
		text += "</" + item + ">"
	}
	return text + "</" + root + ">"
}
