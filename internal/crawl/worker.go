package crawl

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/parser"
)

// worker takes leases until there are none left or it is told to stop. It holds a permit of the global cap while it has one.
type worker struct {
	*run
	*reading // while a page is being read; nil otherwise

	skips    scope.Skips // of the page being served
	skipList []frontier.Skip
}

// reading is the memory that reading a page needs. It is lent for that time only: most workers wait for a lease or a host, and those
// need none.
type reading struct {
	page     parser.Page
	links    []frontier.Link
	evidence []frontier.Evidence
}

func (w *worker) borrow() {
	if w.reading, _ = w.readings.Get().(*reading); w.reading == nil {
		w.reading = &reading{}
	}
}

func (w *worker) giveBack() {
	if w.reading != nil {
		w.readings.Put(w.reading)
		w.reading = nil
	}
}

// work is a worker's life. Leasing ends with leasing; work under way goes on until fetching ends.
func (w *worker) work(leasing, fetching context.Context) error {
	for {
		if err := w.breaker.wait(leasing); err != nil {
			return nil
		}
		if err := w.gov.acquire(leasing); err != nil {
			return nil
		}
		lease, err := w.frontier.Next(leasing)
		if err != nil {
			w.gov.release()
			switch {
			case errors.Is(err, frontier.ErrDrained), errors.Is(err, frontier.ErrLimit):
				w.ended(err)
				return nil
			case leasing.Err() != nil:
				return nil
			}
			return fmt.Errorf("take a lease: %w", err)
		}
		if lease.Kind() == frontier.KindPage {
			w.limits.pagesUsed(w.log, w.frontier.PagesUsed())
		}
		err = w.serve(leasing, fetching, lease)
		w.gov.release()
		if err != nil {
			return err
		}
	}
}

// serve does what a lease is for and ends it, whatever happens on the way. A page that may have ended the process before waits until
// nothing else is being read; if leasing ends meanwhile, the lease is returned.
func (w *worker) serve(leasing, ctx context.Context, l *frontier.Lease) (err error) {
	defer l.Abandon()
	alone := w.crashes.mustBeAlone(l)
	if err := w.gate.enter(leasing, alone); err != nil {
		_, err := w.done(l, frontier.Result{})
		return err
	}
	defer w.gate.leave(alone)
	defer func() {
		if p := recover(); p != nil {
			// A page that cannot be survived must not come again: it would be leased for ever.
			w.log.Error("a page made the crawler panic", "url", l.URL().String(), "panic", p, "stack", string(debug.Stack()))
			if l.Kind() == frontier.KindRobots {
				// The origins that wait for the answer must not ask for it again.
				if err = w.keepRobots(ctx, l.URL(), l.Robots(), robotscache.Failed(0)); err != nil {
					return
				}
			}
			_, err = w.done(l, frontier.Result{
				Finish: failure(page.Crashed, fmt.Sprintf("panic: %v", p), page.Robots{}), Final: true, RobotsUntil: time.Now().Add(robotscache.Retry),
			})
		}
	}()
	if alone {
		if err := w.crashes.markAlone(ctx, l); ctx.Err() != nil {
			_, err := w.done(l, frontier.Result{})
			return err
		} else if err != nil {
			return err
		}
	}
	switch l.Kind() {
	case frontier.KindRobots:
		return w.serveRobots(ctx, l)
	case frontier.KindSitemap:
		return w.serveSitemap(ctx, l)
	}
	return w.servePage(ctx, l)
}

// done pays a lease back and counts what became of it.
func (w *worker) done(l *frontier.Lease, r frontier.Result) (frontier.Disposition, error) {
	d, err := l.Done(r)
	if err != nil {
		return d, fmt.Errorf("record %s: %w", l.URL(), err)
	}
	if d == frontier.Finished && l.Kind() == frontier.KindPage {
		w.tally.finished(r.Finish)
	}
	return d, nil
}
