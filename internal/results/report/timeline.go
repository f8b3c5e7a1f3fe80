package report

import (
	"maps"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// Timeline is what happened in intervals of equal length. Intervals in which nothing happened are left out.
type Timeline struct {
	Seconds float64  `json:"bucket_seconds"` // the length of an interval
	Moments []Moment `json:"buckets"`
}

// Moment is one interval.
type Moment struct {
	At      page.Time `json:"at"`      // when it begins
	Found   int64     `json:"found"`   // URLs that were named for the first time
	Crawled int64     `json:"crawled"` // URLs that were settled
}

// timeline counts by intervals that begin at multiples of their length since 1970. The result does not depend on the
// order of pages.
type timeline struct {
	step    int   // of steps
	ms      int64 // its length
	buckets map[int64]*Moment
	low, hi int64 // the range of keys of buckets
}

// maxBuckets is how many intervals there may be from the first to the last. If there are more, the intervals become
// longer.
const maxBuckets = 240

// steps are the lengths that intervals may have. Each is a multiple of the one before.
func steps() []time.Duration {
	all := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
		10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	for all[len(all)-1] < 100*365*24*time.Hour {
		all = append(all, 2*all[len(all)-1])
	}
	return all
}

func (t *timeline) at(when time.Time, count func(*Moment)) {
	if when.IsZero() {
		return
	}
	key := floor(when.UnixMilli(), t.ms)
	m := t.buckets[key]
	if m == nil {
		m = &Moment{}
		if len(t.buckets) == 0 {
			t.low, t.hi = key, key
		}
		t.buckets[key] = m
		t.low, t.hi = min(t.low, key), max(t.hi, key)
		defer t.widen()
	}
	count(m)
}

// widen makes the intervals longer while there are too many.
func (t *timeline) widen() {
	for all := steps(); t.hi-t.low >= maxBuckets && t.step < len(all)-1; {
		factor := int64(all[t.step+1] / all[t.step])
		wider := make(map[int64]*Moment, len(t.buckets))
		for key, m := range t.buckets {
			key = floor(key, factor)
			if had := wider[key]; had != nil {
				had.Found, had.Crawled = had.Found+m.Found, had.Crawled+m.Crawled
			} else {
				wider[key] = m
			}
		}
		t.buckets, t.low, t.hi = wider, floor(t.low, factor), floor(t.hi, factor)
		t.step++
		t.ms = all[t.step].Milliseconds()
	}
}

// floor divides and rounds down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (t *timeline) figures() *Timeline {
	if len(t.buckets) == 0 {
		return nil
	}
	step := steps()[t.step]
	out := &Timeline{Seconds: step.Seconds()}
	for _, key := range slices.Sorted(maps.Keys(t.buckets)) {
		m := t.buckets[key]
		m.At = page.Time{Time: time.UnixMilli(key * step.Milliseconds())}
		out.Moments = append(out.Moments, *m)
	}
	return out
}
