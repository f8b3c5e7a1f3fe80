package crawl

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// What an earlier version knew of listed and linked URLs, by evidence or by a checkpoint, is put on record. A second
// time changes nothing, and nothing takes the place of what a later generation has recorded.
func TestLinkageIsRecorded(t *testing.T) {
	hash := func(path string) uint64 { return xxhash.Sum64String("https://x.test/" + path) }
	evidence := []frontier.Evidence{
		{Kind: evidenceSitemapLists, Subject: hash("listed")}, {Kind: evidenceSitemapLists, Subject: hash("both")},
		{Kind: evidencePageLinks, Subject: hash("both")}, {Kind: evidencePageLinks, Subject: hash("later")},
		{Kind: evidenceSitemapLists, Subject: hash("found")}, {Kind: evidencePageLinks, Subject: hash("found")},
		{Kind: evidenceSitemapLists, Subject: hash("unknown")},
		{Kind: 4, Subject: hash("none")},
	}
	backwards := slices.Clone(evidence)
	slices.Reverse(backwards)
	var snapshot []byte
	for _, path := range []string{"listed", "both", "later", "found", "unknown"} {
		linked := byte(1)
		if path == "listed" || path == "unknown" {
			linked = 0
		}
		snapshot = append(binary.BigEndian.AppendUint64(snapshot, hash(path)), linked)
	}
	for name, read := range map[string]func(l *linkage) error{
		"evidence":  func(l *linkage) error { foldAll(l, evidence); return nil },
		"backwards": func(l *linkage) error { foldAll(l, backwards); return nil },
		"snapshot":  func(l *linkage) error { return l.load(bytes.NewReader(snapshot)) },
		"both":      func(l *linkage) error { foldAll(l, evidence); return l.load(bytes.NewReader(snapshot)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openState(t)
			url := func(path string) weburl.URL { return weburl.MustCanonical("https://x.test/" + path) }
			links := map[string]uint8{"listed": page.SourceSitemap, "both": page.SourceSitemap,
				"later": page.SourceSitemap, "found": page.SourceLink, "none": page.SourceLink}
			r := frontier.Record{}
			for path, source := range links {
				u := url(path)
				r.Links = append(r.Links, frontier.Link{Key: s.Hasher().Key(u), URL: u, Source: source})
			}
			r.Named = []frontier.Named{{Key: s.Hasher().Key(url("later")), Linked: true, Generation: 2}}
			if _, err := s.Commit(r); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				l := &linkage{}
				if err := read(l); err != nil {
					t.Fatal(err)
				}
				if known, err := l.record(t.Context(), s); !known || err != nil {
					t.Fatal(known, err)
				}
				if s.Facts()[frontier.FactListed] == nil {
					t.Error("it is not on record that sitemaps list URLs")
				}
				for path, want := range map[string][2]state.NamedIn{
					"listed": {}, "both": {1: {Named: true}}, "later": {1: {Named: true, Generation: 2}},
					"found": {0: {Named: true}}, "none": {},
				} {
					p, _, err := s.Page(t.Context(), s.Hasher().Key(url(path)))
					if got := [2]state.NamedIn{p.Listed, p.Linked}; got != want || err != nil {
						t.Errorf("%s is named %+v, want %+v: %v", path, got, want, err)
					}
				}
			}
		})
	}
	if err := (&linkage{}).load(bytes.NewReader(snapshot[1:])); err == nil {
		t.Error("a cut snapshot is taken for a whole one")
	}
	s := openState(t)
	if known, err := (&linkage{}).record(t.Context(), s); known || err != nil ||
		s.Facts()[frontier.FactListed] != nil {
		t.Error("a crawl without such evidence is taken for one with", err)
	}
}

func openState(t *testing.T) *state.Store {
	t.Helper()
	s, err := state.Open(t.TempDir(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func foldAll(l *linkage, list []frontier.Evidence) {
	for _, e := range list {
		l.fold(e)
	}
}
