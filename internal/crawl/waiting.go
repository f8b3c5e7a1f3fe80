package crawl

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// waitingReason says why nothing moves, or "" if something does.
func (r *run) waitingReason(leased, pending, retries int64) string {
	if reason, left, _ := r.breaker.state(); reason != "" {
		return fmt.Sprintf("this machine fails (%s); trying again in %s", reason, left.Round(time.Second))
	}
	switch {
	case leased > 0:
		return ""
	case pending == 0:
		return "nothing is queued; sitemaps or other sources are still being read"
	case retries > 0 && retries == pending:
		return fmt.Sprintf("%d URLs wait for their next try", retries)
	}
	return fmt.Sprintf("%d URLs wait until their hosts may be asked again", pending)
}

// outcomeCounts are the store's counts by outcome, whether or not limits counted them.
func outcomeCounts(c *state.Counters) map[string]int64 {
	out := map[string]int64{}
	for code, n := range c.Outcomes {
		if n > 0 {
			o, _ := OutcomeOf(uint8(code))
			out[o.String()] += int64(n)
		}
	}
	if pending := c.Pending(); pending > 0 {
		out[page.Pending.String()] += int64(pending)
	}
	return out
}
