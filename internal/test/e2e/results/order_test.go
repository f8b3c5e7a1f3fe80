package results

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The same crawl gives the same order in every output, although each crawl draws a seed of its own.
func TestOrderOfOutputs(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 3, Pages: 60, Hosts: 4})
	patterns := map[string]string{"sitemap.jsonl": `(?m)^\{"schema_version":\d+,"url":"([^"]+)"`,
		"sitemap.csv": `(?m)^(http[^,]+),`}
	urls := func() map[string]string {
		dir := filepath.Join(t.TempDir(), "data")
		e2e.Succeeded(t, e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--scope",
			"any",
			"--resolve", web.Resolve(), "--data-dir", dir, "--csv"))
		lists := map[string]string{"sitemap.xml": strings.Join(listed(t, dir, "sitemap.xml"), "\n")}
		if strings.Count(lists["sitemap.xml"], "\n") < 50 {
			t.Errorf("the XML sitemaps have %q", lists["sitemap.xml"])
		}
		for name, pattern := range patterns {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
			if len(found) < 50 {
				t.Errorf("%s has %d URLs", name, len(found))
			}
			for _, f := range found {
				lists[name] += f[1] + "\n"
			}
		}
		return lists
	}
	first := urls()
	for range 2 {
		if again := urls(); !maps.Equal(again, first) {
			t.Errorf("another order:\n%v\nafter\n%v", again, first)
		}
	}
}
