package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	e2e.Refused(t, e2e.Run(t, "export", dir, "--changefreq", "a=often", "--priority", "b=2", "--priority", "c",
		"--exclude-from-sitemap", "("), `flag --changefreq: "a=often": "often" is not one of always`,
		`flag --priority: "b=2": "2" is not a number between`, `"c" has not the form`, "flag --exclude-from-sitemap")
}
