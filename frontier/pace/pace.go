package pace

import "time"

// Pace is all that decides when a host may be asked again, and how many requests
// it may have in flight. It is a value without pointers; the zero Pace is a host
// of which nothing is known. All methods are pure.
//
// Two clocks of the same shape run in it. A refusal (the host wants less) rests
// the host and may teach a delay, which is kept. A failure (the host is broken)
// backs off and in the end blocks, and is forgotten with the next answer. Both
// count only requests that could know better: one that started before the rest
// or the backoff was over was on its way already, and says nothing new.
type Pace struct {
	restUntil    int64 // Unix ns; nothing starts before it
	askedUntil   int64 // Unix ns; the end of the last Retry-After
	backoffUntil int64 // Unix ns; nothing starts before it
	failStart    int64 // Unix ns; start of the request whose failure last counted
	floorAt      int64 // Unix ns; when the floor was found
	lastSuccess  int64 // Unix ns

	learned   uint32 // ms
	floor     uint32 // ms; probes stop here
	probeFrom uint32 // ms; the delay to go back to while a probe is unproven, else 0
	crawl     uint32 // ms; robots.txt's Crawl-delay
	latency   uint32 // µs, smoothed

	successes uint16 // in a row since the last refusal, failure or probe
	refusals  uint8  // in a row
	atCap     uint8  // refusals in a row at MaxLearned
	forbidden uint8  // plain 403s in a row
	failures  uint8  // in a row
	taught    bool   // the present rest has added to the learned delay
	blocked   bool

	failing failing
	window  aimd
}

// Apply returns the pace after an event, and what changed.
func (p Pace) Apply(c *Config, e Event) (Pace, Change) {
	var ch Change
	p.apply(c, &e, &ch)
	return p, ch
}

func (p *Pace) apply(c *Config, e *Event, ch *Change) {
	if e.Start.IsZero() {
		e.Start = e.Now
	}
	learned, window := p.learned, p.window.size
	if p.floor > 0 && time.Duration(e.Now.UnixNano()-p.floorAt) > c.FloorTTL {
		p.floor, p.floorAt = 0, 0
		ch.Effects |= EffectFloorForgotten
	}
	ch.Class, ch.Verdict = e.Class, p.judge(c, e)
	counts := true
	switch ch.Verdict {
	case VerdictAnswered:
		p.answer(c, e, ch)
	case VerdictRefused:
		counts = p.refuse(c, e, ch)
	case VerdictFailed:
		counts = p.fail(c, e, ch)
	}
	if c.Adaptive && ch.Verdict != VerdictNothing {
		ch.Effects |= p.window.observe(c, e, ch.Verdict, counts)
	}
	if ch.Effects != 0 || ch.Verdict == VerdictRefused {
		p.describe(c, Pace{learned: learned, crawl: p.crawl, window: aimd{size: window}}, ch)
	}
}

// judge decides what the event is. It keeps the row of plain 403s, which any
// other answer breaks and which no answer at all leaves as it is.
func (p *Pace) judge(c *Config, e *Event) Verdict {
	switch e.Class {
	case ClassForbidden:
		if e.RetryAfter > 0 {
			return VerdictRefused
		}
		p.forbidden = satInc(p.forbidden)
		if int(p.forbidden) >= c.ForbiddenStreak {
			return VerdictRefused
		}
		return VerdictAnswered
	case ClassOK:
		p.forbidden = 0
		return VerdictAnswered
	case ClassThrottled, ClassUnavailable:
		p.forbidden = 0
		return VerdictRefused
	case ClassServerError:
		p.forbidden = 0
		return VerdictFailed
	case ClassNetwork:
		return VerdictFailed
	}
	return VerdictNothing
}

// answer takes an answer that is a fact about a page. A plain 403 shows that the
// host lives, but is no success: it neither ends a row of refusals nor helps
// towards a probe.
func (p *Pace) answer(c *Config, e *Event, ch *Change) {
	if p.failures > 0 && !p.blocked && e.Start.UnixNano() > p.failStart {
		p.failures, p.backoffUntil, p.failStart, p.failing = 0, 0, 0, failing{}
		ch.Effects |= EffectRecovered
	}
	if e.Class == ClassForbidden {
		return
	}
	p.lastSuccess = e.Now.UnixNano()
	p.smooth(e)
	if e.Start.UnixNano() < p.restUntil {
		return
	}
	if p.refusals > 0 {
		p.refusals, p.atCap = 0, 0
		ch.Effects |= EffectRecovered
	}
	p.successes++
	if int(p.successes) < c.ProbeAfter {
		return
	}
	p.successes = 0
	if p.probeFrom > 0 {
		p.probeFrom = 0
		ch.Effects |= EffectProbeHeld
	}
	if p.learned > p.floor {
		p.probeFrom = p.learned
		p.learned = max(p.floor, p.learned-min(p.learned, toMillis(c.Step)))
		ch.Effects |= EffectProbed
	}
}

