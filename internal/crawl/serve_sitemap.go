package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// sitemapTimeout is for a whole sitemap, which may be large and is read while the crawl goes on. sitemapBytes only
// stops one that never ends: there are sitemaps larger than the 50 MB that the protocol allows, and they are read.
const (
	sitemapTimeout = 30 * time.Minute
	sitemapBytes   = 16 << 30
)

// serveSitemap reads a sitemap as it comes, adds its entries and requests the sitemaps that it names.
func (w *worker) serveSitemap(ctx context.Context, l *frontier.Lease) error {
	m := w.sitemaps.Begin(l.Link())
	defer m.End()
	if err := m.LoadVouchers(ctx); err != nil {
		if ctx.Err() != nil {
			return w.endSitemap(l, m, frontier.Result{}, nil) // stopped: back to the queue
		}
		return err
	}
	if why := w.crashes.crashedAlone(l); why != "" {
		return w.giveUpSitemap(l, m, page.Crashed, errors.New(why+"; 'resume --retry-crashed' tries it again"))
	}
	u := l.URL()
	if w.resumed && !w.scope.Permits(u) {
		return w.giveUpSitemap(l, m, page.Excluded, errExcluded)
	}
	ev, err := w.robotsEvidence(ctx, u)
	if err != nil {
		return err
	}
	if ev.Low {
		m.Believe()
	}
	if !m.IsNamed() || w.sitemaps.IsOver() {
		return w.giveUpSitemap(l, m, page.Excluded, nil)
	}
	// A sitemap that robots.txt names may be read though a rule disallows it; a usual place that it does not name may
	// not.
	if ev.Checked && !ev.Allowed && (m.IsGuessed() || !m.IsVouched()) {
		m.LeaveOut() // if robots.txt names it later, it may be read
		return w.giveUpSitemap(l, m, page.BlockedByRobots, errDisallowed)
	}
	resp, err := w.fetcher.Do(ctx, fetch.Request{URL: u, Mode: fetch.Stream, Wire: l, NewConn: l.Attempt() > 1,
		Timeout: sitemapTimeout, MaxBody: sitemapBytes, Waits: w.place.waits})
	if err != nil {
		resp.Close()
		return w.failSitemap(l, m, err)
	}
	defer resp.Close()
	ended := w.answerResult(resp)
	ended.Final, ended.Finish = true, sitemapFinish(outcomeOf(resp.Status, resp.Location), resp.Status)
	switch {
	case resp.OK():
		// A few bytes can unzip to very many, so it counts among the pages that are parsed at once.
		w.place.take()
		err = m.Read(ctx, resp.Reader, w.place.waits)
		w.place.end()
	case resp.Status >= 300 && resp.Status < 400 && resp.Location != "":
		var target weburl.URL
		if target, err = u.Resolve(resp.Location); err == nil {
			err = m.Redirect(ctx, target)
		}
	default:
		err = statusError(resp.Status)
		ended.Final = !statusError(resp.Status).isTransient()
	}
	switch {
	case ctx.Err() != nil:
		return w.endSitemap(l, m, frontier.Result{}, nil) // stopped before it was read: back to the queue
	case errors.Is(err, seeding.ErrNotAdded):
		return err
	case errors.Is(err, seeding.ErrNoRoom):
		w.holdSitemaps()
		return w.endSitemap(l, m, frontier.Result{}, nil) // back to the queue
	case fetch.KindOf(err) != "" && fetch.KindOf(err) != fetch.TooLarge:
		return w.failSitemap(l, m, err)
	}
	if resp.OK() && (err != nil || m.IsCut()) {
		ended.Finish.Outcome = uint8(page.ReadError) // so that it does not count as a list of all pages
	}
	ended.Finish.Bytes = uint64(max(resp.WireBytes, 0))
	return w.endSitemap(l, m, ended, err)
}

// errExcluded is why a queued sitemap was not requested.
var errExcluded = errors.New("not read: the settings were changed after it was queued, and --only-hosts does not " +
	"name its host")

// errDisallowed is why a sitemap was not requested.
var errDisallowed = errors.New("not read: robots.txt of its host disallows it and does not name it")

// sitemapFinish returns the record of a sitemap.
func sitemapFinish(o page.Outcome, status int) *frontier.Finish {
	return &frontier.Finish{Outcome: uint8(o), Status: uint16(status), CheckedAt: time.Now()}
}

