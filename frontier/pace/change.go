package pace

import (
	"log/slog"
	"strings"
	"time"
)

// Meaning is what an event says about the host or the page, which decides what becomes of its URL.
type Meaning uint8

const (
	// MeaningNothing says nothing about host or page: ClassOurs and ClassNone.
	MeaningNothing Meaning = iota
	// MeaningAnswered is a fact about a page: record it.
	MeaningAnswered
	// MeaningRefused is the host asking for a slower pace: try the URL again at
	// [Pace.RetryAt], up to the limit of retries.
	MeaningRefused
	// MeaningFailed is a host failure: try the URL again at [Pace.RetryAt], up to
	// the limit of retries.
	MeaningFailed
)

// Effect is a set of things that one event did to a host's pace.
type Effect uint16

const (
	EffectRested         Effect = 1 << iota // a refusal that counted: the host rests until RestUntil
	EffectSlowed                            // the learned delay grew
	EffectProbed                            // the learned delay was lowered as a probe
	EffectProbeHeld                         // the probe's lower delay is kept
	EffectProbeFailed                       // the delay before the probe is back, and is the floor
	EffectFloorForgotten                    // the floor was too old
	EffectLimitChanged                      // the learned delay changed how many may be in flight
	EffectWindowGrew                        // the adaptive window grew (frequent; a metric, not a log line)
	EffectWindowCut                         // the adaptive window was cut
	EffectBackedOff                         // a host failure that counted
	EffectFailedAgain                       // a URL of this row failed again: same backoff, nothing counted
	EffectBlocked                           // the host has failed as often in a row as it may
	EffectRecovered                         // the first answer after failures or refusals
	// Retry-After, of now or of an earlier run, makes the rest longer than LongRetryAfter; a warning
	EffectRetryAfterLong
	EffectCrawlDelaySet  // robots.txt changed the crawl delay
	EffectCrawlDelayLong // the new crawl delay is over a minute; a warning
)

var effectNames = [...]string{
	"rested", "slowed", "probed", "probe held", "probe failed", "floor forgotten", "limit changed",
	"window grew", "window cut", "backed off", "failed again", "blocked", "recovered",
	"retry-after long", "crawl-delay set", "crawl-delay long",
}

// String lists the names in e, separated by commas.
func (e Effect) String() string {
	var b strings.Builder
	for i, name := range effectNames {
		if e&(1<<i) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// Change says what one event did to a host's pace: enough for one log line and
// for the metrics, without a look at the pace before it.
type Change struct {
	Class   Class // of the event; ClassNone for a change by robots.txt
	Meaning Meaning
	Effects Effect
	// RowChanged means that the host's [Row] has changed and must be stored.
	RowChanged bool

	DelayFrom, DelayTo time.Duration // learned delay
	LimitFrom, LimitTo int           // in flight allowed
	Floor              time.Duration // after the event
	RestUntil          time.Time     // set with EffectRested and EffectRetryAfterLong
	BackoffUntil       time.Time     // set with EffectBackedOff and EffectFailedAgain
	Refusals           int           // refusals in a row, after the event
	Failures           int           // host failures in a row, after the event
	RetryAfter         time.Duration // what the server asked for
	CrawlDelay         time.Duration // after the event
}

// describe fills in the facts of a change. From the pace before, it needs only what delay and limit are computed from.
func (ch *Change) describe(c *Config, before Pace, after *Pace) {
	ch.DelayFrom, ch.DelayTo = fromMillis(before.learned), fromMillis(after.learned)
	ch.LimitFrom, ch.LimitTo = before.Limit(c), after.Limit(c)
	if ch.LimitFrom != ch.LimitTo && ch.Effects&(EffectWindowGrew|EffectWindowCut) == 0 {
		ch.Effects |= EffectLimitChanged
	}
	ch.Floor = fromMillis(after.floor)
	ch.CrawlDelay = fromMillis(after.crawl)
	ch.Refusals, ch.Failures = int(after.refusals), int(after.failures)
	ch.RestUntil, ch.BackoffUntil = unixOrZero(after.restUntil), unixOrZero(after.backoffUntil)
}

// Has reports whether any of e happened.
func (c Change) Has(e Effect) bool { return c.Effects&e != 0 }

// Notable reports whether the change is worth a log line. Every refusal is, even one that changes nothing because the
// host rests already. Growth of the adaptive window is not: it comes with every few answers.
func (c Change) Notable() bool {
	return c.Meaning == MeaningRefused || c.Effects&^EffectWindowGrew != 0
}

// LogValue implements [slog.LogValuer] with the facts that apply.
func (c Change) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 10)
	add := func(when bool, a slog.Attr) {
		if when {
			attrs = append(attrs, a)
		}
	}
	add(c.Effects != 0, slog.String("effects", c.Effects.String()))
	add(c.DelayFrom != c.DelayTo, slog.Duration("delay_from", c.DelayFrom))
	add(c.DelayFrom != c.DelayTo, slog.Duration("delay", c.DelayTo))
	add(c.LimitFrom != c.LimitTo, slog.Int("inflight_from", c.LimitFrom))
	add(c.LimitFrom != c.LimitTo, slog.Int("inflight", c.LimitTo))
	add(c.Has(EffectProbeFailed), slog.Duration("floor", c.Floor))
	add(c.Has(EffectRested|EffectRetryAfterLong), slog.Time("rest_until", c.RestUntil))
	add(c.Has(EffectBackedOff|EffectFailedAgain), slog.Time("backoff_until", c.BackoffUntil))
	add(c.Refusals > 0, slog.Int("refusals", c.Refusals))
	add(c.Failures > 0, slog.Int("failures", c.Failures))
	add(c.RetryAfter > 0, slog.Duration("retry_after", c.RetryAfter))
	add(c.Has(EffectCrawlDelaySet), slog.Duration("crawl_delay", c.CrawlDelay))
	return slog.GroupValue(attrs...)
}
