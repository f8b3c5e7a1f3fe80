package crawl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/export"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// finish settles what the crawl amounted to, makes it durable and writes the outputs.
func (r *run) finish(ctx context.Context) (*Report, error) {
	r.phase.enter(Writing, "")
	crawled := r.clock.elapsed()
	if err := r.store.Flush(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	// complete is written only now, after everything that it speaks of is durable.
	ended := []frontier.CrawlFact{{Name: factStatus, Value: []byte(r.end.status)}, {Name: factReason, Value: []byte(r.end.reason)}}
	if _, err := r.store.Commit(frontier.Record{Facts: ended}); err != nil {
		return nil, err
	}
	if err := r.checkpoint(ctx); err != nil {
		return nil, err
	}
	rep := r.report(crawled)
	exporting := time.Now()
	sum := newSummary(r.linkage)
	o := ExportOptions(r.settings, r.starts, r.dir)
	o.Each = sum.see
	sum.isProbe = func(l *page.Line) bool { return r.isProbe(ctx, l) }
	r.exporting.Lock()
	defer r.exporting.Unlock()
	res, err := export.Write(ctx, Pages(r.store, r.settings.XMLTypes), o)
	if err != nil {
		return nil, err
	}
	sum.fill(rep)
	if err := r.follow(ctx, rep); err != nil {
		return nil, err
	}
	for _, text := range sum.warnings(rep, r.dir) {
		r.log.Warn(text)
		rep.Warnings = append(rep.Warnings, text)
	}
	rep.Files = append(res.Files, "report.json")
	rep.EndedAt, rep.ExportSeconds = page.Time{Time: time.Now()}, time.Since(exporting).Seconds()
	rep.Elapsed = r.clock.elapsed().Seconds()
	return rep, WriteReport(r.dir, rep)
}

// isProbe reports whether a failed page is the https URL that was tried for a bare domain, or for a name of a certificate, before plain http.
// Then the http URL shows what became of the name.
func (r *run) isProbe(ctx context.Context, l *page.Line) bool {
	if l.StatusCode != 0 || !strings.HasPrefix(l.URL, "https:") || !r.bare[l.URL] && l.Source != sourceName(sourceCT) {
		return false
	}
	p, ok, err := r.store.Page(ctx, r.hasher.Key(mustCanonical("http"+l.URL[len("https"):])))
	return err == nil && ok && sourceName(p.Link.Source) == l.Source
}

// follow fills in what one pass over the pages cannot tell: where redirects end, and every page that links to a broken one.
func (r *run) follow(ctx context.Context, rep *Report) error {
	reader := &pageReader{store: r.store, hasher: r.store.Hasher()}
	for _, list := range []*List[Chain]{rep.Redirects, rep.Loops} {
		if list == nil {
			continue
		}
		for i := range list.Items {
			c := &list.Items[i]
			hops, _, err := reader.walk(ctx, c.URL, c.Hops[0])
			if err != nil {
				return err
			}
			c.Hops = hops
		}
	}
	if err := r.explainBlocked(ctx, rep.BlockedHosts); err != nil {
		return err
	}
	if rep.BrokenLinks == nil || !r.settings.Links {
		return nil
	}
	broken := map[string]*Broken{}
	for i := range rep.BrokenLinks.Items {
		broken[rep.BrokenLinks.Items[i].URL] = &rep.BrokenLinks.Items[i]
	}
	for p, err := range Pages(r.store, r.settings.XMLTypes)(ctx) {
		if err != nil {
			return err
		}
		seen := map[*Broken]bool{} // a page counts once, however often it links
		for _, l := range p.Facts.Links {
			b := broken[l.To]
			if b == nil || seen[b] {
				continue
			}
			seen[b] = true
			if b.LinkedFrom == nil {
				b.LinkedFrom = &List[string]{}
			}
			b.LinkedFrom.addUpTo(p.Line.URL, maxReferrers)
		}
	}
	return nil
}

// explainBlocked says why hosts are given up.
func (r *run) explainBlocked(ctx context.Context, hosts []HostFigure) error {
	for i := range hosts {
		h := &hosts[i]
		fact, _, err := r.store.Host(ctx, r.hasher.HostID(h.Host))
		if err != nil {
			return err
		}
		h.Why = "failed too often in a row"
		if fact.Abandoned && !fact.Blocked {
			h.Why = "its domain was abandoned, because too many of its URLs failed in a row"
		}
	}
	return nil
}

// maxReferrers is how many pages the report names for one broken link.
const maxReferrers = 100

// WriteReport writes report.json.
func WriteReport(dir Dir, rep *Report) error {
	text, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return export.WriteFile(dir.Report(), export.Public, page.AppendEscaped(nil, append(text, '\n')))
}

// ExportOptions are an export's options by the settings of a crawl. The address of the files is the root of the first start's
// origin, unless the settings name another.
func ExportOptions(s *config.Settings, starts []Start, dir Dir) export.Options {
	base := s.BaseURL
	if base == "" && len(starts) > 0 {
		base = starts[0].URL.Origin() + "/"
	}
	return export.Options{Dir: string(dir), BaseURL: base, Gzip: s.Gzip, Hreflang: s.Hreflang, Images: s.Images, CSV: s.CSV, Links: s.Links}
}

// settle decides the status. A limit that left nothing pending but URLs of blocked hosts, which are a matter of their own, did not cut
// anything off. A crawl in which no start ever answered has failed.
func (r *run) settle(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.end.set {
		r.end = ending{set: true, status: Complete, success: true, reason: "nothing left to fetch"}
	}
	counters := r.store.Counters()
	left := int64(counters.Pending()) - r.frontier.Stats().GivenUp
	if r.end.status == Partial && left <= 0 {
		r.end = ending{set: true, status: Complete, success: true, reason: "nothing left to fetch"}
	}
	if r.end.status != Complete {
		return nil
	}
	if r.hostLimit.Load() && left > 0 {
		text := fmt.Sprintf("Reached max_urls_per_host limit of %d on some hosts", r.settings.MaxURLsPerHost)
		r.end = ending{set: true, status: Partial, success: true, reason: text}
		return nil
	}
	if lost := len(r.lost); lost > 0 && lost == len(r.startHosts) {
		r.end.status, r.end.success, r.end.reason = Failed, false, "every start domain was abandoned: too many of its URLs failed in a row"
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
	if len(why) > maxStartsNamed {
		why = append(why[:maxStartsNamed], fmt.Sprintf("and %s more", quantity(int64(len(why)-maxStartsNamed), "start URL")))
	}
	r.end.status, r.end.success, r.end.reason = Failed, false, reason
	r.end.errors = append(r.end.errors, why...)
	for _, text := range why {
		r.log.Error(text)
	}
	return nil
}

// maxStartsNamed is how many start URLs the report's errors and warnings name.
const maxStartsNamed = 10

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

// forbiddenText says of a URL that robots.txt does not allow it, and what to do.
func forbiddenText(url string, ev *page.Robots) string {
	if ev.Low {
		return fmt.Sprintf("%s was not fetched: its robots.txt could not be fetched, and --robots-strict treats that as a prohibition", url)
	}
	return fmt.Sprintf("%s was not fetched: robots.txt does not allow it (rule %q); 'mapwright robots %s' explains, and --ignore-robots fetches it if the site is yours", url, ev.Rule, url)
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
			u := mustCanonical(text)
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
				why = append(why, forbiddenText(text, &facts.Robots))
				continue
			}
			why = append(why, fmt.Sprintf("%s: %s (%s)", text, outcome, facts.Error))
		}
	}
	return false, forbidden, why, nil
}

// report is the part of the report that is known before the pages are read.
func (r *run) report(crawled time.Duration) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	counters := r.store.Counters()
	pages := r.tally.fetched()
	rep := &Report{
		SchemaVersion: ReportVersion, Version: r.version, Status: r.end.status, Success: r.end.success, Reason: r.end.reason,
		Errors: append([]string{}, r.end.errors...), Warnings: append([]string(nil), r.warnings...), Profile: string(r.settings.Profile), IgnoredRobots: r.settings.IgnoreRobots,
		StartedAt: page.Time{Time: r.clock.began()}, CrawlSeconds: crawled.Seconds(), Pages: pages, PagesPerSec: float64(pages) / max(crawled.Seconds(), 0.001),
		Bytes: int64(counters.Bytes), SkippedLinks: map[string]int64{},
	}
	for _, s := range r.starts {
		rep.StartURLs = append(rep.StartURLs, s.URL.String())
	}
	for why, n := range r.tally.byReason() {
		rep.SkippedLinks[string(why)] = n
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
