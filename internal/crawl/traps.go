package crawl

import (
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/page"
)

// admit judges a link that is probably new, before it is recorded: a trap, or something that robots.txt forbids, is
// recorded as that and never queued.
func (r *run) admit(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	if l.Check {
		r.admitCheck(l)
	}
	if l.Sitemap {
		return e // a sitemap has other rules: see serveSitemap
	}
	if l.Source != page.SourceStart {
		var v traps.Decision
		if v, e = r.traps.Admit(l, page.IsListSource(l.Source), e); v.Skip {
			l.Skip = uint8(scope.Trapped)
			return e
		} else if v.Trap != "" {
			l.Finish = trapped(v.Trap)
			return e
		}
	}
	if r.settings.IgnoreRobots {
		return e
	}
	// Most links carry the time when they were found. The clock is not read again, because there can be a hundred
	// thousand links a second.
	now := l.Discovered
	if now.IsZero() {
		now = time.Now()
	}
	known := r.robots.Cached(l.URL.Origin(), now)
	if known == nil {
		return e
	}
	// A page can have very many links, and no place is held now. What is not decided is, when the link is leased.
	if m, quick := known.MatchQuickly(l.URL); quick && !m.Allowed {
		f := &recrawl.Answer{Outcome: page.BlockedByRobots, At: time.Now()}
		f.Facts.Robots = known.Evidence(m)
		verdict := r.visits.First().Judge(f)
		l.Finish = verdict.Record(f)
	}
	return e
}

// trapOf names the trap that a queued URL belongs to, by what was learned since it was queued; "" if there is none.
func (w *worker) trapOf(l *frontier.Link) string {
	if l.Source == page.SourceStart || l.Visit > 1 {
		return ""
	}
	return w.traps.JudgeQueued(l, page.IsListSource(l.Source))
}

// trapEvidence returns the evidence of the result, with what the answer means for URLs that differ from this one only
// in parameters without effect.
func (w *worker) trapEvidence() []frontier.Evidence {
	status, r := w.answer.Status, &w.result
	if r.Class == pace.ClassOK || status >= 300 && status < 500 && status != http.StatusTooManyRequests {
		return w.traps.Answered(&w.link, r.Evidence)
	}
	if r.Final || w.lease.Attempt() > w.settings.MaxRetries { // else it is tried again
		return w.traps.Failed(&w.link, r.Evidence)
	}
	return r.Evidence
}

// trapped is the finish of a URL that is a trap.
func trapped(trap string) *frontier.Finish {
	f := recrawl.Answer{Outcome: page.Trap, At: time.Now(), Facts: page.Facts{Trap: trap}}
	return f.Record()
}
