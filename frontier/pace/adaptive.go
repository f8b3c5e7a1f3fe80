package pace

import (
	"math"
	"time"
)

// aimd is the adaptive number of requests in flight of one host, its window.
//
// Answers are taken in rounds; see aimdRound. Each round ends with a mean latency
// and a throughput, and then the window may change. The rules:
//
//   - A host begins with one request at a time, so that a host with few pages
//     needs only one connection. The first answers bring it to MinInflight.
//   - The window doubles while latency is near its floor. After a round that gave
//     a reason against doubling, it grows by smaller steps.
//   - Every change is a trial, judged by the next round. A wider window that makes
//     a queue and brings no more throughput is undone, and the next trial waits
//     longer. The queue may be at the host, on the line or in this process. While
//     latency shows a queue, narrower windows are tried too, and kept if they cost
//     no throughput. So the window stays where throughput stops growing, whatever
//     limits it.
//   - When latency climbs well above what it was at this window, and above aimdTolerated,
//     the window is cut, once. It stays so until latency has recovered or half a
//     minute is over. After that the higher latency is the norm.
//   - A refusal halves the window and sets a ceiling just below the number that
//     was in flight. The window comes back to the ceiling by quarters of the way,
//     and goes beyond it only by a rare probe.
//
// The Lag of an event, which is the share of this machine, is subtracted from its latency. So a busy processor here
// does not look like a slow host.
type aimd struct {
	size    uint16 // requests allowed in flight; 0 means not begun
	before  uint16 // the window before the change that is being judged
	ceiling uint16 // the window stays at or below it; 0 means none known
	state   aimdState
	wait    uint8 // rounds until the next trial
	waits   uint8 // rounds to wait when that fails
	fails   uint8 // probes of the ceiling that were refused, less those that held
	steady  bool  // the window does not double any more
	down    bool  // the next trial is a narrower window
	high    bool  // the last round's latency was too high
	freed   bool  // a probe held, and no refusal has come since

	floor uint32  // µs, the lowest mean latency of a round
	norm  uint32  // µs, the latency that this window usually has
	easy  uint32  // µs, the norm before the cut
	rate  float32 // answers/s before the change that is being judged
	calm  uint32  // answers since the last refusal

	quiet  int64 // Unix ns; no growth until then, unless latency recovers
	bumped int64 // Unix ns; when the ceiling was last set or probed

	round aimdRound
}

// aimdState is what the present round is to judge.
type aimdState uint8

const (
	aimdOpen    aimdState = iota // nothing: the window is what it was
	aimdWider                    // whether more in flight made more throughput
	aimdNarrow                   // whether less in flight made no less throughput
	aimdCut                      // what latency is with less in flight
	aimdProbing                  // whether the ceiling still holds
)

const (
	// aimdSlack is a difference in latency, in µs, that may be chance.
	aimdSlack = 500
	// aimdTolerated is a latency, in µs, up to which the window never shrinks. A queue that
	// short does not hurt a host, and without the exception a fast host was often held at 8
	// in flight, a fifth slower than at 64.
	aimdTolerated = 10_000
	// aimdFree is the window up to which growth without a queue need not raise the throughput. Every
	// request in flight takes memory here too.
	aimdFree = 64
	// aimdElastic is the part of a window's growth that throughput must grow by, or the growth is undone.
	aimdElastic = 0.2

	aimdWaits    = 2  // rounds between trials at first, and
	aimdMaxWaits = 64 // when they keep failing

	// aimdQuiet is how long a window stays cut while latency does not recover.
	aimdQuiet = 30 * time.Second

	// A probe of the ceiling costs a refusal or two and a rest of a second. So it
	// comes after aimdCalm answers without refusal, and aimdProbeAfter, doubled
	// with each failure up to 2^aimdMaxFails times.
	aimdCalm       = 512
	aimdProbeAfter = 15 * time.Second
	aimdMaxFails   = 6
)

// limit is the window within the configured bounds; it is below MinInflight before
// the first round is over and after refusals.
func (a *aimd) limit(c *Config) int {
	if a.size == 0 {
		return 1
	}
	return min(int(a.size), c.MaxInflight)
}

// fresh reports whether nothing is known yet that the window could be set by.
func (a *aimd) fresh() bool { return a.floor == 0 && !a.steady }

// observe takes one event and returns its effect on the window. counts says that
// a refusal or failure was the first of its rest or backoff.
func (a *aimd) observe(c *Config, e *Event, v Meaning, counts bool) Effect {
	old := a.limit(c)
	a.size = uint16(old)
	switch {
	case v == MeaningAnswered:
		a.calm++
		a.round.add(e, old, a.norm)
		if a.round.enough(e, a) {
			a.endRound(c, e)
		}
	case v == MeaningRefused:
		a.calm = 0
		if counts {
			a.refuse(e)
		}
	case v == MeaningFailed && counts && e.Class == ClassNetwork:
		// A time-out or a reset may be a sign of overload. An error page is not: one broken template can cause it.
		a.steady = true
		a.begin(min(old, max(c.MinInflight, old/2)), aimdOpen, e)
	}
	switch now := a.limit(c); {
	case now > old:
		return EffectWindowGrew
	case now < old:
		return EffectWindowCut
	}
	return 0
}

// near reports whether a latency is near its floor.
func (a *aimd) near(us uint32) bool {
	return a.floor == 0 || us <= max(aimdTolerated, a.floor+a.floor/2+aimdSlack)
}

