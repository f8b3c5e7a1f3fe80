package ui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/htmltest"
)

// hostile is a text that must be shown as text.
func hostile(i int) string {
	return fmt.Sprintf("https://a.test/%d</td><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202Egnp", i) +
		strings.Repeat("x", 10_000)
}

// sample is a report with something of everything. With a text of its own, every text is that.
func sample(rows int, text func(int) string) *report.Report {
	at := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	rep := &report.Report{
		SchemaVersion: 1, Version: "1.2.3", Status: page.Complete, Success: true, Reason: "nothing left to fetch",
		StartURLs: []string{text(0)}, Profile: "polite",
		StartedAt: page.Time{Time: at}, EndedAt: page.Time{Time: at.Add(time.Hour)}, Elapsed: 3600, CrawlSeconds: 3500,
		URLs: 1000, Pages: 900, PagesPerSec: 0.3, Bytes: 123456789, Indexable: 700,
		Outcomes:      map[string]int64{"ok": 800, "redirect": 100, "http_error": 60, "pending": 40},
		StatusClasses: map[string]int64{"2xx": 800, "3xx": 100, "4xx": 50, "5xx": 10},
		NotIndexable:  map[string]int64{"status": 60, "redirect": 100, "noindex": 100, "not_fetched": 40},
		SkippedLinks:  map[string]int64{"out_of_scope": 12}, Traps: map[string]int64{"calendar": 3},
		Generation: 1, Changes: map[string]int64{"new": 5, "gone": 2}, ChangedFields: map[string]int64{"title": 4},
		ClickDepths: &report.ClickDepths{Known: true, Unreachable: 7},
		Settings:    map[string]any{"max_urls": 0, "include": []string{text(1)}},
		Files:       []string{"sitemap.jsonl", "report.json", "problems.jsonl", "report.html"},
		Cluster: &report.Cluster{Name: text(0), Machines: []report.Machine{
			{Name: text(1), Sessions: 1, Pages: 654321}, {Name: text(2), Sessions: 3, Takeovers: 85, Fenced: 2,
				Lost: true},
		}},
	}
	for i := range 25 {
		rep.ClickDepths.Depths = append(rep.ClickDepths.Depths, report.ClickDepth{Clicks: i, URLs: int64(i)})
	}
	times := &report.ResponseTimes{Count: 960, P50: 120, P95: 2400, Max: 9000,
		Buckets: []report.Bucket{{UpTo: 50, URLs: 100}, {UpTo: 1000, URLs: 800}, {URLs: 60}}}
	sections := &report.List[report.Section]{Total: int64(rows) + 5, Cut: 5}
	timeline := &report.Timeline{Seconds: 60}
	for i := range rows {
		rep.Errors = append(rep.Errors, text(i))
		rep.Warnings = append(rep.Warnings, text(i))
		sections.Items = append(sections.Items, report.Section{Section: text(i), URLs: int64(1000 - i),
			Indexable: 10, Bytes: 1000, P50: new(int64(i)), P95: new(int64(2 * i))})
		timeline.Moments = append(timeline.Moments,
			report.Moment{At: page.Time{Time: at.Add(time.Duration(i) * time.Minute)}, Found: 7, Crawled: 5})
		rep.SlowestHosts = append(rep.SlowestHosts, report.HostFigure{Host: text(i), Pages: 1, MeanResponseMS: 1500})
		rep.BlockedHosts = append(rep.BlockedHosts, report.HostFigure{Host: text(i), Waiting: 2, Why: text(i)})
		rep.ThrottledHosts = append(rep.ThrottledHosts, report.HostFigure{Host: text(i), Throttled: 2})
	}
	rep.Figures = report.Figures{ResponseTimes: times, Sections: sections, Timeline: timeline}
	for i, d := range problems.Table() {
		p := problems.Problem{Code: d.Name, Severity: d.Severity, Result: problems.Found, Count: int64(rows) + 900,
			Cut: 900, Explain: d.Explain, Fix: d.Fix}
		for k := range rows {
			p.Items = append(p.Items, problems.Item{URL: text(k), Value: text(k),
				Related: []string{text(k), text(k + 1)}[:k%3%2+1]})
		}
		switch i % 3 {
		case 1:
			p.Result, p.Count, p.Cut, p.Items = problems.None, 0, 0, nil
		case 2:
			p.Result, p.Why, p.Count, p.Cut, p.Items = problems.NotChecked, "links were not recorded", 0, 0, nil
		}
		rep.Problems = append(rep.Problems, p)
	}
	return rep
}

