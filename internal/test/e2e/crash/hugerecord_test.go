package crash

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A page and a robots.txt that make each of 20,000 links a long record, more than fits into one entry of the log, do
// not end the crawl.
func TestHugeRecord(t *testing.T) {
	t.Parallel()
	const links = 20_000
	rule := "Disallow: /x" + strings.Repeat("*", 16_000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\n%s\n", rule)
		case "/":
			w.Header().Set("Content-Type", "text/html")
			for i := range links {
				fmt.Fprintf(w, "<a href=/x%d>", i)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	dir := filepath.Join(t.TempDir(), "data")
	rep := e2e.Ended(t, e2e.Run(t, "crawl", "--start-url", web.URL+"/", "--profile", "own-site", "--data-dir", dir),
		dir, 0,
		"complete", "")
	if rep.Outcomes["blocked_by_robots"] != links || rep.Outcomes["ok"] != 1 {
		t.Errorf("outcomes %v, want 1 ok and %d blocked_by_robots", rep.Outcomes, links)
	}
	if l := e2e.ReadLines(t, dir)[web.URL+"/x1"]; l.Robots == nil || !strings.HasPrefix(l.Robots.Rule,
		"Disallow: /x**") ||
		len(l.Robots.Rule) > 1100 {
		t.Errorf("robots %.200v", l.Robots)
	}
}
