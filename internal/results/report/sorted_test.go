package report

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/state"
)

// Pages of crawls with different seeds come in the same order, whether they fit into memory or not, and nothing is lost
// on the way.
func TestOrderDoesNotDependOnTheSeed(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123).UTC()
	dir := t.TempDir()
	fill := func(seed uint64) *state.Store {
		t.Helper()
		s, err := state.Open(t.TempDir()+"/state", state.Options{Mode: state.CreateOnly, Seed: seed,
			MinFree: state.Off})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		for i := range 600 {
			u, err := weburl.Parse(fmt.Sprintf("http://h%d.d%d.test:%d/p%d?q=%d", i%7, i%3, 80+i%2, i%11, i))
			if err != nil {
				t.Fatal(err)
			}
			r := frontier.Record{Links: []frontier.Link{{Key: s.Hasher().Key(u), URL: u, Depth: uint16(i % 5),
				Discovered: now}}}
			if i%4 != 0 {
				r.Finish = &frontier.Finish{Key: r.Links[0].Key, Status: uint16(200 + i%3), CheckedAt: now,
					Facts: []byte{byte(i), 1}}
				if i%30 == 1 { // these are not sorted as a whole
					r.Finish.Facts = bytes.Repeat(r.Finish.Facts, mostSorted)
				}
			}
			if _, err := s.Commit(r); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Page(t.Context(), weburl.Key{}); err != nil { // so that all is applied
			t.Fatal(err)
		}
		return s
	}
	read := func(s *state.Store, limit int) (urls []string) {
		t.Helper()
		var most, files int64
		defer func() {
			if most > 600*1000 || files != 0 {
				t.Errorf("limit %d: up to %d bytes of temporary files, %d in the end", limit, most, files)
			}
		}()
		for p, err := range sortPages(t.Context(), s, extsort.Space{Dir: dir, Pattern: state.TempPattern, Bytes: limit,
			Bound: func(bytes int64) error { files += bytes; most = max(most, files); return nil }}) {
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(p.Link.URL, p.Link.Depth, p.Link.Discovered.UnixMilli(), p.Finish != nil)
			if p.Finish != nil {
				text += fmt.Sprint(p.Finish.Status, p.Finish.CheckedAt.UnixMilli(), len(p.Finish.Facts),
					xxhash.Sum64(p.Finish.Facts))
			}
			urls = append(urls, text)
		}
		return urls
	}
	want := read(fill(1), 1<<30)
	if len(want) != 600 {
		t.Fatalf("%d pages", len(want))
	}
	for seed := range uint64(3) {
		s := fill(seed + 2)
		for _, limit := range []int{1, 5_000, 20_000, 1 << 30} {
			if got := read(s, limit); !slices.Equal(got, want) {
				t.Errorf("seed %d, limit %d: another order or other pages", seed+2, limit)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}
