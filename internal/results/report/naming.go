package report

import (
	"context"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// naming finds the URLs that nothing seems to name any more. It cannot be exact: the links of a page that is unchanged
// are not read again, and only the page that first linked to a URL is on record. A URL is marked only if that page is
// still there and was read again, so that most marks are true.
type naming struct {
	store   Store
	hasher  weburl.Hasher
	parents map[string]parentPage // by URL; bounded
}

// parentPage is what is known of a page that first linked to others.
type parentPage struct {
	isThere    bool
	generation uint32    // in which its facts were read
	at         time.Time // likewise
}

// maxParents is how many are remembered. Pages come by URL, and those of a section often have the same parent.
const maxParents = 10_000

// isUnlinked reports whether the page that first linked to a URL was read again after anything named the URL last.
func (n *naming) isUnlinked(ctx context.Context, rec *state.Page) (bool, error) {
	f := rec.Finish
	if f == nil || f.Generation == 0 || rec.Link.Parent.IsZero() || rec.Link.Source == page.SourceSitemap {
		return false, nil
	}
	p, err := n.parent(ctx, rec.Link.Parent)
	if err != nil || !p.isThere {
		return false, err
	}
	return p.generation > max(rec.Linked.Generation, rec.Listed.Generation) && p.at.After(rec.Link.Discovered), nil
}

func (n *naming) parent(ctx context.Context, u weburl.URL) (parentPage, error) {
	if p, known := n.parents[u.String()]; known {
		return p, nil
	}
	rec, _, err := n.store.Before(ctx, n.hasher.Key(u), 0)
	if err != nil {
		return parentPage{}, err
	}
	p := parentPage{generation: rec.FactsGeneration, at: rec.FactsAt}
	if f := rec.Finish; f != nil {
		p.isThere = page.Outcome(f.Outcome) == page.OK && f.Failures == 0
	}
	if n.parents == nil || len(n.parents) >= maxParents {
		n.parents = map[string]parentPage{}
	}
	n.parents[u.String()] = p
	return p, nil
}
