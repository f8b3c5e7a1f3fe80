package pace

import "time"

// aimdRound is what is measured between two decisions about a window. It counts
// only requests that started in it, so that what it measures was caused by the
// window it has.
type aimdRound struct {
	n     uint32 // answers to requests that started in the round
	full  uint32 // of those, the ones that started with the window full
	done  uint32 // all answers since the first of them
	sum   uint64 // µs, latencies of the n
	began int64  // Unix ns
	first int64  // Unix ns; when the first of the n came
}

// A round must be long enough that chance, a garbage collection or another program on the processor rarely changes its
// latency and rate by more than a few per cent. It needs at least roundAnswers answers, and twice the window, and it
// takes at least roundTime.
const (
	roundAnswers = 32
	roundTime    = 200 * time.Millisecond
	// Where latency is not near its floor, throughput alone must decide, and that
	// takes longer to know.
	trialTime = time.Second

	// roundBound is how many times the norm one answer can weigh: one slow page
	// among many says nothing about the host.
	roundBound = 4
)

func (r *aimdRound) add(e *Event, size int, norm uint32) {
	if r.n > 0 {
		r.done++
	}
	if e.Start.UnixNano() < r.began {
		return
	}
	if r.n == 0 {
		r.first = e.Now.UnixNano()
	}
	us := max(1, toMicros(e.Latency-e.Lag))
	if norm > 0 {
		us = min(us, roundBound*(norm+aimdSlack))
	}
	r.n++
	r.sum += uint64(us)
	if e.Slots >= size || e.Slots == 0 && 2*e.Inflight >= size {
		r.full++
	}
}

// enough reports whether the round can be judged. The first round has nothing to judge. While the window doubles, a
// quarter of a round is enough as long as latency is near its floor.
func (r *aimdRound) enough(e *Event, a *aimd) bool {
	if r.n < roundAnswers/4 {
		return false
	}
	if a.fresh() {
		return true // there is nothing to compare it with
	}
	need, took := max(roundAnswers, 2*uint32(a.size)), time.Duration(e.Now.UnixNano()-r.first)
	switch near := a.near(r.latency()); {
	case near && !a.steady:
		return r.n >= need/4 && took >= roundTime/20
	case near || a.state == aimdOpen || a.state == aimdCut:
		return r.n >= need && took >= roundTime
	default:
		return r.n >= need && took >= trialTime
	}
}

func (r *aimdRound) latency() uint32 { return uint32(r.sum / uint64(r.n)) }

func (r *aimdRound) rate(e *Event) float32 {
	return float32(r.done) / float32(max(1, e.Now.UnixNano()-r.first)) * float32(time.Second)
}

func (r *aimdRound) wasFull() bool { return 2*r.full >= r.n }
