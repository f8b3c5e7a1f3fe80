package export

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// theseChanges are changes of pages, and after them an error if it is not nil.
func theseChanges(failure error, urls ...string) func(context.Context) iter.Seq2[*recrawl.Line, error] {
	return func(context.Context) iter.Seq2[*recrawl.Line, error] {
		return func(yield func(*recrawl.Line, error) bool) {
			for _, url := range urls {
				if !yield(&recrawl.Line{SchemaVersion: 1, URL: url, Generation: 1, Change: "new",
					Fields: map[string]recrawl.Values{"title": {After: "<T>\x1b"}}}, nil) {
					return
				}
			}
			if failure != nil {
				yield(nil, failure)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, datadir.ChangesName)
	res := write(t, numbered(1), Options{Dir: dir, Changes: theseChanges(nil, "https://x.test/a")})
	wantFiles(t, dir, res, "sitemap.jsonl", datadir.ChangesName, "sitemap.xml")
	const line = `{"schema_version":1,"url":"https://x.test/a","generation":1,"change":"new","checked_at":"0001-01-01T00:00:00.000Z","fields":{"title":{"after":"<T>\u001b"}}}` + "\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != line || res.Changes != 1 {
		t.Errorf("%d changes, %v: %s", res.Changes, err, text)
	}

	// An error leaves all files as they were.
	broken := errors.New("broken")
	if _, err := Write(t.Context(), numbered(5), Options{Dir: dir,
		Changes: theseChanges(broken, "https://x.test/b")}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != line || len(lines(t, dir)) != 1 {
		t.Errorf("an export that failed leaves %v %s", err, text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}

	// A run that writes nothing shows all pages.
	seen := 0
	res = write(t, numbered(5), Options{Dir: dir, DryRun: true, CSV: true, Links: true, Changes: theseChanges(broken),
		Each: func(*page.Line, []byte) { seen++ }})
	if seen != 5 || res.Indexable != 5 || len(res.Files) != 0 || len(lines(t, dir)) != 1 {
		t.Errorf("saw %d, wrote %v", seen, res.Files)
	}

	// Another program's file is not replaced.
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Changes: theseChanges(nil)}
	if err := CheckReplace(o); !errors.Is(err, datadir.ErrNotOurs) {
		t.Errorf("%v", err)
	}
	o.Only = []string{"xml"}
	if err := CheckReplace(o); err != nil {
		t.Error(err)
	}
	if res := write(t, numbered(1), o); !slices.Equal(res.Files, []string{"sitemap.xml"}) {
		t.Errorf("wrote %v", res.Files)
	}
}

func TestLastMod(t *testing.T) {
	said, changed := page.Time{Time: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)},
		page.Time{Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		line page.Line
		want time.Time
	}{
		"nothing is known":   {page.Line{CheckedAt: changed, CrawledAt: changed}, time.Time{}},
		"what the site says": {page.Line{Facts: page.Facts{LastModified: said}, ChangedAt: changed}, said.Time},
		"a change was seen":  {page.Line{ChangedAt: changed}, changed.Time},
		"volatile": {page.Line{Facts: page.Facts{LastModified: said}, ChangedAt: changed, Volatile: true},
			time.Time{}},
	} {
		if got := lastMod(&c.line); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