// refuse takes a refusal. Of all that were on their way when a rest began, one
// counts; but a longer Retry-After is honoured whoever brings it, and where the
// first one taught nothing, a later one of the same rest still may.
func (p *Pace) refuse(c *Config, e *Event, ch *Change) (counts bool) {
	ch.RetryAfter = e.RetryAfter
	asked := min(e.RetryAfter, maxRest)
	if asked > 0 {
		p.askedUntil = max(p.askedUntil, e.Now.Add(asked).UnixNano())
	}
	p.successes = 0
	counts = e.Start.UnixNano() >= p.restUntil
	if counts {
		p.refusals = satInc(p.refusals)
		if p.learned >= toMillis(c.MaxLearned) {
			p.atCap = satInc(p.atCap)
		}
		p.taught = false
	}
	p.teach(c, e, counts, ch)
	rest := asked
	if counts {
		rest = max(asked, restStep(int(p.refusals)), p.Delay(c))
	}
	if until := e.Now.Add(rest).UnixNano(); rest > 0 && until > p.restUntil {
		ch.Effects |= EffectRested
		// Several refusals of one burst extend the rest by a moment each: only the first of them is a warning.
		if asked > LongRetryAfter && p.restUntil-e.Now.UnixNano() <= int64(LongRetryAfter) {
			ch.Effects |= EffectRetryAfterLong
		}
		p.restUntil = until
	}
	return counts
}

const (
	// LongRetryAfter is the longest Retry-After that is honoured without a warning.
	LongRetryAfter = time.Hour
	// maxRest bounds a rest so that its end can be kept in Unix nanoseconds. A Retry-After
	// may name any number of seconds, or the year 9999.
	maxRest = 100 * 365 * 24 * time.Hour
)

// teach lets a refusal raise the learned delay, once per rest. A refusal while a
// probe is unproven undoes the probe, and that is the raise. Where in-flight
// adapts, a refused request that was not alone says only that there were too many.
func (p *Pace) teach(c *Config, e *Event, counts bool, ch *Change) {
	if p.taught {
		return
	}
	if p.probeFrom > 0 {
		p.learned, p.floor = p.probeFrom, p.probeFrom
		p.floorAt = e.Now.UnixNano()
		p.probeFrom, p.taught = 0, true
		ch.Effects |= EffectProbeFailed
		return
	}
	if e.Class != ClassThrottled && e.RetryAfter <= 0 {
		return
	}
	if c.Adaptive && (e.Inflight > 1 || !counts) {
		return
	}
	p.taught = true
	if most := toMillis(c.MaxLearned); p.learned < most {
		p.learned = min(most, p.learned+toMillis(c.Step))
		ch.Effects |= EffectSlowed
	}
}

// fail takes a host failure: one per backoff window counts, and of each URL only
// the first in a row.
func (p *Pace) fail(c *Config, e *Event, ch *Change) (counts bool) {
	p.successes = 0
	if p.blocked || e.Start.UnixNano() < p.backoffUntil {
		return false
	}
	if p.failing.has(e.URL) {
		ch.Effects |= EffectFailedAgain
	} else {
		p.failing.add(e.URL)
		p.failures = satInc(p.failures)
		p.blocked = int(p.failures) >= c.MaxFailures
		ch.Effects |= EffectBackedOff
		if p.blocked {
			ch.Effects |= EffectBlocked
		}
	}
	p.failStart = e.Start.UnixNano()
	p.backoffUntil = e.Now.Add(Backoff(int(p.failures), c.MaxBackoff)).UnixNano()
	return true
}

// smooth keeps the moving average of response times, an eighth at a time.
func (p *Pace) smooth(e *Event) {
	us := toMicros(e.Latency)
	if p.latency == 0 {
		p.latency = us
		return
	}
	p.latency = uint32((7*uint64(p.latency) + uint64(us)) / 8)
}

// Delay is the effective delay between two request starts, with the largest draw
// for its random part.
func (p Pace) Delay(c *Config) time.Duration { return p.atLeast(c, c.MaxDelay) }

// Baseline is the delay that a host begins with: what it has learned is measured
// against it.
func (p Pace) Baseline(c *Config) time.Duration {
	return max(c.MaxDelay, c.BaseDelay, fromMillis(p.crawl))
}

func (p *Pace) atLeast(c *Config, drawn time.Duration) time.Duration {
	d := max(drawn, c.BaseDelay, fromMillis(p.crawl), fromMillis(p.learned))
	if c.FollowLatency {
		d = max(d, fromMicros(p.latency))
	}
	return d
}

