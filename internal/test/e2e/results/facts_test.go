package results

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// What is asked for beyond a page's links and usual facts reaches the map.
func TestAskedFor(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>%s</title><b class=price>3.50</b><i data-sku=77>tea</i>
			<script type="application/ld+json">{"@type":"Product","url":"/from-json-ld"}</script>
			<script id="__NEXT_DATA__" type="application/json">{"props":{"href":"/from-next-data"}}</script>`, r.URL.Path)
	}))
	t.Cleanup(site.Close)
	crawl := func(flags ...string) map[string]e2e.Line {
		dir := filepath.Join(t.TempDir(), "data")
		args := append([]string{"crawl", "--start-url", site.URL, "--profile", "own-site", "--ignore-robots",
			"--allow-private", "--data-dir", dir}, flags...)
		e2e.Ended(t, e2e.Run(t, args...), dir, 0, "complete", "")
		return e2e.ReadLines(t, dir)
	}

	plain := crawl()
	if found := slices.Sorted(maps.Keys(plain)); len(found) != 1 || plain[found[0]].Extracted != nil {
		t.Errorf("without being asked: %v, extracted %v", found, plain[found[0]].Extracted)
	}
	asked := crawl("--structured-links", "--extract", "price=.price", "--extract", "sku=i@data-sku")
	var paths []string
	for _, u := range slices.Sorted(maps.Keys(asked)) {
		paths = append(paths, strings.TrimPrefix(u, site.URL))
		if got := fmt.Sprint(asked[u].Extracted); got != "map[price:3.50 sku:77]" {
			t.Errorf("%s: extracted %s", u, got)
		}
	}
	if got := strings.Join(paths, " "); got != "/ /from-json-ld /from-next-data" {
		t.Errorf("with structured links: %s", got)
	}
}
