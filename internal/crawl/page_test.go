package crawl

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
)

// serveSite serves handlers by path on loopback as long as the test lasts.
func serveSite(t *testing.T, handler http.Handler) (root string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// small are settings for the crawl of a site on the loopback address.
func small() *config.Settings {
	s := config.Defaults(config.OwnSite)
	s.MaxWorkers, s.BloomCapacity = 16, 100_000
	return s
}

// The query of a link goes out in the encoding of its page, as browsers send it; its path goes out in UTF-8 whatever
// the page is in.
func TestLinksGoOutAsBrowsersSendThem(t *testing.T) {
	pages := map[string]struct{ contentType, body string }{
		"/": {"text/html; charset=utf-8",
			`<a href=/latin>l</a> <a href=/ascii>a</a> <a href=/sjis>j</a> <a href=/meta>m</a> <a href="/é?q=é">u</a>`},
		"/latin": {"text/html; charset=iso-8859-1",
			must(charmap.Windows1252.NewEncoder().String(`<a href="/é?from=latin&amp;q=é">x</a>`))},
		// The page has no byte that is not ASCII, and its link has.
		"/ascii": {"text/html; charset=windows-1252", `<a href="/&eacute;?from=ascii&amp;q=&eacute;">x</a>`},
		"/sjis": {"text/html; charset=shift_jis",
			must(japanese.ShiftJIS.NewEncoder().String(`<a href="/東?from=sjis&amp;q=東">x</a>`))},
		"/meta": {"text/html", must(charmap.Windows1251.NewEncoder().String(`<meta charset=windows-1251><a href="/я?from=meta&amp;q=я">x</a>`))},
	}
	var mu sync.Mutex
	asked := map[string]bool{} // guarded by mu
	root := serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.RequestURI] = true
		mu.Unlock()
		p, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", p.contentType)
		_, _ = io.WriteString(w, p.body)
	}))
	crawlAll(t, small(), root+"/")
	for _, want := range []string{
		"/%C3%A9?q=%C3%A9", "/%C3%A9?from=latin&q=%E9", "/%C3%A9?from=ascii&q=%E9", "/%E6%9D%B1?from=sjis&q=%93%8C",
		"/%D1%8F?from=meta&q=%FF",
	} {
		if !asked[want] {
			t.Errorf("%s was not asked for; these were: %q", want, slices.Collect(maps.Keys(asked)))
		}
	}
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}

// URLs and names that nothing can hold are counted and left out, wherever they come from; the crawl goes on.
func TestEndlessURLs(t *testing.T) {
	name, path := strings.Repeat("a", 300)+".test", strings.Repeat("é", 8000)
	root := serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			_, _ = io.WriteString(w,
				`<a href="http://`+name+`/">x</a> <a href="/`+path+`">y</a> <a href="/away">z</a> <a href="/last">z</a>`)
		case "/away":
			http.Redirect(w, r, "http://"+name+"/", http.StatusFound)
		case "/sitemap.xml":
			_, _ = io.WriteString(w, `<urlset><url><loc>http://`+name+`/</loc></url></urlset>`)
		case "/robots.txt":
			_, _ = io.WriteString(w,
				"Sitemap: http://"+r.Host+"/sitemap.xml\nSitemap: http://"+name+"/s.xml\nSitemap: http://"+r.Host+"/"+strings.Repeat("s", frontier.MaxURL)+"\n")
		}
	}))
	s := small()
	s.Scope = "any"
	rep, _ := crawlAll(t, s, root+"/")
	if rep.Status != page.Complete || rep.Outcomes["ok"] != 2 || rep.SkippedLinks[scope.TooLong.String()] < 3 {
		t.Errorf("the crawl ended %s with %v, skipped %v", rep.Status, rep.Outcomes, rep.SkippedLinks)
	}
}

// A page that is nested too deeply for --extract is read all the same.
func TestDeepPageIsReadDespiteExtract(t *testing.T) {
	t.Parallel()
	s := newHandSite(t, map[string]any{
		"a.test/":  "<html><title>deep</title>" + strings.Repeat("<div>", 1000) + `<a href="/1">x</a>`,
		"a.test/1": plainPage,
	})
	_, lines := s.crawl(newDataDir(t), func(o *config.Settings) { o.Extract = []string{"t=title"} }, "http://a.test/")
	if got := lines["http://a.test/"]; got.Title != "deep" || got.Outcome != "ok" || got.Error == "" {
		t.Errorf("recorded %+v", got)
	}
	if got := lines["http://a.test/1"]; got.Extracted["t"] != "a page" {
		t.Errorf("recorded %+v", got)
	}
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status   int
		location string
		want     page.Outcome
	}{
		{200, "", page.OK}, {204, "", page.OK}, {299, "/a", page.OK},
		{206, "", page.HTTPError}, // a part, for which no crawl asks
		{301, "/a", page.Redirect}, {301, "", page.HTTPError}, {304, "/a", page.HTTPError},
		{404, "", page.HTTPError}, {429, "", page.Throttled}, {503, "", page.HTTPError},
	} {
		if got := outcomeOf(c.status, c.location); got != c.want {
			t.Errorf("%d with the location %q is %s, want %s", c.status, c.location, got, c.want)
		}
	}
}
