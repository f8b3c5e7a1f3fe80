package report

import (
	"context"
	"fmt"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

// SourceProbe is the source of a probe, which is queued and recorded in the way of sitemaps. Those have the sources 0
// and 1.
const SourceProbe uint8 = 2

// ProbeURL is a URL of the origin of u that no site has. It is another one in each crawl and generation, and cannot be
// foreseen, since keys depend on the crawl's seed.
func ProbeURL(h frontier.Hasher, u weburl.URL, generation uint32) (weburl.URL, error) {
	root, err := weburl.Parse(fmt.Sprintf("%s/?%d", u.Origin(), generation))
	if err != nil {
		return root, err
	}
	k := h.Key(root)
	return weburl.Parse(fmt.Sprintf("%s/%016x%016x", u.Origin(), k.Hi, k.Lo))
}

// readProbe says whether the origin of u has answered the probe, and is the hash of the text if the status was 200.
func (c *Crawl) readProbe(ctx context.Context, u weburl.URL, generation uint32) (text *page.Hash, answered bool,
	err error) {
	h := c.Store.Hasher()
	probe, err := ProbeURL(h, u, generation)
	if err != nil {
		return nil, false, nil // the longest host names have no room for it
	}
	list, err := c.Store.ReadSitemaps(ctx, []frontier.Key{frontier.SitemapKey(h, probe)})
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
