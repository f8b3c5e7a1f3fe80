package crawl

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// worker takes leases until there are none left or leasing ends, and serves one at a time. It holds a permit of the
// crawl from before a lease until after it.
type worker struct {
	*run
	index int // from 0

	place       place // of its lease; taken from when a page is parsed until it is recorded
	served            // the page that it serves
	*pageBuffer       // while a page is being read; nil otherwise

	skipList []frontier.Skip
	leftOut  []uint64 // links left out, in the form of page.Facts.LeftOut
}

// runWorkers starts the workers and returns when all have ended. If one fails, the others are stopped: only the store
// can make it fail.
func (r *run) runWorkers(leasing, fetching context.Context, stop func()) error {
	var group errgroup.Group
	for i := range r.settings.MaxWorkers {
		group.Go(func() error {
			w := &worker{run: r, index: i}
			err := w.work(leasing, fetching)
			if err != nil {
				stop()
			}
			return err
		})
	}
	return group.Wait()
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
		if w.endings.interrupted() { // before the supervisor has ended leasing
			_, err := w.done(lease, frontier.Result{})
			w.permits.release()
			return err
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
	if errors.Is(err, frontier.ErrLimit) && !w.quota.isUsedUp() {
		w.limits.pagesReached()
	}
}

// serve serves a lease and ends it, also after a failure. A page that may have ended the process goes back to the queue
// while the run is young. Later it waits here until nothing else is being read. If leasing ends meanwhile, the lease is
// returned to the queue.
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
	w.place = place{of: w.parsing, ctx: ctx}
	defer w.place.end()
	defer func() {
		if p := recover(); p != nil {
			// A page that makes the crawler panic must not be leased again: that would never end.
			w.log.Error("a page made the crawler panic", "url", l.URL().String(), "panic", p, "stack",
				string(debug.Stack()))
			if l.Kind() == frontier.KindRobots {
				// The origins that wait for the answer must not ask for it again.
				failed := robotscache.Failed(0)
				if err = w.noteRobots(ctx, l.Robots(), &failed, fmt.Errorf("panic: %v", p)); err != nil {
					return
				}
				if err = w.keepRobots(ctx, l.URL(), l.Robots(), failed); err != nil {
					return
				}
			}
			_, err = w.done(l, frontier.Result{
				Finish: failure(page.Crashed, fmt.Sprintf("panic: %v", p)), Final: true,
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
		return w.serveRobots(ctx, l)
	case frontier.KindSitemap:
		if l.Link().Source == page.SourceProbe {
			return w.serveProbe(ctx, l)
		}
		return w.serveSitemap(ctx, l)
	case frontier.KindCheck:
		return w.serveCheck(ctx, l)
	}
	return w.servePage(ctx, l)
}

// answerResult is the part of a result that every answer has.
func (r *run) answerResult(resp *fetch.Response) frontier.Result {
	r.permits.succeeded()
	res := frontier.Result{Class: pace.ClassOf(resp.Status), Latency: resp.Timings.Wait, Lag: r.lag.value()}
	if resp.RetryAfter != "" {
		res.RetryAfter = pace.ParseRetryAfter(resp.RetryAfter, resp.Header.Get("Date"), time.Now())
	}
	return res
}

// failureResult says what a failed fetch means for its host, and whether the URL may be tried again. If back is true,
// the failure says nothing about the URL, which goes back to the queue. A denied host is blocked for the run. Origins
// that wait for a robots.txt of that host continue as if it could not be fetched.
func (r *run) failureResult(l *frontier.Lease, err error) (res frontier.Result, back bool) {
	res = frontier.Result{Class: pace.ClassNetwork, Lag: r.lag.value()}
	switch kind := fetch.KindOf(err); {
	case errors.Is(err, errDenied):
		r.frontier.Block(l.URL().Host())
		return frontier.Result{}, l.Kind() != frontier.KindRobots || l.Robots().Hops == 0
	case kind == fetch.Canceled:
		return frontier.Result{}, true
	case fetch.IsOurs(err):
		r.permits.trip(err)
		return frontier.Result{Class: pace.ClassOurs}, true
	case isFirstDrop(l, err):
		res.Class = pace.ClassDropped
	case kind == fetch.RefusedAddress:
		res.Class, res.Final = pace.ClassNone, true
	case kind == fetch.TooLarge:
		res.Class, res.Final = pace.ClassOK, true
	case isHopeless(err):
		res.Final = true
	}
	return res, false
}

// done ends a lease. To record what was found may mean to wait.
func (w *worker) done(l *frontier.Lease, res frontier.Result) (frontier.Disposition, error) {
	w.place.end()
	return w.run.done(l, res)
}

// done ends a lease and counts what became of it.
func (r *run) done(l *frontier.Lease, res frontier.Result) (frontier.Disposition, error) {
	d, err := r.end(l, res)
	if err == nil && d == frontier.Finished && l.Kind() == frontier.KindPage {
		r.tally.finished(res.Finish)
	}
	return d, err
}

// end ends a lease. Nothing is recorded that could not be archived.
func (r *run) end(l *frontier.Lease, res frontier.Result) (frontier.Disposition, error) {
	if err := r.archive.Err(); err != nil {
		return frontier.Returned, fmt.Errorf("record %s: %w", l.URL(), err)
	}
	d, err := l.Done(res)
	if errors.Is(err, frontier.ErrPartitionClosed) {
		return frontier.Returned, nil // another machine has the URL now
	}
	if err != nil {
		return d, fmt.Errorf("record %s: %w", l.URL(), err)
	}
	if d == frontier.Finished {
		r.visits.Finished(l.Link().Key)
	}
	return d, nil
}
