package results

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/sitemaptest"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

var mapPages = flag.Int("map-pages", 3000, "pages of the site that TestLargeMap crawls")

// exported is what 'export --json' prints.
type exported struct {
	Pages     int      `json:"pages"`
	Indexable int      `json:"indexable"`
	Links     int      `json:"links"`
	Files     []string `json:"files"`
}

// exportTo exports a crawl and checks what every export must be: lines by the schema, XML by its schemas, nothing half.
func exportTo(t *testing.T, dir, out string, args ...string) exported {
	t.Helper()
	got := e2e.Run(t, append([]string{"export", "--json", "--data-dir", dir, "--output", out}, args...)...)
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	res := e2e.Parse[exported](t, got.Stdout)
	for _, name := range res.Files {
		if datadir.IsSitemap(name) {
			sitemaptest.Files(t, filepath.Join(out, name))
		}
	}
	if slices.Contains(res.Files, "sitemap.jsonl") {
		e2e.FitsSchema(t, out)
	}
	if half, _ := filepath.Glob(filepath.Join(out, "*.tmp")); len(half) > 0 {
		t.Errorf("left %q", half)
	}
	return res
}

// listed are the URLs of the XML sitemaps, in order, through the index if there is one.
func listed(t *testing.T, out, name string) []string {
	t.Helper()
	file, err := os.Open(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var urls []string
	_, err = sitemap.Read(file, nil, func(e *sitemap.Entry) error {
		if e.Kind == sitemap.Child {
			urls = append(urls, listed(t, out, e.Loc[strings.LastIndexByte(e.Loc, '/')+1:])...)
		} else {
			urls = append(urls, e.Loc)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return urls
}

// listedRightly wants the XML sitemap to list exactly the indexable pages.
func listedRightly(t *testing.T, out, name string) {
	t.Helper()
	var want []string
	for url, l := range e2e.ReadLines(t, out) {
		if l.Indexable {
			want = append(want, url)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(listed(t, out, name))); !slices.Equal(got, want) {
		t.Errorf("%s lists %d URLs, %d are indexable", name, len(got), len(want))
	}
}

func sameFile(t *testing.T, a, b string) {
	t.Helper()
	one, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) {
		t.Errorf("%s and %s differ", a, b)
	}
}

func TestExportOfAFinishedCrawl(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 4, Pages: 40, Sitemaps: &testweb.Sitemaps{Orphans: 2},
		Faults: testweb.OnAll(testweb.Hreflang{}, testweb.NoIndex{}, testweb.Canonical{}, testweb.StatusPages{})})
	dir, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve",
		web.Resolve(),
		"--data-dir", dir, "--links", "--images"); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	// The same as the crawl itself wrote, byte by byte, however often.
	for range 2 {
		res := exportTo(t, dir, out)
		for _, name := range []string{"sitemap.jsonl", "sitemap.xml", "links.jsonl"} {
			if !slices.Contains(res.Files, name) {
				t.Fatalf("wrote %q", res.Files)
			}
			sameFile(t, filepath.Join(dir, name), filepath.Join(out, name))
		}
		if res.Links == 0 || res.Indexable == 0 || res.Pages != len(e2e.ReadLines(t, out)) {
			t.Errorf("result %+v", res)
		}
	}
	listedRightly(t, out, "sitemap.xml")

	out = t.TempDir()
	res := exportTo(t, dir, out, "--format", "xml,csv", "--gzip", "--hreflang", "--base-url", "https://maps.test/of/")
	if !slices.Equal(res.Files, []string{"sitemap.csv", "sitemap.xml.gz"}) {
		t.Errorf("wrote %q", res.Files)
	}
	if res := exportTo(t, dir, t.TempDir(), "--format", "xml", "--xml-types", "application/pdf"); res.Indexable != 0 ||
		len(res.Files) != 0 {
		t.Errorf("a site without PDF files is mapped as %+v", res)
	}
	file, err := os.Open(filepath.Join(out, "sitemap.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if rows, err := csv.NewReader(file).ReadAll(); err != nil || len(rows) != res.Pages+1 ||
		!slices.Contains(rows[0], "indexable_reason") {
		t.Errorf("%d rows of CSV, %v", len(rows), err)
	}
}

// A crawl that was killed exports what it knew, and exporting it does it no harm.
func TestExportOfAKilledCrawl(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 5, Pages: 400, Sitemaps: &testweb.Sitemaps{}})
	web.Hold(50)
	dir, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h")
	p.Until("some pages are recorded", func() bool {
		return e2e.Pages(web) > 50 && e2e.Status(t,
			dir).Outcomes["ok"] > 0
	})
	p.Kill()
	web.Release()
	if e2e.Exists(t, dir, "sitemap.jsonl") {
		t.Error("a crawl that was killed left a sitemap.jsonl")
	}
	var before map[string]e2e.Line
	for range 4 { // more often than a page may be in flight when a crawl is killed
		exportTo(t, dir, out)
		lines := e2e.ReadLines(t, out)
		if before != nil && len(before) != len(lines) {
			t.Errorf("one export has %d lines, the next %d", len(before), len(lines))
		}
		before = lines
	}
	listedRightly(t, out, "sitemap.xml")
	if got := e2e.Run(t, "export", "--data-dir", dir, "--output", out, "--format", "links"); got.Code != 0 ||
		!strings.Contains(got.Stderr, "links.jsonl is empty") {
		t.Errorf("exit status %d, and nothing said of links that were not kept: %s", got.Code, got.Stderr)
	}
	settled := 0
	for _, l := range before {
		if l.Outcome != "pending" {
			settled++
		}
	}
	if settled == 0 || settled == len(before) {
		t.Errorf("%d of %d lines are settled", settled, len(before))
	}
	if got := e2e.Run(t, "resume", "--data-dir", dir); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
}

// A crawl exports itself while it runs, and goes on.
func TestExportOfARunningCrawl(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 6, Pages: 100, Sitemaps: &testweb.Sitemaps{}})
	web.Hold(30) // so that the crawl cannot be over before the export
	dir, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--timeout", "1h")
	p.Until("some pages are recorded", func() bool {
		return e2e.Pages(web) > 30 && e2e.Status(t,
			dir).Outcomes["ok"] > 0
	})
	if got := e2e.Run(t, "export", "--json", "--data-dir", dir, "--output", out, "--csv", "--xml-types",
		"text/html,text/plain"); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	sitemaptest.Files(t, filepath.Join(out, "sitemap.xml"))
	if got := e2e.FitsSchema(t, out); got["pending"] == 0 || got["ok"] == 0 {
		t.Errorf("outcomes %v", got)
	}
	if !e2e.Exists(t, out, "sitemap.csv") || e2e.Exists(t, dir, "sitemap.jsonl") {
		t.Error("the running crawl wrote other files than it was asked for")
	}
	web.Release()
	if got := p.Wait(); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
}