// Limit is how many requests may be in flight now: the profile's or the adaptive
// window's number, less one for each InflightStep of learned delay over the
// baseline, at least 1.
func (p Pace) Limit(c *Config) int {
	n := c.MaxInflight
	if c.Adaptive {
		n = p.window.limit(c)
	}
	if over := fromMillis(p.learned) - p.Baseline(c); over > 0 {
		n -= int(over / c.InflightStep)
	}
	return max(1, n)
}

// NextStart is the earliest time at which the next request may start: a delay
// after lastStart, drawn with rnd, and after any rest or backoff. A zero
// lastStart means that nothing was started yet. The result may be zero, or lie
// in the past: then it may start now.
func (p Pace) NextStart(c *Config, lastStart time.Time, rnd uint64) time.Time {
	at := p.ReadyAt()
	if lastStart.IsZero() {
		return at
	}
	drawn := c.MinDelay
	if spread := c.MaxDelay - c.MinDelay; spread > 0 {
		drawn += time.Duration(rnd % uint64(spread+1))
	}
	if next := lastStart.Add(p.atLeast(c, drawn)); next.After(at) {
		return next
	}
	return at
}

// ReadyAt is when rest and backoff are over; zero when there was none.
func (p Pace) ReadyAt() time.Time {
	if until := max(p.restUntil, p.backoffUntil); until > 0 {
		return time.Unix(0, until)
	}
	return time.Time{}
}

// RetryAt is when the URL of an event may be tried again, asked of the pace that
// Apply returned for it; attempt counts its requests so far, from 1. A refused
// URL comes back when the host's rest is over. A failed one waits 2^attempt
// seconds by itself too, for a success of another page ends the host's backoff.
func (p Pace) RetryAt(c *Config, e Event, attempt int) time.Time {
	at := e.Now
	if e.Class == ClassServerError || e.Class == ClassNetwork {
		at = at.Add(Backoff(attempt, c.MaxBackoff))
	}
	if ready := p.ReadyAt(); ready.After(at) {
		return ready
	}
	return at
}

// WithCrawlDelay returns the pace with robots.txt's Crawl-delay, zero for none.
func (p Pace) WithCrawlDelay(c *Config, d time.Duration) (Pace, Change) {
	before := p
	p.crawl = toMillis(d)
	ch := Change{}
	if p.crawl != before.crawl {
		ch.Effects |= EffectCrawlDelaySet
		if d > time.Minute {
			ch.Effects |= EffectCrawlDelayLong
		}
		p.describe(c, before, &ch)
	}
	return p, ch
}

// CrawlDelay is what robots.txt asked for.
func (p Pace) CrawlDelay() time.Duration { return fromMillis(p.crawl) }

// Blocked reports whether the host has failed too often in a row. It stays so
// for the rest of the run.
func (p Pace) Blocked() bool { return p.blocked }

// Unblocked is the pace with all failures forgotten.
func (p Pace) Unblocked() Pace {
	p.blocked, p.failures, p.backoffUntil, p.failStart, p.failing = false, 0, 0, 0, failing{}
	return p
}

// IsDefault reports whether the pace is that of a host about which nothing was learned. A Crawl-delay and a rest that
// is due to end by itself do not count.
func (p *Pace) IsDefault() bool {
	return p.learned == 0 && p.floor == 0 && p.failures == 0 && p.refusals == 0 && p.forbidden == 0 && !p.blocked && p.window == (aimd{})
}

// IsFresh reports whether nothing is known yet by which the number in flight could be set.
func (p *Pace) IsFresh() bool { return p.learned == 0 && p.window.fresh() }

// RestUntil is when the host's rest ends or has ended; zero when there was none.
func (p *Pace) RestUntil() time.Time { return unixOrZero(p.restUntil) }

// Failures is the number of host failures in a row.
func (p Pace) Failures() int { return int(p.failures) }

// Refusals is the number of refusals in a row, atCap how many of them came with
// the learned delay at its maximum.
func (p Pace) Refusals() (streak, atCap int) { return int(p.refusals), int(p.atCap) }

// Latency is the host's smoothed response time.
func (p Pace) Latency() time.Duration { return fromMicros(p.latency) }

// describe fills in the facts of a change, given what of the pace before it bears
// on delay and limit.
func (p *Pace) describe(c *Config, before Pace, ch *Change) {
	ch.DelayFrom, ch.DelayTo = fromMillis(before.learned), fromMillis(p.learned)
	ch.LimitFrom, ch.LimitTo = before.Limit(c), p.Limit(c)
	if ch.LimitFrom != ch.LimitTo && ch.Effects&(EffectWindowGrew|EffectWindowCut) == 0 {
		ch.Effects |= EffectLimitChanged
	}
	ch.Floor = fromMillis(p.floor)
	ch.CrawlDelay = fromMillis(p.crawl)
	ch.Refusals, ch.Failures = int(p.refusals), int(p.failures)
	ch.RestUntil, ch.BackoffUntil = unixOrZero(p.restUntil), unixOrZero(p.backoffUntil)
}
