package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/robots"
)

// robotsRepeats is how often a request is sent again whose failure may pass. Without robots.txt a crawl goes on as if
// everything were allowed and without the sitemaps that it names, so one lost connection must not decide.
const robotsRepeats = 2

// errLateRobots means that the host that robots.txt redirects to did not answer in time, or that it gets no more
// requests.
var errLateRobots = errors.New("the host that it redirects to did not answer in time")

// serveRobots serves a robots lease and ends it. If the store has a valid answer of the origin, that one is used.
// Otherwise it makes one request. A redirect is followed by a lease of its own, whose answer is stored for the origins
// that wait for it. Each of them then gets a lease again and finds the answer.
func (w *worker) serveRobots(ctx context.Context, l *frontier.Lease) error {
	task := l.Robots()
	if task.Hops > 0 || l.Attempt() > 1 {
		fact, r, err := w.askRobots(ctx, l, task)
		if err != nil || fact.State == frontier.OriginUnknown {
			return err
		}
		if err := w.keepRobots(ctx, l.URL(), task, fact); err != nil {
			return err
		}
		r.RobotsUntil, r.CrawlDelay = fact.Expires, w.foreignDelay(l.URL())
		_, err = w.done(l, r)
		return err
	}
	return w.serveOrigin(ctx, l, task)
}

// keepRobots stores the answer of a URL for the origins that wait for it. If the URL is the robots.txt of an origin,
// the answer is stored for that origin too.
func (w *run) keepRobots(ctx context.Context, u weburl.URL, task frontier.RobotsTask,
	fact frontier.OriginFact) error {
	origins := task.Origins
	if fact.State == frontier.OriginAnswered && u.RequestURI() == robotscache.Path &&
		!slices.Contains(origins, u.Origin()) {
		origins = append(origins, u.Origin())
	}
	for _, origin := range origins {
		if err := w.robots.Keep(ctx, origin, fact); err != nil {
			return err
		}
	}
	return nil
}

// serveOrigin answers the robots lease of an origin.
func (w *worker) serveOrigin(ctx context.Context, l *frontier.Lease, task frontier.RobotsTask) error {
	fact, err := w.robots.Fact(ctx, task.Origins[0])
	if err != nil {
		return err
	}
	var answer frontier.OriginFact // of this lease; OriginUnknown if the stored one is valid
	r := frontier.Result{}
	if !w.robots.IsValid(&fact) {
		if !w.scope.Permits(l.URL()) {
			// Earlier settings allowed the host. What is queued of it is excluded, whatever its robots.txt says.
			_, err := w.done(l, frontier.Result{RobotsUntil: time.Now().Add(robotscache.Retry)})
			return err
		}
		if task.Late {
			answer = robotscache.Failed(0)
			if err := w.noteRobots(ctx, task, &answer, errLateRobots); err != nil {
				return err
			}
		} else if answer, r, err = w.askRobots(ctx, l, task); err != nil || answer.State == frontier.OriginUnknown {
			return err
		}
		answer = robotscache.OrEarlier(answer, fact)
		answer.Host, answer.Origin = fact.Host, fact.Origin
		answer.SitemapsRequested, answer.SitemapsGeneration = fact.SitemapsRequested, fact.SitemapsGeneration
		fact = answer
	}
	// Before the sitemaps are judged: meanwhile a start URL may lead to the host.
	foreign, provisional := !w.isOwn(l.URL()), !w.scope.IsStart(l.URL().Host())
	a := w.robots.Remember(ctx, &fact)
	if task.Late {
		answered := *a
		answered.Silent = false // the origin itself has answered, with a redirect
		a = &answered
	}
	// This comes before the end of the lease, so that the crawl cannot be drained between robots.txt and the sitemaps
	// that it names.
	requested, err := w.sitemaps.FromRobots(ctx, &fact, a)
	if ctx.Err() != nil {
		_, err := w.done(l, frontier.Result{}) // stopped: the next run asks the store, and requests them
		return err
	}
	if err != nil {
		return err
	}
	if answer.State != frontier.OriginUnknown || requested {
		if _, err := w.robots.Update(ctx, fact.Origin, answer, requested); err != nil {
			return err
		}
	}
	if (answer.State != frontier.OriginUnknown || requested) && len(fact.Body) > robots.MaxSize && !foreign {
		w.warnings.add("robots.txt of %s has more than %s: neither rules nor sitemaps after that are read", fact.Origin,
			humanize.IBytes(robots.MaxSize))
	}
	r.RobotsUntil, r.RobotsProvisional = a.Expires, provisional
	r.CrawlDelay = max(a.CrawlDelay(), w.foreignDelay(l.URL()))
	_, err = w.done(l, r)
	return err
}

