package pace

import "time"

// restStep is how long the streak-th refusal in a row rests a host by itself:
// 1, 2, 4, 8, 16, 32 and then 60 s.
func restStep(streak int) time.Duration {
	if streak >= 7 {
		return time.Minute
	}
	return time.Second << max(0, streak-1)
}

// Backoff is 2^n seconds for the n-th host failure in a row, n from 1.
func Backoff(n int, most time.Duration) time.Duration {
	if n < 1 {
		return 0
	}
	return min(most, time.Second<<min(n, 30))
}

// An outage is a row of host failures, with the backoff that each begins. It ends with an answer to a request that was
// sent after the last failure that counted, unless there were so many failures that the host is blocked.
type outage struct {
	backoffUntil int64 // Unix ns; nothing starts before it
	failStart    int64 // Unix ns; start of the request whose failure last counted
	failing      failing
	failures     uint8 // in a row
	blocked      bool  // for the rest of the run
}

// Blocked reports whether the host has failed too often in a row. It stays so
// for the rest of the run.
func (o outage) Blocked() bool { return o.blocked }

// Failures is the number of host failures in a row.
func (o outage) Failures() int { return int(o.failures) }

// fail takes a host failure: one per backoff counts, and of each URL only the first in a row.
func (o *outage) fail(c *Config, e *Event, ch *Change) (counts bool) {
	if o.blocked || e.Start.UnixNano() < o.backoffUntil {
		return false
	}
	if o.failing.has(e.URL) {
		ch.Effects |= EffectFailedAgain
	} else {
		o.failing.add(shortURL(e.URL))
		o.failures = satInc(o.failures)
		o.blocked = int(o.failures) >= c.MaxFailures
		ch.Effects |= EffectBackedOff
		if o.blocked {
			ch.Effects |= EffectBlocked
		}
	}
	o.failStart = e.Start.UnixNano()
	o.backoffUntil = e.Now.Add(Backoff(int(o.failures), c.MaxBackoff)).UnixNano()
	return true
}

// recover takes an answer to a request that started at the given time, and reports whether it ends the outage.
func (o *outage) recover(start time.Time) bool {
	if o.failures == 0 || o.blocked || start.UnixNano() <= o.failStart {
		return false
	}
	*o = outage{}
	return true
}

// failing remembers which URLs made up a row of failures, so that one bad page, however often it is tried, counts once.
// It holds 16 bits of each of the last URLs: a chance collision (1 in 6,000 for a full ring) leaves one failure
// uncounted, so that the host is blocked later, never earlier.
type failing struct {
	urls [10]uint16
	n    uint8 // used slots, then the ring's position modulo its length
	full bool
}

func (f *failing) has(url uint64) bool {
	n := int(f.n)
	if f.full {
		n = len(f.urls)
	}
	for _, u := range f.urls[:n] {
		if u == shortURL(url) {
			return true
		}
	}
	return false
}

func (f *failing) add(url uint16) {
	f.urls[f.n] = url
	f.n++
	if int(f.n) == len(f.urls) {
		f.n, f.full = 0, true
	}
}

// list is what is remembered, oldest first.
func (f *failing) list() []uint16 {
	var list []uint16
	if f.full {
		list = append(list, f.urls[f.n:]...)
	}
	return append(list, f.urls[:f.n]...)
}

func shortURL(url uint64) uint16 { return uint16(url ^ url>>16 ^ url>>32 ^ url>>48) }
