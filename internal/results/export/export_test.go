package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/sitemaptest"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// indexable is a page that belongs into an XML sitemap.
func indexable(url string) *page.Line {
	return &page.Line{SchemaVersion: page.SchemaVersion, URL: weburl.MustCanonical(url), Source: "link", Outcome: "ok", StatusCode: 200,
		Indexable: true}
}

// numbered are n indexable pages.
func numbered(n int) Source {
	return func(context.Context) iter.Seq2[*page.Line, error] {
		return func(yield func(*page.Line, error) bool) {
			for i := range n {
				if !yield(indexable(fmt.Sprintf("https://x.test/p/%d", i)), nil) {
					return
				}
			}
		}
	}
}

func these(pages ...*page.Line) Source {
	return func(context.Context) iter.Seq2[*page.Line, error] {
		return func(yield func(*page.Line, error) bool) {
			for _, p := range pages {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

func write(t *testing.T, src Source, o Options) *Result {
	t.Helper()
	res, err := Write(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range res.Files {
		if datadir.IsSitemap(name) {
			sitemaptest.Files(t, filepath.Join(o.Dir, name))
		}
	}
	return res
}

func wantFiles(t *testing.T, dir string, res *Result, want ...string) {
	t.Helper()
	if !slices.Equal(res.Files, want) {
		t.Errorf("wrote %q, want %q", res.Files, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	sorted := slices.Sorted(slices.Values(want))
	if !slices.Equal(there, sorted) {
		t.Errorf("the directory holds %q, want %q", there, sorted)
	}
}

// entries reads a sitemap back.
func entries(t *testing.T, path string) []sitemap.Entry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []sitemap.Entry
	take := func(e *sitemap.Entry) error { list = append(list, *e); return nil }
	if _, err := sitemap.Read(f, nil, take); err != nil {
		t.Fatal(err)
	}
	return list
}

// locs finds the addresses in a large sitemap by its text, which is quicker than to read it.
func locs(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for row := range bytes.Lines(text) {
		if loc, ok := bytes.CutPrefix(row, []byte("    <loc>")); ok {
			list = append(list, string(bytes.TrimSuffix(loc, []byte("</loc>\n"))))
		}
	}
	return list
}

func TestPartsIndexAndStaleFiles(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, BaseURL: "https://x.test/maps", MaxURLs: 2}
	wantFiles(t, dir, write(t, numbered(5), o), "sitemap.jsonl", "sitemap.xml", "sitemap-00001.xml",
		"sitemap-00002.xml", "sitemap-00003.xml")
	var parts []string
	for _, e := range entries(t, filepath.Join(dir, "sitemap.xml")) {
		parts = append(parts, e.Loc)
	}
	if !slices.Equal(parts, []string{"https://x.test/maps/sitemap-00001.xml", "https://x.test/maps/sitemap-00002.xml",
		"https://x.test/maps/sitemap-00003.xml"}) {
		t.Errorf("the index names %q", parts)
	}
	o.Gzip = true
	wantFiles(t, dir, write(t, numbered(3), o), "sitemap.jsonl", "sitemap.xml.gz", "sitemap-00001.xml.gz",
		"sitemap-00002.xml.gz")
	if e := entries(t, filepath.Join(dir, "sitemap.xml.gz")); len(e) != 2 ||
		e[1].Loc != "https://x.test/maps/sitemap-00002.xml.gz" {
		t.Errorf("the index holds %+v", e)
	}
	o.Gzip = false
	wantFiles(t, dir, write(t, numbered(1), o), "sitemap.jsonl", "sitemap.xml")
	wantFiles(t, dir, write(t, numbered(0), o), "sitemap.jsonl")
}

// Three files and an index: the protocol's 50,000 a file.
func TestFiftyThousandURLsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := write(t, numbered(120_000), Options{Dir: dir, BaseURL: "https://x.test/"})
	wantFiles(t, dir, res, "sitemap.jsonl", "sitemap.xml", "sitemap-00001.xml", "sitemap-00002.xml",
		"sitemap-00003.xml")
	n := 0
	for i, want := range []int{50_000, 50_000, 20_000} {
		list := locs(t, filepath.Join(dir, fmt.Sprintf("sitemap-%05d.xml", i+1)))
		if len(list) != want {
			t.Errorf("part %d holds %d URLs", i+1, len(list))
		}
		for _, loc := range list {
			if want := fmt.Sprintf("https://x.test/p/%d", n); loc != want {
				t.Fatalf("entry %d is %s: the order is not that of the source", n, loc)
			}
			n++
		}
	}
	if res.Pages != 120_000 || res.Indexable != 120_000 {
		t.Errorf("result %+v", res)
	}
}

// Fifty megabytes a file, where URLs are long.
func TestFiftyMegabytesAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("a", 1900)
	src := func(context.Context) iter.Seq2[*page.Line, error] {
		return func(yield func(*page.Line, error) bool) {
			for i := range 30_000 {
				if !yield(indexable(fmt.Sprintf("https://x.test/%s/%d", long, i)), nil) {
					return
				}
			}
		}
	}
	res, err := Write(t.Context(), src, Options{Dir: dir, BaseURL: "https://x.test/", Only: []string{"xml"}})
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, res, "sitemap.xml", "sitemap-00001.xml", "sitemap-00002.xml")
	first, err := os.Stat(filepath.Join(dir, "sitemap-00001.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if first.Size() > sitemap.MaxBytes || first.Size() < sitemap.MaxBytes-4096 {
		t.Errorf("the first part has %d bytes", first.Size())
	}
	if n := len(locs(t, filepath.Join(dir, "sitemap-00001.xml"))) +
		len(locs(t, filepath.Join(dir, "sitemap-00002.xml"))); n != 30_000 {
		t.Errorf("%d URLs in all", n)
	}
}

func TestAlternatesImagesAndLastmod(t *testing.T) {
	p, q := indexable("https://x.test/a&b"), indexable("https://x.test/[q]")
	p.Hreflang = []page.Alternate{{Lang: "de", URL: "https://x.test/de?x&y"},
		{Lang: "not a language", URL: "https://x.test/"}}
	p.Images = []string{"https://x.test/i.png?a&b"}
	p.LastModified = page.Time{Time: time.Date(2024, 2, 3, 4, 5, 6, 789e6, time.UTC)}
	p.CrawledAt = page.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	q.CrawledAt = p.CrawledAt
	dir := t.TempDir()
	path := filepath.Join(dir, "sitemap.xml")
	write(t, these(p, q), Options{Dir: dir, Hreflang: true, Images: true})
	want := []sitemap.Entry{
		{Loc: "https://x.test/a&b", LastMod: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC), Priority: -1},
		{Loc: "https://x.test/%5Bq%5D", Priority: -1},
	}
	if got := entries(t, path); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	const extensions = `<xhtml:link rel="alternate" hreflang="de" href="https://x.test/de?x&amp;y"/>
    <image:image><image:loc>https://x.test/i.png?a&amp;b</image:loc></image:image>
`
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "<xhtml:")+strings.Count(string(text), "<image:image>") != 2 ||
		!strings.Contains(string(text), extensions) {
		t.Errorf("%v:\n%s", err, text)
	}
	write(t, these(p, q), Options{Dir: dir})
	text, err = os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "xhtml:") || strings.Contains(string(text), "image:") {
		t.Errorf("what was not asked for is written: %v\n%s", err, text)
	}
}

