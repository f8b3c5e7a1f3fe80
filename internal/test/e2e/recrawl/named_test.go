package recrawl

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A sitemap that was first read in a usual place is one that robots.txt names once it does: it is read though a rule
// disallows it, and is missed if it is gone.
func TestUsualPlaceThatIsNamedLater(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		var later atomic.Bool
		resolve := e2e.Handlers(t, map[string]http.HandlerFunc{
			"site.test": func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/robots.txt" && later.Load():
					_, _ = io.WriteString(w, "Sitemap: http://site.test/sitemap.xml\nUser-agent: *\nDisallow: /site\n")
				case r.URL.Path == "/sitemap.xml" && later.Load() && gone, r.URL.Path == "/sitemap_index.xml",
					r.URL.Path == "/robots.txt":
					http.NotFound(w, r)
				case r.URL.Path == "/sitemap.xml":
					w.Header().Set("Content-Type", "application/xml")
					pages := "<url><loc>http://site.test/old</loc></url>"
					if later.Load() {
						pages += "<url><loc>http://site.test/new</loc></url>"
					}
					_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">%s</urlset>`, pages)
				}
			},
		})
		dir := filepath.Join(t.TempDir(), "data")
		e2e.Run(t, "crawl", "http://site.test/", "--resolve", resolve, "--data-dir", dir)
		later.Store(true)
		e2e.Run(t, "recrawl", "--data-dir", dir)
		lines, warned := e2e.ReadLines(t, dir), strings.Join(e2e.ReadReport(t, dir).Warnings, "\n")
		_, found := lines["http://site.test/new"]
		if found == gone || strings.Contains(warned, "sitemap.xml: status 404") != gone {
			t.Errorf("gone: %v; the new page was found: %v, warnings %q", gone, found, warned)
		}
	}
}
