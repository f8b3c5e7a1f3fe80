package crawl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

// served is the page that a worker serves, with what the steps have found of it so far.
type served struct {
	lease   *frontier.Lease
	link    frontier.Link
	visit   recrawl.Visit
	history *scope.History  // of the rules by which its links are judged, or of narrower ones
	rules   page.Robots     // what robots.txt says of it
	resp    *fetch.Response // nil if there is none; incomplete after some failures
	failed  error           // why it could not be fetched
	answer  recrawl.Answer
	skips   scope.Skips
	result  frontier.Result
	reading *fetch.Response // whose body is being parsed
	// session is that in which the page was asked for, if the run logs in.
	session int
}

// pageBuffer is the memory that reading a page needs. A worker has one only while it reads: most workers wait for a
// lease or a host.
type pageBuffer struct {
	page     parser.Page
	judged   []judgement // of the page's links
	found    []frontier.Found
	evidence []frontier.Evidence
}

// takeBuffer takes a buffer from the pool, and putBuffer puts it back.
func (w *worker) takeBuffer() {
	if w.pageBuffer, _ = w.buffers.Get().(*pageBuffer); w.pageBuffer == nil {
		w.pageBuffer = &pageBuffer{}
	}
}

func (w *worker) putBuffer() {
	if w.pageBuffer != nil {
		w.buffers.Put(w.pageBuffer)
		w.pageBuffer = nil
	}
}

// servePage takes a page through its steps. Each says whether it has ended the lease.
func (w *worker) servePage(ctx context.Context, l *frontier.Lease) error {
	w.served = served{lease: l, link: l.Link(), history: w.scope.History()}
	defer w.leave()
	if ended, err := w.allow(ctx); ended || err != nil {
		return err
	}
	if ended, err := w.fetch(ctx); ended || err != nil {
		return err
	}
	if ended, err := w.stayLoggedIn(ctx); ended || err != nil {
		return err
	}
	if ended, err := w.read(ctx); ended || err != nil {
		return err
	}
	w.traps.Begin() // what is learned from the page is recorded with it
	defer w.traps.End()
	w.observe(ctx)
	return w.judge()
}

// leave gives back what a page took.
func (w *worker) leave() {
	w.resp.Close()
	w.putBuffer()
	w.served = served{}
}

// allow ends the lease of a page that may not be fetched: because it ended the process before, or the scope, a trap or
// robots.txt leaves it out.
func (w *worker) allow(ctx context.Context) (ended bool, err error) {
	if why := w.crashes.crashedAlone(w.lease); why != "" {
		return true, w.give(failure(page.Crashed, why+"; 'resume --retry-crashed' tries it again"))
	}
	if w.settings.MaxDepth >= 0 {
		if err := w.locate(&w.link); err != nil {
			return true, err
		}
	}
	if w.visit, err = w.visits.Begin(ctx, &w.link); err != nil {
		return true, w.unlessStopped(ctx, w.lease, err)
	}
	if w.resumed {
		if why := w.scope.CheckKnown(&w.link); why != scope.InScope {
			return true, w.exclude(why)
		}
	}
	if trap := w.trapOf(&w.link); trap != "" {
		return true, w.give(trapped(trap))
	}
	if w.rules, err = w.robotsEvidence(ctx, w.link.URL); err != nil {
		return true, err
	}
	if w.rules.Checked && !w.rules.Allowed {
		w.answer = recrawl.Answer{Outcome: page.BlockedByRobots, At: time.Now(), Facts: page.Facts{Robots: w.rules}}
		w.result.Final = true
		return true, w.judge()
	}
	if w.o.WouldFetch != nil {
		w.o.WouldFetch(&w.link)
		w.log.Debug("would fetch", "url", w.link.URL.String(), "source", page.SourceName(w.link.Source))
		return true, w.give(failure(page.Excluded, "not fetched: this is a dry run"))
	}
	return false, nil
}

// give ends the lease with what became of a page that was not fetched.
func (w *worker) give(f *frontier.Finish) error {
	_, err := w.done(w.lease, frontier.Result{Finish: f, Final: true})
	return err
}