// What an XML sitemap cannot hold is not in it, and sitemap.jsonl says so.
func TestWhatDoesNotFitIsExplained(t *testing.T) {
	dir := t.TempDir()
	long := "https://x.test/" + strings.Repeat("|", 1000)
	res := write(t, these(indexable(long), indexable("http://a/"), indexable("https://x.test/")), Options{Dir: dir})
	if res.Indexable != 1 {
		t.Errorf("result %+v", res)
	}
	for _, l := range lines(t, dir) {
		if l.Indexable != (l.URL.String() == "https://x.test/") || !l.Indexable && l.IndexableReason != page.NotLength {
			t.Errorf("%.40s: %v %s", l.URL, l.Indexable, l.IndexableReason)
		}
	}
}

func lines(t *testing.T, dir string) []page.Line {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []page.Line
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if !bytes.HasPrefix(scan.Bytes(), []byte(`{"schema_version":1,`)) {
			t.Errorf("a line begins with %.40s", scan.Bytes())
		}
		var l page.Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

// A source that fails leaves what was there before, whole, and nothing half.
func TestFailureChangesNothing(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, BaseURL: "https://x.test/", MaxURLs: 2, CSV: true, Links: true}
	before := write(t, numbered(3), o)
	read := func() map[string]string {
		files := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[e.Name()] = string(text)
		}
		return files
	}
	want := read()
	broken := errors.New("the disk is broken")
	src := func(ctx context.Context) iter.Seq2[*page.Line, error] {
		return func(yield func(*page.Line, error) bool) {
			for p := range numbered(7)(ctx) {
				if !yield(p, nil) {
					return
				}
			}
			yield(nil, broken)
		}
	}
	if _, err := Write(t.Context(), src, o); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if got := read(); !reflect.DeepEqual(got, want) || len(got) != len(before.Files) {
		t.Errorf("files changed: %d before, %d after", len(want), len(got))
	}
}