func plainURL(i int) string { return fmt.Sprintf("https://a.test/section%d/", i) }

func render(t *testing.T, rep *report.Report) (string, *html.Node) {
	t.Helper()
	text, err := Render(rep)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), root
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	out := &strings.Builder{}
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		}
	}
	return out.String()
}

// elements are all elements of a name.
func elements(n *html.Node, name string) []*html.Node {
	var all []*html.Node
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == name {
			all = append(all, c)
		}
	}
	return all
}

// tableRows are the texts of a table's cells, without the head, by the first cell.
func tableRows(t *testing.T, table *html.Node) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, tr := range elements(table, "tr") {
		var cells []string
		for c := range tr.ChildNodes() {
			if c.Type == html.ElementNode {
				cells = append(cells, strings.TrimSpace(textOf(c)))
			}
		}
		if tr.Parent.Data == "tbody" {
			rows[cells[0]] = cells[1:]
		}
	}
	return rows
}

// figure is the table of a
func chartOf(t *testing.T, root *html.Node, id string) map[string][]string {
	t.Helper()
	for _, f := range elements(root, "figure") {
		if attr(f, "id") == id {
			return tableRows(t, elements(f, "table")[0])
		}
	}
	t.Fatalf("there is no chart %s", id)
	return nil
}

func count(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// CheckAgrees compares the counts and charts of a page with its report.
func checkAgrees(t *testing.T, rep *report.Report, root *html.Node) {
	t.Helper()
	sum := int64(0)
	status := chartOf(t, root, "chart-status")
	for label, cells := range status {
		n := count(t, cells[0])
		sum += n
		if class := strings.Fields(label)[0]; class != "no" && n != rep.StatusClasses[class] {
			t.Errorf("%s has %d URLs on the chart, %d in the report", label, n, rep.StatusClasses[class])
		}
	}
	if sum != rep.URLs {
		t.Errorf("the chart of status classes has %d URLs, want %d", sum, rep.URLs)
	}
	reasons := chartOf(t, root, "chart-indexable")
	for reason, n := range rep.NotIndexable {
		if got := reasons[reasonText(reason)]; len(got) != 1 || count(t, got[0]) != n {
			t.Errorf("%s has %v on the chart, %d in the report", reason, got, n)
		}
	}
	sum = 0
	for _, cells := range chartOf(t, root, "chart-depth") {
		sum += count(t, cells[0])
	}
	want := rep.ClickDepths.Unreachable
	for _, d := range rep.ClickDepths.Depths {
		want += d.URLs
	}
	if sum != want {
		t.Errorf("the chart of click depths has %d URLs, want %d", sum, want)
	}
	sum = 0
	for _, cells := range chartOf(t, root, "chart-times") {
		sum += count(t, cells[0])
	}
	if sum != rep.ResponseTimes.Count {
		t.Errorf("the chart of response times has %d URLs, want %d", sum, rep.ResponseTimes.Count)
	}
	label := sectionLabel(rep.Figures.Sections)
	sizes, times := chartOf(t, root, "chart-sections"), chartOf(t, root, "chart-section-times")
	for _, s := range rep.Figures.Sections.Items[:min(shownSections, len(rep.Figures.Sections.Items))] {
		if got := sizes[label(s.Section)]; len(got) != 1 || count(t, got[0]) != s.URLs {
			t.Errorf("section %s has %v on the chart, want %d", s.Section, got, s.URLs)
		}
		if got := times[label(s.Section)]; s.P50 != nil && !slices.Equal(got,
			[]string{Millis(float64(*s.P50)), Millis(float64(*s.P95))}) {
			t.Errorf("section %s has the times %v on the chart, want %d and %d ms", s.Section, got, *s.P50, *s.P95)
		}
	}
	var found, crawled int64
	for _, m := range rep.Timeline.Moments {
		found, crawled = found+m.Found, crawled+m.Crawled
	}
	last := []string{}
	for _, cells := range chartOf(t, root, "chart-discovery") {
		if len(last) == 0 || count(t, cells[0]) > count(t, last[0]) || count(t, cells[0]) == count(t, last[0]) &&
			count(t, cells[1]) > count(t, last[1]) {
			last = cells
		}
	}
	if count(t, last[0]) != found || count(t, last[1]) != crawled {
		t.Errorf("the timeline ends with %v, want %d and %d", last, found, crawled)
	}
	tables := map[string]map[string][]string{}
	for _, table := range elements(root, "table") {
		if caption := elements(table, "caption"); len(caption) > 0 {
			tables[textOf(caption[0])] = tableRows(t, table)
		}
	}
	for outcome, n := range rep.Outcomes {
		if got := tables["URLs by outcome"][outcome]; len(got) != 2 || count(t, got[0]) != n {
			t.Errorf("outcome %s has %v in the table, %d in the report", outcome, got, n)
		}
	}
	for i := range rep.Problems {
		p := &rep.Problems[i]
		got := tables["Checks"][Heading(p.Code)]
		if len(got) != 4 || count(t, got[2]) != p.Count || got[0] != p.Severity ||
			strings.ReplaceAll(got[1], " ", "_") != p.Result || got[3] != p.Why {
			t.Errorf("the check %s is %v, in the report %s %s %d %s", p.Code, got, p.Severity, p.Result, p.Count, p.Why)
		}
	}
}

func TestAgreesWithReport(t *testing.T) {
	rep := sample(30, plainURL)
	text, root := render(t, rep)
	checkAgrees(t, rep, root)
	sentence, _ := Verdict(rep)
	for _, want := range []string{sentence, "Machines that worked on the crawl", "654,321", ">lost<",
		"900 more rows are not shown here", "What to do:"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	// It is the same page when the report was written and read again.
	stored, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var again report.Report
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	if second, _ := render(t, &again); second != text {
		t.Error("the page of the stored report differs")
	}
}

// The page has a policy that allows its own style and script and nothing else, loads nothing, and has each id once.
func TestSelfContained(t *testing.T) {
	for name, rep := range map[string]*report.Report{"usual": sample(30, plainURL), "hostile": sample(150, hostile),
		"empty": {Status: page.Failed}} {
		text, root := render(t, rep)
		policy := ""
		for _, m := range elements(root, "meta") {
			if attr(m, "http-equiv") == "Content-Security-Policy" {
				policy = attr(m, "content")
			}
		}
		scripts, styles := elements(root, "script"), elements(root, "style")
		if len(scripts) != 1 || len(styles) != 1 ||
			policy != "default-src 'none'; style-src "+Source(textOf(styles[0]))+"; script-src "+Source(textOf(scripts[0]))+"; base-uri 'none'; form-action 'none'" {
			t.Errorf("%s: %d scripts, %d styles, policy %s", name, len(scripts), len(styles), policy)
		}
		ids := map[string]bool{}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "src" || a.Key == "style" || strings.HasPrefix(a.Key, "on") || a.Key == "href" &&
					n.Data != "a" {
					t.Errorf("%s: element %s has the attribute %s", name, n.Data, a.Key)
				}
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("%s: the id %s exists twice", name, a.Val)
				} else if a.Key == "id" {
					ids[a.Val] = true
				}
			}
		}
		for _, a := range elements(root, "a") {
			if to, inside := strings.CutPrefix(attr(a, "href"), "#"); inside && !ids[to] {
				t.Errorf("%s: a link leads to #%s, which is not there", name, to)
			}
		}
		if len(text) > 5_000_000 || strings.ContainsRune(text, '\u202E') || strings.Contains(text, "ZgotmplZ") {
			t.Errorf("%s: the page has %d bytes, or contains what it should not", name, len(text))
		}
	}
}

