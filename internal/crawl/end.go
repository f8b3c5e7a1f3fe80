package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// finish settles what the crawl amounted to, makes it durable and writes the outputs.
func (r *run) finish(ctx context.Context) (*report.Report, error) {
	r.phase.enter(monitor.Writing, "")
	crawled := r.clock.elapsed()
	if err := r.store.Flush(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	// complete is written only now, after everything that it speaks of is durable.
	ended := []frontier.CrawlFact{{Name: report.FactStatus, Value: []byte(r.end.status)}, {Name: report.FactReason, Value: []byte(r.end.reason)}}
	if _, err := r.store.Commit(frontier.Record{Facts: ended}); err != nil {
		return nil, err
	}
	if err := r.checkpoint(ctx); err != nil {
		return nil, err
	}
	rep := r.report(crawled)
	exporting := time.Now()
	known := len(rep.Warnings)
	r.exporting.Lock()
	defer r.exporting.Unlock()
	pages := report.Crawl{Store: r.store, Linkage: r.linkage, Settings: r.settings, Starts: r.starts, Dir: r.dir}
	if err := pages.Complete(ctx, rep); err != nil {
		return nil, err
	}
	for _, text := range rep.Warnings[known:] {
		r.log.Warn(text)
	}
	rep.EndedAt, rep.ExportSeconds = page.Time{Time: time.Now()}, time.Since(exporting).Seconds()
	rep.Elapsed = r.clock.elapsed().Seconds()
	return rep, report.Write(r.dir, rep)
}

// settle decides the status. A limit that left nothing pending but URLs of blocked hosts, which are a matter of their own, did not cut
// anything off. A sitemap that was not read counts as pending: it may name further pages. A crawl in which no start ever answered has
// failed.
func (r *run) settle(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.end.set {
		r.end = ending{set: true, status: report.Complete, success: true, reason: "nothing left to fetch"}
	}
	counters := r.store.Counters()
	st := r.frontier.Stats()
	left := int64(counters.Pending()) - st.GivenUp
	sitemaps := min(int64(counters.PendingSitemaps()), st.Sitemaps-st.Unwanted) // the second is an estimate, and never too low
	if r.end.status == report.Partial && left <= 0 && sitemaps <= 0 {
		r.end = ending{set: true, status: report.Complete, success: true, reason: "nothing left to fetch"}
	}
	if r.end.status != report.Complete {
		return nil
	}
	if r.hosts.limited.Load() && left > 0 {
		text := fmt.Sprintf("Reached max_urls_per_host limit of %d on some hosts", r.settings.MaxURLsPerHost)
		r.end = ending{set: true, status: report.Partial, success: true, reason: text}
		return nil
	}
	if lost := r.hosts.lostStarts(); lost > 0 && lost == len(r.startHosts) {
		r.end.status, r.end.success, r.end.reason = report.Failed, false, "every start domain was abandoned: too many of its URLs failed in a row"
		r.end.errors = append(r.end.errors, r.end.reason)
		return nil
	}
	answered, forbidden, why, err := r.startAnswered(ctx)
	if err != nil || answered || forbidden > 0 && anyAnswer(&counters) {
		return err
	}
	reason := "no start URL answered"
	if forbidden == len(why) {
		reason = "robots.txt does not allow any start URL"
	}
	if len(why) > report.MaxStartsNamed {
		why = append(why[:report.MaxStartsNamed], fmt.Sprintf("and %s more", words.Count(int64(len(why)-report.MaxStartsNamed), "start URL")))
	}
	r.end.status, r.end.success, r.end.reason = report.Failed, false, reason
	r.end.errors = append(r.end.errors, why...)
	for _, text := range why {
		r.log.Error(text)
	}
	return nil
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

// startAnswered says whether any start URL had an answer, and if not, what became of each and how many robots.txt does not allow.
func (r *run) startAnswered(ctx context.Context) (answered bool, forbidden int, why []string, err error) {
	hasher := r.store.Hasher()
	for _, s := range r.starts {
		urls := []string{s.URL.String()}
		if s.Bare {
			urls = append(urls, "http"+urls[0][len("https"):])
		}
		for _, text := range urls {
			u := urlnorm.MustCanonical(text)
			p, ok, err := r.store.Page(ctx, hasher.Key(u))
			if err != nil {
				return false, 0, nil, err
			}
			if !ok {
				continue
			}
			if p.Finish == nil {
				why = append(why, text+": its host failed too often in a row, and was given up; a resume tries it again")
				continue
			}
			outcome := page.Outcome(p.Finish.Outcome)
			if p.Finish.Status > 0 {
				return true, 0, nil, nil
			}
			facts, err := page.Decode(p.Finish.Facts)
			if err != nil {
				return false, 0, nil, err
			}
			if outcome == page.BlockedByRobots {
				forbidden++
				why = append(why, report.ForbiddenText(text, &facts.Robots))
				continue
			}
			why = append(why, fmt.Sprintf("%s: %s (%s)", text, outcome, facts.Error))
		}
	}
	return false, forbidden, why, nil
}

// report is the part of the report that is known before the pages are read.
func (r *run) report(crawled time.Duration) *report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	counters := r.store.Counters()
	pages := r.tally.fetched()
	rep := &report.Report{
		SchemaVersion: report.Version, Version: r.version, Status: r.end.status, Success: r.end.success, Reason: r.end.reason,
		Errors: append([]string{}, r.end.errors...), Warnings: r.warnings.all(), Profile: string(r.settings.Profile), IgnoredRobots: r.settings.IgnoreRobots,
		StartedAt: page.Time{Time: r.clock.began()}, CrawlSeconds: crawled.Seconds(), Pages: pages, PagesPerSec: float64(pages) / max(crawled.Seconds(), 0.001),
		Bytes: int64(counters.Bytes), SkippedLinks: scope.SkippedSince(&counters, &state.Counters{}),
	}
	for _, s := range r.starts {
		rep.StartURLs = append(rep.StartURLs, s.URL.String())
	}
	rep.HotSetBytes = int64(r.frontier.Stats().HotBytes)
	if r.settings.IgnoreRobots {
		rep.Warnings = append(rep.Warnings, "robots.txt was ignored")
	}
	return rep
}

// found is how many URLs the crawl has found so far. The store counts what it has applied, so that what is on its way is waited for; if it
// fails, that is said elsewhere.
func (r *run) found() int64 {
	_ = r.store.Flush(context.Background())
	c := r.store.Counters()
	return int64(c.Discovered)
}
