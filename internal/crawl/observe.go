package crawl

import (
	"log/slog"
	"maps"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"sync"
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
		name := ""
		if e&countedEffects == 0 {
			name = metrics.LabelOf(e.String())
		}
		l.Changes = append(l.Changes, name)
	}
	return metrics.New(l)
}

// countedEffects have counters of their own; all other effects are changes of pace.
const countedEffects = pace.EffectRested | pace.EffectBackedOff | pace.EffectLimitChanged | pace.EffectBlocked

// hostObserver is told by the frontier what happens to hosts. It logs and counts that, and remembers what decides about
// the end of the crawl.
type hostObserver struct {
	log     *slog.Logger
	metrics *metrics.Metrics
	warn    func(format string, args ...any) // adds a line to the report's warnings
	notify  func(Notice)                     // may be nil
	starts  map[string]bool                  // hosts of the start URLs; not changed any more

	mu     sync.Mutex
	lost   map[string]bool // guarded by mu; hosts of starts that were abandoned
	denied map[string]bool // guarded by mu; hosts that the operator of the service denies
}

// observe is told by the frontier what happens to hosts: one log line for each change of pace, refusal and retry, and a
// metric.
func (o *hostObserver) observe(n frontier.Notice) {
	switch n.Kind {
	case frontier.NoticePace:
		o.observePace(&n)
	case frontier.NoticeRetry:
		o.metrics.Retried()
		o.log.Info("a URL will be tried again", "url", n.URL, "attempts", n.Attempt, "not_before", n.At)
	case frontier.NoticeBlocked:
		o.metrics.Blocked()
		o.log.Warn("[BLOCKED] a host failed too often in a row; its URLs stay recorded, and resume tries it again",
			"host", n.Host, "failures", n.Change.Failures, "waiting", n.Waiting)
		Notice{Host: n.Host, Reason: "it failed too often in a row"}.notice(o.notify)
	case frontier.NoticeDenied:
		o.metrics.Blocked()
		o.remember(&o.denied, n.Host)
		o.log.Warn("[BLOCKED] the operator denies requests to a host; its URLs stay recorded, "+
			"and resume tries it again",
			"host", n.Host, "waiting", n.Waiting)
		Notice{Host: n.Host, Reason: "the operator denies requests to it"}.notice(o.notify)
		o.warn("%s: its URLs are recorded as host_blocked", deniedText(n.Host))
	case frontier.NoticeAbandoned:
		o.metrics.Cancelled()
		o.log.Warn("a domain is abandoned: too many of its URLs failed in a row", "host", n.Host, "waiting", n.Waiting)
		if o.starts[n.Host] {
			o.remember(&o.lost, n.Host)
		}
	case frontier.NoticeHostLimit:
		o.log.Info("a host reached max-urls-per-host", "host", n.Host, "waiting", n.Waiting)
	}
}

// observePace logs and counts one event that changed a host's pace, or was a refusal.
func (o *hostObserver) observePace(n *frontier.Notice) {
	ch := &n.Change
	o.countEffects(ch.Effects)
	switch {
	case ch.Meaning == pace.MeaningRefused:
		status := refusalStatus(ch.Class)
		o.metrics.Refused(strconv.Itoa(status))
		o.log.Info("a host refused a request", "host", n.Host, "url", n.URL, "status", status, "change", *ch)
	case ch.Notable():
		o.log.Info("pace of a host changed", "host", n.Host, "change", *ch)
	}
	if ch.Has(pace.EffectRetryAfterLong) {
		o.warn("%s asked by Retry-After for no requests until %s (%s from now); its URLs wait until then: interrupt "+
			"the crawl and resume it later, or bound it with --duration",
			n.Host, ch.RestUntil.UTC().Format(time.DateTime+" MST"), words.Span(time.Until(ch.RestUntil)))
	}
	if ch.Has(pace.EffectCrawlDelayLong) {
		o.warn("robots.txt of %s asks for a Crawl-delay of %s: its URLs are fetched that far apart", n.Host,
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
func (o *hostObserver) countEffects(all pace.Effect) {
	for left := all; left != 0; left &= left - 1 {
		switch e := left & -left; e {
		case pace.EffectRested:
			o.metrics.Rested()
		case pace.EffectBackedOff:
			o.metrics.BackedOff()
		case pace.EffectLimitChanged:
			o.metrics.Overridden()
		case pace.EffectBlocked: // counted with its own notice
		default:
			o.metrics.Changed(bits.TrailingZeros16(uint16(e)))
		}
	}
}

// remember adds a host to one of the sets.
func (o *hostObserver) remember(set *map[string]bool, host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[host] = true
}

// deniedHosts are the hosts that this run did not ask because the operator of the service denies it, in the order of
// their names.
func (o *hostObserver) deniedHosts() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.denied))
}

// lostAllStarts says whether every host of a start URL was abandoned.
func (o *hostObserver) lostAllStarts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lost) > 0 && len(o.lost) == len(o.starts)
}
