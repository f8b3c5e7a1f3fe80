package report

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
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
	for name, read := range map[string]func(l *Linkage) error{
		"evidence":  func(l *Linkage) error { foldAll(l, evidence); return nil },
		"backwards": func(l *Linkage) error { foldAll(l, backwards); return nil },
		"snapshot":  func(l *Linkage) error { return l.Load(bytes.NewReader(snapshot)) },
		"both":      func(l *Linkage) error { foldAll(l, evidence); return l.Load(bytes.NewReader(snapshot)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			links := map[string]uint8{"listed": page.SourceSitemap, "both": page.SourceSitemap,
				"later": page.SourceSitemap, "found": page.SourceLink, "none": page.SourceLink}
			r := frontier.Record{}
			for path, source := range links {
				u := s.url(path)
				r.Links = append(r.Links, frontier.Link{Key: s.store.Hasher().Key(u), URL: u, Source: source})
			}
			r.Named = []frontier.Named{{Key: s.store.Hasher().Key(s.url("later")), Linked: true, Generation: 2}}
			s.commit(r)
			for range 2 {
				l := &Linkage{}
				if err := read(l); err != nil {
					t.Fatal(err)
				}
				if known, err := l.Record(t.Context(), s.store); !known || err != nil {
					t.Fatal(known, err)
				}
				if s.store.Facts()[frontier.FactListed] == nil {
					t.Error("it is not on record that sitemaps list URLs")
				}
				for path, want := range map[string][2]state.NamedIn{
					"listed": {}, "both": {1: {Named: true}}, "later": {1: {Named: true, Generation: 2}},
					"found": {0: {Named: true}}, "none": {},
				} {
					p, _, err := s.store.Page(t.Context(), s.store.Hasher().Key(s.url(path)))
					if got := [2]state.NamedIn{p.Listed, p.Linked}; got != want || err != nil {
						t.Errorf("%s is named %+v, want %+v: %v", path, got, want, err)
					}
				}
			}
		})
	}
	if err := (&Linkage{}).Load(bytes.NewReader(snapshot[1:])); err == nil {
		t.Error("a cut snapshot is taken for a whole one")
	}
	s := newSite(t)
	if known, err := (&Linkage{}).Record(t.Context(), s.store); known || err != nil ||
		s.store.Facts()[frontier.FactListed] != nil {
		t.Error("a crawl without such evidence is taken for one with", err)
	}
}

func foldAll(l *Linkage, list []frontier.Evidence) {
	for _, e := range list {
		l.Fold(e)
	}
}