// giveUpSitemap ends the lease of a sitemap that is not requested.
func (w *run) giveUpSitemap(l *frontier.Lease, m *seeding.Reading, o page.Outcome, why error) error {
	return w.endSitemap(l, m, frontier.Result{Class: pace.ClassNone, Finish: sitemapFinish(o, 0), Final: true}, why)
}

// endSitemap ends the lease. If the sitemap is then finished, it adds a warning that says what was wrong with it.
func (w *run) endSitemap(l *frontier.Lease, m *seeding.Reading, r frontier.Result, wrong error) error {
	guessed := m.IsGuessed()
	d, err := m.Finish(r, func(r frontier.Result) (frontier.Disposition, error) { return w.done(l, r) })
	if err != nil || d != frontier.Finished {
		return err
	}
	if wrong != nil && !(guessed && isNothing(wrong)) {
		w.warnings.add("sitemap %s: %v", m.Link().URL, wrong)
	}
	if more := m.Unmentioned(); more > 0 {
		w.warnings.add("sitemap %s names %d more sitemaps that were not read, for the same reasons as those above",
			m.Link().URL, more)
	}
	return nil
}

// failSitemap ends a lease whose fetch failed.
func (w *run) failSitemap(l *frontier.Lease, m *seeding.Reading, err error) error {
	r, back := w.failureResult(l, err)
	if !back {
		r.Finish = sitemapFinish(failedOutcome(err), 0)
	}
	return w.endSitemap(l, m, r, err)
}

// A statusError is why a sitemap was not read: the answer had this status.
type statusError int

// Error implements error.
func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// isTransient reports whether the answer may be another one later.
func (e statusError) isTransient() bool { return e == http.StatusTooManyRequests || e >= 500 }

// isNothing reports whether what was wrong with a sitemap in a usual place says that none is there, or that it may not
// be asked for: then it is not missed.
func isNothing(wrong error) bool {
	status, ok := errors.AsType[statusError](wrong)
	return ok && !status.isTransient() || errors.Is(wrong, seeding.ErrNotSitemap) || errors.Is(wrong, errDisallowed) ||
		errors.Is(wrong, errExcluded)
}

// probes returns the probe of a page's origin: a URL that does not exist, for --check-soft-404. It is queued like a
// sitemap, so that it is requested once in a generation, at the host's pace, and does not count as a page.
func (w *worker) probes(u weburl.URL, at time.Time) []frontier.Link {
	probe, err := page.ProbeURL(w.hasher, u, w.visits.Generation())
	if err != nil || w.scope.Check(probe) != scope.InScope {
		return nil
	}
	return []frontier.Link{{URL: probe, Sitemap: true, Source: page.SourceProbe, Parent: u, Discovered: at}}
}

// serveProbe requests a probe, and records the hash of its text.
func (w *worker) serveProbe(ctx context.Context, l *frontier.Lease) error {
	u := l.URL()
	end := func(f *recrawl.Answer, r frontier.Result) error {
		f.At = time.Now()
		f.Facts = page.Facts{TextHash: f.Facts.TextHash, Error: f.Facts.Error}
		r.Finish = f.Record()
		_, err := w.done(l, r)
		return err
	}
	if why := w.crashes.crashedAlone(l); why != "" {
		return end(&recrawl.Answer{Outcome: page.Crashed, Facts: page.Facts{Error: why}}, frontier.Result{Final: true})
	}
	ev, err := w.robotsEvidence(ctx, u)
	if err != nil {
		return err
	}
	if ev.Checked && !ev.Allowed {
		return end(&recrawl.Answer{Outcome: page.BlockedByRobots}, frontier.Result{Final: true})
	}
	resp, err := w.fetcher.Do(ctx, fetch.Request{URL: u, Mode: fetch.Page, Wire: l, NewConn: l.Attempt() > 1})
	if err != nil {
		resp.Close()
		r, back := w.failureResult(l, err)
		if back {
			_, err := w.done(l, r)
			return err
		}
		return end(&recrawl.Answer{Outcome: failedOutcome(err), Facts: page.Facts{Error: errorText(err)}}, r)
	}
	defer resp.Close()
	defer w.putBuffer()
	f := &recrawl.Answer{Outcome: outcomeOf(resp.Status, resp.Location), Status: resp.Status, At: time.Now(),
		Bytes: resp.WireBytes}
	if f.Outcome == page.OK && resp.Body != nil {
		if err := w.parse(ctx, l, f, resp); err != nil {
			return w.unlessStopped(ctx, l, err)
		}
	}
	return end(f, w.answerResult(resp))
}
