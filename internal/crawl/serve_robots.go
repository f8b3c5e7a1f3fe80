package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// robotsHop is a redirect of an origin's robots.txt. Each hop is a request like any other: one on the same host waits for the origin's next robots lease,
// one to another host is queued there, and the origin looks in until the answer has come.
type robotsHop struct {
	origin    string
	at        urlnorm.URL
	hops      int       // redirects up to here
	elsewhere time.Time // since when another host's pace decides; zero if the origin's own does
	repeats   int       // requests before this one that were dropped or timed out
}

const (
	// robotsLook is how often an origin looks whether its answer has come from another host.
	robotsLook = 250 * time.Millisecond
	// robotsRepeats is how often a request that timed out is sent again. Without robots.txt a crawl goes on as if everything were
	// allowed, so one slow answer must not decide.
	robotsRepeats = 2
	// robotsPatience is how long it waits: the other host may be resting for an hour.
	robotsPatience = 30 * time.Second
)

// serveRobots answers a lease for an origin's robots.txt: from the store if an earlier answer still counts, else from the origin.
func (w *worker) serveRobots(ctx context.Context, l *frontier.Lease) error {
	origin := l.URL().Origin()
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

// askRobots makes the next request for an origin's robots.txt and keeps the answer. A nil answer means that the lease has been paid back
// already, and that another will come.
func (w *worker) askRobots(ctx context.Context, l *frontier.Lease, origin string) (*RobotsAnswer, frontier.Result, error) {
	hop := w.robots.hop(origin)
	if hop == nil {
		u, err := urlnorm.Parse(origin + "/robots.txt")
		if err != nil {
			return nil, frontier.Result{}, fmt.Errorf("the frontier holds an origin that is none: %q: %w", origin, err)
		}
		hop = &robotsHop{origin: origin, at: u}
	}
	if !hop.elsewhere.IsZero() {
		if time.Since(hop.elsewhere) < robotsPatience {
			_, err := w.done(l, frontier.Result{Delay: robotsLook})
			return nil, frontier.Result{}, err
		}
		late := fmt.Errorf("%s did not answer in time", hop.at)
		a := unknownRobots(w.settings.RobotsStrict, late.Error())
		return a, frontier.Result{Final: true}, w.keepRobots(ctx, origin, a, late)
	}
	return w.askHop(ctx, l, hop)
}

// serveRobotsHop makes a request for another host's robots.txt on behalf of an origin that redirects there.
func (w *worker) serveRobotsHop(ctx context.Context, l *frontier.Lease, hop *robotsHop) error {
	if w.robots.hop(hop.origin) != hop {
		_, err := w.done(l, frontier.Result{Finish: &frontier.Finish{}, Final: true}) // it came too late
		return err
	}
	a, r, err := w.askHop(ctx, l, hop)
	if err != nil || a == nil {
		return err
	}
	_, err = w.done(l, r)
	return err
}

// askHop makes one request. A nil answer means that the lease has been paid back already.
func (w *worker) askHop(ctx context.Context, l *frontier.Lease, hop *robotsHop) (*RobotsAnswer, frontier.Result, error) {
	ask := robotsAsk{token: w.token, strict: w.settings.RobotsStrict}
	r := frontier.Result{Class: pace.ClassNetwork, Lag: w.lag.value(), Finish: &frontier.Finish{}, Final: true}
	a, next, resp, err := ask.once(ctx, w.fetcher, hop.at, hop.hops, l)
	switch {
	case err == nil:
		r.Class, r.Latency = pace.ClassOf(resp.Status), resp.Timings.Wait
		r.RetryAfter = pace.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	case fetch.KindOf(err) == fetch.Canceled:
		_, err := w.done(l, frontier.Result{})
		return nil, r, err
	case fetch.IsOurs(err):
		w.breaker.trip(err)
		_, err := w.done(l, frontier.Result{Class: pace.ClassOurs})
		return nil, r, err
	case fetch.IsDropped(err) && hop.repeats == 0:
		return nil, r, w.repeatHop(l, hop, pace.ClassDropped)
	case fetch.KindOf(err) == fetch.Timeout && hop.repeats < robotsRepeats:
		return nil, r, w.repeatHop(l, hop, pace.ClassNetwork)
	case fetch.KindOf(err) == fetch.RefusedAddress:
		r.Class = pace.ClassNone
	}
	if a == nil {
		if a, err = w.followRobots(ctx, hop, next); err != nil {
			return nil, r, err
		}
		if a == nil {
			_, err = w.done(l, r)
			return nil, r, err
		}
	}
	return a, r, w.keepRobots(ctx, hop.origin, a, err)
}

// repeatHop ends a lease whose request shall be sent again, at the host's pace. The origin's next robots lease makes the request; one
// to another host is queued there again.
func (w *worker) repeatHop(l *frontier.Lease, hop *robotsHop, class pace.Class) error {
	again := *hop
	again.repeats++
	w.robots.setHop(&again)
	if l.Kind() == frontier.KindSitemap {
		if err := w.frontier.AddSitemap(again.at, &again); err != nil {
			return err
		}
	}
	_, err := w.done(l, frontier.Result{Class: class, Finish: &frontier.Finish{}, Final: true})
	return err
}

// followRobots notes where a redirect leads. If the answer of that place is known already, it is the answer.
func (w *worker) followRobots(ctx context.Context, from *robotsHop, next urlnorm.URL) (*RobotsAnswer, error) {
	if next.RequestURI() == "/robots.txt" && next.Origin() != from.origin {
		a, err := w.robots.lookup(ctx, next.Origin())
		if a != nil || err != nil {
			return a, err
		}
	}
	hop := &robotsHop{origin: from.origin, at: next, hops: from.hops + 1}
	if next.Host() != mustCanonical(from.origin+"/").Host() {
		hop.elsewhere = from.elsewhere
		if hop.elsewhere.IsZero() {
			hop.elsewhere = time.Now()
		}
	}
	w.robots.setHop(hop)
	if hop.elsewhere.IsZero() {
		return nil, nil
	}
	if err := w.frontier.AddSitemap(next, hop); err != nil {
		now := time.Now()
		return &RobotsAnswer{FetchedAt: now, Expires: now.Add(robotsTTL)}, nil // too long for a URL: as if there were none
	}
	return nil, nil
}

// keepRobots keeps an answer, which is a guess if there is a reason for it.
func (w *worker) keepRobots(ctx context.Context, origin string, a *RobotsAnswer, why error) error {
	w.metrics.Robots(a.Unknown)
	if a.Unknown {
		w.log.Debug("robots.txt could not be fetched", "origin", origin, "error", why)
	}
	return w.robots.keep(ctx, origin, a)
}

// hop is where an origin's redirect led, or nil.
func (k *robotsKeeper) hop(origin string) *robotsHop {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.hops[origin]
}

func (k *robotsKeeper) setHop(h *robotsHop) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hops[h.origin] = h
}
