package frontier

import (
	"math"
	"time"
)

// Learned is the part of a pace that outlives a crawl. The rest and the backoff
// that we choose do not: the next crawl begins with one delay and finds out. But
// what the host asked for is its own.
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

// Learned is what to persist.
func (p Pace) Learned() Learned {
	return Learned{
		Delay: fromMillis(p.learned), Floor: fromMillis(p.floor),
		FloorAt: unixOrZero(p.floorAt), LastSuccess: unixOrZero(p.lastSuccess),
		AskedUntil: unixOrZero(p.askedUntil),
	}
}

// Restore returns the pace with what an earlier crawl learned, within what this
// one's configuration allows. A floor found in the future, by a clock that has
// been set back since, was found now.
func (p Pace) Restore(c *PaceConfig, l Learned, now time.Time) Pace {
	p.learned = min(toMillis(l.Delay), toMillis(c.MaxLearned))
	p.floor, p.floorAt = 0, 0
	if l.Floor > 0 && now.Sub(l.FloorAt) <= c.FloorTTL {
		p.floor = min(toMillis(l.Floor), toMillis(c.MaxLearned))
		p.floorAt = min(l.FloorAt.UnixNano(), now.UnixNano())
	}
	if !l.LastSuccess.IsZero() {
		p.lastSuccess = l.LastSuccess.UnixNano()
	}
	if wait := min(l.AskedUntil.Sub(now), maxRest); wait > 0 {
		p.askedUntil = now.Add(wait).UnixNano()
		p.restUntil = max(p.restUntil, p.askedUntil)
	}
	return p
}

// WorthSaving reports whether l should be written now, given what was last
// written for the host and when (zero times for never). A changed delay or floor
// is written, but no host is written twice within ten seconds; a last success by
// itself only every five minutes. At the end of a run, save whatever differs.
func (l Learned) WorthSaving(saved Learned, savedAt, now time.Time) bool {
	if now.Sub(savedAt) < learnedQuiet {
		return false
	}
	if l.Delay != saved.Delay || l.Floor != saved.Floor {
		return true
	}
	return l.LastSuccess.Sub(saved.LastSuccess) >= learnedStale && (l.Delay > 0 || l.Floor > 0)
}

// Differs reports whether saving l over saved would change anything worth
// keeping.
func (l Learned) Differs(saved Learned) bool {
	return l.Delay != saved.Delay || l.Floor != saved.Floor || !l.LastSuccess.Equal(saved.LastSuccess)
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
