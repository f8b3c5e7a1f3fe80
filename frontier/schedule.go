package frontier

import (
	"math/rand/v2"
	"time"

	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/pace"
)

// never is a time that does not come.
const never = pace.Never

const (
	// soon is how long before a host's time its window is loaded, and how far away
	// that time may be for the host to keep its window while others need memory.
	soon = int64(time.Second)
	// parkGap is how much later the time of an active host must be than that of a parked one for the two to change
	// places. It keeps hosts from being parked for a small gain.
	parkGap = int64(time.Second)
)

// A schedule holds the paces of a shard's hosts and the order of their times. A
// bounded number of hosts is active: such a host has an activeState, and may be leased. The
// others are parked. The schedule knows nothing of what hosts have queued.
//
// An active host is in ready exactly when, at its time there, it may be leased or must be looked at again. A parked
// host is in parked exactly when it could be leased at its time there if it were active.
type schedule struct {
	config        *pace.Config
	maxActive     int
	states        memory.Slab[activeState]
	ready, parked memory.Heap
	places        memory.Places
	paces         map[int32]pace.Pace // of parked hosts, where it must not be forgotten
	// idle are active hosts without work, the longest idle first. A host with
	// hostIdle is in it once; entries of other hosts are skipped.
	idle memory.Fifo
	// compared is the first time in parked with which the times of all active hosts
	// were last compared.
	compared int64
	rng      rand.PCG
}

// An activeState is what an active host has and a parked one does not.
type activeState struct {
	pace pace.Pace
	fair int64  // clock; when the host's last turn ended; it orders the hosts whose time has come
	rnd  uint64 // drawn at each start, for the delay after it

	saved   pace.Saved // what was last written of the pace
	savedAt int64      // clock; when it was, 0 for not in this run
	crawled int64      // leases since the host became active

	inflight  uint16 // slots taken
	unstarted uint16 // of them, not on the wire yet
	wire      uint16 // of them, on the wire
	turn      uint16 // leases left of a turn that has begun
}

func (sc *schedule) init(config *pace.Config, maxActive int) {
	sc.config, sc.maxActive, sc.compared = config, maxActive, never
	sc.paces = map[int32]pace.Pace{}
	sc.ready, sc.parked = memory.NewHeap(&sc.places), memory.NewHeap(&sc.places)
	sc.rng.Seed(rand.Uint64(), rand.Uint64())
}

// stateOf is the state of an active host.
func (sc *schedule) stateOf(h *host) *activeState { return sc.states.At(h.active) }

// activeCount is the number of active hosts.
func (sc *schedule) activeCount() int { return sc.states.Len() }

func (sc *schedule) isFull() bool { return sc.states.Len() >= sc.maxActive }

// due is the earliest time at which an active host may be leased, or never.
func (sc *schedule) due() int64 { return sc.ready.Top() }

// first is the active host with the earliest time. There must be one.
func (sc *schedule) first() int32 { return sc.ready.First() }

// soonest returns up to n active hosts that may be leased, with their times. They are
// in no exact order, but the first is the soonest.
func (sc *schedule) soonest(n int) []memory.Node { return sc.ready.Nodes(n) }

// hasParked reports whether a parked host waits to become active.
func (sc *schedule) hasParked() bool { return sc.parked.Len() > 0 }

// nextParked is the parked host that is to become active next, if one may.
func (sc *schedule) nextParked() (int32, bool) {
	if sc.isFull() || sc.parked.Len() == 0 {
		return 0, false
	}
	return sc.parked.First(), true
}

// add prepares for a host that is new in the table; it is parked at first.
func (sc *schedule) add(i int32) { sc.places.Grow(i + 1) }

// activate makes a parked host active.
func (sc *schedule) activate(i int32, h *host) {
	sc.parked.Remove(i)
	h.active = sc.states.Alloc()
	st := sc.stateOf(h)
	st.pace = sc.paces[i]
	delete(sc.paces, i)
	st.rnd = h.drawn()
	st.fair = h.fair // else it would be later than those that are parked, and be parked again
	st.saved, st.savedAt = st.pace.Saved(), 0
}

// park makes an active host parked. setPace keeps its pace if that must not be forgotten.
func (sc *schedule) park(i int32, h *host, now int64) {
	st := sc.stateOf(h)
	p := st.pace
	h.fair = st.fair
	sc.ready.Remove(i)
	sc.states.Free(h.active)
	h.active = -1
	h.flags &^= hostEarly
	sc.setPace(i, h, p, now)
}

// remove forgets a host, active or parked.
func (sc *schedule) remove(i int32, h *host) {
	sc.set(i, h, never)
	if h.active >= 0 {
		sc.states.Free(h.active)
		h.active = -1
	}
	delete(sc.paces, i)
}

// time is the time of a host, or never.
func (sc *schedule) time(i int32, h *host) int64 {
	if h.active >= 0 {
		return sc.ready.Time(i)
	}
	return sc.parked.Time(i)
}

// set sets the time of a host.
func (sc *schedule) set(i int32, h *host, at int64) {
	if h.active >= 0 {
		sc.ready.Set(i, at)
	} else {
		sc.parked.Set(i, at)
	}
}

// pace is a host's pace, active or parked.
func (sc *schedule) pace(i int32, h *host) pace.Pace {
	if h.active >= 0 {
		return sc.stateOf(h).pace
	}
	return sc.paces[i]
}

