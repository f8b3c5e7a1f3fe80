package crawl

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
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
	asked   map[string]*requestedSitemap // guarded by mu; by URL
	refused hostSet                      // guarded by mu; hosts whose entries some sitemap was read without
}

// hostSet remembers hosts up to a bound. When it is full, it may hold any.
type hostSet map[string]bool

func (s hostSet) add(host string, most int) {
	if len(s) < most && !s[host] {
		s[strings.Clone(host)] = true // it is a part of a whole URL
	}
}

func (s hostSet) mayHold(host string, most int) bool { return s[host] || len(s) == most }

// requestedSitemap is what the crawl knows of a sitemap, by its URL. Depth, guessed and vouched are stored until it has been read.
type requestedSitemap struct {
	url     urlnorm.URL
	depth   int
	guessed bool            // one of the usual places: its absence is no news
	vouched map[string]bool // hosts whose robots.txt names it, or an index over it; guarded by the seeder's mu

	parent  *requestedSitemap // the index that named it first in this run, or nil
	queued  int               // how often it is still to be read; guarded by the seeder's mu
	leads   bool              // to other sitemaps; guarded by the seeder's mu
	refused hostSet           // hosts whose entries were not taken, since nobody vouched; guarded by the seeder's mu
}

// factLocked is the stored form.
func (m *requestedSitemap) factLocked(h frontier.Hasher) frontier.SitemapFact {
	return frontier.SitemapFact{
		Key: frontier.SitemapKey(h, m.url), URL: m.url, Depth: uint16(min(m.depth, math.MaxUint16)), Guessed: m.guessed, Vouched: slices.Sorted(maps.Keys(m.vouched)),
	}
}

// How many such hosts are remembered of one sitemap, and of all.
const (
	maxRefused    = 1000
	maxRefusedAll = 1 << 16
)

func newSeeder(s *config.Settings) *seeder {
	sd := &seeder{asked: map[string]*requestedSitemap{}, refused: hostSet{}, enabled: seeds(s, "sitemap")}
	if s.Since != "" {
		sd.since, _ = config.ParseDate(s.Since) // checked when the settings were loaded
	}
	return sd
}

// child is a sitemap that this one leads to.
func (m *requestedSitemap) child(s *seeder) *requestedSitemap {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.leads = true
	c := &requestedSitemap{parent: m, depth: m.depth + 1, vouched: map[string]bool{}}
	for h := range m.vouched {
		c.vouched[h] = true
	}
	return c
}

// covers is the location rule of sitemaps.org: a sitemap speaks for what lies beside or below it, and for the hosts whose robots.txt
// names it.
func (m *requestedSitemap) covers(s *seeder, at, target urlnorm.URL) bool {
	host := target.Host()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.vouchedLocked(host) || strings.HasPrefix(target.String(), directory(at)) {
		return true
	}
	if m.refused == nil {
		m.refused = hostSet{}
	}
	m.refused.add(host, maxRefused)
	s.refused.add(host, maxRefusedAll)
	return false
}

// vouchedLocked also asks the indexes above, for whom somebody may have vouched since.
func (m *requestedSitemap) vouchedLocked(host string) bool {
	for ; m != nil; m = m.parent {
		if m.vouched[host] {
			return true
		}
	}
	return false
}

// vouchedBy says whether the host's robots.txt leads to the sitemap.
func (m *requestedSitemap) vouchedBy(s *seeder, host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.vouchedLocked(host)
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
		if err := r.askSitemap(target, &requestedSitemap{vouched: map[string]bool{u.Host(): true}}); err != nil {
			return false, err
		}
	}
	if len(a.Sitemaps) == 0 && started {
		for _, place := range []string{"/sitemap.xml", "/sitemap_index.xml"} {
			target, err := u.Resolve(place)
			if err != nil {
				return false, fmt.Errorf("sitemap of %s: %w", origin, err)
			}
			if err := r.askSitemap(target, &requestedSitemap{guessed: true, vouched: map[string]bool{u.Host(): true}}); err != nil {
				return false, err
			}
		}
	}
	return !a.Unknown, nil // what a robots.txt that could not be fetched names is still to be found out
}

// askSitemap queues a sitemap, once. Asking again only adds whoever vouches for it; if it was read without their entries, or may lead to
// one that was, it is read again. That it is to be read is stored first.
func (r *run) askSitemap(u urlnorm.URL, m *requestedSitemap) error {
	if tooLong(u) {
		r.warn("sitemap %.200s: its URL is too long", u)
		return nil
	}
	r.seeds.mu.Lock()
	old := r.seeds.asked[u.String()]
	again := old == nil
	if again {
		m.url = u
		r.seeds.asked[u.String()] = m
	} else {
		for h := range m.vouched {
			if !old.vouched[h] {
				old.vouched[h] = true
				again = again || old.refused.mayHold(h, maxRefused) || old.leads && r.seeds.refused.mayHold(h, maxRefusedAll)
			}
		}
		m = old
	}
	if again {
		m.queued++
	}
	fact := m.factLocked(r.hasher)
	r.seeds.mu.Unlock()
	if !again {
		return nil
	}
	if _, err := r.store.Commit(frontier.Record{Sitemaps: []frontier.SitemapFact{fact}}); err != nil {
		return err
	}
	r.queueSitemap(u)
	return nil
}

// queueSitemap gives a sitemap to the frontier.
func (r *run) queueSitemap(u urlnorm.URL) {
	if err := r.frontier.AddSitemap(u); err != nil {
		r.warn("sitemap %s: %v", u, err)
	}
}

// requested is the sitemap of a lease, or nil if it was not requested.
func (s *seeder) requested(u urlnorm.URL) *requestedSitemap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[u.String()]
}

// sitemapRead notes that a sitemap has been read, or that it cannot be.
func (r *run) sitemapRead(m *requestedSitemap, absent bool) error {
	r.seeds.mu.Lock()
	m.queued--
	left := m.queued
	if left == 0 && absent && m.guessed {
		delete(r.seeds.asked, m.url.String()) // so that a million hosts without sitemaps leave nothing in memory
	}
	r.seeds.mu.Unlock()
	if left > 0 {
		return nil
	}
	_, err := r.store.Commit(frontier.Record{Sitemaps: []frontier.SitemapFact{{Key: frontier.SitemapKey(r.hasher, m.url), Read: true}}})
	return err
}

// resumeSitemaps queues the sitemaps that an earlier run had not read to the end.
func (r *run) resumeSitemaps(ctx context.Context) error {
	if !r.seeds.enabled {
		return nil
	}
	for fact, err := range r.store.Sitemaps(ctx) {
		if err != nil {
			return err
		}
		m := &requestedSitemap{url: fact.URL, depth: int(fact.Depth), guessed: fact.Guessed, vouched: map[string]bool{}, queued: 1}
		for _, host := range fact.Vouched {
			m.vouched[host] = true
		}
		r.seeds.mu.Lock()
		r.seeds.asked[fact.URL.String()] = m
		r.seeds.mu.Unlock()
		r.queueSitemap(fact.URL)
	}
	return nil
}