// foreignDelay is the delay between the requests of a host that is not the user's own, in a crawl whose pace is that of
// an own site. Such hosts are asked by checks, and for a robots.txt or sitemaps that are there.
func (w *run) foreignDelay(u weburl.URL) time.Duration {
	if w.settings.Profile != config.OwnSite || w.isOwn(u) {
		return 0
	}
	return pace.Polite().MaxDelay
}

// warnOfFailure adds a warning if the robots.txt of an origin of a start host cannot be fetched, and no earlier answer
// takes its place. There is one for each origin and run. Failures of other hosts are only logged: a crawl of many hosts
// has dead ones among them.
func (w *run) warnOfFailure(ctx context.Context, origin string, answer *frontier.OriginFact, why error) error {
	if !w.scope.IsStart(weburl.MustCanonical(origin + "/").Host()) {
		return nil
	}
	earlier, err := w.robots.Fact(ctx, origin)
	isRepeated := earlier.State == frontier.OriginFailed && !earlier.Fetched.Before(w.clock.opened)
	if err != nil || isRepeated || robotscache.OrEarlier(*answer, earlier).State != frontier.OriginFailed {
		return err
	}
	what := "URLs are fetched as if it allowed everything; --robots-strict forbids them instead"
	if w.settings.RobotsStrict {
		what = "URLs are not fetched, because of --robots-strict"
	}
	w.warnings.add("robots.txt of %s cannot be had (%s): its %s", origin, robotsFailure(answer.Status, why), what)
	return nil
}

// robotsFailure says why a robots.txt could not be fetched. The error is nil if a status says so, or if another request
// failed before.
func robotsFailure(status uint16, why error) string {
	e, ok := errors.AsType[*fetch.Error](why)
	switch {
	case ok && e.Kind != fetch.Timeout:
		text := fetch.Error{Kind: e.Kind, Phase: e.Phase, Err: fetch.WithoutAddresses(e.Err)} // ports differ
		return text.Detail()
	case !ok && why != nil:
		return why.Error()
	case status == 0:
		return "it does not answer"
	case ok, status < http.StatusBadRequest:
		return "its answer does not end"
	}
	return fmt.Sprintf("it answers %d", status)
}

// askRobots makes the request of a robots lease. A fact of an unknown state means that the lease has ended, and that
// another follows.
func (w *run) askRobots(ctx context.Context, l *frontier.Lease, task frontier.RobotsTask) (fact frontier.OriginFact,
	r frontier.Result, err error) {
	again := func(r frontier.Result) (frontier.OriginFact, frontier.Result, error) {
		_, err := w.done(l, r)
		return frontier.OriginFact{}, r, err
	}
	if task.Hops > 0 {
		if fact, err = w.knownRobots(ctx, l.URL()); err != nil {
			return fact, r, err
		}
		if fact.State != frontier.OriginUnknown {
			return fact, r, w.noteRobots(ctx, task, &fact, nil)
		}
	}
	fact, next, resp, err := robotscache.Request(ctx, w.fetcher, l.URL(), task.Hops, l)
	back, mayPass := false, fact.State == frontier.OriginFailed
	if err == nil {
		r = w.answerResult(resp)
	} else {
		r, back = w.failureResult(l, err)
		switch fetch.KindOf(err) {
		case fetch.DNSError, fetch.RefusedAddress, fetch.TooLarge:
			mayPass = false
		}
	}
	if back || r.Class == pace.ClassDropped || mayPass && l.Attempt() <= robotsRepeats {
		return again(r)
	}
	if fact.State == frontier.OriginUnknown {
		if fact, err = w.knownRobots(ctx, next); err != nil {
			return fact, r, err
		}
		switch {
		case fact.State != frontier.OriginUnknown:
		case scope.ExceedsLimit(next), !w.scope.Permits(next): // as if there were none
			fact = frontier.OriginFact{State: frontier.OriginNone, Status: uint16(resp.Status), Fetched: time.Now(),
				Expires: time.Now().Add(robotscache.TTL)}
		default:
			r.RobotsAt = next
			return again(r)
		}
	}
	return fact, r, w.noteRobots(ctx, task, &fact, err)
}

// knownRobots is the stored answer of the origin whose robots.txt is at the URL, if it still counts. Its state is
// unknown if there is none.
func (w *run) knownRobots(ctx context.Context, u weburl.URL) (frontier.OriginFact, error) {
	if u.RequestURI() != robotscache.Path {
		return frontier.OriginFact{}, nil
	}
	fact, err := w.robots.Fact(ctx, u.Origin())
	if err != nil || !w.robots.IsValid(&fact) {
		return frontier.OriginFact{}, err
	}
	return fact, nil
}

