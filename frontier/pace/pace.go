package pace

import (
	"math"
	"time"
)

// Pace is all that decides when a host may be asked again, and how many requests
// it may have in flight. It is a value without pointers; the zero Pace is a host
// of which nothing is known. All methods are pure.
//
// Two waits of the same form are in it. A refusal (the host asks for less) rests the host and may teach a delay, which
// is kept. A failure (the host is broken) backs off and in the end blocks, and is forgotten with the next answer. Both
// count only requests that started after the rest or the backoff was over. A request that started before was on its way
// already, and says nothing new.
type Pace struct {
	facts
	outage

	crawl     uint32 // ms; robots.txt's Crawl-delay
	latency   smoothed
	forbidden uint8 // plain 403s in a row

	window aimd
}

// facts are what the host itself has said, whichever crawl it said it to. They are the part of a pace that the crawls of
// an account share in a [Registry].
type facts struct {
	restUntil   int64 // Unix ns; nothing starts before it
	askedUntil  int64 // Unix ns; the end of the last Retry-After
	lastSuccess int64 // Unix ns
	lesson
	refusals uint8 // in a row
	atCap    uint8 // refusals in a row at MaxLearned
}

// merge adds what another crawl knows, of this run or an earlier one. A rest counts, whichever crawl was asked for it.
// What was learned is taken from the crawl that has had an answer last. If that was the same answer, the longer row of
// refusals counts.
func (f *facts) merge(other *facts) {
	before := *f
	if before == (facts{}) || other.lastSuccess > f.lastSuccess || other.lastSuccess == f.lastSuccess &&
		other.learned >= f.learned {
		*f = *other
	}
	f.restUntil, f.askedUntil = max(before.restUntil, other.restUntil), max(before.askedUntil, other.askedUntil)
	if before.lastSuccess == other.lastSuccess {
		f.refusals, f.atCap = max(before.refusals, other.refusals), max(before.atCap, other.atCap)
	}
}

// Apply returns the pace after an event, and what changed.
func (p Pace) Apply(c *Config, e Event) (Pace, Change) {
	var ch Change
	if e.Start.IsZero() {
		e.Start = e.Now
	}
	learned, window, before := p.learned, p.window.size, rowsOf(&p)
	if p.forgetFloor(e.Now) {
		ch.Effects |= EffectFloorForgotten
	}
	ch.Class, ch.Meaning = e.Class, e.judge(&p.forbidden)
	counts := true
	switch ch.Meaning {
	case MeaningAnswered:
		p.answer(c, &e, &ch)
	case MeaningRefused:
		counts = p.refuse(c, &e, &ch)
	case MeaningFailed:
		p.successes = 0
		counts = p.fail(c, &e, &ch)
	}
	ch.RowChanged = rowsOf(&p) != before
	if c.Adaptive && ch.Meaning != MeaningNothing {
		ch.Effects |= p.window.observe(c, &e, ch.Meaning, counts)
	}
	if ch.Effects != 0 || ch.Meaning == MeaningRefused {
		ch.describe(c, Pace{facts: facts{lesson: lesson{learned: learned}}, crawl: p.crawl, window: aimd{size: window}},
			&p)
	}
	return p, ch
}

// answer takes an answer that is a fact about a page. A plain 403 shows that the
// host answers, but is no success: it neither ends a row of refusals nor helps
// towards a probe.
func (p *Pace) answer(c *Config, e *Event, ch *Change) {
	if p.recover(e.Start) {
		ch.Effects |= EffectRecovered
	}
	if e.Class == ClassForbidden {
		return
	}
	p.lastSuccess = e.Now.UnixNano()
	p.latency.add(e.Latency)
	if e.Start.UnixNano() < p.restUntil {
		return
	}
	if p.refusals > 0 {
		p.refusals, p.atCap = 0, 0
		ch.Effects |= EffectRecovered
	}
	p.succeed(c, ch)
}

// refuse takes a refusal. Only one counts of the requests that were on their way when a rest began. But a longer
// Retry-After is obeyed, whichever of them has it. And if the first one taught no delay, a later one of the same rest
// still can.
//
// A 503 or 403 with a Retry-After means an outage with a known end, which no pace could prevent: the host rests, and no
// delay is taught, and a row of successes goes on. But the delay is taught if the host refuses again right after the
// rest that it asked for: before any success, or within half of the time that it asks for now. The second case is a
// host that serves one request after each rest, and refuses the next.
func (p *Pace) refuse(c *Config, e *Event, ch *Change) (counts bool) {
	ch.RetryAfter = e.RetryAfter
	asked := min(e.RetryAfter, maxRest)
	sinceAsked := time.Duration(e.Start.UnixNano() - p.askedUntil)
	if asked > 0 {
		p.askedUntil = max(p.askedUntil, e.Now.Add(asked).UnixNano())
	}
	counts = e.Start.UnixNano() >= p.restUntil
	if counts {
		p.refusals = satInc(p.refusals)
		if p.learned >= toMillis(c.MaxLearned) {
			p.atCap = satInc(p.atCap)
		}
		p.taught = false
	}
	again := p.refusals > 1 || counts && sinceAsked < asked/2
	if e.Class == ClassThrottled || asked <= 0 || again {
		p.teach(c, e, counts, ch)
	}
	rest := asked
	if counts {
		rest = max(asked, restStep(int(p.refusals)), p.Delay(c))
	}
	if until := e.Now.Add(rest).UnixNano(); rest > 0 && until > p.restUntil {
		ch.Effects |= EffectRested
		before := p.RestUntil()
		if p.restUntil = until; asked > LongRetryAfter && p.RestsLonger(before, e.Now) {
			ch.Effects |= EffectRetryAfterLong
		}
	}
	return counts
}