// fetch requests the page. If the request fails for a reason that says nothing about the page, the lease ends and the
// page goes back to the queue.
func (w *worker) fetch(ctx context.Context) (ended bool, err error) {
	if w.login != nil {
		w.session = w.login.number()
	}
	w.resp, w.failed = w.fetcher.Do(ctx, fetch.Request{
		URL: w.link.URL, Mode: fetch.Page, Header: w.visit.Header, Wire: w.lease, NewConn: w.lease.Attempt() > 1,
		Archived: w.visit.Archived(),
	})
	if w.failed != nil {
		if !errors.Is(w.failed, frontier.ErrAddressBusy) {
			w.metrics.Count(metrics.Failures, string(fetch.KindOf(w.failed)))
		}
		var back bool
		if w.result, back = w.failureResult(w.lease, w.failed); back {
			_, err := w.done(w.lease, w.result)
			return true, err
		}
	}
	f := &w.answer
	f.At = time.Now()
	if w.resp != nil {
		describe(f, w.resp)
	}
	f.Facts.Robots = w.rules
	if w.failed != nil {
		f.Outcome, f.Facts.Error = failedOutcome(w.failed), errorText(w.failed)
		return false, nil
	}
	t := &w.resp.Timings
	w.metrics.Fetched(t.DNS, t.Connect, t.TLS, t.Wait, t.Total, w.resp.WireBytes)
	if w.visit.IsConditional() {
		w.tally.asked(w.resp.Status == http.StatusNotModified)
	}
	f.Outcome = outcomeOf(w.resp.Status, w.resp.Location)
	w.result = w.answerResult(w.resp)
	return false, nil
}

// isReadable says whether the page was answered with a text to read.
func (w *worker) isReadable() bool {
	return w.failed == nil && w.answer.Outcome == page.OK && w.resp.Body != nil
}

// read parses the page and judges its links. A crawl that stops meanwhile ends the lease, and the page goes back to the
// queue.
func (w *worker) read(ctx context.Context) (ended bool, err error) {
	readable := w.isReadable()
	w.history = w.scope.History()
	if readable {
		if err = w.parse(ctx, w.lease, &w.answer, w.resp); err == nil {
			err = w.judgeLinks(ctx)
		}
		if err == nil && w.page.Truncated {
			w.warnings.add("%s has %d links, more than are read of a page (%d, of %s with their texts): pages to which "+
				"only the rest leads are missing", w.link.URL, w.page.LinkCount, maxLinks,
				humanize.IBytes(uint64(linkBytes(w.settings))))
		}
		if err != nil {
			return true, w.unlessStopped(ctx, w.lease, err)
		}
		w.answer.Modified = w.page.Modified
	}
	if w.settings.MaxDepth < 0 && (readable || w.answer.Outcome == page.Redirect) { // links need the page's depth
		err = w.locate(&w.link)
	}
	return false, err
}

// observe adds to the result what the page leads to, and evidence about other pages.
func (w *worker) observe(ctx context.Context) {
	f, r := &w.answer, &w.result
	switch {
	case f.Outcome == page.Redirect:
		r.Links = w.redirect(ctx, w.resp.Location)
	case w.isReadable():
		repeats := w.link.Repeats
		w.evidence = w.evidence[:0]
		if w.visit.HasNewText(&f.Facts) {
			repeats, w.evidence = w.traps.Read(&w.link, w.page.TextHash, w.page.WordHash, w.evidence)
		}
		r.Evidence = w.evidence
		r.Origin = frontier.Origin{
			Parent: w.link.URL, Depth: w.link.Depth + 1, Source: page.SourceLink, Repeats: repeats, At: f.At,
			Unnamed: w.visit.Confirms(w.link.Key, &f.Facts),
		}
		r.Found, r.Links = w.follow()
		if w.settings.CheckSoft404 && f.Status == http.StatusOK {
			r.Links = append(r.Links, w.probes(w.link.URL, f.At)...)
		}
	}
	if !w.visit.IsLater() { // what a later visit finds is counted already
		r.Evidence = w.trapEvidence() // appended to what the text gave
	}
	if fallback, ok := w.plainHTTP(); ok {
		// The user did not ask for https. If the host offers none, that is no failure of the host, and does not count
		// towards the page limit.
		r.Class, r.Links, r.Final = pace.ClassNone, []frontier.Link{fallback}, true
		if w.bare[w.link.URL.String()] {
			w.extendScope(ctx, w.link.URL, fallback.URL)
		}
	}
	w.leftOut = w.history.AppendLeftOut(w.leftOut[:0], &w.skips)
	f.Facts.LeftOut = w.leftOut
}

