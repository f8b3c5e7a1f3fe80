package crawl

import (
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/state"
)

// countedEffects have counters of their own; all other effects are changes of pace.
const countedEffects = pace.EffectRested | pace.EffectBackedOff | pace.EffectLimitChanged | pace.EffectBlocked

// observe is told by the frontier what happens to hosts: one log line for each change of pace, refusal and retry, and a metric.
func (r *run) observe(n frontier.Notice) {
	switch n.Kind {
	case frontier.NoticePace:
		r.observePace(&n)
	case frontier.NoticeRetry:
		r.metrics.Retried()
		r.log.Info("a URL will be tried again", "url", n.URL, "attempts", n.Attempt, "not_before", n.At)
	case frontier.NoticeBlocked:
		r.metrics.Blocked()
		r.log.Warn("[BLOCKED] a host failed too often in a row; its URLs stay recorded, and resume tries it again", "host", n.Host, "failures", n.Change.Failures, "waiting", n.Waiting)
	case frontier.NoticeUnblocked:
		r.log.Info("a blocked host is tried again", "host", n.Host)
	case frontier.NoticeAbandoned:
		r.metrics.Cancelled()
		r.log.Warn("a domain is abandoned: too many of its URLs failed in a row", "host", n.Host, "waiting", n.Waiting)
		r.abandoned(n.Host)
	case frontier.NoticeHostLimit:
		r.hostLimit.Store(true)
		r.log.Info("a host reached max-urls-per-host", "host", n.Host, "waiting", n.Waiting)
	}
}

// observePace logs and counts one event that changed a host's pace, or was a refusal.
func (r *run) observePace(n *frontier.Notice) {
	ch := &n.Change
	r.countEffects(ch.Effects)
	switch {
	case ch.Verdict == pace.VerdictRefused:
		status := refusalStatus(ch.Class)
		r.metrics.Refused(strconv.Itoa(status))
		r.log.Info("a host refused a request", "host", n.Host, "url", n.URL, "status", status, "change", *ch)
	case ch.Notable():
		r.log.Info("pace of a host changed", "host", n.Host, "change", *ch)
	}
	if ch.Has(pace.EffectRetryAfterLong) {
		r.warn("%s asked by Retry-After for no requests until %s (%s from now); its URLs wait until then: interrupt the crawl and resume it later, or bound it with --duration",
			n.Host, ch.RestUntil.UTC().Format(time.DateTime+" MST"), span(time.Until(ch.RestUntil)))
	}
	if ch.Has(pace.EffectCrawlDelayLong) {
		r.warn("robots.txt of %s asks for a Crawl-delay of %s: its URLs are fetched that far apart", n.Host, span(ch.CrawlDelay))
	}
}

// refusalStatus is the status code of an answer that was a refusal.
func refusalStatus(c pace.Class) int {
	switch c {
	case pace.ClassForbidden:
		return http.StatusForbidden
	case pace.ClassUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// countEffects counts what an event did to a host's pace.
func (r *run) countEffects(all pace.Effect) {
	for left := all; left != 0; left &= left - 1 {
		switch e := left & -left; e {
		case pace.EffectRested:
			r.metrics.Rested()
		case pace.EffectBackedOff:
			r.metrics.BackedOff()
		case pace.EffectLimitChanged:
			r.metrics.Overridden()
		case pace.EffectBlocked: // counted with its own notice
		default:
			r.metrics.Changed(bits.TrailingZeros16(uint16(e)))
		}
	}
}

// abandoned remembers the hosts of start URLs that were given up.
func (r *run) abandoned(host string) {
	if !r.startHosts[host] {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = map[string]bool{}
	}
	r.lost[host] = true
}

// countedPages is how many pages of the limits earlier runs used up.
func countedPages(c *state.Counters) int64 {
	return int64(c.Counted)
}
