package report

import (
	"context"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/state"
)

// naming finds the URLs that nothing names any more.
type naming struct {
	store      Store
	hasher     urlnorm.Hasher
	generation uint32
	read       map[string]*readAgain // by parent and source; bounded
}

// readAgain is what the last generation found of a page or sitemap that names others.
type readAgain struct {
	done       bool   // it was read, or found gone
	redirectTo string // where it leads to
}

// maxParents is how many pages that name others are remembered. Pages come by URL, and those of a section often have the same parent.
const maxParents = 10_000

// isUnlinked reports whether a URL was checked in the last generation, the page or sitemap that first named it was read again, and neither that nor anything
// else that was read names the URL. What is not read because it is unchanged has its links still, so that its word stands.
func (n *naming) isUnlinked(ctx context.Context, rec *state.Page) (bool, error) {
	f := rec.Finish
	if n.generation == 0 || f == nil || f.Generation != n.generation || rec.Linked.Generation == n.generation || rec.Listed.Generation == n.generation {
		return false, nil
	}
	parent := rec.Link.Parent
	switch {
	case parent.IsZero(): // a start page, or one that a public index named
		return false, nil
	case f.Visit == 1: // it was named in this generation
		return false, nil
	}
	r, err := n.parent(ctx, parent, rec.Link.Source == page.SourceSitemap)
	if err != nil {
		return false, err
	}
	return r.done && r.redirectTo != rec.Link.URL.String(), nil
}

// parent looks a page or sitemap up.
func (n *naming) parent(ctx context.Context, u urlnorm.URL, isSitemap bool) (*readAgain, error) {
	id := u.String()
	if isSitemap {
		id = "sitemap " + id
	}
	if r := n.read[id]; r != nil {
		return r, nil
	}
	var p state.Page
	var err error
	if isSitemap {
		var list []state.Sitemap
		if list, err = n.store.ReadSitemaps(ctx, []frontier.Key{frontier.SitemapKey(n.hasher, u)}); err == nil {
			p = list[0].Page
		}
	} else {
		p, _, err = n.store.Page(ctx, n.hasher.Key(u))
	}
	if err != nil {
		return nil, err
	}
	r := &readAgain{}
	if f := p.Finish; f != nil {
		r.done = p.FactsGeneration == n.generation && f.Failures == 0 && (!isSitemap || page.Outcome(f.Outcome) == page.OK)
		r.redirectTo = f.RedirectTo
	}
	if n.read == nil || len(n.read) >= maxParents {
		n.read = map[string]*readAgain{}
	}
	n.read[id] = r
	return r, nil
}