// judge compares what a visit found with what was known, and ends the lease. If the page must be requested once more,
// the lease goes back to the queue, and waits for the host's pace like any other.
func (w *worker) judge() error {
	f, r := &w.answer, &w.result
	verdict := w.visit.Judge(&w.answer)
	again := frontier.Result{Class: r.Class, Latency: r.Latency, Lag: r.Lag}
	if verdict.ReadAgain != recrawl.ReadNothing {
		w.visits.ReadAgain(w.link.Key, verdict.ReadAgain)
		_, err := w.done(w.lease, again)
		return err
	}
	if !verdict.KeepFacts {
		w.skipList = w.history.Change(w.skipList[:0], w.link.Key.Host.Partition(), w.visit.LeftOut(),
			verdict.Facts.LeftOut, w.visit.IsLater())
		r.Skips = w.skipList
	}
	r.Finish = verdict.Record(f)
	host := w.link.URL.Host()
	switch {
	case verdict.NotModified:
		believed, err := w.visits.RecordNotModified(host, func() error {
			r.Again = w.visits.MustVerify(w.link.Key)
			_, err := w.done(w.lease, *r)
			return err
		})
		if err == nil && !believed {
			_, err = w.done(w.lease, again)
		}
		return err
	case verdict.FalseNotModified && w.visits.Distrust(host):
		return w.sweeper.Distrust(host, func(fact frontier.CrawlFact) (frontier.Disposition, error) {
			r.Facts = append(r.Facts, fact)
			return w.done(w.lease, *r)
		})
	}
	_, err := w.done(w.lease, *r)
	return err
}

// locate gives a link the depth and the priority that its page was found with. The queue does not hold them for a
// later visit. Under a depth limit, a page that a sitemap lists has depth 0: the frontier knows that in memory, and
// forgets it with the run or when another machine takes the page over.
func (w *worker) locate(l *frontier.Link) error {
	if l.Visit > 1 {
		found, ok, err := w.store.Found(l.Key)
		if err != nil {
			return err
		}
		if ok {
			l.Depth, l.Priority = found.Depth, found.Priority
		}
	}
	if w.settings.MaxDepth >= 0 && w.isLedTo(l.Key) {
		l.Depth, l.Priority = 0, frontier.PriorityStart
	}
	if w.settings.MaxDepth < 0 || l.Depth == 0 || !w.resumed && l.Visit < 2 {
		return nil
	}
	listed, err := state.IsListed(w.store, l.Key)
	if listed {
		l.Depth = 0
	}
	return err
}

// exclude ends the lease of a URL that an earlier run queued and that the settings leave out now. What earlier visits
// found of it stays.
func (w *worker) exclude(why scope.Reason) error {
	text := "the settings were changed after it was queued, and " + w.scope.Explain(why)
	if kept, checked := w.visit.Keep("not checked again: " + text); kept != nil {
		_, err := w.end(w.lease, frontier.Result{Finish: kept.Record(&recrawl.Answer{At: checked}), Final: true})
		return err
	}
	return w.give(failure(page.Excluded, "not fetched: "+text))
}

// unlessStopped returns the error. If ctx has ended, it returns the lease to the queue instead.
func (w *worker) unlessStopped(ctx context.Context, l *frontier.Lease, err error) error {
	if ctx.Err() == nil {
		return err
	}
	_, err = w.done(l, frontier.Result{})
	return err
}

// isFirstDrop reports whether a kept connection was closed at a URL's first attempt, which is no failure of the host.
// Later attempts are made over new connections where that is possible; a host that drops those too has failed.
func isFirstDrop(l *frontier.Lease, err error) bool { return fetch.IsDropped(err) && l.Attempt() == 1 }

// isHopeless says whether a failure would be the same a few seconds later: a name that does not exist, or a wrong
// certificate.
func isHopeless(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	return cert
}

// plainHTTP returns the http URL to try if a host offers no https. It does this only for a host that was named without
// a scheme: by a bare start, or by a certificate. One that has answered over https before is away.
func (w *worker) plainHTTP() (frontier.Link, bool) {
	from := &w.link
	if w.failed == nil || from.URL.Scheme() != "https" || !w.bare[from.URL.String()] && from.Source != page.SourceCT ||
		!offersNoHTTPS(w.failed) || w.visit.HasAnswered() {
		return frontier.Link{}, false
	}
	l, err := frontier.ParseLink("http" + from.URL.String()[len("https"):])
	if err != nil {
		return frontier.Link{}, false
	}
	w.warnWithheld(from.URL, l.URL)
	l.Source, l.Priority, l.Discovered = from.Source, from.Priority, time.Now()
	return l, true
}

