package frontier

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// The priorities of a host's queue; lower goes first, except that checks are last. Below [PriorityDepth] there
// are only seeds, that is, links of depth 0.
const (
	PriorityStart   uint8 = 0  // start pages
	PriorityCheck   uint8 = 14 // checks, and nothing else; they are leased after all others of their host
	PrioritySitemap uint8 = 15 // sitemaps, and nothing else
	PriorityDepth   uint8 = 16 // a link of depth d has PriorityDepth + d
	maxOrderedDepth       = math.MaxUint8 - int(PriorityDepth)
)

// SitemapPriority is the priority of a URL that a sitemap lists with the given
// weight, from 0.0 to 1.0 (0.5 where it gives none): 1 for the weightiest to 10.
func SitemapPriority(weight float64) uint8 {
	if math.IsNaN(weight) {
		weight = 0.5
	}
	return uint8(10 - math.Floor(min(1, max(0, weight))*9))
}

// A Link is a URL on its way into the frontier, or out of it.
type Link struct {
	URL weburl.URL
	// Depth is how many links away from a seed the URL was found. Seeds, sitemap
	// entries among them, have 0.
	Depth uint16
	// Priority orders the host's queue. At depth 0 it may be anything up to
	// PriorityDepth; deeper links always have the priority of their depth, which
	// Add and Done set.
	Priority uint8
	// Sitemap means that the URL is a sitemap: its key is a [SitemapKey], it takes no page ticket, and it is counted
	// apart from pages. The caller chooses its Depth; its Priority is always PrioritySitemap, which no page has.
	Sitemap bool
	// Check, of a link with Sitemap set, means that it is no sitemap: only what the server answers is wanted. Its key
	// is a [CheckKey], and its Priority is PriorityCheck. Nothing waits for it, no limit of pages holds it back, and
	// its origin is asked for robots.txt under IgnoreRobots too.
	Check bool
	// Vouchers are recorded with a sitemap that is new or visited again. They do not
	// come back with a lease.
	Vouchers []weburl.HostID
	// Source and Hops (redirects taken on the way here) are the caller's: they
	// are kept with the queued URL and come back with its lease.
	Source, Hops uint8
	// Repeats is the caller's too: the number of pages in a row, directly before this one on its path of links, that
	// repeated a known text.
	Repeats uint8

	// Parent, Discovered and LastMod are for Admit and the store's record. They do
	// not come back with a lease.
	Parent     weburl.URL
	Discovered time.Time
	LastMod    time.Time
	// Visit is the number of the visit that the link is queued for; 0 and 1 mean the first. Before is how the previous
	// visit ended.
	Visit  uint32
	Before Summary

	// Finish, when not nil, is recorded with the link if it is new: the URL is
	// found and finished at once, and never queued.
	Finish *Finish
	// Skip, set by Admit, is the reason for which the link is counted as a [Skip] and not recorded; 0 for none. A
	// skipped link does not become known.
	Skip uint8

	// Key is computed from URL where it is zero.
	Key weburl.Key
	// At is where the link lies in its host's queue on disk. Commit and Pending set
	// it.
	At Cursor
}

// Found is a URL that a page links to. A Link is made of it only if the URL is new or has to
// be sent to the owner of its partition: on most pages nearly all are known.
type Found struct {
	URL weburl.URL
	// Key is computed from URL where it is zero.
	Key weburl.Key
}

// An Origin is what the Found of one page have in common. The fields are those of [Link].
type Origin struct {
	Parent          weburl.URL
	Depth           uint16 // of the found URLs: that of the page plus 1
	Source, Repeats uint8
	At              time.Time // Link.Discovered
	// Unnamed means that the links of this visit are not recorded as Named: those of an earlier visit still count.
	Unnamed bool
}

// Names say where a URL is named; see [Named] and [Options].Names.
type Names uint8

const (
	Linked  Names = 1 << iota // a page links to it, or a redirect leads to it
	Listed                    // a sitemap lists it
	Indexed                   // a public index has it; nothing is recorded of that
)

// SitemapKey is the key of a sitemap. It differs from the key of a page with the
// same URL.
func SitemapKey(h weburl.Hasher, u weburl.URL) weburl.Key {
	return h.KeyOf(h.HostID(u.Host()), append([]byte("sitemap "), u.String()...))
}

// CheckKey is the key of a check. It differs from the keys of a page and of a sitemap with the same URL.
func CheckKey(h weburl.Hasher, u weburl.URL) weburl.Key {
	return h.KeyOf(h.HostID(u.Host()), append([]byte("check "), u.String()...))
}

// ParseLink reads a URL as a browser would and returns a link of depth 0 and
// PriorityStart with its canonical form.
func ParseLink(raw string) (Link, error) {
	u, err := weburl.Parse(raw)
	if err != nil {
		return Link{}, fmt.Errorf("parse link %q: %w", raw, err)
	}
	return Link{URL: u}, nil
}

// checkURL refuses a URL that cannot be kept.
func checkURL(u *weburl.URL) error {
	if u.IsZero() {
		return errors.New("link without a url")
	}
	if len(u.String()) > MaxURL || len(u.Host()) > MaxHost {
		return fmt.Errorf("url %.200q is too long", u.String())
	}
	return nil
}

// settlePriority makes l's priority agree with its depth. A priority from PriorityDepth on stands for one depth, the
// last one for all greater depths too. Each lower priority stands for depth 0. Sitemaps and checks have priorities of
// their own, so that a queue holds one kind only.
func (l *Link) settlePriority() {
	switch {
	case l.Check:
		l.Priority = PriorityCheck
	case l.Sitemap:
		l.Priority = PrioritySitemap
	case l.Depth > 0:
		l.Priority = PriorityDepth + uint8(min(int(l.Depth), maxOrderedDepth))
	case l.Priority >= PriorityCheck:
		l.Priority = PriorityDepth
	}
}

// A Cursor is a place in a host's queue on disk. The queue is ordered by
// priority, then by the position of the record that named the link, then by the
// link's place in that record.
type Cursor struct {
	Priority uint8
	Index    uint32
	Position Position
}

// Compare orders cursors as the queue is ordered.
func (c Cursor) Compare(o Cursor) int {
	return cmp.Or(cmp.Compare(c.Priority, o.Priority), cmp.Compare(c.Position, o.Position),
		cmp.Compare(c.Index, o.Index))
}

// before is the greatest cursor below c, so that reading after it begins with c.
func (c Cursor) before() Cursor {
	switch {
	case c.Index > 0:
		c.Index--
	case c.Position > 0:
		c.Position, c.Index = c.Position-1, math.MaxUint32
	}
	return c
}

// MaxURL and MaxHost are how long, in bytes, a link's URL and its host name may be.
const (
	MaxURL  = memory.MaxChunk - 128
	MaxHost = 255
)