// What a killed export left is cleared away; what another program made stays.
func TestLeftoversGoAndForeignFilesStay(t *testing.T) {
	dir := t.TempDir()
	foreign := map[string]string{"sitemap.xml": "<urlset/>", "sitemap-00009.xml": "mine",
		"sitemap-00008.xml.gz": "not even compressed", "sitemap-9.xml": "x", "notes.tmp": "x",
		"sitemap.xml.tmp": "mine", "sitemap.jsonl.tmp": "mine", "sitemap-00003.xml.tmp": "mine"}
	for name, text := range foreign {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "sitemap-00007.xml.mapwright.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res := write(t, numbered(0), Options{Dir: dir, Only: []string{"xml"}})
	if len(res.Files) > 0 {
		t.Errorf("wrote %q", res.Files)
	}
	if _, err := os.Stat(filepath.Join(dir, "sitemap-00007.xml.mapwright.tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed export left is still there: %v", err)
	}
	for name, want := range foreign {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// Exports to one directory take turns, and one that is told to stop does not wait for ever.
func TestExportsTakeTurns(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if _, err := Write(t.Context(), numbered(1000+i), Options{Dir: dir, Gzip: i%2 == 0}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := len(lines(t, dir))
	if n < 1000 || n > 1003 {
		t.Errorf("%d lines", n)
	}
	unlock, err := datadir.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, numbered(1), Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCSV(t *testing.T) {
	dir := t.TempDir()
	p := indexable("https://x.test/,\"")
	p.Title, p.DiscoveredAt = "a, \"b\"\nc", page.Time{Time: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)}
	zero := 0
	p.WordCount = &zero
	q := indexable("https://x.test/2")
	q.Indexable, q.IndexableReason = false, "noindex"
	res := write(t, these(p, q), Options{Dir: dir, CSV: true})
	wantFiles(t, dir, res, "sitemap.jsonl", "sitemap.csv", "sitemap.xml")
	f, err := os.Open(filepath.Join(dir, "sitemap.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	value := func(row int, column string) string { return rows[row][slices.Index(rows[0], column)] }
	for _, c := range []struct {
		row          int
		column, want string
	}{
		{1, "url", p.URL.String()}, {1, "title", p.Title}, {1, "discovered_at", "2024-02-03T04:05:06.000Z"},
		{1, "word_count", "0"}, {1, "link_count", ""},
		{1, "indexable", "true"}, {1, "status_code", "200"}, {2, "indexable", "false"},
		{2, "indexable_reason", "noindex"}, {2, "crawled_at", ""},
	} {
		if got := value(c.row, c.column); got != c.want {
			t.Errorf("row %d: %s is %q, want %q", c.row, c.column, got, c.want)
		}
	}
}

// TestCSVExtracted checks the columns of --extract: after the others, in the order of the settings, and safe to open in
// a spreadsheet.
func TestCSVExtracted(t *testing.T) {
	dir := t.TempDir()
	p := indexable("https://x.test/")
	p.AddExtracted("price", "=1+1")
	p.AddExtracted("tag", "b")
	p.AddExtracted("tag", "a")
	p.AddExtracted("old", "of earlier settings")
	for range 2 { // the second replaces the file of the first
		write(t, these(p, indexable("https://x.test/2")), Options{Dir: dir, CSV: true,
			Extract: []string{"tag", "price"}})
	}
	text, err := os.ReadFile(filepath.Join(dir, "sitemap.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	n := len(page.NewTable().Columns())
	for i, want := range [][]string{{"extracted.tag", "extracted.price"}, {"b | a", "'=1+1"}, {"", ""}} {
		if !slices.Equal(rows[i][n:], want) {
			t.Errorf("row %d ends with %q, want %q", i, rows[i][n:], want)
		}
	}
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	p := indexable("https://x.test/")
	p.Links = []page.Link{{To: "https://x.test/<a>", Rel: "nofollow", Text: "an \"a\"", NoFollow: true},
		{To: "https://y.test/"}}
	res := write(t, these(p, indexable("https://x.test/2")), Options{Dir: dir, Links: true, Only: []string{"links"}})
	wantFiles(t, dir, res, "links.jsonl")
	text, err := os.ReadFile(filepath.Join(dir, "links.jsonl"))
	want := `{"from":"https://x.test/","to":"https://x.test/<a>","rel":"nofollow","text":"an \"a\"","nofollow":true}` +
		"\n" + `{"from":"https://x.test/","to":"https://y.test/","nofollow":false}` + "\n"
	if err != nil || string(text) != want || res.Links != 2 {
		t.Errorf("%d links, %v:\n%s", res.Links, err, text)
	}
}

func TestGzipIsTheSameDocument(t *testing.T) {
	dir := t.TempDir()
	write(t, numbered(10), Options{Dir: dir, Only: []string{"xml"}})
	plain, err := os.ReadFile(filepath.Join(dir, "sitemap.xml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, numbered(10), Options{Dir: dir, Only: []string{"xml"}, Gzip: true})
	f, err := os.Open(filepath.Join(dir, "sitemap.xml.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%d bytes, %v; %d plain", len(got), err, len(plain))
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, zip := range []bool{false, true} {
		b.Run(fmt.Sprintf("pages=1e5/gzip=%v", zip), func(b *testing.B) {
			dir := b.TempDir()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Write(b.Context(), numbered(100_000),
					Options{Dir: dir, Gzip: zip, CSV: true}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(100_000*b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
