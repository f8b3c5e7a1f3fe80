package crawl

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// ending is why a run ended. The first reason counts.
type ending struct {
	set     bool
	paused  error // ErrPaused or ErrQuota: the run ends, and the crawl does not
	status  page.Status
	success bool
	reason  string   // for people
	errors  []string // messages for the report
}

// drained is the ending of a crawl that has nothing left to fetch.
func drained() ending {
	return ending{set: true, status: page.Complete, success: true, reason: "nothing left to fetch"}
}

// endings decides why a run ended.
type endings struct {
	stop *stopSignal

	mu  sync.Mutex
	end ending // guarded by mu
}

// set sets the ending, unless there is one.
func (e *endings) set(end ending) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end.set {
		return false
	}
	end.set = true
	e.end = end
	return true
}

// get is the ending so far.
func (e *endings) get() ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.end
}

// ending returns the ending of a run that was stopped.
func (s *stopSignal) ending() ending {
	if s.toPause {
		return ending{paused: ErrPaused}
	}
	return ending{status: page.Cancelled, reason: "interrupted"}
}

// interrupted says whether Stop was called, and sets the ending then. It reads the signal itself, because the workers
// may end before the supervisor sees it.
func (e *endings) interrupted() bool {
	select {
	case <-e.stop.called:
		e.set(e.stop.ending())
		return true
	default:
		return false
	}
}

// settle decides the status of the crawl. A crawl that reached a limit is complete if nothing is pending except URLs of
// blocked hosts, which no limit holds back. A sitemap that was not read counts as pending, because it may name further
// pages. A crawl or a recrawl in which no start URL answered has failed. A recrawl that has not queued all its visits
// is not complete.
func (r *run) settle(ctx context.Context) error {
	e := r.endings
	e.mu.Lock()
	defer e.mu.Unlock()
	left, nothing := r.workLeft()
	if !e.end.set || e.end.paused != nil || e.end.status == page.Partial && nothing {
		e.end = drained()
	}
	if e.end.status != page.Complete || r.o.WouldFetch != nil {
		return nil
	}
	counters := r.store.Counters()
	if n := min(r.frontier.Stats().Unwanted, int64(counters.PendingSitemaps())); n > 0 {
		r.warnings.add("%s not read, because their hosts were given up or left out; a resume tries again those of hosts "+
			"that were given up", words.Count(n, "sitemap was", "sitemaps were"))
	}
	if r.settings.MaxURLsPerHost > 0 && left > 0 { // no other limit leaves pages pending and lets the run go on
		text := fmt.Sprintf("Reached max_urls_per_host limit of %d on some hosts", r.settings.MaxURLsPerHost)
		e.end = ending{set: true, status: page.Partial, success: true, reason: text}
		return nil
	}
	if r.lostAllStarts() {
		e.end.status, e.end.success, e.end.reason = page.Failed, false,
			"every start domain was abandoned: too many of its URLs failed in a row"
		e.end.errors = append(e.end.errors, e.end.reason)
		return nil
	}
	excluded, whyExcluded, err := r.excludedPending(ctx)
	if err != nil {
		return err
	}
	answered, forbidden, why, err := r.startAnswered(ctx)
	if err != nil {
		return err
	}
	if answered || forbidden > 0 && anyAnswer(&counters) {
		if excluded > 0 {
			e.end = ending{set: true, status: page.Partial, success: true, reason: whyExcluded}
		}
		return nil
	}
	reason := "no start URL answered"
	if forbidden == len(why) {
		reason = "robots.txt does not allow any start URL"
	}
	if excluded > 0 {
		reason = whyExcluded
	}
	if len(why) > page.MaxStartsNamed {
		why = append(why[:page.MaxStartsNamed], fmt.Sprintf("and %s more",
			words.Count(int64(len(why)-page.MaxStartsNamed), "start URL")))
	}
	e.end.status, e.end.success, e.end.reason = page.Failed, false, reason
	e.end.errors = append(e.end.errors, why...)
	for _, text := range why {
		r.log.Error(text)
	}
	return nil
}

// excludedPending returns how many hosts have pages or sitemaps left to fetch though they have not failed, and why the
// first of them, in the order of their names, is not asked. What is known of hosts must be in the store.
func (r *run) excludedPending(ctx context.Context) (n int64, why string, err error) {
	first := ""
	for b, err := range r.store.Backlogs(ctx, 0, 255) {
		if err != nil {
			return 0, "", err
		}
		text := whyExcluded(&b.Fact)
		if text == "" {
			continue
		}
		for _, from := range []frontier.Cursor{{}, {Priority: frontier.PrioritySitemap}} { // checks lie between
			pending, _, err := r.store.Pending(ctx, b.Fact.Host, from, 1)
			if err != nil {
				return 0, "", err
			}
			if len(pending) == 0 || pending[0].Check {
				continue
			}
			if n++; n == 1 || b.Fact.Name < first {
				first, why = b.Fact.Name, text
			}
			break
		}
	}
	if n > 1 {
		why += fmt.Sprintf("; nor may %s be asked", words.Count(n-1, "other host"))
	}
	return n, why, nil
}