// offersNoHTTPS reports whether an https URL failed because the connection was refused, or because the port answers in
// plain HTTP. A wrong certificate is a fault of the https site, and silence can be the work of a third party who drops
// what is encrypted: neither is a reason to do without TLS.
func offersNoHTTPS(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return false
	}
	if header, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(header.RecordHeader[:]) == "HTTP/" {
		return true
	}
	if errors.Is(err, http.ErrSchemeMismatch) { // the same, behind a proxy
		return true
	}
	return e.Kind == fetch.ConnectError
}

// warnWithheld warns that credentials, or headers which may be credentials, are not sent to the URL that a start URL
// leads to.
func (w *worker) warnWithheld(from, to weburl.URL) {
	if w.client == nil {
		return
	}
	if w.client.WithholdsUser(from, to) {
		w.warnings.add("%s leads to %s, which does not get the user name and password of --basic-auth. If they are "+
			"meant for it, give them for %s too", from, to, to.Origin())
	}
	if w.client.WithholdsCookies(from, to) {
		w.warnings.add("%s leads to %s, which does not get the cookies of --cookie. If they are meant for it, start "+
			"from %s", from, to, to)
	}
	if w.o.Managed.hasOperatorHeaders() || w.client.Withholds(from) || !w.client.Withholds(to) {
		return
	}
	w.warnings.add("%s leads to %s, which does not get your --header values that may be credentials. If they are "+
		"meant for it, add --header-to %s", from, to, to.Origin())
}

// redirect records where a page leads to, and makes a link of it: scope, robots, dedup and pace apply to it like to any
// other.
func (w *worker) redirect(ctx context.Context, location string) []frontier.Link {
	f, from := &w.answer, &w.link
	target, why := resolveTarget(&f.Facts, from.URL, location)
	if why != scope.InScope {
		w.skips.Add(why)
		return nil
	}
	if trimmed := w.params.Trim(target); trimmed != from.URL {
		target = trimmed
	} // otherwise the server wants the parameters: the target differs from this page by them alone
	f.Facts.RedirectTo = target.String()
	switch {
	case target == from.URL:
		f.Outcome = page.RedirectLoop
		f.Facts.Error = "redirects to itself"
		return nil
	case from.Hops >= scope.MaxHops:
		f.Outcome = page.RedirectLoop
		f.Facts.Error = fmt.Sprintf("more than %d redirects in a row", scope.MaxHops)
		return nil
	}
	if from.Depth == 0 && from.Priority == frontier.PriorityStart {
		w.extendScope(ctx, from.URL, target)
		w.unfollowed.Store(true)
		w.warnWithheld(from.URL, target)
	}
	if why = w.scope.Check(target); why != scope.InScope {
		w.skips.Add(why)
		if why == scope.OutOfScope && w.settings.CheckExternal && w.scope.Permits(target) {
			return []frontier.Link{newCheck(target, from.URL, from.Hops+1, f.At)}
		}
		return nil
	}
	return []frontier.Link{{
		URL: target, Depth: from.Depth, Priority: from.Priority, Source: page.SourceRedirect, Hops: from.Hops + 1,
		Repeats: from.Repeats,
		Parent:  from.URL, Discovered: f.At,
	}}
}

// Reserve waits for memory for the page that is being parsed. Meanwhile the page does not count among those that are
// parsed at once: a page that has memory may have to wait for its turn to be parsed before it can release it.
func (w *worker) Reserve(ctx context.Context, bytes int64) error {
	defer w.place.waits()()
	return w.reading.Reserve(ctx, bytes)
}

// parse parses a page and takes its facts. In a crawl of several machines it first records that the page is in flight,
// in case reading it ends the process.
func (w *worker) parse(ctx context.Context, l *frontier.Lease, f *recrawl.Answer, resp *fetch.Response) error {
	if err := w.crashes.reading(l); err != nil {
		return err
	}
	if w.place.take(); ctx.Err() != nil {
		return ctx.Err()
	}
	w.takeBuffer()
	w.reading = resp
	pg := &w.page
	err := w.parser.Parse(pg, parser.Input{URL: l.URL(), Body: resp.Body, Header: resp.Header,
		Encoding: encodingOf(resp.Charset), Context: ctx, Memory: w})
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		// The selectors of --extract could not be run; links and facts are there nevertheless.
		f.Facts.Error = err.Error()
	}
	f.Facts.TakePage(pg, f.At)
	if w.visits.Generation() > 0 || w.settings.NearDuplicates {
		f.Facts.SimHash = new(page.Hash(pg.SimHash))
	}
	return nil
}

