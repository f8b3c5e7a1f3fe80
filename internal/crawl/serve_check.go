package crawl

import (
	"context"
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/parser"
)

// checksLink reports whether a link that is not followed, for the given reason, is checked: if the scope leaves its URL
// out, for --check-external, and if it is left out as a file, for --check-assets. Neither nofollow nor the depth limit
// matters: a check leads to no further pages.
func (w *worker) checksLink(within *scope.Page, l *parser.Link, why scope.Reason) bool {
	if !w.settings.Checks() {
		return false
	}
	if why == scope.NotFollowed || why == scope.TooDeep {
		why = within.Check(l.URL)
	}
	return why == scope.OutOfScope && w.settings.CheckExternal && w.scope.Permits(l.URL) ||
		why == scope.ByExtension && w.settings.CheckAssets
}

func newCheck(u, parent weburl.URL, hops uint8, at time.Time) frontier.Link {
	return frontier.Link{URL: u, Sitemap: true, Check: true, Source: page.SourceCheck, Hops: hops, Parent: parent,
		Discovered: at}
}

// admitCheck counts a check that is new. One over the limit is left out.
func (r *run) admitCheck(l *frontier.Link) {
	if r.checks.Add(1) <= int64(r.settings.MaxChecks) {
		return
	}
	l.Skip = uint8(scope.CheckLimit)
	r.checksCut.Do(func() {
		r.warnings.add("%s and all further URLs are not checked: the limit is %d (--max-checks); a resume with a "+
			"higher one checks further links", l.URL, r.settings.MaxChecks)
	})
}

// mayCheck reports whether the settings of this run allow the check of a URL. They leave out what --only-hosts does not
// name, and what --exclude names.
func (w *worker) mayCheck(u weburl.URL) bool {
	if !w.settings.Checks() || !w.scope.Permits(u) {
		return false
	}
	why := w.scope.Check(u)
	return why != scope.Excluded && why != scope.TooLong
}

// serveCheck asks what there is at a URL, and reads nothing of it: by HEAD, or by GET if HEAD was refused or failed.
// The target of a redirect is a check of its own.
func (w *worker) serveCheck(ctx context.Context, l *frontier.Lease) error {
	link, u := l.Link(), l.URL()
	end := func(f *recrawl.Answer, r frontier.Result) error {
		f.At = time.Now()
		r.Finish = f.Record()
		_, err := w.done(l, r)
		return err
	}
	none := func(o page.Outcome, why string) error {
		return end(&recrawl.Answer{Outcome: o, Facts: page.Facts{Error: why}}, frontier.Result{Final: true})
	}
	if why := w.crashes.crashedAlone(l); why != "" {
		return none(page.Crashed, why)
	}
	if w.resumed && !w.mayCheck(u) {
		return none(page.Excluded, "not checked: the settings were changed after it was queued")
	}
	rules, err := w.originRobots(ctx, u)
	if err != nil {
		return err
	}
	// --ignore-robots is for the user's own site.
	if ignored := w.settings.IgnoreRobots && w.isOwn(u); !rules.Allowed && !ignored {
		return none(page.BlockedByRobots, "")
	}
	mode := fetch.Head
	if w.visits.Reading(link.Key) != recrawl.ReadNothing || l.Attempt() > 1 {
		mode = fetch.Stream
	}
	resp, err := w.fetcher.Do(ctx, fetch.Request{URL: u, Mode: mode, Wire: l, NewConn: l.Attempt() > 1,
		NoArchive: true})
	defer func() { resp.Close() }() // nil or not, whether it failed or not
	if err != nil {
		r, back := w.failureResult(l, err)
		if back {
			_, err := w.done(l, r)
			return err
		}
		r.Final = r.Final || l.Attempt() > 1
		return end(&recrawl.Answer{Outcome: failedOutcome(err), Facts: page.Facts{Error: errorText(err)}}, r)
	}
	r := w.answerResult(resp)
	if mode == fetch.Head && refusesHead(resp.Status) {
		w.visits.ReadAgain(link.Key, recrawl.ReadPage)
		_, err := w.done(l, frontier.Result{Class: r.Class, Latency: r.Latency, Lag: r.Lag})
		return err
	}
	r.Final = l.Attempt() > 1 || r.Class == pace.ClassOK
	f := &recrawl.Answer{Outcome: outcomeOf(resp.Status, resp.Location), Status: resp.Status, Facts: page.Facts{
		ContentType: resp.ContentType, ContentLength: page.Length(resp.ContentLength)}}
	if f.Outcome == page.Redirect {
		r.Links = w.checkRedirect(f, &link, resp.Location)
	}
	return end(f, r)
}

// isOwn reports whether a URL is on a host of the crawl.
func (w *run) isOwn(u weburl.URL) bool { return w.scope.IsStart(u.Host()) || w.scope.Contains(u) }

// refusesHead reports whether a GET may be answered otherwise than a HEAD with this status. Many servers answer HEAD
// with 405, 501, 403, 404 or 500 for what they deliver. A link is broken only if a GET says so.
func refusesHead(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusTooManyRequests,
		http.StatusServiceUnavailable:
		return false // it is about who asks, or how often
	}
	return status >= 400
}

// checkRedirect records where a check leads to, and returns the check of that URL.
func (w *worker) checkRedirect(f *recrawl.Answer, from *frontier.Link, location string) []frontier.Link {
	target, why := resolveTarget(&f.Facts, from.URL, location)
	if why != scope.InScope {
		return nil
	}
	if target == from.URL || from.Hops >= scope.MaxHops {
		f.Outcome = page.RedirectLoop
		return nil
	}
	if !w.mayCheck(target) {
		return nil
	}
	return []frontier.Link{newCheck(target, from.URL, from.Hops+1, time.Now())}
}
