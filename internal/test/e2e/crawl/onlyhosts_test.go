package crawl

import (
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A redirect of robots.txt does not lead to a host that --only-hosts leaves out: the site has no robots.txt then.
func TestRobotsRedirectToAnotherHost(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"www.site.test": false, "www.site.test,other.test": true} {
		var asked atomic.Bool
		resolve := e2e.Handlers(t, map[string]http.HandlerFunc{
			"www.site.test": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.Redirect(w, r, "http://other.test/any?path", http.StatusFound)
					return
				}
				_, _ = io.WriteString(w, "<a href=/page>")
			},
			"other.test": func(http.ResponseWriter, *http.Request) { asked.Store(true) },
		})
		dir := filepath.Join(t.TempDir(), "data")
		got := e2e.Run(t, "crawl", "http://www.site.test/", "--only-hosts", name, "--seeding-strategy", "none",
			"--resolve", resolve, "--data-dir", dir)
		if got.Code != 0 || len(e2e.ReadLines(t, dir)) != 2 || asked.Load() != want {
			t.Errorf("--only-hosts %s: exit status %d, the other host was asked: %v", name, got.Code, asked.Load())
		}
	}
}