// endRound judges a round and begins the next.
func (a *aimd) endRound(c *Config, e *Event) {
	lat, rate := a.round.latency(), a.round.rate(e)
	if a.floor == 0 || lat < a.floor {
		a.floor = lat
	}
	if a.norm == 0 {
		a.norm = lat
	}
	if !a.round.wasFull() { // too little work to learn from
		a.begin(int(a.size), aimdOpen, e)
		return
	}
	if a.state != aimdCut && a.tooHigh(lat) {
		a.climb(c, e)
		return
	}
	a.high = false
	if !a.judge(lat, rate, e) {
		a.begin(int(a.before), aimdOpen, e)
		return
	}
	a.rate = rate
	size, state := a.next(c, lat, e)
	a.begin(size, state, e)
}

// judge reports whether the change that led to this round's window was right.
func (a *aimd) judge(lat uint32, rate float32, e *Event) bool {
	switch a.state {
	case aimdWider, aimdNarrow:
		least := a.rate * (1 + aimdElastic*(float32(a.size)-float32(a.before))/float32(a.before))
		// Without a queue, chance or this machine made the round slow, not the window.
		if rate < least && (!a.near(lat) || a.size > aimdFree) {
			a.steady = true
			a.down = a.state == aimdWider
			a.waits = uint8(min(aimdMaxWaits, max(aimdWaits, 2*int(a.waits))))
			a.wait = a.waits
			return false
		}
		a.norm, a.wait, a.waits = lat, 0, 0
	case aimdCut:
		a.quiet = e.Now.Add(aimdQuiet).UnixNano()
		a.norm = lat
	case aimdProbing: // the host takes more than it did: look for its limit anew
		a.ceiling, a.freed = 0, true
		a.fails -= min(a.fails, 1)
	}
	return true
}

// next chooses the window of the next round, and what that round is to judge.
func (a *aimd) next(c *Config, lat uint32, e *Event) (int, aimdState) {
	size := int(a.size)
	if a.state == aimdOpen {
		a.norm += uint32((int64(lat) - int64(a.norm)) / 8)
	}
	if a.quiet > 0 && e.Now.UnixNano() < a.quiet && lat > a.easy+a.easy/4+aimdSlack {
		return size, aimdOpen
	}
	a.quiet = 0
	if a.wait > 0 {
		a.wait--
		return size, aimdOpen
	}
	top := c.MaxInflight
	if a.ceiling > 0 {
		top = min(top, int(a.ceiling))
	}
	near, far := a.near(lat), !a.near(lat/2)
	switch {
	case far && (a.down || size >= top) && size > c.MinInflight:
		return max(c.MinInflight, size-max(1, size/4)), aimdNarrow
	case size >= c.MaxInflight:
		return size, aimdOpen
	case size >= top:
		if a.calm < aimdCalm || time.Duration(e.Now.UnixNano()-a.bumped) < aimdProbeAfter<<a.fails {
			return size, aimdOpen
		}
		a.bumped = e.Now.UnixNano()
		return size + 1, aimdProbing
	case near && a.ceiling > 0:
		return size + (top-size+3)/4, aimdOpen // below a known ceiling: nothing to judge
	case size < c.MinInflight:
		return c.MinInflight, aimdOpen // every host may have so many: nothing to judge
	case !a.steady:
		return min(top, 2*size), aimdWider
	case near:
		return min(top, size+max(2, int(math.Sqrt(float64(size))))), aimdWider
	default: // a step so large that its gain, if there is one, can be measured
		return min(top, size+max(4, size/2)), aimdWider
	}
}

// tooHigh reports whether latency is well above the norm, and more so than by the
// queue that a wider window can make.
func (a *aimd) tooHigh(lat uint32) bool {
	norm := uint64(a.norm)
	if a.state == aimdWider {
		norm = norm * uint64(a.size) / uint64(a.before)
	}
	return uint64(lat) > max(aimdTolerated, norm+norm/4*3+aimdSlack)
}

// climb ends a round whose latency was too high. A trial is undone. If it is the second such round in a row, which is
// hardly chance, the window is cut.
func (a *aimd) climb(c *Config, e *Event) {
	size := int(a.size)
	if a.state == aimdWider || a.state == aimdNarrow {
		size = min(size, int(a.before))
	}
	cut := max(c.MinInflight, size*5/8)
	if !a.high || cut >= size {
		a.high = true
		a.begin(size, aimdOpen, e)
		return
	}
	a.steady, a.high = true, false
	a.easy = a.norm
	a.begin(cut, aimdCut, e)
}

// refuse halves the window and sets the ceiling below what was in flight.
func (a *aimd) refuse(e *Event) {
	if a.state == aimdProbing || a.freed {
		a.fails = min(a.fails+1, aimdMaxFails)
	}
	a.steady, a.freed = true, false
	a.bumped = e.Now.UnixNano()
	size := int(a.size)
	a.ceiling = uint16(max(1, size/2, min(e.Inflight, size)-1))
	a.begin(max(1, size/2), aimdOpen, e)
}

// begin sets the window and begins the round that will judge it.
func (a *aimd) begin(size int, state aimdState, e *Event) {
	a.before, a.size, a.state = a.size, uint16(size), state
	a.round = aimdRound{began: e.Now.UnixNano()}
}
