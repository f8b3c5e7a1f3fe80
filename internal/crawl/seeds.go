package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/sitemap"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// maxSitemapDepth bounds how deep indexes may nest.
const maxSitemapDepth = 5

// seedBatch is how many entries of a sitemap are added at once: enough to be cheap, few enough that fetching starts early.
const seedBatch = 256

// seeder remembers which sitemaps have been asked for, and who vouches for them.
type seeder struct {
	enabled bool
	since   time.Time

	mu    sync.Mutex
	asked map[string]*sitemapTag // guarded by mu; by URL
	seen  map[string]bool        // guarded by mu; origins whose sitemaps have been looked for
}

// sitemapTag travels with the lease of a sitemap.
type sitemapTag struct {
	depth   int
	guessed bool            // one of the usual places: its absence is no news
	vouched map[string]bool // hosts whose robots.txt names it, or an index over it; guarded by the seeder's mu
}

func newSeeder(s *config.Settings) *seeder {
	sd := &seeder{asked: map[string]*sitemapTag{}, seen: map[string]bool{}}
	sd.enabled = slices.Contains(s.SeedingStrategy, "sitemap") || slices.Contains(s.SeedingStrategy, "all")
	if s.Since != "" {
		sd.since, _ = config.ParseDate(s.Since) // checked when the settings were loaded
	}
	return sd
}

// seedFromRobots asks for the sitemaps of an origin whose robots.txt is known now: those that it names, or for a start's origin
// the usual place.
func (r *run) seedFromRobots(origin string, a *RobotsAnswer) {
	u, err := urlnorm.Parse(origin + "/")
	if err != nil || !r.seeds.enabled {
		return
	}
	started := r.startHosts[u.Host()]
	if a.Silent || !started && (r.settings.Scope == "any" || r.scope.Check(u) == OutOfScope) {
		return
	}
	r.seeds.mu.Lock()
	first := !r.seeds.seen[origin]
	r.seeds.seen[origin] = true
	r.seeds.mu.Unlock()
	if !first {
		return
	}
	for _, text := range a.Sitemaps {
		target, err := u.Resolve(text)
		if err != nil {
			r.warn("sitemap named by robots.txt of %s: %q: %v", origin, text, err)
			continue
		}
		r.askSitemap(target, &sitemapTag{vouched: map[string]bool{u.Host(): true}})
	}
	if len(a.Sitemaps) == 0 && started {
		for _, place := range []string{"/sitemap.xml", "/sitemap_index.xml"} {
			if target, err := u.Resolve(place); err == nil {
				r.askSitemap(target, &sitemapTag{guessed: true, vouched: map[string]bool{u.Host(): true}})
			}
		}
	}
}

// askSitemap queues a sitemap, once. Asking again only adds whoever vouches for it.
func (r *run) askSitemap(u urlnorm.URL, tag *sitemapTag) {
	r.seeds.mu.Lock()
	old := r.seeds.asked[u.String()]
	if old != nil {
		for h := range tag.vouched {
			old.vouched[h] = true
		}
	} else {
		r.seeds.asked[u.String()] = tag
	}
	r.seeds.mu.Unlock()
	if old != nil {
		return
	}
	if err := r.frontier.AddSitemap(u.String(), tag); err != nil {
		r.warn("sitemap %s: %v", u, err)
	}
}

