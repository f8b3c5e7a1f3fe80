package crawl

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// A dry run asks for robots.txt and sitemaps, says what would be fetched, and leaves nothing behind.
func TestDryRun(t *testing.T) {
	t.Parallel()
	site, asked := paramSite(t)
	where := t.TempDir()
	dir := filepath.Join(where, "data")
	got := e2e.Run(t, "crawl", "--dry-run", site.URL, "--data-dir", dir, "--json", "--max-urls", "9", "--exclude", "/listed")
	e2e.Succeeded(t, got)
	var said struct {
		WouldFetch int64            `json:"would_fetch"`
		Sources    map[string]int64 `json:"sources"`
		LeftOut    map[string]int64 `json:"left_out"`
		MaxURLs    int              `json:"max_urls"`
	}
	if err := json.Unmarshal([]byte(got.Stdout), &said); err != nil || said.WouldFetch != 2 || said.MaxURLs != 9 ||
		said.Sources["start"] != 1 || said.Sources["sitemap"] != 1 || said.LeftOut["excluded"] != 1 {
		t.Errorf("%v: %s", err, got.Stdout)
	}
	if got, want := asked(), []string{"/map.xml?utm_source=robots", "/robots.txt"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
	got = e2e.Run(t, "crawl", "--dry-run", "-v", site.URL, "--data-dir", dir)
	if got.Code != 0 || !strings.Contains(got.Stdout, "Would fetch  3 URLs (sitemap 2, start 1)") ||
		!strings.Contains(got.Stderr, `msg="would fetch" url=`+site.URL+"/listed source=sitemap") ||
		strings.Contains(got.Stdout+got.Stderr, "no XML sitemap") || strings.Contains(got.Stdout, "-v lists") {
		t.Errorf("exit status %d", got.Code)
	}
	if e2e.Exists(t, where, "data") {
		t.Error("it made the data directory")
	}
	e2e.Refused(t, e2e.Run(t, "crawl", "--dry-run", site.URL, "--cluster", "postgres://127.0.0.1:1/x"), "one machine")
}
