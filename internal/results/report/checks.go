package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// checks has what the checks of a crawl found, by URL: 24 bytes for each, of which --max-checks bounds the number.
type checks struct {
	list      []check           // in the order of hashes
	redirects map[uint64]target // of those that redirect
	texts     int               // bytes of the texts of redirects
}

// target is where a check was redirected to.
type target struct {
	hash uint64
	text string // perhaps cut
}

// maxTargets bounds the texts of targets that are kept whole, in bytes: 100,000 of 335 bytes. Further ones are cut.
const maxTargets = 32 << 20

// redirect takes where the check of a URL was redirected to.
func (c *checks) redirect(from uint64, to string) {
	to = page.BoundTarget(to) // the records of earlier versions have targets of any length
	t := target{hash: xxhash.Sum64String(to)}
	if c.texts+len(to) > maxTargets {
		to = page.CutTarget(to)
	}
	t.text = strings.Clone(to)
	c.texts += len(to)
	c.redirects[from] = t
}

type check struct {
	hash    uint64 // of the URL
	size    int64  // as page.Checked.Size
	status  uint16
	outcome page.Outcome
	isImage bool
	// isExcluded is as page.Checked.IsExcluded.
	isExcluded bool
	// IsPage means that the URL was visited as a page of the crawl since the check, or in the same generation: what is
	// known of the page counts, unless another check was redirected there.
	isPage bool
}

// readChecks reads the checks from the store.
func readChecks(ctx context.Context, s *state.Store) (*checks, error) {
	c := &checks{redirects: map[uint64]target{}}
	if s.Counters().Checks == 0 {
		return c, nil
	}
	hosts, hasher := newPageReader(s, nil), s.Hasher()
	for m, err := range s.Sitemaps(ctx) {
		if err != nil {
			return nil, err
		}
		if !m.Link.Check {
			continue
		}
		found := check{hash: xxhash.Sum64String(m.Link.URL.String()), size: -1}
		if f := m.Finish; f != nil {
			found.outcome, found.status = page.Outcome(f.Outcome), f.Status
			facts, err := page.Decode(f.Facts)
			if err != nil {
				return nil, fmt.Errorf("read what is known of %s: %w", m.Link.URL, err)
			}
			if facts.ContentLength != nil && found.outcome == page.OK {
				found.size = *facts.ContentLength
			}
			found.isImage = strings.HasPrefix(facts.ContentType, "image/")
			if f.RedirectTo != "" && found.outcome == page.Redirect {
				c.redirect(found.hash, f.RedirectTo)
			}
		} else if host, err := hosts.hostFact(ctx, m.Link.Key.Host); err != nil {
			return nil, err
		} else if host.Blocked || host.Abandoned {
			found.outcome, found.isExcluded = page.HostBlocked, (host.Denied || host.Away) && !host.Abandoned
		}
		p, known, err := s.Page(ctx, hasher.Key(m.Link.URL))
		if err != nil {
			return nil, err
		}
		found.isPage = known && p.Finish != nil && page.Outcome(p.Finish.Outcome) != page.Excluded &&
			(m.Finish == nil || p.Finish.Generation >= m.Finish.Generation)
		c.list = append(c.list, found)
	}
	slices.SortFunc(c.list, func(a, b check) int { return cmp.Compare(a.hash, b.hash) })
	return c, nil
}

// of returns what is known of a URL, at the end of its redirects. It reports false if the URL was not checked.
func (c *checks) of(url string) (found page.Checked, ok bool) {
	if len(c.list) == 0 {
		return found, false
	}
	hash := xxhash.Sum64String(url)
	for hop := range scope.MaxHops + 1 {
		at, known := slices.BinarySearchFunc(c.list, hash,
			func(e check, h uint64) int { return cmp.Compare(e.hash, h) })
		if !known || hop == 0 && c.list[at].isPage {
			return found, ok // at the first hop not as a check; later the target of a redirect that was not checked
		}
		e := &c.list[at]
		found = page.Checked{Outcome: e.outcome, StatusCode: int(e.status), Size: e.size, IsImage: e.isImage,
			IsExcluded: e.isExcluded, RedirectTo: found.RedirectTo}
		ok = true
		to, moved := c.redirects[hash]
		if !moved {
			return found, true
		}
		hash, found.RedirectTo = to.hash, to.text
	}
	found.Outcome = page.RedirectLoop
	return found, true
}