// serveSitemap reads a sitemap as it comes and adds its entries.
func (w *worker) serveSitemap(ctx context.Context, l *frontier.Lease) error {
	link := l.Link()
	tag := l.Tag().(*sitemapTag)
	u, ok := urlnorm.FromCanonical(link.URL)
	if !ok {
		return fmt.Errorf("the frontier holds a sitemap URL that is not canonical: %q", link.URL)
	}
	ended := frontier.Result{Class: frontier.ClassOK, Finish: struct{}{}, Final: true}
	ev, err := w.evidence(ctx, u)
	if err != nil {
		return err
	}
	if ev.Checked && !ev.Allowed && !tag.vouchedBy(w.seeds, u.Host()) {
		ended.Class = frontier.ClassNone
		_, err := w.done(l, ended)
		return err
	}
	resp, err := w.fetcher.Do(ctx, fetch.Request{URL: u, Mode: fetch.Stream, Wire: l, Timeout: sitemapTimeout})
	defer resp.Close()
	if err != nil {
		return w.sitemapFailed(l, tag, err)
	}
	ended.Class, ended.Latency, ended.Lag = frontier.ClassOf(resp.Status), resp.Timings.Wait, w.lag.value()
	ended.RetryAfter = frontier.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	switch {
	case resp.OK():
		if err := w.readSitemap(ctx, u, tag, resp); err != nil {
			if ctx.Err() != nil {
				_, err := w.done(l, frontier.Result{})
				return err
			}
			if !tag.guessed || !errors.Is(err, sitemap.ErrNotSitemap) {
				w.warn("sitemap %s: %v", u, err)
			}
		}
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "":
		if target, err := u.Resolve(resp.Location); err == nil && tag.depth < maxSitemapDepth {
			w.askSitemap(target, tag.child())
		}
	default:
		ended.Final = resp.Status != 429 && resp.Status < 500 // those may be tried again
		if !tag.guessed {
			w.warn("sitemap %s: status %d", u, resp.Status)
		}
	}
	_, err = w.done(l, ended)
	return err
}

// sitemapTimeout is for a whole sitemap, which may be large and is read while the crawl goes on.
const sitemapTimeout = 30 * time.Minute

func (w *worker) sitemapFailed(l *frontier.Lease, tag *sitemapTag, err error) error {
	r := frontier.Result{Class: frontier.ClassNetwork, Finish: struct{}{}}
	switch {
	case fetch.KindOf(err) == fetch.Canceled:
		r = frontier.Result{}
	case fetch.IsOurs(err):
		w.breaker.trip(err)
		r = frontier.Result{Class: frontier.ClassOurs}
	case fetch.KindOf(err) == fetch.RefusedAddress:
		r.Class, r.Final = frontier.ClassNone, true
	default:
		r.Final = tag.guessed || isHopeless(err)
	}
	d, derr := w.done(l, r)
	if derr == nil && d == frontier.Finished && !tag.guessed {
		w.warn("sitemap %s: %v", l.Link().URL, err)
	}
	return derr
}

// readSitemap adds the entries of one sitemap in small batches.
func (w *worker) readSitemap(ctx context.Context, at urlnorm.URL, tag *sitemapTag, resp *fetch.Response) error {
	batch := make([]frontier.Link, 0, seedBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n, err := w.frontier.Add(ctx, batch)
		w.tally.seeded(n)
		batch = batch[:0]
		return err
	}
	_, err := sitemap.Read(resp.Reader, func(e *sitemap.Entry) error {
		target, err := at.Resolve(e.Loc)
		if err != nil {
			w.tally.skipped(NotHTTP)
			return nil
		}
		if !w.seeds.since.IsZero() && !e.LastMod.IsZero() && e.LastMod.Before(w.seeds.since) {
			w.tally.skipped(OlderThan)
			return nil
		}
		if e.Kind == sitemap.Child {
			if tag.depth < maxSitemapDepth {
				w.askSitemap(target, tag.child())
			}
			return nil
		}
		if target.Host() != at.Host() && !tag.vouchedBy(w.seeds, target.Host()) {
			w.tally.skipped(CrossSiteSeed)
			return nil
		}
		if why := w.scope.Check(target); why != InScope {
			w.tally.skipped(why)
			return nil
		}
		w.linkage.list(target.String())
		weight := e.Priority
		if weight < 0 {
			weight = 0.5
		}
		batch = append(batch, frontier.Link{
			URL: target.String(), Priority: frontier.SitemapPriority(weight), Source: sourceSitemap, Parent: at.String(),
			Discovered: time.Now(), LastMod: e.LastMod,
		})
		if len(batch) == seedBatch {
			return flush()
		}
		return nil
	})
	return errors.Join(err, flush())
}

// child is the tag of a sitemap that this one leads to.
func (t *sitemapTag) child() *sitemapTag {
	c := &sitemapTag{depth: t.depth + 1, vouched: map[string]bool{}}
	for h := range t.vouched {
		c.vouched[h] = true
	}
	return c
}

func (t *sitemapTag) vouchedBy(s *seeder, host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.vouched[host]
}
