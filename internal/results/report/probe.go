package report

import (
	"context"
	"fmt"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

// readProbe reports whether the origin of u has answered the probe, and returns the hash of the text if the status was
// 200.
func (c *Crawl) readProbe(ctx context.Context, u weburl.URL, generation uint32) (text *page.Hash, answered bool,
	err error) {
	h := c.Store.Hasher()
	probe, err := page.ProbeURL(h, u, generation)
	if err != nil {
		return nil, false, nil // the longest host names have no room for it
	}
	list, err := c.Store.ReadSitemaps(ctx, []weburl.Key{frontier.SitemapKey(h, probe)})
	if err != nil {
		return nil, false, err
	}
	f := list[0].Finish
	if f == nil || f.Status == 0 {
		return nil, false, nil
	}
	if page.Outcome(f.Outcome) != page.OK || f.Status != 200 {
		return nil, true, nil
	}
	facts, err := page.Decode(f.Facts)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", probe, err)
	}
	return facts.TextHash, true, nil
}
