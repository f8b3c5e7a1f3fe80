package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/sitemap"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// sitemapTimeout is for a whole sitemap, which may be large and is read while the crawl goes on. sitemapBytes only stops one that never
// ends: the protocol's 50 MB are exceeded in the wild, and no file is thrown away for it.
const (
	sitemapTimeout = 30 * time.Minute
	sitemapBytes   = 16 << 30
)

// seedBatch is how many entries of a sitemap are added at once: enough to be cheap, few enough that fetching starts early.
const seedBatch = 256

// serveSitemap reads a sitemap as it comes and adds its entries.
func (w *worker) serveSitemap(ctx context.Context, l *frontier.Lease) error {
	u := l.URL()
	m := w.seeds.requested(u)
	if m == nil {
		return fmt.Errorf("the frontier holds a sitemap that was not requested: %s", u)
	}
	ev, err := w.evidence(ctx, u)
	if err != nil {
		return err
	}
	ended := frontier.Result{Class: pace.ClassNone, Finish: &frontier.Finish{}, Final: true}
	if ev.Checked && !ev.Allowed && !m.vouchedBy(w.seeds, u.Host()) {
		return w.sitemapDone(l, u, m, ended, nil)
	}
	resp, err := w.fetcher.Do(ctx, fetch.Request{URL: u, Mode: fetch.Stream, Wire: l, NewConn: l.Attempt() > 1, Timeout: sitemapTimeout, MaxBody: sitemapBytes})
	if err != nil {
		resp.Close()
		return w.sitemapFailed(l, u, m, err)
	}
	defer resp.Close()
	ended.Class, ended.Latency, ended.Lag = pace.ClassOf(resp.Status), resp.Timings.Wait, w.lag.value()
	ended.RetryAfter = pace.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	switch {
	case resp.OK():
		err = w.readSitemap(ctx, u, m, resp)
		if ctx.Err() != nil {
			return w.sitemapDone(l, u, m, frontier.Result{}, nil) // stopped before it was read: back to the queue
		}
		if fetch.KindOf(err) != "" && fetch.KindOf(err) != fetch.TooLarge {
			return w.sitemapFailed(l, u, m, err)
		}
		if errors.Is(err, errNotAdded) {
			return err
		}
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "":
		var target urlnorm.URL
		if target, err = u.Resolve(resp.Location); err == nil {
			if err := w.askChild(target, m); err != nil {
				return err
			}
		}
	default:
		err = fmt.Errorf("status %d", resp.Status)
		ended.Final = resp.Status != 429 && resp.Status < 500 // those may be tried again
	}
	return w.sitemapDone(l, u, m, ended, err)
}

// sitemapDone pays the lease back. What was wrong with the file is a warning, once there is nothing more to try.
func (w *worker) sitemapDone(l *frontier.Lease, u urlnorm.URL, m *requestedSitemap, r frontier.Result, wrong error) error {
	if r.Final {
		// Before the lease is paid back: the crawl may be over with it.
		if err := w.sitemapRead(m, wrong != nil); err != nil {
			return err
		}
	}
	d, err := w.done(l, r)
	if err == nil && d == frontier.Finished && wrong != nil && !m.guessed {
		w.warn("sitemap %s: %v", u, wrong)
	}
	return err
}

// sitemapFailed pays back a lease whose fetch did not end well. If no try is left, the next run has another.
func (w *worker) sitemapFailed(l *frontier.Lease, u urlnorm.URL, m *requestedSitemap, err error) error {
	r := frontier.Result{Class: pace.ClassNetwork, Lag: w.lag.value(), Finish: &frontier.Finish{}}
	switch {
	case fetch.KindOf(err) == fetch.Canceled:
		r = frontier.Result{}
	case fetch.IsOurs(err):
		w.breaker.trip(err)
		r = frontier.Result{Class: pace.ClassOurs}
	case isFirstDrop(l, err):
		r.Class = pace.ClassDropped
	case fetch.KindOf(err) == fetch.RefusedAddress:
		r.Class, r.Final = pace.ClassNone, true
	default:
		r.Final = m.guessed || isHopeless(err)
	}
	return w.sitemapDone(l, u, m, r, err)
}

// errNotAdded means that entries of a sitemap could not be recorded, which is no fault of the sitemap's.
var errNotAdded = errors.New("entries of a sitemap were not added")

// readSitemap adds the entries of one sitemap in small batches.
func (w *worker) readSitemap(ctx context.Context, at urlnorm.URL, m *requestedSitemap, resp *fetch.Response) error {
	batch := make([]frontier.Link, 0, seedBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n, err := w.frontier.Add(ctx, batch)
		w.tally.seeded(n)
		batch = batch[:0]
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errNotAdded, err)
		}
		return err
	}
	now := time.Now()
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
			return w.askChild(target, m)
		}
		if !m.covers(w.seeds, at, target) {
			w.tally.skipped(CrossSiteSeed)
			return nil
		}
		if why := w.scope.Check(target); why != InScope {
			w.tally.skipped(why)
			return nil
		}
		w.linkage.list(target.String())
		batch = append(batch, frontier.Link{
			URL: target, Priority: entryPriority(e, now), Source: sourceSitemap, Parent: at, Discovered: now, LastMod: e.LastMod,
		})
		if len(batch) == seedBatch {
			now = time.Now()
			return flush()
		}
		return nil
	})
	return errors.Join(err, flush())
}

// askChild asks for a sitemap that an index names, or a redirect.
func (w *worker) askChild(u urlnorm.URL, parent *requestedSitemap) error {
	if most := w.settings.MaxSitemapDepth; parent.depth >= most {
		w.warn("sitemap %s was not read: more than %d index files and redirects lead to it (--max-sitemap-depth)", u, most)
		return nil
	}
	if err := w.askSitemap(u, parent.child(w.seeds)); err != nil {
		return fmt.Errorf("%w: %w", errNotAdded, err)
	}
	return nil
}

// What counts as new and as old for entryPriority.
const (
	freshEntry = 7 * 24 * time.Hour
	staleEntry = 365 * 24 * time.Hour
)

// entryPriority orders the entries of a sitemap: by the weight that it gives them, and by one step more or less for those that have
// changed lately or not for long.
func entryPriority(e *sitemap.Entry, now time.Time) uint8 {
	weight := e.Priority
	if weight < 0 {
		weight = 0.5
	}
	p, lowest := frontier.SitemapPriority(weight), frontier.SitemapPriority(0)
	if e.LastMod.IsZero() {
		return p
	}
	switch age := now.Sub(e.LastMod); {
	case age < freshEntry:
		return max(p-1, frontier.PriorityStart+1)
	case age > staleEntry:
		return min(p+1, lowest)
	}
	return p
}