// noteRobots counts an answer, which is final for the origins of a task. It logs the reason if the answer is a failure.
// Call it before the answer is stored.
func (w *run) noteRobots(ctx context.Context, task frontier.RobotsTask, fact *frontier.OriginFact, why error) error {
	failed, answer := fact.State == frontier.OriginFailed, "known"
	if failed {
		answer = "unknown"
	}
	for _, origin := range task.Origins {
		w.metrics.Count(metrics.Robots, answer)
		if !failed {
			continue
		}
		w.log.Debug("robots.txt could not be fetched", "origin", origin, "status", fact.Status, "error", why)
		if err := w.warnOfFailure(ctx, origin, fact, why); err != nil {
			return err
		}
	}
	return nil
}

// robotsEvidence is what robots.txt says of a page that is about to be fetched.
func (w *run) robotsEvidence(ctx context.Context, u weburl.URL) (page.Robots, error) {
	if w.settings.IgnoreRobots {
		return page.Robots{}, nil
	}
	return w.originRobots(ctx, u)
}

// originRobots returns what the robots.txt of its origin says of a URL, also if the crawl ignores those of its own
// hosts. The caller has no place.
func (w *run) originRobots(ctx context.Context, u weburl.URL) (page.Robots, error) {
	a, err := w.robots.Lookup(ctx, u.Origin())
	if err != nil {
		return page.Robots{}, fmt.Errorf("look up robots.txt of %s: %w", u.Origin(), err)
	}
	if a == nil {
		// The answer grew too old between the lease and now. The frontier will ask for a new one; this page is judged
		// without one.
		return page.Robots{Checked: true, Allowed: !w.settings.RobotsStrict, Low: true, CheckedAt: time.Now()}, nil
	}
	m, quick := a.MatchQuickly(u)
	if !quick {
		done := w.compute(ctx)
		m = a.Match(u)
		done()
	}
	return a.Evidence(m), nil
}

// requestSitemaps requests the sitemaps of an origin by what is known of its robots.txt. A crawl that ignores
// robots.txt looks into the usual places.
func (r *run) requestSitemaps(ctx context.Context, origin string) error {
	fact, err := r.robots.Fact(ctx, origin)
	if err != nil {
		return err
	}
	a := &robotscache.Answer{}
	if !r.settings.IgnoreRobots {
		a = r.robots.Remember(ctx, &fact)
	}
	requested, err := r.sitemaps.FromRobots(ctx, &fact, a)
	if err != nil || !requested {
		return err
	}
	_, err = r.robots.Update(ctx, origin, frontier.OriginFact{}, true)
	return err
}

// revisitUnasked queues the sitemaps that only hosts have named which were not asked in this generation, or whose
// robots.txt cannot be had. Before that it requests those of origins whose robots.txt is known since another origin's
// redirects there. It returns how many are queued then. Call it when the crawl is drained.
func (r *run) revisitUnasked(ctx context.Context) (int, error) {
	if r.visits.Generation() == 0 {
		return 0, nil
	}
	before := r.frontier.Stats().Sitemaps
	if err := r.requestKnownSitemaps(ctx, 0, math.MaxUint64); err != nil {
		return 0, err
	}
	n, err := r.sitemaps.RevisitUnasked(ctx, func(fact *frontier.OriginFact) bool {
		return fact.SitemapsRequested && fact.SitemapsGeneration == r.visits.Generation() ||
			fact.State != frontier.OriginFailed && r.robots.IsValid(fact)
	})
	return max(n, int(r.frontier.Stats().Sitemaps-before)), err
}

// revisitSitemaps queues the sitemaps of some hosts that are due. Before that it requests those that are not known yet.
func (r *run) revisitSitemaps(ctx context.Context, first, last weburl.HostID) error {
	if err := r.requestKnownSitemaps(ctx, first, last); err != nil {
		return err
	}
	return r.sitemaps.Revisit(ctx, first, last)
}

// requestKnownSitemaps requests the sitemaps of origins that belong to the crawl now, by what is known of their
// robots.txt: it may have been judged by narrower rules, and perhaps no URL of the origin is left to be leased.
func (r *run) requestKnownSitemaps(ctx context.Context, first, last weburl.HostID) error {
	if err := r.store.Flush(ctx); err != nil {
		return err
	}
	origins, err := r.store.OriginsOf(ctx, first, last, func(fact *frontier.OriginFact) bool {
		return (r.robots.IsValid(fact) || r.visits.Generation() == 0 && fact.State == frontier.OriginAnswered) &&
			r.sitemaps.Wants(fact)
	})
	for i := 0; err == nil && i < len(origins); i++ {
		err = r.requestSitemaps(ctx, origins[i])
	}
	return err
}
