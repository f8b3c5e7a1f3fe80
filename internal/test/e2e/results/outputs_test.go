package results

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Every output says the same, and says it again in the same order.
func TestOutputs(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 3, Pages: 40, CrossHost: 0.2, Faults: testweb.OnAll(
		testweb.NoIndex{}, testweb.Canonical{}, testweb.NoFollow{}, testweb.Hreflang{}, testweb.Files{},
		testweb.StatusPages{}, testweb.RedirectChain{}, testweb.Disallow{})})
	dir := filepath.Join(t.TempDir(), "data")
	first := web.StartURLs()[0]
	got := e2e.Run(t, "crawl", "--start-url", first, "--scope", "any", "--profile", "own-site", "--resolve",
		web.Resolve(),
		"--data-dir", dir, "--csv", "--parquet", "--links", "--gzip", "--hreflang")
	rep := e2e.Ended(t, got, dir, 0, "complete", "")
	lines := e2e.ReadLines(t, dir)
	e2e.FoundExactly(t, web, testweb.Crawl{Starts: []string{first}, Scope: "any"}, lines)
	// Each host has a sitemap of its own, and sitemap.xml.gz is an index over them.
	want := []string{"sitemap.jsonl", "sitemap.csv", "pages.parquet", "links.jsonl", "links.parquet", "sitemap.xml.gz",
		"report.json", "report.html", "problems.jsonl", "problems.parquet"}
	for i := range 3 {
		want = append(want, "sitemap-"+web.HostName(i)+".xml.gz")
	}
	if !e2e.SameSet(rep.Files, want) || !strings.Contains(got.Stdout, "sitemap.xml.gz (3 parts of 3 hosts), ") {
		t.Errorf("files %q, want %q", rep.Files, want)
	}

	var indexable, urls []string
	for url, l := range lines {
		if l.Indexable {
			indexable = append(indexable, url)
		}
	}
	for i := range 3 {
		for _, u := range readXML(t, filepath.Join(dir, want[len(want)-3+i])) {
			if urls = append(urls, u.Loc); !strings.HasPrefix(u.Loc, web.StartURLs()[i]) {
				t.Errorf("%s is in the sitemap of %s", u.Loc, web.HostName(i))
			}
		}
	}
	if !e2e.SameSet(indexable, urls) || len(urls) != rep.Indexable || !e2e.SameSet(urls, listed(t, dir,
		"sitemap.xml.gz")) {
		t.Errorf("%d URLs in the XML sitemaps, %d indexable lines, %d in the report", len(urls), len(indexable),
			rep.Indexable)
	}

	rows, err := csv.NewReader(e2e.Open(t, dir, "sitemap.csv")).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(lines)+1 {
		t.Errorf("%d rows in the CSV file, want a head and %d", len(rows), len(lines))
	}
	nofollow := 0
	for scan := bufio.NewScanner(e2e.Open(t, dir, "links.jsonl")); scan.Scan(); {
		var link struct {
			From, To, Rel, Text string
			NoFollow            *bool
		}
		if err := json.Unmarshal(scan.Bytes(), &link); err != nil {
			t.Fatal(err)
		}
		if _, ok := lines[link.From]; !ok || link.To == "" || link.NoFollow == nil {
			t.Fatalf("no link: %s", scan.Bytes())
		}
		if *link.NoFollow {
			nofollow++
		}
	}
	if nofollow == 0 {
		t.Error("no link is marked nofollow")
	}

	again := filepath.Join(t.TempDir(), "again")
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir, "--output", again))
	for _, name := range []string{"sitemap.jsonl", "sitemap.csv", "pages.parquet", "links.jsonl", "links.parquet",
		"sitemap.xml.gz"} {
		a, b := e2e.Read(t, dir, name), e2e.Read(t, again, name)
		if a != b {
			t.Errorf("%s is another one when it is exported again", name)
		}
	}

	// wipe knows the sitemaps of hosts, and a copy under a name that is no host's.
	e2e.Write(t, filepath.Join(dir, "sitemap-copy.xml.gz"), e2e.Read(t, dir, want[len(want)-1]))
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--yes", "--data-dir", dir))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "sitemap-copy.xml.gz" {
		t.Errorf("wipe left %v, %v", left, err)
	}
}

// readXML reads a compressed XML sitemap.
func readXML(t *testing.T, path string) []e2e.Location {
	t.Helper()
	zip, err := gzip.NewReader(e2e.Open(t, filepath.Dir(path), filepath.Base(path)))
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		XMLName xml.Name       `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		URLs    []e2e.Location `xml:"url"`
	}
	if err := xml.NewDecoder(zip).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return set.URLs
}

// The report is the same in the file and with --json, and what is logged does not mix with it.
func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--json", "--verbose", "--log-format", "json", "--delay", "0s")
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	printed, written := e2e.Parse[map[string]any](t, got.Stdout), e2e.Parse[map[string]any](t, e2e.Read(t, dir,
		"report.json"))
	for name, value := range written {
		if a, b := e2e.MustJSON(t, value), e2e.MustJSON(t, printed[name]); a != b {
			t.Errorf("%s is %s in report.json and %s on standard output", name, a, b)
		}
	}
	if got.Stderr == "" {
		t.Error("no request was logged")
	}
	for text := range strings.Lines(got.Stderr) {
		entry := e2e.Parse[map[string]any](t, text)
		if entry["msg"] == "" || entry["level"] == "" || entry["time"] == "" {
			t.Errorf("log line %s", text)
		}
	}
}

// A resumed crawl keeps its settings, whatever the environment says by then; what is given with resume counts, and is
// remembered.
func TestResumeKeepsSettings(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 30})
	dir := filepath.Join(t.TempDir(), "data")
	got := e2e.Run(t, "crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site", "--resolve", web.Resolve(),
		"--data-dir", dir, "--max-urls", "5", "--user-agent", "Tester/2", "--max-retries", "7")
	e2e.Ended(t, got, dir, 3, "partial", "Reached max_urls limit of 5")
	show := func(flags ...string) map[string][2]string {
		t.Helper()
		return e2e.Effective(t, e2e.Invocation{Env: []string{"MAX_RETRIES=1", "MAPWRIGHT_MAX_URLS=2"},
			Args: append([]string{"resume", "--print-config", "--data-dir", dir}, flags...)}.Run(t))
	}
	want := func(all map[string][2]string, name, value, from string) {
		t.Helper()
		if all[name] != [2]string{value, from} {
			t.Errorf("%s is %q, want %s from %s", name, all[name], value, from)
		}
	}
	all := show("--max-urls", "12")
	want(all, "max-urls", "12", "flag --max-urls")
	want(all, "max-retries", "7", "crawl")
	want(all, "user-agent", "Tester/2", "crawl")
	want(all, "profile", "own-site", "crawl")
	want(all, "max-inflight-per-host", "150", "crawl")

	file := e2e.Write(t, filepath.Join(t.TempDir(), "more.yaml"), "max_urls: 9\n")
	want(show("--config", file), "max-urls", "9", "file "+file+" max_urls")
	all = show("--profile", "polite")
	want(all, "max-inflight-per-host", "2", "default")
	want(all, "max-retries", "7", "crawl")

	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir, "--max-urls", "12"), dir, 3, "partial",
		"Reached max_urls limit of 12")
	want(show(), "max-urls", "12", "crawl")
	if n := e2e.Pages(web); n != 12 {
		t.Errorf("%d pages were asked for, want 12", n)
	}
}
