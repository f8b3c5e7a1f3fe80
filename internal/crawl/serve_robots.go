package crawl

import (
	"context"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/fetch"
)

// serveRobots answers a lease for an origin's robots.txt: from the store if an earlier answer still counts, else from the origin.
func (w *worker) serveRobots(ctx context.Context, l *frontier.Lease) error {
	origin := l.Origin()
	a, err := w.robots.lookup(ctx, origin)
	if err != nil {
		return err
	}
	r := frontier.Result{Final: true}
	if a == nil {
		if a, r, err = w.askRobots(ctx, l, origin); a == nil || err != nil {
			return err
		}
	}
	r.RobotsUntil, r.CrawlDelay = a.Expires, a.CrawlDelay()
	// Before the lease is paid back, so that the crawl cannot be drained between robots.txt and the sitemaps it names.
	if err := w.seedFromRobots(ctx, origin, a); err != nil {
		return err
	}
	_, err = w.done(l, r)
	return err
}

// askRobots fetches robots.txt and keeps the answer. A nil answer means that the lease has been paid back already.
func (w *worker) askRobots(ctx context.Context, l *frontier.Lease, origin string) (*RobotsAnswer, frontier.Result, error) {
	r := frontier.Result{Class: frontier.ClassNetwork, Lag: w.lag.value(), Final: true}
	a, resp, err := FetchRobots(ctx, w.fetcher, origin, w.token, w.settings.RobotsStrict, l)
	switch {
	case err == nil:
		r.Class, r.Latency = frontier.ClassOf(resp.Status), resp.Timings.Wait
		r.RetryAfter = frontier.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	case fetch.KindOf(err) == fetch.Canceled:
		_, err := w.done(l, frontier.Result{})
		return nil, r, err
	case fetch.IsOurs(err):
		w.breaker.trip(err)
		_, err := w.done(l, frontier.Result{Class: frontier.ClassOurs})
		return nil, r, err
	case fetch.KindOf(err) == fetch.RefusedAddress:
		r.Class = frontier.ClassNone
	}
	w.metrics.Robots(a.Unknown)
	if a.Unknown {
		w.log.Debug("robots.txt could not be had", "origin", origin, "error", err)
	}
	return a, r, w.robots.keep(origin, a)
}
