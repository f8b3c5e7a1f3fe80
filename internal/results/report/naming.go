package report

import (
	"context"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// parentPage is what is known of a page that was the first to link to another.
type parentPage struct {
	isThere    bool
	generation uint32    // in which its facts were read
	at         time.Time // likewise
}

// maxParents is how many are remembered. Pages come by URL, and those of a section often have the same parent.
const maxParents = 10_000

// isUnlinked reports whether nothing seems to name a URL any more: the page that first linked to it was read again
// after the URL was last named. It cannot be exact: the links of an unchanged page are not read again, and only the
// page that first linked to a URL is on record. That page must still be there, so that most marks are true.
func (p *pageReader) isUnlinked(ctx context.Context, rec *state.Page) (bool, error) {
	f := rec.Finish
	if f == nil || f.Generation == 0 || rec.Link.Parent.IsZero() || rec.Link.Source == page.SourceSitemap {
		return false, nil
	}
	from, err := p.parent(ctx, rec.Link.Parent)
	if err != nil || !from.isThere {
		return false, err
	}
	last := max(rec.Linked.Generation, rec.Listed.Generation)
	return from.generation > last && from.at.After(rec.Link.Discovered), nil
}

func (p *pageReader) parent(ctx context.Context, u weburl.URL) (parentPage, error) {
	if known, ok := p.parents[u.String()]; ok {
		return known, nil
	}
	rec, _, err := p.store.Before(ctx, p.hasher.Key(u), 0)
	if err != nil {
		return parentPage{}, err
	}
	f := rec.Finish
	from := parentPage{generation: rec.FactsGeneration, at: rec.FactsAt,
		isThere: f != nil && page.Outcome(f.Outcome) == page.OK && f.Failures == 0}
	if p.parents == nil || len(p.parents) >= maxParents {
		p.parents = map[string]parentPage{}
	}
	p.parents[u.String()] = from
	return from, nil
}
