package report

import (
	"context"
	"fmt"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// SourceProbe is the source of a probe, which is queued and recorded in the way of sitemaps. Those have the sources 0 and 1.
const SourceProbe uint8 = 2

// ProbeURL is a URL of the origin of u that no site has. It is another one in each crawl and generation, and cannot be foreseen, since keys depend on the crawl's seed.
func ProbeURL(h frontier.Hasher, u urlnorm.URL, generation uint32) (urlnorm.URL, error) {
	root, err := urlnorm.Parse(fmt.Sprintf("%s/?%d", u.Origin(), generation))
	if err != nil {
		return root, err
	}
	k := h.Key(root)
	return urlnorm.Parse(fmt.Sprintf("%s/%016x%016x", u.Origin(), k.Hi, k.Lo))
}

// readProbe is the hash of the text with which the origin of u answered the probe with status 200, or nil.
func (c *Crawl) readProbe(ctx context.Context, u urlnorm.URL, generation uint32) (*page.Hash, error) {
	h := c.Store.Hasher()
	probe, err := ProbeURL(h, u, generation)
	if err != nil {
		return nil, nil // the longest host names have no room for it
	}
	list, err := c.Store.ReadSitemaps(ctx, []frontier.Key{frontier.SitemapKey(h, probe)})
	if err != nil {
		return nil, err
	}
	f := list[0].Finish
	if f == nil || page.Outcome(f.Outcome) != page.OK || f.Status != 200 {
		return nil, nil
	}
	facts, err := page.Decode(f.Facts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", probe, err)
	}
	return facts.TextHash, nil
}
