package crawl

import (
	"context"
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/traps"
)

// trapRules are the thresholds of traps.
func trapRules(s *config.Settings) traps.Rules {
	return traps.Rules{
		MaxURLLength: s.MaxURLLength, Repeats: s.TrapRepeats, Params: s.TrapParams, Variants: s.TrapVariants, Reorders: s.TrapReorders,
		Values: s.TrapValues, Barren: s.TrapBarren,
	}
}

// addLinks adds seeds to the frontier.
func (r *run) addLinks(ctx context.Context, links []frontier.Link) error {
	r.traps.Begin()
	defer r.traps.End()
	_, err := r.frontier.Add(ctx, links)
	return err
}

// trapOf is the trap that a URL of the queue is, by what was learned since it was queued, or "".
func (w *worker) trapOf(l *frontier.Link) string {
	if l.Source == page.SourceStart || l.Visit > 1 {
		return ""
	}
	return w.traps.Lease(l, page.IsListed(l.Source))
}

// trapEvidence is the evidence of a result, with what the answer means for other URLs of the same page.
func (w *worker) trapEvidence(lease *frontier.Lease, l *frontier.Link, f *finish, r frontier.Result) []frontier.Evidence {
	if r.Class == pace.ClassOK || f.status >= 300 && f.status < 500 && f.status != http.StatusTooManyRequests {
		return w.traps.Answered(l, r.Evidence)
	}
	if r.Final || lease.Attempt() > w.settings.MaxRetries { // else it is tried again
		return w.traps.Failed(l, r.Evidence)
	}
	return r.Evidence
}

// trapped is the finish of a URL that is a trap.
func trapped(trap string) *frontier.Finish {
	f := finish{outcome: page.Trap, at: time.Now(), facts: page.Facts{Trap: trap}}
	return f.record()
}
