package results

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// Pages whose tree would take gigabytes are recorded with the reason, and the crawl goes on within its memory.
func TestExtractFromHostilePages(t *testing.T) {
	t.Parallel()
	var formatting strings.Builder
	for i := range 240 {
		fmt.Fprintf(&formatting, "<b i%d>", i)
	}
	pages := map[string]string{
		"/":      `<a href=/p>1</a><a href=/table>2</a><a href=/deep>3</a><a href=/large>4</a><b>start</b>`,
		"/large": strings.Repeat("<p>x", 700_000),
		"/p":     "<p>" + formatting.String() + strings.Repeat("<p>x", 50_000),
		"/table": "<table><td><p>" + strings.ReplaceAll(formatting.String(), "<b", "<font") +
			strings.Repeat("<p>x", 40_000),
		"/deep":     strings.Repeat("<div>", 600) + "<a href=/ordinary>4</a>",
		"/ordinary": "<p><b>bold</b><p>plain",
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, body)
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Ended(t, e2e.Run(t, "crawl", "--start-url", site.URL, "--profile", "own-site", "--allow-private", "--data-dir",
		dir,
		"--csv", "--extract", "bold=b"), dir, 0, "complete", "")
	lines := e2e.ReadLines(t, dir)
	// On a slow machine any of the large pages may take too much time. Package htmltree tests memory and time alone.
	for path, want := range map[string]struct{ err, extracted string }{
		"/":         {"", "map[bold:start]"},
		"/p":        {"any", ""},
		"/table":    {"any", ""},
		"/large":    {"extract: ", "map[]"},
		"/deep":     {"extract: ", "map[]"},
		"/ordinary": {"", "map[bold:bold]"},
	} {
		l := lines[site.URL+path]
		wrong := want.err != "any" && (!strings.HasPrefix(l.Error, want.err) || (l.Error == "") != (want.err == ""))
		if l.Outcome != "ok" || wrong || want.extracted != "" && fmt.Sprint(l.Extracted) != want.extracted {
			t.Errorf("%s: outcome %s, error %q, extracted %v", path, l.Outcome, l.Error, l.Extracted)
		}
	}
	rows, err := csv.NewReader(e2e.Open(t, dir, "sitemap.csv")).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		want, of := map[string]string{"url": "extracted.bold", site.URL + "/": "start",
			site.URL + "/ordinary": "bold"}[row[0]], row[len(row)-1]
		if want != "" && of != want {
			t.Errorf("the last column of %s is %q, want %q", row[0], of, want)
		}
	}
}
