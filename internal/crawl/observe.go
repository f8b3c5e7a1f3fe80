package crawl

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/words"
)

// NewMetrics makes the metrics of one crawl.
func NewMetrics() *metrics.Metrics {
	l := metrics.Labels{}
	for _, k := range []fetch.Kind{fetch.Timeout, fetch.DNSError, fetch.ConnectError, fetch.TLSError, fetch.ReadError,
		fetch.RefusedAddress, fetch.TooLarge, fetch.Canceled} {
		l.Failures = append(l.Failures, string(k))
	}
	for e := pace.Effect(1); e.String() != ""; e <<= 1 {
		if e&countedEffects == 0 {
			l.Changes = append(l.Changes, e.String())
		}
	}
	return metrics.New(l)
}

// countedEffects have counters of their own; all other effects are changes of pace.
const countedEffects = pace.EffectRested | pace.EffectBackedOff | pace.EffectLimitChanged | pace.EffectBlocked

// observe logs and counts what happens to hosts: changes of pace, refusals, retries. The frontier calls it.
func (r *run) observe(n frontier.Notice) {
	switch n.Kind {
	case frontier.NoticePace:
		r.observePace(&n)
	case frontier.NoticeRetry:
		r.metrics.Count(metrics.Retries, "")
		r.log.Info("a URL will be tried again", "url", n.URL, "attempts", n.Attempt, "not_before", n.At)
	case frontier.NoticeBlocked:
		r.metrics.Count(metrics.Blocked, "")
		r.log.Warn("[BLOCKED] a host failed too often in a row; its URLs stay recorded, and resume tries it again",
			"host", n.Host, "failures", n.Change.Failures, "waiting", n.Waiting)
		Notice{Host: n.Host, Reason: "it failed too often in a row"}.notice(r.o.Managed.Notify)
	case frontier.NoticeDenied:
		r.metrics.Count(metrics.Blocked, "")
		r.log.Warn("[BLOCKED] the operator denies requests to a host; its URLs stay recorded, "+
			"and resume tries it again",
			"host", n.Host, "waiting", n.Waiting)
		Notice{Host: n.Host, Reason: "the operator denies requests to it"}.notice(r.o.Managed.Notify)
		r.warnings.add("%s: its URLs that no run has read are recorded as host_blocked", deniedText(n.Host))
	case frontier.NoticeAway:
		r.metrics.Count(metrics.Blocked, "")
		r.log.Warn("[BLOCKED] a host asks for no requests for longer than a run waits; its URLs stay recorded, "+
			"and resume tries it again after that time",
			"host", n.Host, "until", n.At, "waiting", n.Waiting)
		text := awayText(n.Host, n.At)
		Notice{Host: n.Host, Reason: text}.notice(r.o.Managed.Notify)
		r.warnings.add("%s: its URLs that no run has read are recorded as host_blocked", text)
	case frontier.NoticeAbandoned:
		r.metrics.Count(metrics.Abandoned, "")
		r.log.Warn("a domain is abandoned: too many of its URLs failed in a row", "host", n.Host, "waiting", n.Waiting)
		if r.scope.IsStart(n.Host) {
			r.noteLost(n.Host)
		}
	case frontier.NoticeHostLimit:
		r.log.Info("a host reached max-urls-per-host", "host", n.Host, "waiting", n.Waiting)
	}
}

// observePace logs and counts one event that changed a host's pace, or was a refusal.
func (r *run) observePace(n *frontier.Notice) {
	ch := &n.Change
	r.countEffects(ch.Effects)
	switch {
	case ch.Meaning == pace.MeaningRefused:
		status := refusalStatus(ch.Class)
		r.metrics.Count(metrics.Refusals, strconv.Itoa(status))
		r.log.Info("a host refused a request", "host", n.Host, "url", n.URL, "status", status, "change", *ch)
	case ch.Notable():
		r.log.Info("pace of a host changed", "host", n.Host, "change", *ch)
	}
	if ch.Has(pace.EffectRetryAfterLong) {
		r.warnings.add("%s asked by Retry-After for no requests until %s (%s from now); its URLs wait until then: "+
			"interrupt the crawl and resume it later, or bound it with --duration",
			n.Host, ch.RestUntil.UTC().Format(time.DateTime+" MST"), words.Span(time.Until(ch.RestUntil)))
	}
	if ch.Has(pace.EffectCrawlDelayLong) && ch.CrawlDelay <= pace.MostPatience { // else the host is away
		r.warnings.add("robots.txt of %s asks for a Crawl-delay of %s: its URLs are fetched that far apart", n.Host,
			words.Span(ch.CrawlDelay))
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
			r.metrics.Count(metrics.Rests, "")
		case pace.EffectBackedOff:
			r.metrics.Count(metrics.Backoffs, "")
		case pace.EffectLimitChanged:
			r.metrics.Count(metrics.Overrides, "")
		case pace.EffectBlocked: // counted with its own notice
		default:
			r.metrics.Count(metrics.Changes, e.String())
		}
	}
}

// noteLost notes a host of start URLs whose domain was abandoned.
func (r *run) noteLost(host string) {
	r.hosts.Lock()
	defer r.hosts.Unlock()
	if r.lost == nil {
		r.lost = map[string]bool{}
	}
	r.lost[host] = true
}

// lostAllStarts says whether every host of a start URL was abandoned.
func (r *run) lostAllStarts() bool {
	r.hosts.Lock()
	defer r.hosts.Unlock()
	return len(r.lost) > 0 && len(r.lost) == r.scope.StartHosts()
}
