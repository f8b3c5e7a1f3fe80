package pace

import (
	"math"
	"time"
)

// Learned is the part of a pace that outlives a crawl. A rest or backoff that this program has chosen is not part of
// it: the next crawl begins with one delay and finds out by itself. A Retry-After that the host has sent is part of it.
// See [Row] for what outlives a kill only.
type Learned struct {
	Delay       time.Duration
	Floor       time.Duration
	FloorAt     time.Time
	LastSuccess time.Time
	// AskedUntil is the end of the last Retry-After.
	AskedUntil time.Time `json:",omitzero"`
}

const (
	// learnedQuiet is how long a host's learned facts stay unwritten after a write.
	learnedQuiet = 10 * time.Second
	// learnedStale is how old a written last success may get while nothing else
	// changes.
	learnedStale = 5 * time.Minute
)

// A lesson is the delay that a host's refusals have taught, and the search for a shorter one. After every ProbeAfter
// successes in a row a shorter delay is tried, down to the floor. A refusal before the next ProbeAfter successes undoes
// that probe, and the delay before it becomes the floor.
type lesson struct {
	floorAt   int64  // Unix ns; when the floor was found
	learned   uint32 // ms; the delay
	floor     uint32 // ms; probes stop here
	probeFrom uint32 // ms; the delay to go back to while a probe is unproven, else 0
	successes uint16 // in a row since the last refusal, failure or probe
	taught    bool   // the present rest has added to the delay
}

// teach lets a refusal raise the learned delay, once per rest. A refusal while a probe is unproven undoes the probe,
// and that is the raise. With an adaptive window, a refused request that was not alone says only that too many were in
// flight.
func (l *lesson) teach(c *Config, e *Event, counts bool, ch *Change) {
	l.successes = 0
	if l.taught {
		return
	}
	if l.probeFrom > 0 {
		l.learned, l.floor = l.probeFrom, l.probeFrom
		l.floorAt = e.Now.UnixNano()
		l.probeFrom, l.taught = 0, true
		ch.Effects |= EffectProbeFailed
		return
	}
	if e.Class != ClassThrottled && e.RetryAfter <= 0 {
		return
	}
	if c.Adaptive && (e.Inflight > 1 || !counts) {
		return
	}
	l.taught = true
	if most := toMillis(c.MaxLearned); l.learned < most {
		l.learned = min(most, l.learned+toMillis(c.Step))
		ch.Effects |= EffectSlowed
	}
}

// succeed counts a success. After ProbeAfter of them it shortens the delay, as a probe.
func (l *lesson) succeed(c *Config, ch *Change) {
	l.successes++
	if int(l.successes) < c.ProbeAfter {
		return
	}
	l.successes = 0
	if l.probeFrom > 0 {
		l.probeFrom = 0
		ch.Effects |= EffectProbeHeld
	}
	if l.learned > l.floor {
		l.probeFrom = l.learned
		l.learned = max(l.floor, l.learned-min(l.learned, toMillis(c.Step)))
		ch.Effects |= EffectProbed
	}
}

// forgetFloor forgets a floor that was found too long ago, and reports whether it did.
func (l *lesson) forgetFloor(now time.Time) bool {
	if l.floor == 0 || time.Duration(now.UnixNano()-l.floorAt) <= floorTTL {
		return false
	}
	l.floor, l.floorAt = 0, 0
	return true
}

// smoothed is a moving average of response times, in µs.
type smoothed uint32

// add adds a response time with a weight of one eighth; the first one counts fully.
func (s *smoothed) add(d time.Duration) {
	us := toMicros(d)
	if *s == 0 {
		*s = smoothed(us)
		return
	}
	*s = smoothed((7*uint64(*s) + uint64(us)) / 8)
}

// Learned returns the part of p to store.
func (p Pace) Learned() Learned {
	return Learned{
		Delay: fromMillis(p.learned), Floor: fromMillis(p.floor),
		FloorAt: unixOrZero(p.floorAt), LastSuccess: unixOrZero(p.lastSuccess),
		AskedUntil: unixOrZero(p.askedUntil),
	}
}

// Restore returns the pace with what an earlier crawl learned, within what this one's configuration allows. A floor
// with a time in the future, because the clock was set back since, counts as found now.
func (p Pace) Restore(c *Config, l Learned, now time.Time) Pace {
	p.learned = min(toMillis(l.Delay), toMillis(c.MaxLearned))
	p.floor, p.floorAt = 0, 0
	if l.Floor > 0 && now.Sub(l.FloorAt) <= floorTTL {
		p.floor = min(toMillis(l.Floor), toMillis(c.MaxLearned))
		p.floorAt = min(l.FloorAt.UnixNano(), now.UnixNano())
	}
	if !l.LastSuccess.IsZero() {
		p.lastSuccess = l.LastSuccess.UnixNano()
	}
	p.askedUntil = max(p.askedUntil, l.restsUntil(now))
	p.restUntil = max(p.restUntil, p.askedUntil)
	return p
}

// restsUntil is the end of the last Retry-After in Unix ns if it is in force, else 0. One that ends far later than any
// that is noted is not believed: the clock was set back since, or an earlier version noted it, which had no bound.
func (l *Learned) restsUntil(now time.Time) int64 {
	if wait := l.AskedUntil.Sub(now); wait <= 0 || wait > 2*maxRest {
		return 0
	}
	return l.AskedUntil.UnixNano()
}

// Saved is what was last written of a pace, in less memory than a Learned. The zero Saved is that of a host of which
// nothing was written.
type Saved struct {
	lastSuccess  int64  // Unix ns
	delay, floor uint32 // ms
}

// Saved is what Unsaved and WorthSaving compare with after p was written.
func (p *Pace) Saved() Saved {
	return Saved{lastSuccess: p.lastSuccess, delay: p.learned, floor: p.floor}
}

// Unsaved reports whether the host has learned something that is not written.
func (p *Pace) Unsaved(s Saved) bool {
	return p.learned != s.delay || p.floor != s.floor || p.learned|p.floor != 0 && p.lastSuccess != s.lastSuccess
}

// WorthSaving reports whether p should be written now, given what was last written for the host and when (zero times
// for never). A changed delay or floor is written, but no host is written twice within ten seconds; a last success by
// itself only every five minutes. At the end of a run, whatever is unsaved is written.
func (p *Pace) WorthSaving(s Saved, savedAt, now time.Time) bool {
	if p.learned|p.floor|s.delay|s.floor == 0 {
		return false // the common case: there was never anything to learn
	}
	if now.Sub(savedAt) < learnedQuiet {
		return false
	}
	if p.learned != s.delay || p.floor != s.floor {
		return true
	}
	return time.Duration(p.lastSuccess-s.lastSuccess) >= learnedStale
}

func fromMillis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
func fromMicros(us uint32) time.Duration { return time.Duration(us) * time.Microsecond }

// toMillis rounds up: a delay is never shortened.
func toMillis(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min(math.MaxUint32, (d-1)/time.Millisecond+1))
}

func toMicros(d time.Duration) uint32 {
	return uint32(min(math.MaxUint32, max(0, d/time.Microsecond)))
}

func unixOrZero(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func satInc(n uint8) uint8 {
	if n == math.MaxUint8 {
		return n
	}
	return n + 1
}
