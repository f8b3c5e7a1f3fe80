package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// SitemapFiles are the names of the files with URLs, in order: sitemap.xml, or what it names if it is an index.
func SitemapFiles(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	_, err := sitemap.Read(Open(t, dir, "sitemap.xml"), nil, func(e *sitemap.Entry) error {
		if e.Kind == sitemap.Child {
			names = append(names, e.Loc[strings.LastIndexByte(e.Loc, '/')+1:])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if names == nil {
		names = []string{"sitemap.xml"}
	}
	return names
}

// Location is one URL of an XML sitemap.
type Location struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod"`
}

// Open opens a file of a directory until the test ends.
func Open(t *testing.T, dir, name string) *os.File {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// Read is the content of a file of a directory.
func Read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// MustJSON is a value as JSON.
func MustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Handlers serves every host name on one loopback listener, and returns the --resolve value that leads there. A host
// that is not in the map does not answer but with 404; neither has robots.txt, unless a handler serves it.
func Handlers(t *testing.T, hosts map[string]http.HandlerFunc) (resolve string) {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ":")
		w.Header().Set("Content-Type", "text/html")
		if serve := hosts[name]; serve != nil {
			serve(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(site.Close)
	return "*:*:" + strings.TrimPrefix(site.URL, "http://")
}

// ReadJSON reads a file of a data directory into v.
func ReadJSON(t *testing.T, dir, name string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(Read(t, dir, name)), v); err != nil {
		t.Fatal(err)
	}
}

// Story is what a crawl found, without what depends on the moment.
func Story(lines map[string]Line) map[string]string {
	all := make(map[string]string, len(lines))
	for url, l := range lines {
		all[url] = fmt.Sprintf("%s %d %q %q %s %v %s", l.Outcome, l.StatusCode, l.RedirectTo, l.Title, l.ContentHash,
			l.Indexable, l.IndexableReason)
	}
	return all
}

// SameStory holds one crawl against another.
func SameStory(t *testing.T, got, want map[string]string) {
	t.Helper()
	for url, w := range want {
		if g, ok := got[url]; !ok {
			t.Errorf("%s is missing", url)
		} else if g != w {
			t.Errorf("%s: %s, want %s", url, g, w)
		}
	}
	for url := range got {
		if _, ok := want[url]; !ok {
			t.Errorf("%s should not be there", url)
		}
	}
}
