package crawl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// seeder remembers which sitemaps have been asked for, and who vouches for them.
//
// What must survive the run is in the store: that an origin's sitemaps have been asked for, and each sitemap from then until it has
// been read. Both are written before whatever led to them is done, so that a crawl that ends anywhere in between goes on with what is
// left, and reads nothing twice that it had read.
type seeder struct {
	enabled bool
	since   time.Time

	mu      sync.Mutex
	asked   map[string]*sitemapTag // guarded by mu; by URL
	refused hostSet                // guarded by mu; hosts whose entries some sitemap was read without
}

// hostSet remembers hosts up to a bound. When it is full, it may hold any.
type hostSet map[string]bool

func (s hostSet) add(host string, most int) {
	if len(s) < most && !s[host] {
		s[strings.Clone(host)] = true // it is a part of a whole URL
	}
}

func (s hostSet) mayHold(host string, most int) bool { return s[host] || len(s) == most }

// sitemapTag travels with the lease of a sitemap. Its exported fields are what the store keeps of it.
type sitemapTag struct {
	Depth   int             `json:"depth,omitempty"`
	Guessed bool            `json:"guessed,omitempty"` // one of the usual places: its absence is no news
	Vouched map[string]bool `json:"vouched,omitempty"` // hosts whose robots.txt names it, or an index over it; guarded by the seeder's mu

	parent  *sitemapTag // the index that named it first in this run, or nil
	queued  int         // how often it is still to be read; guarded by the seeder's mu
	leads   bool        // to other sitemaps; guarded by the seeder's mu
	refused hostSet     // hosts whose entries were not taken, since nobody vouched; guarded by the seeder's mu
}

// How many such hosts are remembered of one sitemap, and of all.
const (
	maxRefused    = 1000
	maxRefusedAll = 1 << 16
)

func newSeeder(s *config.Settings) *seeder {
	sd := &seeder{asked: map[string]*sitemapTag{}, refused: hostSet{}, enabled: seeds(s, "sitemap")}
	if s.Since != "" {
		sd.since, _ = config.ParseDate(s.Since) // checked when the settings were loaded
	}
	return sd
}

// child is the tag of a sitemap that this one leads to.
func (t *sitemapTag) child(s *seeder) *sitemapTag {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.leads = true
	c := &sitemapTag{parent: t, Depth: t.Depth + 1, Vouched: map[string]bool{}}
	for h := range t.Vouched {
		c.Vouched[h] = true
	}
	return c
}

// covers is the location rule of sitemaps.org: a sitemap speaks for what lies beside or below it, and for the hosts whose robots.txt
// names it.
func (t *sitemapTag) covers(s *seeder, at, target urlnorm.URL) bool {
	host := target.Host()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.vouchedLocked(host) || strings.HasPrefix(target.String(), directory(at)) {
		return true
	}
	if t.refused == nil {
		t.refused = hostSet{}
	}
	t.refused.add(host, maxRefused)
	s.refused.add(host, maxRefusedAll)
	return false
}

// vouchedLocked also asks the indexes above, for whom somebody may have vouched since.
func (t *sitemapTag) vouchedLocked(host string) bool {
	for ; t != nil; t = t.parent {
		if t.Vouched[host] {
			return true
		}
	}
	return false
}

// vouchedBy says whether the host's robots.txt leads to the sitemap.
func (t *sitemapTag) vouchedBy(s *seeder, host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.vouchedLocked(host)
}

// seedWithoutRobots asks for the sitemaps of a start's origin in a crawl that ignores robots.txt.
func (r *run) seedWithoutRobots(ctx context.Context, origin string) error {
	fact, err := r.robots.fact(ctx, origin)
	if err != nil {
		return err
	}
	requested, err := r.seedFromRobots(&fact, &RobotsAnswer{})
	if err != nil || !requested {
		return err
	}
	fact.SitemapsRequested = true
	return r.robots.commit(fact)
}