// encodingOf returns the encoding of a page, which the queries of its links are encoded in; nil means UTF-8.
func encodingOf(name string) encoding.Encoding {
	if name == "utf-8" || name == "" {
		return nil
	}
	enc, _ := charset.Lookup(name)
	return enc
}

// judgement is what becomes of a link of a page.
type judgement struct {
	why   scope.Reason // why it is not followed; InScope if it is, and for files that the page loads
	check bool         // what is at its URL is checked
}

// judgeLinks judges each link of the page. That is done before anything is learned from the page, because it can take
// long and then ends with ctx.
func (w *worker) judgeLinks(ctx context.Context) error {
	from := &w.link
	w.judged = w.judged[:0]
	tooDeep := w.settings.MaxDepth >= 0 && int(from.Depth) >= w.settings.MaxDepth
	within := w.scope.OfPage(from.URL)
	slow := w.scope.HasPatterns()
	for i := range w.page.Links {
		l := &w.page.Links[i]
		if slow && ctx.Err() != nil {
			return ctx.Err()
		}
		var j judgement
		if l.Kind < parser.KindImage {
			j.why = judgeLink(w.settings, &within, l, l.NoFollow || w.page.NoFollow, tooDeep)
			j.check = j.why != scope.InScope && w.checksLink(&within, l, j.why)
		} else {
			j.check = l.Kind != parser.KindImage && !l.URL.IsZero() && w.mayCheck(l.URL)
		}
		w.judged = append(w.judged, j)
	}
	return nil
}

// follow takes the links of a page that belong to the crawl, and counts the others by reason. Checks are the others
// that are checked.
func (w *worker) follow() (found []frontier.Found, checks []frontier.Link) {
	f, pg := &w.answer, &w.page
	host, name := w.link.Key.Host, w.link.URL.Host()
	found = w.found[:0]
	var images, assets []string
	for i := range pg.Links {
		l, j := &pg.Links[i], w.judged[i]
		if j.check {
			checks = append(checks, newCheck(l.URL, w.link.URL, 0, f.At))
		}
		switch {
		case l.Kind < parser.KindImage:
		case l.URL.IsZero():
			continue
		case l.Kind == parser.KindImage:
			images = append(images, l.URL.String())
			continue
		default:
			assets = append(assets, l.URL.String())
			continue
		}
		if w.settings.RecordsLinks() && !l.URL.IsZero() {
			link := page.Link{To: l.URL.String(), Rel: l.Rel, Text: l.Text, NoFollow: l.NoFollow || pg.NoFollow}
			if w.settings.CheckFragments {
				link.Fragment = page.Fragment(l.Href)
			}
			f.Facts.Links = append(f.Facts.Links, link)
		}
		if j.why != scope.InScope {
			w.skips.Add(j.why)
			if j.why == scope.ByExtension && w.settings.CheckAssets {
				assets = append(assets, l.URL.String())
			}
			continue
		}
		found = append(found, frontier.Found{URL: l.URL, Key: w.keyOf(l.URL, host, name)})
	}
	w.found = found
	f.Facts.Images, f.Facts.Assets = distinct(images), distinct(assets)
	return found, checks
}

// keyOf returns a link's key. Most links stay on their page's host, whose ID and name are given.
func (w *worker) keyOf(u weburl.URL, host weburl.HostID, name string) weburl.Key {
	if u.Host() != name {
		host = w.hasher.HostID(u.Host())
	}
	return w.hasher.KeyOn(host, u)
}

// judgeLink says whether a link of a page is followed, and if not, why.
func judgeLink(s *config.Settings, within *scope.Page, l *parser.Link, nofollow, tooDeep bool) scope.Reason {
	switch {
	case l.Fault == parser.FaultTooLong:
		return scope.TooLong
	case l.URL.IsZero():
		return scope.NotHTTP
	case nofollow && !s.FollowNofollow:
		return scope.NotFollowed
	case tooDeep:
		return scope.TooDeep
	}
	return within.Check(l.URL)
}
