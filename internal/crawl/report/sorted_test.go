package report

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/state"
)

// Pages of crawls with different seeds come in the same order, whether they fit into memory or not, and nothing is lost on the way.
func TestOrderDoesNotDependOnTheSeed(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123).UTC()
	dir := t.TempDir()
	read := func(seed uint64, limit int) (urls []string) {
		t.Helper()
		h := urlnorm.NewHasher(seed)
		var pages []state.Page
		for i := range 600 {
			u, err := urlnorm.Parse(fmt.Sprintf("http://h%d.d%d.test:%d/p%d?q=%d", i%7, i%3, 80+i%2, i%11, i))
			if err != nil {
				t.Fatal(err)
			}
			p := state.Page{Link: frontier.Link{Key: h.Key(u), URL: u, Depth: uint16(i % 5), Discovered: now}}
			if i%4 != 0 {
				p.Finish = &frontier.Finish{Key: p.Link.Key, Status: uint16(200 + i%3), CheckedAt: now, Facts: []byte{byte(i), 1}}
			}
			pages = append(pages, p)
		}
		slices.SortFunc(pages, func(a, b state.Page) int { return a.Link.Key.Compare(b.Link.Key) })
		var stored iter.Seq2[state.Page, error] = func(yield func(state.Page, error) bool) {
			for _, p := range pages {
				if !yield(p, nil) {
					return
				}
			}
		}
		for p, err := range sortPages(t.Context(), stored, dir, limit) {
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(p.Link.URL, p.Link.Depth, p.Link.Discovered.UnixMilli(), p.Finish != nil)
			if p.Finish != nil {
				text += fmt.Sprint(p.Finish.Status, p.Finish.CheckedAt.UnixMilli(), p.Finish.Facts)
			}
			urls = append(urls, text)
		}
		return urls
	}
	want := read(1, 1<<30)
	if len(want) != 600 {
		t.Fatalf("%d pages", len(want))
	}
	for seed := range uint64(3) {
		for _, limit := range []int{1, 5_000, 40_000, 1 << 30} {
			if got := read(seed, limit); !slices.Equal(got, want) {
				t.Errorf("seed %d, limit %d: another order or other pages", seed, limit)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}
