//go:build browser

package ui

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/browsertest"
)

// save writes a page to a file.
func save(t *testing.T, rep *report.Report) string {
	t.Helper()
	text, err := Render(rep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A page with everything, one with hostile texts and one of a crawl that failed are shown without faults at every size,
// in dark and light, with and without scripts.
func TestBrowserShowsReports(t *testing.T) {
	for name, rep := range map[string]*report.Report{
		"report-everything": sample(12, plainURL), "report-hostile": sample(8, hostile),
		"report-failed": {Status: page.Failed, Reason: "no start URL answered",
			StartURLs: []string{"https://a.test/"}, Errors: []string{"https://a.test/: no answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := save(t, rep)
			b := browsertest.Start(t)
			for _, look := range browsertest.Looks() {
				t.Run(look.String(), func(t *testing.T) {
					tab := b.Tab(t, look)
					tab.OpenFile(path)
					tab.FitsWidth()
					tab.Axe()
					tab.Screenshot(name)
					if tab.OpenDetails() {
						tab.FitsWidth()
						tab.Axe()
					}
					ground := browsertest.Eval[string](tab, "getComputedStyle(document.body).backgroundColor")
					if want := map[bool]string{false: "rgb(255, 255, 255)",
						true: "rgb(13, 17, 23)"}[look.Dark]; ground != want {
						t.Errorf("the background is %s, want %s", ground, want)
					}
					scripts := browsertest.Eval[int](tab, "document.querySelectorAll('script').length")
					if images := browsertest.Eval[int](tab,
						"document.querySelectorAll('img, iframe, object, embed').length"); scripts != 1 || images > 0 {
						t.Errorf("%d scripts and %d images or frames", scripts, images)
					}
				})
			}
		})
	}
}

// On paper nothing is cut off at the right: a table cannot be scrolled there.
func TestBrowserPrintsReports(t *testing.T) {
	b := browsertest.Start(t)
	for name, rep := range map[string]*report.Report{"print-everything": sample(12, plainURL),
		"print-hostile": sample(8, hostile)} {
		t.Run(name, func(t *testing.T) {
			tab := b.Tab(t, browsertest.Look{Width: 718, Height: 1000}) // A4 with usual margins
			tab.OpenFile(save(t, rep))
			tab.Do(browsertest.Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
			tab.FitsWidth()
			tab.Screenshot(name)
		})
	}
}

// Tables are sorted with the keyboard alone, and the place of the focus is seen.
func TestBrowserSortsTables(t *testing.T) {
	tab := browsertest.Start(t).Tab(t, browsertest.Look{})
	tab.OpenFile(save(t, sample(30, plainURL)))
	column := func() []int {
		return browsertest.Eval[[]int](tab, `[...[...document.querySelectorAll("table.sortable")]
			.find(t => t.caption.textContent === "Sections by size").tBodies[0].rows].map(r => Number(r.cells[1].dataset.key))`)
	}
	before := column()
	browsertest.Eval[chromedp.Void](tab,
		`[...document.querySelectorAll("table.sortable")].find(t => t.caption.textContent === "Sections by size").tHead.rows[0].cells[0].querySelector("button").focus()`)
	tab.Do(chromedp.KeyEvent(kb.Tab)) // from the first column to the second
	if outline := browsertest.Eval[string](tab,
		"getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("the outline of the element with the focus is %q", outline)
	}
	tab.Do(chromedp.KeyEvent(kb.Enter))
	up := column()
	if slices.Equal(before, up) || !slices.IsSorted(up) {
		t.Errorf("sorted upwards: %v", up)
	}
	tab.Do(chromedp.KeyEvent(kb.Enter))
	if down := column(); !slices.Equal(down, before) {
		t.Errorf("sorted downwards: %v", down)
	}
	if sorted := browsertest.Eval[string](tab,
		`document.activeElement.parentElement.getAttribute("aria-sort")`); sorted != "descending" {
		t.Errorf("aria-sort is %q", sorted)
	}
}
