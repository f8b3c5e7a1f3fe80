package export

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
)

func pages(n int) Source {
	return func(context.Context) iter.Seq2[*Page, error] {
		return func(yield func(*Page, error) bool) {
			for i := range n {
				f := &page.Facts{ContentLength: -1, ResponseTime: -1}
				l := page.Line{SchemaVersion: 1, URL: "https://x.test/" + strings.Repeat("p", i), Outcome: "ok", Indexable: true}
				if !yield(&Page{Line: l, Facts: f}, nil) {
					return
				}
			}
		}
	}
}

func TestPartsIndexAndStaleFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(n int) *Result {
		t.Helper()
		res, err := Write(t.Context(), pages(n), Options{Dir: dir, BaseURL: "https://x.test/maps", MaxURLs: 2})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if got := write(5).Files; strings.Join(got, " ") != "sitemap.jsonl sitemap.xml sitemap-00001.xml sitemap-00002.xml sitemap-00003.xml" {
		t.Errorf("five pages made %v", got)
	}
	index, err := os.ReadFile(filepath.Join(dir, "sitemap.xml"))
	if err != nil || strings.Count(string(index), "<loc>https://x.test/maps/sitemap-0000") != 3 {
		t.Errorf("index %s, %v", index, err)
	}
	if got := write(1).Files; strings.Join(got, " ") != "sitemap.jsonl sitemap.xml" {
		t.Errorf("one page made %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("stale files stay: %v", left)
	}
	if got := write(0).Files; strings.Join(got, " ") != "sitemap.jsonl" {
		t.Errorf("no page made %v", got)
	}
}
