//go:build browser

package results

import (
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/internal/test/browsertest"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The report of a real crawl opens from disk. README.md shows the pictures.
func TestBrowserReport(t *testing.T) {
	web := e2e.Serve(t, testweb.Config{Pages: 400, Seed: 7, Faults: testweb.OnAll(testweb.RedirectChain{Length: 3},
		testweb.StatusPages{}, testweb.NoIndex{Count: 20}, testweb.Canonical{}, testweb.Disallow{Count: 8}),
		Sitemaps: &testweb.Sitemaps{Orphans: 12}})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
		web.Resolve(),
		"--data-dir", dir, "--links"))
	b := browsertest.Start(t)
	for _, look := range append(browsertest.Looks(), browsertest.Look{Width: 1200, Height: 1500}) {
		t.Run(look.String(), func(t *testing.T) {
			tab := b.Tab(t, look)
			tab.OpenFile(filepath.Join(dir, "report.html"))
			tab.FitsWidth()
			tab.Axe()
			if !tab.Holds("document.querySelector('a.file[href=\"sitemap.jsonl\"]') !== null") {
				t.Error("the files are not linked")
			}
			tab.Screenshot("report")
			tab.ScreenshotOfView("report-view")
		})
	}
}