// setPace sets a host's pace. The pace of a parked host is kept if there is anything
// in it that must not be forgotten.
func (sc *schedule) setPace(i int32, h *host, p pace.Pace, now int64) {
	switch {
	case h.active >= 0:
		sc.stateOf(h).pace = p
	case !p.IsDefault() || p.CrawlDelay() > 0 || p.RestUntil().UnixNano() > now:
		sc.paces[i] = p
	default:
		delete(sc.paces, i)
	}
}

// nextStart is when a host's pace allows another start.
func (sc *schedule) nextStart(i int32, h *host) int64 {
	var last time.Time
	if h.lastStart != 0 {
		last = time.Unix(0, h.lastStart)
	}
	var at time.Time
	if h.active >= 0 {
		st := sc.stateOf(h)
		at = st.pace.NextStart(sc.config, last, st.rnd)
	} else {
		at = sc.paces[i].NextStart(sc.config, last, h.drawn())
	}
	if at.IsZero() {
		return h.notBefore
	}
	return max(h.notBefore, at.UnixNano())
}

// started notes that a request to an active host starts now. rnd is drawn for the delay
// after it.
func (sc *schedule) started(h *host, now int64, rnd uint64) {
	h.lastStart = now
	sc.stateOf(h).rnd = rnd
}

// limit is how many requests an active host may have in flight; st is its state. If the window is adaptive, a host of
// which nothing is known yet may have one. With a sitemap or a robots.txt in flight it may have MinInflight: a sitemap
// can take long to read, and the first pages must not wait for it.
func (sc *schedule) limit(h *host, st *activeState) int {
	if sc.config.Adaptive && st.pace.IsFresh() && h.leases > h.pageLeases {
		return sc.config.MinInflight
	}
	return st.pace.Limit(sc.config)
}

// shouldPark reports whether a parked host's time comes well before the given one.
func (sc *schedule) shouldPark(at int64) bool {
	top := sc.parked.Top()
	return top != never && at > top+min(parkGap, never-top)
}

// late returns active hosts whose times come well after that of the first parked host. shouldPark compares each host
// whose time changes. The others need to be compared only when the first parked host has an earlier time than at the
// last comparison. A comparison looks at every host, so it returns many hosts at once.
func (sc *schedule) late(hosts *hostTable) (late []int32) {
	const most = 1024
	top := sc.parked.Top()
	if top == never {
		sc.compared = never
		return nil
	}
	if top >= sc.compared || !sc.isFull() {
		return nil
	}
	sc.compared = top
	for i := range hosts.end() {
		h := hosts.at(i)
		if h.id == 0 || h.active < 0 || !h.parkable() || sc.ready.Time(i) <= top+parkGap {
			continue
		}
		if late = append(late, i); len(late) == most {
			sc.compared = never
			break
		}
	}
	return late
}

// addIdle notes that an active host has no work.
func (sc *schedule) addIdle(i int32, hosts *hostTable) {
	h := hosts.at(i)
	if h.flags&hostIdle != 0 {
		return
	}
	h.flags |= hostIdle
	sc.idle.Push(i)
	if sc.idle.Len() < 2*sc.activeCount()+1024 {
		return
	}
	// Entries that are no longer valid are removed; otherwise the list would grow with every host.
	sc.idle.Filter(func(i int32) bool {
		h := hosts.at(i)
		keep := h.flags&hostIdle != 0 && h.active >= 0
		h.flags &^= hostIdle // a second entry of the same host is not kept
		return keep
	})
	sc.idle.Filter(func(i int32) bool {
		hosts.at(i).flags |= hostIdle
		return true
	})
}

// takeIdle returns the active host that has been without work the longest.
func (sc *schedule) takeIdle(hosts *hostTable) (int32, bool) {
	for {
		i, ok := sc.idle.Pop()
		if !ok {
			return 0, false
		}
		h := hosts.at(i)
		if h.flags&hostIdle == 0 {
			continue
		}
		h.flags &^= hostIdle
		if h.active >= 0 && h.why == whyIdle && h.parkable() && h.pending == 0 {
			return i, true
		}
	}
}

// grant takes a slot for a new lease. turn is how many leases a host gets in a row
// before it goes behind others whose time has come.
func (st *activeState) grant(now int64, turn int) {
	st.crawled++
	st.inflight++
	st.unstarted++
	if st.turn == 0 {
		st.turn = uint16(min(turn, 1<<15))
	}
	if st.turn--; st.turn == 0 {
		st.fair = now
	}
}

// start notes that the first request of a lease is sent.
func (st *activeState) start() {
	st.unstarted--
	st.wire++
}

// release frees the slot of a lease.
func (st *activeState) release(started bool) {
	st.inflight--
	if started {
		st.wire--
	} else {
		st.unstarted--
	}
}

// noteSaved notes that the pace is written now.
func (st *activeState) noteSaved(now int64) { st.saved, st.savedAt = st.pace.Saved(), now }

// whyNot is the part of the pace for which the host waits.
func (st *activeState) whyNot(now int64) reason {
	switch ready := st.pace.ReadyAt(); {
	case ready.IsZero() || ready.UnixNano() <= now:
		return whyDelay
	case st.pace.Failures() > 0:
		return whyBackoff
	}
	return whyRest
}
