package frontier

import (
	"maps"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// found has the model take links that were found together: it returns how many are new. Of links that Admit is shown,
// which it is once of each, evidence and skips are counted. Self is the page that has the links, if there is one.
func (d *driver) found(links []Link, self weburl.Key) (added int) {
	shown := map[string]bool{}
	for _, l := range links {
		name := nameOf(l.URL, l.Sitemap)
		if d.m.o.Admit != nil && d.m.urls[name] == nil && !shown[name] {
			shown[name] = true
			c := l
			evidence := d.m.o.Admit(&c, nil)
			d.kept.count(nil, evidence)
			if c.Skip > 0 {
				d.kept.count([]Skip{{Reason: c.Skip, Count: 1}}, nil)
			}
		}
		if d.m.add(l) {
			added++
		}
		if d.m.urls[name] != nil && !l.Sitemap {
			d.names.add(d.f.hasher.Key(l.URL), testNames(l.Source), self)
		}
	}
	return added
}

// admitSome skips some links, and finishes some at once.
func admitSome(l *Link, e []Evidence) []Evidence {
	switch l.URL.Path() {
	case "/20", "/21":
		l.Skip = 2
	case "/22":
		l.Finish = &Finish{Sitemap: l.Sitemap}
	}
	return append(e, Evidence{Kind: 2})
}

// A keptStore counts what records add to counts and folds.
type keptStore struct {
	*memStore
	t          *testing.T
	generation uint32

	mu    sync.Mutex // held by Commit; the test reads when nothing commits
	kept  kept
	names names
}

// testNames is Options.Names of the models.
func testNames(source uint8) Names { return [...]Names{0, Linked, Listed, Indexed}[source%4] }

// names are those of each URL that has any, by records or as they are to be.
type names map[weburl.Key]Names

// add adds names of a URL, unless it is the page that names it.
func (n names) add(k weburl.Key, names Names, self weburl.Key) {
	if names &= Linked | Listed; names != 0 && k != self {
		n[k] |= names
	}
}

// record adds what a record of a generation says.
func (n names) record(t *testing.T, r *Record, generation uint32) {
	for i := range r.Links {
		if l := &r.Links[i]; !l.Sitemap && generation == 0 {
			n.add(l.Key, testNames(l.Source), weburl.Key{})
		}
	}
	for _, named := range r.Named {
		if named.Generation != generation || !named.Linked && !named.Listed {
			t.Errorf("%+v, in generation %d", named, generation)
		}
		if named.Linked {
			n.add(named.Key, Linked, weburl.Key{})
		}
		if named.Listed {
			n.add(named.Key, Listed, weburl.Key{})
		}
	}
}

// want compares the names of all records with those that there must be.
func (n names) want(t *testing.T, want names) {
	t.Helper()
	if !maps.Equal(n, want) {
		t.Errorf("records name %v, want %v", n, want)
	}
}

// kept are sums over records: skips by reason, pieces of evidence by kind, and how many
// there are of the rest.
type kept struct {
	skips    [4]uint64
	evidence [4]int

	facts, visits int
}

func (k *kept) count(skips []Skip, evidence []Evidence) {
	for _, s := range skips {
		k.skips[s.Reason] += s.Count
	}
	for _, e := range evidence {
		if e.Kind < evidenceDomainFailed {
			k.evidence[e.Kind]++
		}
	}
}

func (s *keptStore) Commit(recs ...Record) (Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range recs {
		s.kept.count(recs[i].Skips, recs[i].Evidence)
		s.names.record(s.t, &recs[i], s.generation)
		s.kept.facts += len(recs[i].Facts)
		for _, l := range recs[i].Visits {
			s.kept.visits++
			if f := recs[i].Finish; f == nil || f.Key != l.Key || f.Visit+1 != l.Visit {
				s.kept.visits += 1000 // it is not in the record of its finish
			}
		}
	}
	return s.memStore.Commit(recs...)
}