const (
	// LongRetryAfter is the longest Retry-After that is honoured without a warning.
	LongRetryAfter = time.Hour
	// MostPatience is how long a run waits for a host that wants to be left alone; see [Pace.IsAway].
	MostPatience = 24 * time.Hour
	// maxRest bounds what a host can ask for at once. A Retry-After may name any number of seconds, or the year 9999,
	// perhaps by mistake. After this time the host is asked again.
	maxRest = KeepLearned
)

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
		d = max(d, fromMicros(uint32(p.latency)))
	}
	return d
}

// Limit is how many requests may be in flight now: the profile's or the adaptive
// window's number, less one for each inflightStep of learned delay over the
// baseline, at least 1.
func (p Pace) Limit(c *Config) int {
	n := c.MaxInflight
	if c.Adaptive {
		n = p.window.limit(c)
	}
	if over := fromMillis(p.learned) - p.Baseline(c); over > 0 {
		n -= int(over / inflightStep)
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
	if next := lastStart.Add(p.Drawn(c, rnd)); next.After(at) {
		return next
	}
	return at
}

// Drawn is the delay after a start, drawn with rnd.
func (p *Pace) Drawn(c *Config, rnd uint64) time.Duration {
	drawn := c.MinDelay
	if spread := c.MaxDelay - c.MinDelay; spread > 0 {
		drawn += time.Duration(rnd % uint64(spread+1))
	}
	return p.atLeast(c, drawn)
}

// ReadyAt is when rest and backoff are over; zero when there was none.
func (p Pace) ReadyAt() time.Time {
	if until := max(p.restUntil, p.backoffUntil); until > 0 {
		return time.Unix(0, until)
	}
	return time.Time{}
}

// RetryAt is when the URL of an event may be tried again. It is called on the pace that Apply returned for the event;
// attempt counts the URL's requests so far, from 1. A refused URL may be tried when the host's rest is over. A failed
// one also waits 2^attempt seconds by itself, because a success of another page ends the host's backoff.
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
		ch.describe(c, before, &p)
	}
	return p, ch
}

// CrawlDelay is what robots.txt asked for.
func (p Pace) CrawlDelay() time.Duration { return fromMillis(p.crawl) }

// IsDefault reports whether the pace is that of a host about which nothing was learned. A Crawl-delay and a rest that
// is due to end by itself do not count.
func (p *Pace) IsDefault() bool {
	return p.learned == 0 && p.floor == 0 && p.failures == 0 && p.refusals == 0 && p.forbidden == 0 && !p.blocked &&
		p.window == (aimd{})
}

// IsFresh reports whether nothing is known yet by which the number in flight could be set.
func (p *Pace) IsFresh() bool { return p.learned == 0 && p.window.fresh() }

// RestUntil is when the host's rest ends or has ended; zero when there was none.
func (f *facts) RestUntil() time.Time { return unixOrZero(f.restUntil) }

// RestsLonger reports whether a rest that ended at before has become one that is worth a warning: it lasts longer than
// [LongRetryAfter], and a crawl waits for its end. Several refusals of one burst extend a rest by a moment each: only
// the first of them is worth it.
func (f *facts) RestsLonger(before, now time.Time) bool {
	left := f.RestUntil().Sub(now)
	return left > LongRetryAfter && before.Sub(now) <= LongRetryAfter && !f.IsAway(left)
}

// IsAway reports whether a run does not wait for a host that is not to be asked for so long. Rests after refusals in a
// row count together, as if all were as long as the last: the third one may have a third of [MostPatience].
func (f *facts) IsAway(wait time.Duration) bool {
	return wait > MostPatience/time.Duration(max(1, f.refusals))
}

// LeastAway is the shortest wait for which [Pace.IsAway] may be true.
const LeastAway = MostPatience / math.MaxUint8

// Refusals is the number of refusals in a row, atCap how many of them came with
// the learned delay at its maximum.
func (f *facts) Refusals() (streak, atCap int) { return int(f.refusals), int(f.atCap) }

// Latency is the host's smoothed response time.
func (p Pace) Latency() time.Duration { return fromMicros(uint32(p.latency)) }