func TestWellFormed(t *testing.T) {
	for name, rep := range map[string]*report.Report{"usual": sample(30, plainURL), "hostile": sample(5, hostile),
		"empty": {Status: page.Failed}} {
		text, _ := render(t, rep)
		if err := htmltest.Check(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerdict(t *testing.T) {
	found := func(severity string) []problems.Problem {
		return []problems.Problem{{Code: "x", Severity: severity, Result: problems.Found, Count: 2}}
	}
	for want, rep := range map[string]*report.Report{
		"bad: The crawl failed (no start URL answered): 0 URLs were found, 0 of them indexable.": {Status: page.Failed, Reason: "no start URL answered"},
		"good: The crawl is complete: 1 URL was found, 1 of them indexable, and no check found errors or warnings.": {Status: page.Complete,
			URLs: 1, Indexable: 1, Problems: []problems.Problem{{Result: problems.None}}},
		"warn: The crawl is complete: 2 URLs were found, 1 of them indexable, with no errors and 1 kind of warning.": {Status: page.Complete,
			URLs: 2, Indexable: 1, Problems: found(problems.Warning)},
		"bad: The crawl is partial (Reached max_urls limit of 2): 2 URLs were found, 1 of them indexable, and 1 kind " +
			"of error needs attention.": {Status: page.Partial,
			Reason: "Reached max_urls limit of 2", URLs: 2, Indexable: 1, Problems: found(problems.Error)},
		"warn: The crawl was cancelled: 2 URLs were found, 1 of them indexable, and the checks that could be made " +
			"found no errors or warnings.": {Status: page.Cancelled,
			URLs: 2, Indexable: 1, Problems: []problems.Problem{{Result: problems.NotChecked}}},
	} {
		if text, tone := Verdict(rep); tone+": "+text != want {
			t.Errorf("the verdict is %s: %s\nwant %s", tone, text, want)
		}
	}
}

// The file is made again from report.json, and a file of the user's is left alone.
func TestRewrite(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if there, err := Rewrite(dir, dir); there || err != nil {
		t.Errorf("without a report.json: %v, %v", there, err)
	}
	rep := sample(3, plainURL)
	if err := report.Write(dir, rep); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, rep); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(dir.ReportHTML())
	if err != nil {
		t.Fatal(err)
	}
	if !datadir.Ours(string(dir), filepath.Base(dir.ReportHTML())) {
		t.Error("the file does not begin as Mapwright's do")
	}
	if there, err := Rewrite(dir, dir); !there || err != nil {
		t.Errorf("with a report.json: %v, %v", there, err)
	}
	if second, err := os.ReadFile(dir.ReportHTML()); err != nil || string(second) != string(first) {
		t.Errorf("the second file differs from the first (%v)", err)
	}
	if err := os.WriteFile(dir.ReportHTML(), []byte("<!doctype html>mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, rep); err == nil {
		t.Error("a file of the user's was replaced")
	}
}

// The largest page is under 5 MB: every list of the report is full, and every text is long and grows when it is written
// as HTML.
func TestLargestPage(t *testing.T) {
	for _, letter := range []string{"&", "\u00e4", "\u202E"} {
		texts := make([]string, 1000)
		for i := range texts {
			texts[i] = fmt.Sprintf("https://a.test/%d?", i) + strings.Repeat(letter, 1900/len(letter))
		}
		text := func(i int) string { return texts[i] }
		rep := sample(150, text)
		for i := range rep.Problems {
			p := &rep.Problems[i]
			p.Result, p.Why, p.Count, p.Cut, p.Items = problems.Found, text(i), 1_000_000, 999_900, nil
			for k := range problems.MaxItems {
				item := problems.Item{URL: text(k), Value: text(k), RelatedCut: 7}
				item.Related, item.Texts = texts[:problems.MaxRelated], texts[:problems.MaxRelated]
				p.Items = append(p.Items, item)
			}
		}
		rep.StartURLs = texts
		page, err := Render(rep)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 5_000_000 || len(page) < 1_000_000 {
			t.Errorf("with %q, the page has %d bytes", letter, len(page))
		}
	}
}

// Values have units, and are sorted as numbers.
func TestItems(t *testing.T) {
	for code, want := range map[problems.Code]struct{ column, value, text, key string }{
		problems.Slow:       {"Response time", "3512", "3.5 s", "3512"},
		problems.Large:      {"Size", "3145728", "3.0 MiB", "3145728"},
		problems.Thin:       {"Words", "1234", "1,234", "1234"},
		problems.BrokenLink: {"Status code, or outcome", "404", "404", ""},
	} {
		table := Items(&problems.Problem{Code: code.String(),
			Items: []problems.Item{{URL: "https://a.test/", Value: want.value}}}, "", "", nil)
		column, cell := table.Columns[1], table.Rows[0][1]
		if column.Name != want.column || (column.Class == "num") != (want.key != "") || cell.Text != want.text ||
			cell.Key != want.key {
			t.Errorf("%s: the column is %+v, the cell %+v, want %+v", code, column, cell, want)
		}
	}
}
