package state

import (
	"reflect"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// A requested sitemap is there until it has been read, also when the store is opened again.
func TestSitemaps(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	fact := func(url string, depth uint16, vouched ...string) frontier.SitemapFact {
		u := mustURL(url)
		return frontier.SitemapFact{Key: frontier.SitemapKey(s.Hasher(), u), URL: u, Depth: depth, Guessed: depth == 0, Vouched: vouched}
	}
	a, b := fact("https://a.example/s.xml", 0, "a.example"), fact("https://b.example/s.xml", 3)
	commit(t, s, frontier.Record{Sitemaps: []frontier.SitemapFact{a, b}})
	check := func(s *Store, want ...frontier.SitemapFact) {
		t.Helper()
		got := map[string]frontier.SitemapFact{}
		for m, err := range s.Sitemaps(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got[m.URL.String()] = m
		}
		for _, m := range want {
			if !reflect.DeepEqual(got[m.URL.String()], m) {
				t.Errorf("got %+v, want %+v", got[m.URL.String()], m)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d sitemaps, want %d", len(got), len(want))
		}
	}
	check(s, a, b)
	b.Vouched = []string{"c.example", "d.example"}
	commit(t, s, frontier.Record{Sitemaps: []frontier.SitemapFact{b, {Key: a.Key, Read: true}}})
	check(s, b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, small())
	check(s, b)
	commit(t, s, frontier.Record{Sitemaps: []frontier.SitemapFact{{Key: b.Key, Read: true}}})
	check(s)
}