// A site that only a sitemap tells of is found whole, and its map has as many parts as the protocol wants.
func TestLargeMap(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 10, PageSize: 600, Links: 3,
		Sitemaps: &testweb.Sitemaps{Orphans: *mapPages - 10, PerFile: 50_000, Gzip: true}})
	dir := filepath.Join(t.TempDir(), "data")
	began := time.Now()
	cmd := unhurried(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--base-url", "https://maps.test/")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages in %v", *mapPages, time.Since(began).Round(time.Millisecond))
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
	e2e.AskedOnce(t, web)
	rep := e2e.ReadReport(t, dir)
	want := []string{"sitemap.jsonl", "sitemap.xml"}
	if parts := (*mapPages + sitemap.MaxURLs - 1) / sitemap.MaxURLs; parts > 1 {
		for i := range parts {
			want = append(want, fmt.Sprintf("sitemap-%05d.xml", i+1))
		}
	}
	if !slices.Equal(rep.Files, append(want, "report.json", "report.html", "problems.jsonl")) {
		t.Errorf("wrote %q", rep.Files)
	}
	for _, name := range want[1:] {
		sitemaptest.Files(t, filepath.Join(dir, name))
	}
	if n := len(listed(t, dir, "sitemap.xml")); n != *mapPages {
		t.Errorf("the map lists %d URLs, want %d", n, *mapPages)
	}
}

// Sitemaps that a killed crawl had not read to their end are read by the next run, and nothing that only they name is
// lost.
func TestKilledWhileReadingSitemaps(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 8, Hosts: 2, HostName: "h%d.example.test", Pages: 3, PageSize: 700,
		CrossHost: 0.5, Sitemaps: &testweb.Sitemaps{Orphans: 700, PerFile: 100},
		Faults: testweb.OnAll(testweb.Slow{Delay: 5 * time.Millisecond})})
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"crawl", "--profile", "own-site", "--resolve", web.Resolve(), "--data-dir", dir, "--start-url",
		web.StartURLs()[0], "--start-url", web.StartURLs()[1]}
	for _, n := range []int{3, 150} {
		before := e2e.Pages(web)
		web.Hold(n)
		p := e2e.Start(t, args...)
		p.Until("some pages were asked for", func() bool { return e2e.Pages(web) > before+n })
		p.Kill()
		args = []string{"resume", "--data-dir", dir}
	}
	web.Release()
	if got := e2e.Run(t, args...); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
}

// unhurried is a run of the program that may take as long as the test may.
func unhurried(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), e2e.Binary, args...)
	cmd.Dir, cmd.Stderr = t.TempDir(), t.Output()
	cmd.Env = e2e.BareEnv(t, cmd.Dir)
	return cmd
}
