package state

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// TestPagesWhileWriting reads all pages slowly while others are written: those
// that were there at the start come once each, in order.
func TestPagesWhileWriting(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir()+"/store", small())
	there := map[weburl.Key]bool{}
	add := func(lo uint64) weburl.Key {
		k := weburl.Key{Host: weburl.HostID(lo % 5 << 60), Hi: lo * 0x9e3779b97f4a7c15, Lo: lo}
		commit(t, s, frontier.Record{Links: []frontier.Link{{Key: k, URL: mustURL("https://a.example/")}}})
		return k
	}
	n := uint64(0)
	for ; n < 5*pagesChunk; n++ {
		there[add(n)] = true
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var last weburl.Key
	got := 0
	for p, err := range s.Pages(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if got > 0 && p.Link.Key.Compare(last) <= 0 {
			t.Fatal("out of order")
		}
		last = p.Link.Key
		got++
		delete(there, last)
		if got%10 == 0 {
			add(n)
			n++
		}
		if got%500 == 0 {
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(there) > 0 {
		t.Errorf("%d pages are missing", len(there))
	}
}

// TestReadersLetGo ends reads in the middle, cancels them, and closes the
// store under them.
func TestReadersLetGo(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", small())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(11)
	for range 2000 {
		commit(t, s, m.record())
	}
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range s.Pages(t.Context()) {
		break
	}
	for range s.Keys(t.Context(), 0, 255) {
		break
	}
	for range s.KeysSince(t.Context(), 0) {
		break
	}
	for range s.Backlogs(t.Context(), 0, 255) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range s.Pages(ctx) {
		if n++; n == 2 {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if n > 2*pagesChunk {
		t.Errorf("%d pages after the context was cancelled", n)
	}
	for _, err = range s.Pages(t.Context()) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, ErrClosed, err, "reading on")
}

func TestKeysByPartition(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	var all []weburl.Key
	for i := range 512 {
		k := weburl.Key{Host: weburl.HostID(uint64(i%256)<<56 | uint64(i)), Lo: uint64(i)}
		all = append(all, k)
		commit(t, s, frontier.Record{Links: []frontier.Link{{Key: k, URL: mustURL("https://a.example/")}}})
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, weburl.Key.Compare)
	for _, c := range [][2]uint8{{0, 255}, {0, 0}, {255, 255}, {7, 9}} {
		var got []weburl.Key
		for k, err := range s.Keys(t.Context(), c[0], c[1]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, k)
		}
		if want := all[2*int(c[0]) : 2*int(c[1])+2]; !slices.Equal(got, want) {
			t.Errorf("partitions %v: %d keys, want %d", c, len(got), len(want))
		}
	}
}

// TestFinishWithoutDiscovery keeps what was finished without being named.
func TestFinishWithoutDiscovery(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	for i := range uint64(6) {
		r := frontier.Record{Finish: &frontier.Finish{Key: key(i), Status: 200}}
		if i%2 == 0 {
			r.Links = []frontier.Link{{Key: key(i), URL: mustURL("https://a.example/")}}
		}
		commit(t, s, r)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := uint64(0)
	for p, err := range s.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Link.Key != key(i) || p.Finish == nil || !p.Link.URL.IsZero() != (i%2 == 0) {
			t.Errorf("page %d: %+v", i, p)
		}
		one, ok, err := s.Page(t.Context(), key(i))
		if err != nil || !ok || one.Link.URL != p.Link.URL || one.Finish.Status != 200 {
			t.Errorf("page %d: %+v, %v, %v", i, one, ok, err)
		}
		i++
	}
	if _, ok, err := s.Page(t.Context(), key(99)); ok || err != nil {
		t.Errorf("unknown page: %v, %v", ok, err)
	}
}

// A raw page decodes to what Page returns, and none that is cut off decodes to a part of it without an error, unless it
// ends with a whole value.
func TestRawPage(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	u := mustURL("https://a.example/b")
	k := s.Hasher().Key(u)
	commit(t, s, frontier.Record{Links: []frontier.Link{{Key: k, URL: u, Depth: 3,
		Parent: mustURL("https://a.example/")}}})
	for visit := range uint32(3) {
		commit(t, s, frontier.Record{
			Finish: &frontier.Finish{Key: k, Status: 200, Visit: visit + 1, Generation: visit, KeepFacts: visit == 2,
				Facts: []byte{1, 2, byte(visit)}},
			Named: []frontier.Named{{Key: k, Linked: true, Listed: true, Generation: visit}},
		})
	}
	want, ok, err := s.Page(t.Context(), k)
	if err != nil || !ok || want.Finish == nil || !want.Linked.Named || !want.Listed.Named ||
		len(want.VisitFacts) == 0 {
		t.Fatalf("page %+v (%v, %v)", want, ok, err)
	}
	for _, fetchAhead := range []bool{false, true} {
		var some rawPages
		err := s.read(context.Background(), func(txn *badger.Txn) error {
			return some.read(newPageMerge(txn, false, fetchAhead), weburl.Key{}, true)
		})
		if got, failed := RawPage(some.buf).Decode(); err != nil || failed != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("fetched ahead %v: raw page %+v (%v, %v), page %+v", fetchAhead, got, err, failed, want)
		}
	}
	n := 0
	for raw, err := range s.RawPages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if at, err := raw.URL(); err != nil || at != u || raw.Key() != k {
			t.Errorf("URL %v and key %v (%v)", at, raw.Key(), err)
		}
		if got, err := raw.Decode(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("raw page %+v (%v), page %+v", got, err, want)
		}
		whole := 0
		for i := range raw {
			if _, err := raw[:i].Decode(); err == nil {
				whole++
			}
		}
		if whole != 5 { // behind the key and behind each of five values but the last
			t.Errorf("%d beginnings of a raw page decode", whole)
		}
	}
	if n != 1 {
		t.Errorf("%d raw pages", n)
	}
}
