package frontier

import "sync"

// found has the model take links that were found together: it returns how many are new. Of links that Admit is shown, which it
// is once of each, evidence and skips are counted.
func (d *driver) found(links []Link) (added int) {
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
	*MemStore
	mu   sync.Mutex // held by Commit; the test reads when nothing commits
	kept kept
}

// kept are sums over records: skips by reason, pieces of evidence by kind, and how many
// there are of the rest.
type kept struct {
	skips    [4]uint64
	evidence [4]int

	named, facts, visits int
}

func (k *kept) count(skips []Skip, evidence []Evidence) {
	for _, s := range skips {
		k.skips[s.Reason] += s.Count
	}
	for _, e := range evidence {
		if e.Kind < EvidenceDomainFailed {
			k.evidence[e.Kind]++
		}
	}
}

func (s *keptStore) Commit(recs ...Record) (Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range recs {
		s.kept.count(recs[i].Skips, recs[i].Evidence)
		s.kept.named += len(recs[i].Named)
		s.kept.facts += len(recs[i].Facts)
		for _, l := range recs[i].Visits {
			s.kept.visits++
			if f := recs[i].Finish; f == nil || f.Key != l.Key || f.Visit+1 != l.Visit {
				s.kept.visits += 1000 // it is not in the record of its finish
			}
		}
	}
	return s.MemStore.Commit(recs...)
}