// seedFromRobots asks for the sitemaps of an origin whose robots.txt is known now: those that it names, or for a start's origin
// the usual places. It reports whether they were requested now and need not be again; the caller stores that.
func (r *run) seedFromRobots(fact *frontier.OriginFact, a *RobotsAnswer) (requested bool, err error) {
	origin := fact.Origin
	u, err := urlnorm.Parse(origin + "/")
	if err != nil || !r.seeds.enabled || fact.SitemapsRequested {
		return false, nil
	}
	started := r.startHosts[u.Host()]
	if a.Silent || !started && (r.settings.Scope == "any" || r.scope.Check(u) == OutOfScope) {
		return false, nil
	}
	for _, text := range a.Sitemaps {
		target, err := u.Resolve(text)
		if err != nil {
			r.warn("sitemap named by robots.txt of %s: %q: %v", origin, text, err)
			continue
		}
		if err := r.askSitemap(target, &sitemapTag{Vouched: map[string]bool{u.Host(): true}}); err != nil {
			return false, err
		}
	}
	if len(a.Sitemaps) == 0 && started {
		for _, place := range []string{"/sitemap.xml", "/sitemap_index.xml"} {
			target, err := u.Resolve(place)
			if err != nil {
				return false, fmt.Errorf("sitemap of %s: %w", origin, err)
			}
			if err := r.askSitemap(target, &sitemapTag{Guessed: true, Vouched: map[string]bool{u.Host(): true}}); err != nil {
				return false, err
			}
		}
	}
	return !a.Unknown, nil // what a robots.txt that could not be fetched names is still to be found out
}

// askSitemap queues a sitemap, once. Asking again only adds whoever vouches for it; if it was read without their entries, or may lead to
// one that was, it is read again.
func (r *run) askSitemap(u urlnorm.URL, tag *sitemapTag) error {
	if tooLong(u) {
		r.warn("sitemap %.200s: its URL is too long", u)
		return nil
	}
	r.seeds.mu.Lock()
	old := r.seeds.asked[u.String()]
	again := old == nil
	if again {
		r.seeds.asked[u.String()] = tag
	} else {
		for h := range tag.Vouched {
			if !old.Vouched[h] {
				old.Vouched[h] = true
				again = again || old.refused.mayHold(h, maxRefused) || old.leads && r.seeds.refused.mayHold(h, maxRefusedAll)
			}
		}
		tag = old
	}
	if again {
		tag.queued++
	}
	text, err := json.Marshal(tag)
	r.seeds.mu.Unlock()
	if err != nil || !again {
		return err
	}
	return r.queueSitemap(u, tag, text)
}

// factSitemap begins the name of the fact that a sitemap is still to be read.
const factSitemap = "sitemap "

// queueSitemap notes that a sitemap is to be read, and gives it to the frontier.
func (r *run) queueSitemap(u urlnorm.URL, tag *sitemapTag, stored []byte) error {
	if _, err := r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: factSitemap + u.String(), Value: stored}}}); err != nil {
		return err
	}
	if err := r.frontier.AddSitemap(u, tag); err != nil {
		r.warn("sitemap %s: %v", u, err)
	}
	return nil
}

// sitemapRead notes that nothing is left to do for a sitemap.
func (r *run) sitemapRead(u urlnorm.URL, tag *sitemapTag, absent bool) error {
	r.seeds.mu.Lock()
	if absent && tag.Guessed {
		delete(r.seeds.asked, u.String()) // so that a million hosts without sitemaps leave nothing in memory
	}
	tag.queued--
	left := tag.queued
	r.seeds.mu.Unlock()
	if left > 0 {
		return nil
	}
	_, err := r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: factSitemap + u.String()}}})
	return err
}

// resumeSitemaps queues the sitemaps that an earlier run had not read to the end.
func (r *run) resumeSitemaps() error {
	if !r.seeds.enabled {
		return nil
	}
	for name, value := range r.store.Facts() {
		text, ok := strings.CutPrefix(name, factSitemap)
		if !ok {
			continue
		}
		u, ok := urlnorm.FromCanonical(text)
		tag := &sitemapTag{queued: 1}
		if err := json.Unmarshal(value, tag); err != nil || !ok {
			return fmt.Errorf("read the stored sitemap %q: %w", text, err)
		}
		if tag.Vouched == nil {
			tag.Vouched = map[string]bool{}
		}
		r.seeds.mu.Lock()
		r.seeds.asked[text] = tag
		r.seeds.mu.Unlock()
		if err := r.frontier.AddSitemap(u, tag); err != nil {
			r.warn("sitemap %s: %v", u, err)
		}
	}
	return nil
}
