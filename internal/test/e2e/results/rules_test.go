package results

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/sitemaptest"
)

// Rules by expressions say what XML sitemaps list, and with which values; at the end of a crawl and in an export.
func TestSitemapRules(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Succeeded(t, e2e.Run(t, "demo", "-q", "--data-dir", dir, "--exclude-from-sitemap", "/recipes/"))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := read("sitemap.xml"); strings.Contains(text, "/recipes/") || !strings.Contains(text, "/bread/") ||
		strings.Contains(text, "changefreq") || !strings.Contains(read("sitemap.jsonl"), "/recipes/soup.html") {
		t.Errorf("sitemap.xml is\n%s", text)
	}
	got := e2e.Run(t, "export", dir, "--format", "xml", "--exclude-from-sitemap=", "--changefreq", "/bread/$=daily",
		"--changefreq", "/bread/=never", "--priority", "soup=0.25", "--priority", ".=1.0")
	e2e.Succeeded(t, got)
	text := read("sitemap.xml")
	sitemaptest.Document(t, "sitemap.xml", []byte(text))
	pages, bread := strings.Count(text, "<loc>"), strings.Count(text, "/bread/")
	for part, want := range map[string]int{"<changefreq>daily<": 1, "<changefreq>never<": bread - 1, "<priority>0.25<": 1,
		"<priority>1<": pages - 1} {
		if n := strings.Count(text, part); n != want || want == 0 {
			t.Errorf("%d times %s, want %d:\n%s", n, part, want, text)
		}
	}
	got = e2e.Run(t, "export", dir, "--exclude-from-sitemap", ".")
	if got.Code != 0 || !strings.Contains(got.Stderr, "leaves out all indexable pages") || e2e.Exists(t, dir, "sitemap.xml") {
		t.Errorf("exit status %d, %s", got.Code, got.Stderr)
	}
	e2e.Refused(t, e2e.Run(t, "export", dir, "--sitemap-name", "Shop", "--sitemap-split", "page"),
		`flag --sitemap-name: "Shop": a name has up to 50 lower-case letters`,
		`flag --sitemap-split: "page" is not one of host, path`)
	e2e.Refused(t, e2e.Run(t, "export", dir, "--changefreq", "a=often", "--priority", "b=2", "--priority", "c",
		"--exclude-from-sitemap", "("), `flag --changefreq: "a=often": "often" is not one of always`,
		`flag --priority: "b=2": "2" is not a number between`, `"c" has not the form`, "flag --exclude-from-sitemap")
}

// The sitemaps of a crawl have the name and the split that it was given, and others after an export or a recrawl that
// was given others. Files of users stay, also copies of sitemaps.
func TestSitemapNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	sitemaps := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), ".xml") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	want := func(want ...string) {
		t.Helper()
		if got := sitemaps(); !slices.Equal(got, want) {
			t.Fatalf("there are %q, want %q", got, want)
		}
		for _, name := range want {
			sitemaptest.Files(t, filepath.Join(dir, name))
		}
	}
	crawled := e2e.Run(t, "demo", "-q", "--data-dir", dir, "--sitemap-name", "shop", "--sitemap-split", "path")
	e2e.Succeeded(t, crawled)
	split := sitemaps()
	if len(split) < 4 || !slices.Contains(split, "shop-bread.xml") || !slices.Contains(split, "shop-root.xml") {
		t.Fatalf("there are %q", split)
	}
	want(split...)
	index, err := os.ReadFile(filepath.Join(dir, "shop.xml"))
	if err != nil || strings.Count(string(index), "<loc>") != len(split)-1 {
		t.Errorf("%v, the index is\n%s", err, index)
	}
	if err := os.WriteFile(filepath.Join(dir, "shop-old.xml"), index, 0o600); err != nil {
		t.Fatal(err)
	}
	got := e2e.Run(t, "export", dir, "--format", "xml", "--sitemap-name", "map", "--sitemap-split", "host", "--gzip")
	if e2e.Succeeded(t, got); !strings.Contains(got.Stdout, "indexable: map.xml.gz in ") {
		t.Error(got.Stdout)
	}
	want("map.xml.gz", "shop-old.xml")
	got = e2e.Run(t, "export", dir, "--format", "xml")
	if e2e.Succeeded(t, got); !strings.Contains(got.Stdout, fmt.Sprintf("indexable: shop.xml (%d parts of %d directories)",
		len(split)-1, len(split)-1)) {
		t.Error(got.Stdout)
	}
	want(slices.Sorted(slices.Values(append(slices.Clone(split), "shop-old.xml")))...)
	e2e.Succeeded(t, e2e.Run(t, "wipe", "--data-dir", dir, "--yes"))
	want("shop-old.xml")
}

// News and films of pages are listed with the settings for them, from what the pages say.
func TestSitemapExtensions(t *testing.T) {
	t.Parallel()
	published := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	head := `<html lang=en-GB><title>Title</title><meta property=og:site_name content="The Times">`
	site := e2e.Site(t, map[string]string{
		"/": head + `<a href=/old>1</a><a href=/film>2</a><meta property="article:published_time" content="` +
			published.Format(time.RFC3339) + `">`,
		"/old": head + `<meta property="article:published_time" content="2020-01-02T03:04:05Z">`,
		"/film": head + `<meta name=description content="About &amp; more"><meta property=og:image content=https://a.test/t.png>
<meta property=og:video content=https://a.test/f.mp4>`,
	}, nil)
	dir, lines, _ := e2e.CrawlSite(t, site, "--sitemap-news", "--sitemap-video")
	if got := lines[site.URL+"/"].PublishedAt; got != published.Format("2006-01-02T15:04:05.000Z") ||
		lines[site.URL+"/film"].PublishedAt != "" {
		t.Errorf("published at %q, want %v", got, published)
	}
	text := e2e.Read(t, dir, "sitemap.xml")
	sitemaptest.Document(t, "sitemap.xml", []byte(text))
	for part, want := range map[string]int{"<loc>": 3, "<news:news>": 1, "<news:name>The Times</news:name>": 1,
		"<news:language>en</news:language>": 1, "<news:title>Title</news:title>": 1,
		published.Format(">2006-01-02T15:04:05Z</news:publication_date>"): 1, "<video:video>": 1,
		"<video:description>About &amp; more</video:description>":     1,
		"<video:content_loc>https://a.test/f.mp4</video:content_loc>": 1} {
		if n := strings.Count(text, part); n != want {
			t.Errorf("%d times %s, want %d:\n%s", n, part, want, text)
		}
	}
	e2e.Succeeded(t, e2e.Run(t, "export", dir, "--format", "xml", "--sitemap-news=false", "--sitemap-video=false"))
	if text := e2e.Read(t, dir, "sitemap.xml"); strings.Contains(text, "news") || strings.Contains(text, "video") {
		t.Errorf("sitemap.xml is\n%s", text)
	}
}
