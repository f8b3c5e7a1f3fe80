package crawl

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// Links that are not followed are counted once, though the crawl is killed after it read them, or while it reads a
// sitemap for the first time.
func TestSkippedLinksAfterKills(t *testing.T) {
	t.Parallel()
	var half, open atomic.Bool // half of the sitemap was sent; the rest follows at once
	var read atomic.Int32      // pages asked for
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprintf(w, "Sitemap: http://%s/deep/sitemap.xml\n", r.Host)
		case "/deep/sitemap.xml":
			fmt.Fprintf(w, `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://else.test/1</loc></url><url><loc>http://else.test/2</loc></url>`)
			for i := range 300 {
				fmt.Fprintf(w, "<url><loc>http://%s/deep/photo%d.jpg</loc></url>", r.Host, i)
			}
			_ = http.NewResponseController(w).Flush() // the client may be gone
			half.Store(true)
			if !open.Load() {
				<-r.Context().Done()
				return
			}
			fmt.Fprint(w, "<url><loc>http://else.test/3</loc></url></urlset>")
		case "/", "/a":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<html><title>%s</title><a href=/a>a</a> <a href="mailto:a@b.test">m</a> <a href="http://else.test/">e</a> <a href=/x.jpg>x</a>`, r.URL.Path)
			read.Add(1)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"crawl", "--start-url", web.URL + "/", "--profile", "own-site", "--skip-extensions", "jpg",
		"--data-dir", dir}
	for range 2 {
		p := e2e.Start(t, args...)
		p.Until("both pages are recorded and the sitemap is being read", func() bool {
			return half.Load() && read.Load() >= 2 && e2e.Status(t, dir).Outcomes["ok"] == 2
		})
		e2e.Flush(t, dir)
		p.Kill()
		half.Store(false)
		args = []string{"resume", "--data-dir", dir}
	}
	open.Store(true)
	rep := e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
	want := map[string]int{"not_http": 2, "out_of_scope": 2, "sitemap_cross_site": 3, "extension": 2 + 300}
	if !maps.Equal(rep.SkippedLinks, want) {
		t.Errorf("links were skipped for %v, want %v", rep.SkippedLinks, want)
	}
	if n := read.Load(); n != 2 {
		t.Errorf("%d pages were fetched, want 2", n)
	}
}
