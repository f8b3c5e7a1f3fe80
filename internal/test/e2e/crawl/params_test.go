package crawl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// paramSite is a site whose start page, sitemap, redirects and canonical links name pages with parameters that do not
// count. It writes down what it was asked for.
func paramSite(t *testing.T) (site *httptest.Server, asked func() []string) {
	var mu sync.Mutex
	var uris []string
	pages := map[string]string{
		"/": `<a href="/a?utm_source=x">1</a> <a href="/a?fbclid=2#top">2</a> <a href="/b?id=1&amp;utm_medium=y&amp;z=2">3</a>
			<a href="/b?z=2&amp;id=1">4</a> <a href="/moved">5</a> <a href="/wants?gclid=1">6</a> <a href="/c?sid=4">7</a>`,
		"/a":  `<link rel=canonical href="/a?utm_campaign=c"><link rel=alternate hreflang=de href="/de?utm_source=h">`,
		"/de": `<link rel=canonical href="/de"><link rel=alternate hreflang=en href="/a">`,
		"/b":  "b", "/c": "c", "/listed": "listed", "/wants": "wants",
	}
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		uris = append(uris, r.RequestURI)
		mu.Unlock()
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nDisallow:\nSitemap: http://%s/map.xml?utm_source=robots\n", r.Host)
		case path == "/map.xml":
			fmt.Fprintf(w, "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>http://%[1]s/listed?"+
				"utm_source=map</loc></url><url><loc>http://%[1]s/a?mc_cid=1</loc></url></urlset>", r.Host)
		case path == "/moved":
			http.Redirect(w, r, "/a?utm_source=moved", http.StatusFound)
		case path == "/wants" && r.URL.RawQuery == "":
			http.Redirect(w, r, "/wants?utm_source=wanted", http.StatusFound)
		default:
			text, ok := pages[path]
			if !ok {
				w.WriteHeader(http.StatusNotFound)
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<title>%s</title>%s", path, text)
		}
	}))
	t.Cleanup(site.Close)
	return site, func() []string {
		mu.Lock()
		defer mu.Unlock()
		sorted := slices.Sorted(slices.Values(uris))
		uris = nil
		return sorted
	}
}

// Pages that differ only by parameters that do not count are one page, whatever names them. A page that redirects to
// itself with such a parameter is fetched with it. Resume and recrawl keep the parameters.
func TestParams(t *testing.T) {
	t.Parallel()
	site, asked := paramSite(t)
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Run(t, "crawl", site.URL+"/?utm_source=start", "--data-dir", dir, "--delay", "0", "--max-urls", "3", "--links")
	e2e.Refused(t, e2e.Run(t, "resume", dir, "--ignore-params", "none", "--only-params", "id"),
		`flag --ignore-params: the crawl was begun with "utm_*,`, "flag --only-params: the crawl was begun without any")
	if got := e2e.Run(t, "resume", dir, "--max-urls", "0"); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	pages := []string{"/", "/a", "/b?id=1&z=2", "/b?z=2&id=1", "/c?sid=4", "/de", "/listed", "/moved", "/wants",
		"/wants?utm_source=wanted"}
	want := slices.Sorted(slices.Values(append([]string{"/map.xml?utm_source=robots", "/robots.txt"}, pages...)))
	if got := asked(); !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if got := e2e.Run(t, "recrawl", dir); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	if got := asked(); !slices.Equal(got, want) {
		t.Errorf("the recrawl asked for %q, want %q", got, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]any{}
	for line := range strings.Lines(string(text)) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines[strings.TrimPrefix(l["url"].(string), site.URL)] = l
	}
	if len(lines) != len(pages) {
		t.Errorf("%d URLs, want %d", len(lines), len(pages))
	}
	for _, c := range []struct {
		page, field string
		want        any
	}{
		{"/a", "indexable", true}, {"/a", "canonical_url", site.URL + "/a"}, {"/a", "in_sitemap", true},
		{"/listed", "in_sitemap", true}, {"/moved", "redirect_to", site.URL + "/a"},
		{"/wants", "redirect_to", site.URL + "/wants?utm_source=wanted"}, {"/wants", "outcome", "redirect"},
		{"/wants?utm_source=wanted", "outcome", "ok"},
	} {
		if got := lines[c.page][c.field]; got != c.want {
			t.Errorf("%s of %s is %v, want %v", c.field, c.page, got, c.want)
		}
	}
	links, err := os.ReadFile(filepath.Join(dir, "links.jsonl"))
	if err != nil || strings.Contains(string(links), "utm_") || strings.Contains(string(links), "fbclid") {
		t.Errorf("links.jsonl: %v\n%s", err, links)
	}
}

// The list can be emptied, and all parameters but some can be removed.
func TestOnlyParams(t *testing.T) {
	t.Parallel()
	site, asked := paramSite(t)
	for flags, want := range map[string]string{
		"--ignore-params none":       "/?utm_source=s /a?fbclid=2 /a?utm_source=x /b?id=1&utm_medium=y&z=2",
		"--only-params id,sid":       "/ /a /b?id=1 /c?sid=4",
		"--ignore-params default,z":  "/ /a /b?id=1 /c?sid=4",
		"--ignore-params *":          "/ /a /b /c",
		"--ignore-params utm_*,none": "/ /a /a?fbclid=2 /b?id=1&z=2",
	} {
		args := append([]string{"crawl", site.URL + "/?utm_source=s", "--delay", "0", "--seeding-strategy", "none",
			"--data-dir", filepath.Join(t.TempDir(), "data")}, strings.Fields(flags)...)
		if got := e2e.Run(t, args...); got.Code != 0 {
			t.Fatalf("%s: exit status %d", flags, got.Code)
		}
		got := asked()
		for _, uri := range strings.Fields(want) {
			if !slices.Contains(got, uri) {
				t.Errorf("%s: asked for %q, want %s", flags, got, uri)
			}
		}
		if flags != "--ignore-params none" && slices.Contains(got, "/a?utm_source=x") {
			t.Errorf("%s: asked for %q", flags, got)
		}
	}
	e2e.Refused(t, e2e.Run(t, "crawl", "a.test", "--ignore-params", "a=b,c", "--only-params", "x*y"),
		`flag --ignore-params: "a=b" is not the name of a parameter`, `flag --only-params: "x*y" is not`)
}
