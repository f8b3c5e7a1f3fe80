package results

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/problems"
	crawlreport "github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The figures of a report are those of its files; report.html shows the report, can be made again, and is not there if
// there is no report.
func TestReportHTML(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 120, Faults: testweb.OnAll(testweb.RedirectChain{Length: 3},
		testweb.StatusPages{}, testweb.NoIndex{}), Sitemaps: &testweb.Sitemaps{Orphans: 4}})
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
		web.Resolve(),
		"--data-dir", dir, "--links"))
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	rep := e2e.Parse[crawlreport.Report](t, string(text))
	shown, err := ui.Render(&rep)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "report.html")
	if got, err := os.ReadFile(page); err != nil || string(got) != string(shown) {
		t.Errorf("report.html is not the page of report.json (%v)", err)
	}
	lines := e2e.ReadLines(t, dir)
	var inSections, timed, found, settled int64
	for _, s := range rep.Figures.Sections.Items {
		inSections += s.URLs
		of := int64(0)
		for url := range lines {
			rest, inside := strings.CutPrefix(url, s.Section)
			if rest, _, _ := strings.Cut(rest, "?"); inside &&
				(strings.Count(s.Section, "/") > 3 || !strings.Contains(rest, "/")) {
				of++
			}
		}
		if of != s.URLs {
			t.Errorf("section %s has %d URLs in the report, %d in sitemap.jsonl", s.Section, s.URLs, of)
		}
	}
	for _, m := range rep.Timeline.Moments {
		found, settled = found+m.Found, settled+m.Crawled
	}
	for _, l := range lines {
		if l.StatusCode != 0 {
			timed++
		}
	}
	if n := int64(len(lines)); rep.URLs != n || inSections != n || found != n || settled != n ||
		rep.ResponseTimes.Count != timed {
		t.Errorf("%d lines with %d answers; the report has %d URLs, %d in sections, %d found, %d settled, %d timed", n,
			timed, rep.URLs, inSections, found, settled, rep.ResponseTimes.Count)
	}
	want := clicks(t, dir, web.StartURLs()[0], lines)
	if d := rep.ClickDepths; !d.Known || int64(len(lines)-len(want)) != d.Unreachable || d.Unreachable == 0 {
		t.Errorf("click depths are %+v; %d of %d URLs can be reached", d, len(want), len(lines))
	}
	counts := map[int]int64{}
	for _, n := range want {
		counts[n]++
	}
	for _, d := range rep.ClickDepths.Depths {
		if counts[d.Clicks] != d.URLs {
			t.Errorf("%d URLs are %d clicks away, the report has %d", counts[d.Clicks], d.Clicks, d.URLs)
		}
	}

	checkIndex(t, dir, &rep, lines)

	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	got := e2e.Run(t, "export", dir, "--format", "html")
	e2e.Succeeded(t, got)
	if again, err := os.ReadFile(page); err != nil || string(again) != string(shown) ||
		!strings.HasPrefix(got.Stdout, "report.html in ") {
		t.Errorf("the page that was made again differs (%v): %s", err, got.Stdout)
	}
	if err := os.Remove(filepath.Join(dir, "report.json")); err != nil {
		t.Fatal(err)
	}
	if got := e2e.Run(t, "export", dir, "--format", "html", "--output", t.TempDir()); got.Code != 0 ||
		!strings.Contains(got.Stderr, "no report.html, because there is no report.json yet") {
		t.Errorf("without report.json: exit status %d, %s", got.Code, got.Stderr)
	}
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
	if _, err := os.Stat(dir); err == nil {
		t.Error("wipe left files")
	}
}

// checkIndex compares the index of pages with the report and with sitemap.jsonl.
func checkIndex(t *testing.T, dir string, rep *crawlreport.Report, lines map[string]e2e.Line) {
	t.Helper()
	x, err := pageindex.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	counts, err := x.Counts(t.Context(), &pageindex.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if counts.Total != int64(len(lines)) || counts.Indexable != rep.Indexable || !x.KnowsClickDepths() ||
		!x.KnowsProblems() {
		t.Errorf("the index has %d pages, %d indexable; sitemap.jsonl %d, the report %d", counts.Total,
			counts.Indexable, len(lines), rep.Indexable)
	}
	for outcome, n := range counts.Outcomes {
		if rep.Outcomes[outcome.String()] != n {
			t.Errorf("the index has %d pages with outcome %s, the report %d", n, outcome,
				rep.Outcomes[outcome.String()])
		}
	}
	found := int64(0)
	for i := range rep.Problems {
		p := &rep.Problems[i]
		code, _ := problems.Parse(p.Code)
		if counts.Problems[code] != p.Count {
			t.Errorf("the index has %d pages with the problem %s, the report %d", counts.Problems[code], p.Code,
				p.Count)
		}
		found += p.Count
	}
	if found == 0 {
		t.Error("the site has no problems")
	}
	for _, d := range rep.ClickDepths.Depths {
		at := int64(d.Clicks)
		if res, err := x.Query(t.Context(),
			pageindex.Query{Filter: pageindex.Filter{ClickDepth: pageindex.Range{Min: &at, Max: &at}}}); err != nil ||
			res.Total != d.URLs {
			t.Errorf("the index has %v pages at %d clicks, the report %d (%v)", res, at, d.URLs, err)
		}
	}
}

// clicks walks breadth-first over links.jsonl and the redirects of sitemap.jsonl.
func clicks(t *testing.T, dir, start string, lines map[string]e2e.Line) map[string]int {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "links.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	links := map[string][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var e struct{ From, To string }
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		links[e.From] = append(links[e.From], e.To)
	}
	depth := map[string]int{start: 0}
	for changed := true; changed; {
		changed = false
		see := func(to string, n int) {
			_, known := lines[to]
			if had, seen := depth[to]; known && (!seen || had > n) {
				depth[to], changed = n, true
			}
		}
		for url, l := range lines {
			n, seen := depth[url]
			if !seen {
				continue
			}
			see(l.RedirectTo, n)
			for _, to := range links[url] {
				see(to, n+1)
			}
		}
	}
	return depth
}
