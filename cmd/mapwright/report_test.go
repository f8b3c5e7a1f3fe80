package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
)

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "1ms", 0.0004: "1ms", 0.0034: "3ms", 0.0996: "100ms", 0.1234: "123ms", 1.234: "1.23s", 9.999: "10s",
		12.34: "12.3s", 61.44: "1m1.2s", 7265.4: "2h1m5.4s",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v s are written as %s, want %s", s, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	for _, tt := range []struct {
		pages   int64
		seconds float64
		want    string
	}{
		{44, 0.004, ""}, {0, 5, ""}, {1, 4, " (0.2 pages/s)"}, {20, 8.19, " (2.4 pages/s)"},
		{12345, 1, " (12,345 pages/s)"},
	} {
		rep := &report.Report{Pages: tt.pages, CrawlSeconds: tt.seconds, PagesPerSec: float64(tt.pages) / tt.seconds}
		if got := rate(rep); got != tt.want {
			t.Errorf("%d pages in %v s: %q, want %q", tt.pages, tt.seconds, got, tt.want)
		}
	}
}

func TestFileNames(t *testing.T) {
	var parts, zipped []string
	for i := range 60 {
		parts = append(parts, fmt.Sprintf("sitemap-%05d.xml", i+1))
		zipped = append(zipped, fmt.Sprintf("sitemap-%05d.xml.gz", i+1))
	}
	for want, files := range map[string][]string{
		"sitemap.jsonl, sitemap.xml, report.json": {"sitemap.jsonl", "sitemap.xml", "report.json"},
		"sitemap.jsonl, sitemap.xml (60 parts), report.json": append(append([]string{"sitemap.jsonl"}, parts...),
			"sitemap.xml", "report.json"),
		"sitemap.xml.gz (60 parts), links.jsonl, sitemap.csv": append(zipped, "sitemap.xml.gz", "links.jsonl",
			"sitemap.csv"),
		"sitemap.jsonl, report.json": {"sitemap.jsonl", "report.json"},
	} {
		if got := fileNames(files, export.Sitemaps{}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	files := []string{"sitemap.jsonl", "sitemap.xml", "sitemap.2.xml", "sitemap-a.test.xml", "report.json"}
	if got, want := fileNames(files, export.Sitemaps{Hosts: 60_000, Parts: 60_001}),
		"sitemap.jsonl, sitemap.xml (60,001 parts of 60,000 hosts), report.json"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	files = []string{"sitemap.jsonl", "shop-blog.xml", "shop-root.xml", "shop.xml", "report.json"}
	if got, want := fileNames(files, export.Sitemaps{Sections: 2, Parts: 2}),
		"sitemap.jsonl, shop.xml (2 parts of 2 directories), report.json"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The closing table and status say in the same words how a crawl goes on.
func TestResumeHint(t *testing.T) {
	const resume = "mapwright resume --data-dir d"
	for _, tt := range []struct {
		status          page.Status
		reason, profile string
		blocked         bool
		want            string
	}{
		{page.Partial, "Reached max_urls limit of 9, stopping crawl", "polite", false, resume +
			" --max-urls N (in all; 0 is no limit)"},
		{page.Partial, "Reached max_urls limit of 9, stopping crawl", "safe", true, resume +
			" --max-urls N (in all; at most 50 in a safe crawl)"},
		{page.Partial, "Reached max_urls_per_host limit of 4 on some hosts", "own-site", false, resume +
			" --max-urls-per-host N (in all; 0 is no limit)"},
		{page.Partial, "Reached duration limit of 5s (elapsed: 5s), stopping crawl", "polite", false, resume},
		{page.Partial, "Safety limit: Crawl timeout exceeded (60000ms)", "safe", false, resume},
		{page.Partial, "Safety limit: Maximum 50 pages per crawl (requested: 50)", "safe", false,
			"another profile, in another data directory: a safe crawl has its pages once"},
		{page.Partial, "", "polite", false, resume}, // a crawl of a version that stored no reason
		{page.Cancelled, "interrupted", "polite", false, resume},
		{page.Complete, "nothing left to fetch", "polite", true, resume + " (tries the blocked hosts again)"},
		{page.Complete, "nothing left to fetch", "polite", false, ""},
	} {
		got := resumeHint("mapwright resume --data-dir d", tt.status, tt.reason, tt.profile, tt.blocked)
		if got != tt.want {
			t.Errorf("%s (%s): %q, want %q", tt.status, tt.reason, got, tt.want)
		}
	}
}

// The closing table says how many machines worked on the crawl, and what happened to them.
func TestMachinesText(t *testing.T) {
	for want, c := range map[string]report.Cluster{
		"1": {Machines: []report.Machine{{}}},
		"3, 1 of them lost, 85 partitions taken over, 1 session fenced": {Machines: []report.Machine{{}, {Lost: true},
			{}}, Takeovers: 85, Fenced: 1},
	} {
		if got := machinesText(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The closing table has a row for the changes of a recrawl, and none for a first crawl.
func TestReportOfRecrawl(t *testing.T) {
	for generation, want := range map[uint32]string{0: "",
		3: "Changes   unchanged 1,200, changed 12, gone 3 (generation 3)\n"} {
		out := &strings.Builder{}
		rep := &report.Report{Status: page.Complete, Generation: generation,
			Changes: map[string]int64{"changed": 12, "unchanged": 1200, "gone": 3}}
		if err := printReport(stdio{out: out}, datadir.Dir("d"), "mapwright resume --data-dir d", rep); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(out.String(), "Changes "); has != (want != "") ||
			!strings.Contains(out.String(), want) {
			t.Errorf("generation %d:\n%s", generation, out)
		}
	}
}
