package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/crawl/gate"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// server is what serving a lease needs, whatever it is for.
type server struct {
	log     *slog.Logger
	metrics *metrics.Metrics
	fetcher Fetcher
	permits *permits          // before a lease; the gate stands after it
	block   func(host string) // takes a host out of the run that is denied
	lag     *lagMeter
	tally   *tally
}

// workers is what the workers of a run have in common.
type workers struct {
	*server
	number   int
	frontier *frontier.Frontier
	gate     *gate.Party // of the gate of all crawls of the process
	quota    *quota      // nil without one
	crashes  *crashGuard
	limits   *limits
	endings  *endings
	robots   *robotsServer
	sitemaps *sitemapServer
	pages    *pageTools
}

// run starts the workers and returns when all have ended. If one fails, the others are stopped: only the store can make
// it fail.
func (ws *workers) run(leasing, fetching context.Context, stop func()) error {
	var group errgroup.Group
	for i := range ws.number {
		group.Go(func() error {
			w := &worker{workers: ws, index: i, page: pageServer{pageTools: ws.pages}}
			err := w.work(leasing, fetching)
			if err != nil {
				stop()
			}
			return err
		})
	}
	return group.Wait()
}

// worker takes leases until there are none left or leasing ends. It holds a permit of the crawl while it has one.
type worker struct {
	*workers
	index int // from 0
	page  pageServer
}

// work takes and serves leases until leasing ends or there are none left. The lease being served goes on until fetching
// ends.
func (w *worker) work(leasing, fetching context.Context) error {
	for {
		if err := w.permits.acquire(leasing); err != nil {
			return nil
		}
		lease, err := w.frontier.Next(leasing)
		if err != nil {
			w.permits.release()
			switch {
			case errors.Is(err, frontier.ErrLimit) && w.quota.extend(leasing):
				continue
			case errors.Is(err, frontier.ErrDrained), errors.Is(err, frontier.ErrLimit):
				w.ended(err)
				return nil
			case leasing.Err() != nil:
				return nil
			}
			return fmt.Errorf("take a lease: %w", err)
		}
		if lease.Kind() == frontier.KindPage {
			used := w.frontier.PagesUsed()
			w.limits.pagesUsed(used)
			w.quota.pagesUsed(leasing, used)
		}
		err = w.serve(leasing, fetching, lease)
		w.permits.release()
		if err != nil && !errors.Is(err, frontier.ErrPartitionClosed) {
			return err
		}
	}
}

// ended notes why there are no more leases.
func (w *worker) ended(err error) {
	if w.endings.interrupted() {
		return
	}
	if errors.Is(err, frontier.ErrLimit) {
		if !w.quota.isUsedUp() {
			w.limits.pagesReached()
		}
	} else {
		w.endings.set(drained())
	}
}

// serve does what a lease is for and ends it, also if it fails. A page that may have ended the process before goes back
// to the queue while the run is young, and waits then until nothing else is being read; if leasing ends meanwhile, the
// lease is returned.
func (w *worker) serve(leasing, ctx context.Context, l *frontier.Lease) (err error) {
	defer l.Abandon()
	alone, wait := w.crashes.judge(l)
	if wait > 0 {
		_, err := w.done(l, frontier.Result{Delay: wait})
		return err
	}
	if err := w.gate.Enter(leasing, alone); err != nil {
		_, err := w.done(l, frontier.Result{})
		return err
	}
	defer w.gate.Leave(alone)
	defer func() {
		if p := recover(); p != nil {
			// A page that makes the crawler panic must not be leased again: that would never end.
			w.log.Error("a page made the crawler panic", "url", l.URL().String(), "panic", p, "stack",
				string(debug.Stack()))
			if l.Kind() == frontier.KindRobots {
				// The origins that wait for the answer must not ask for it again.
				if err = w.robots.keep(ctx, l.URL(), l.Robots(), robotscache.Failed(0)); err != nil {
					return
				}
			}
			_, err = w.done(l, frontier.Result{
				Finish: failure(page.Crashed, fmt.Sprintf("panic: %v", p), page.Robots{}), Final: true,
				RobotsUntil: time.Now().Add(robotscache.Retry),
			})
		}
	}()
	defer w.crashes.end(w.index, l)
	if err := w.crashes.begin(ctx, w.index, l, alone); err != nil {
		if ctx.Err() == nil {
			return err
		}
		_, err := w.done(l, frontier.Result{})
		return err
	}
	switch l.Kind() {
	case frontier.KindRobots:
		return w.robots.serve(ctx, l)
	case frontier.KindSitemap:
		if l.Link().Source == page.SourceProbe {
			return w.page.probe(ctx, l)
		}
		return w.sitemaps.serve(ctx, l)
	}
	return w.page.serve(ctx, l)
}

// answerResult is the part of a result that every answer has.
func (s *server) answerResult(resp *fetch.Response) frontier.Result {
	s.permits.succeeded()
	r := frontier.Result{Class: pace.ClassOf(resp.Status), Latency: resp.Timings.Wait, Lag: s.lag.value()}
	if resp.RetryAfter != "" {
		r.RetryAfter = pace.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	}
	return r
}

// failureResult is what a fetch that failed means for its host, and whether the URL may be tried again. If back is
// true, the failure says nothing about the URL, which goes back to the queue. A host that is denied is taken out of the
// run; the origins that wait for a robots.txt of it go on as if that could not be fetched.
func (s *server) failureResult(l *frontier.Lease, err error) (r frontier.Result, back bool) {
	r = frontier.Result{Class: pace.ClassNetwork, Lag: s.lag.value()}
	switch kind := fetch.KindOf(err); {
	case errors.Is(err, errDenied):
		s.block(l.URL().Host())
		return frontier.Result{}, l.Kind() != frontier.KindRobots || l.Robots().Hops == 0
	case kind == fetch.Canceled:
		return frontier.Result{}, true
	case fetch.IsOurs(err):
		s.permits.trip(err)
		return frontier.Result{Class: pace.ClassOurs}, true
	case isFirstDrop(l, err):
		r.Class = pace.ClassDropped
	case kind == fetch.RefusedAddress:
		r.Class, r.Final = pace.ClassNone, true
	case kind == fetch.TooLarge:
		r.Class, r.Final = pace.ClassOK, true
	case isHopeless(err):
		r.Final = true
	}
	return r, false
}

// done ends a lease and counts what became of it.
func (s *server) done(l *frontier.Lease, r frontier.Result) (frontier.Disposition, error) {
	d, err := s.end(l, r)
	if err == nil && d == frontier.Finished && l.Kind() == frontier.KindPage {
		s.tally.finished(r.Finish)
	}
	return d, err
}

// end ends a lease.
func (s *server) end(l *frontier.Lease, r frontier.Result) (frontier.Disposition, error) {
	d, err := l.Done(r)
	if errors.Is(err, frontier.ErrPartitionClosed) {
		return frontier.Returned, nil // another machine has the URL now
	}
	if err != nil {
		return d, fmt.Errorf("record %s: %w", l.URL(), err)
	}
	return d, nil
}