// whyExcluded says why a host is not asked though it has not failed, empty for another host.
func whyExcluded(h *frontier.HostFact) string {
	name := strings.TrimSuffix(h.Name, ".")
	switch {
	case h.Blocked && h.Denied:
		return deniedText(name)
	case h.Blocked && h.Away:
		return awayText(name, h.Learned.AskedUntil)
	}
	return ""
}

// deniedText says that the operator of a service denies requests to a host.
func deniedText(host string) string { return "the operator of the service denies requests to " + host }

// awayText says that a host is not to be asked for longer than a run waits, and until when, if that is known.
func awayText(host string, until time.Time) string {
	if time.Until(until) <= 0 {
		return host + " asks by Crawl-delay for more than a day between requests"
	}
	return host + " asks by Retry-After or Crawl-delay for no requests until " +
		until.UTC().Format(time.DateTime+" MST")
}

// workLeft returns how many pending pages a limit may hold back, and whether nothing at all is left to fetch. The store
// must have applied all records.
func (r *run) workLeft() (pages int64, nothing bool) {
	counters := r.store.Counters()
	st := r.frontier.Stats()
	pages = int64(counters.Pending()) - st.GivenUp
	// The frontier's number is an estimate that is never too low.
	sitemaps := min(int64(counters.PendingSitemaps()), st.Sitemaps-st.Unwanted)
	return pages, pages <= 0 && sitemaps <= 0 && st.Checks <= 0 && r.isSwept() && !r.indexes.IsCut()
}

// isSwept reports whether all visits of the generation are queued.
func (r *run) isSwept() bool {
	if r.cluster != nil {
		return r.sweeper == nil || r.sweeper.IsSwept()
	}
	return recrawl.IsSwept(r.store.Facts(), r.scope.History())
}

// anyAnswer says whether any page of the crawl had an answer.
func anyAnswer(c *state.Counters) bool {
	for code, n := range c.Outcomes {
		switch page.Outcome(code) {
		case page.OK, page.Redirect, page.RedirectLoop, page.HTTPError, page.Throttled, page.TooLarge:
			if n > 0 {
				return true
			}
		}
	}
	return false
}

// startAnswered says whether any start URL had an answer in this generation. If not, why says what became of each, and
// forbidden is how many of them robots.txt does not allow.
func (r *run) startAnswered(ctx context.Context) (answered bool, forbidden int, why []string,
	err error) {
	hasher := r.store.Hasher()
	for _, s := range r.starts {
		urls := []string{s.URL.String()}
		if s.Bare {
			urls = append(urls, s.PlainHTTP())
		}
		for _, text := range urls {
			u := weburl.MustCanonical(text)
			p, ok, err := r.store.Page(ctx, hasher.Key(u))
			if err != nil {
				return false, 0, nil, err
			}
			if !ok {
				continue
			}
			if p.Finish == nil || p.Finish.Generation < r.visits.Generation() {
				host, _, err := r.store.Host(ctx, hasher.HostID(u.Host()))
				if err != nil {
					return false, 0, nil, err
				}
				reason := cmp.Or(whyExcluded(&host), "its host failed too often in a row, and was given up")
				why = append(why, text+": "+reason+"; a resume tries it again")
				continue
			}
			outcome := page.Outcome(p.Finish.Outcome)
			stored := p.Finish.Facts
			switch {
			case p.Finish.Failures > 0:
				stored = p.VisitFacts // those of the failed visit; Finish.Facts are of an earlier one
			case p.Finish.Status > 0:
				return true, 0, nil, nil
			}
			facts, err := page.Decode(stored)
			if err != nil {
				return false, 0, nil, err
			}
			if p.Finish.Failures > 0 {
				why = append(why, fmt.Sprintf("%s: %s", text, facts.Error))
				continue
			}
			if outcome == page.BlockedByRobots {
				forbidden++
				why = append(why, facts.Robots.Forbidden(text))
				continue
			}
			reason := fmt.Sprintf("%s: %s (%s)", text, outcome, facts.Error)
			if s.Bare && outcome == page.Timeout && text == urls[0] {
				reason += "; if the site has no https, start from " + urls[1]
			}
			if outcome == page.TLSError && r.o.Managed.Given == nil {
				reason += "; if an authority of your own signed its certificate, give --ca-file"
			}
			why = append(why, reason)
		}
	}
	return false, forbidden, why, nil
}

// countFound is how many URLs the crawl has found so far. The store counts what it has applied, so this waits until it
// has applied all records. An error of the store is reported where records are committed.
func (r *run) countFound() int64 {
	_ = r.store.Flush(context.Background())
	c := r.store.Counters()
	return int64(c.Discovered)
}
