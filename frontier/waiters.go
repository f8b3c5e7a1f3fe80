package frontier

import (
	"sync"
	"sync/atomic"
	"time"
)

// waiters are the calls of Next that found nothing to lease, in order of arrival,
// and the one timer that wakes the first of them when a host's time comes.
//
// One is woken at a time. Whoever is woken and finds work looks for more before
// it leaves, and wakes the next or sets the timer; so does whoever finds none and
// lies down again. So as long as anybody waits, somebody is on the way or the
// timer is set for the first host's time, or for the moment by which whoever has
// ended a lease should be back, and no crowd ever runs for one lease.
type waiters struct {
	n     atomic.Int64 // how many wait; written under mu
	awake atomic.Int64 // how many were woken and have not looked yet
	woken atomic.Int64 // how many ever were

	mu          sync.Mutex // guards the list and the timer
	first, last *waiter
	ring        func() // what the timer calls
	timer       *time.Timer
	armed       int64 // clock; when the timer goes off, never if it is not set
	closed      bool
}

type waiter struct {
	woken      chan struct{} // has room for one
	prev, next *waiter
	listed     bool
}

// add lets w wait.
func (q *waiters) add(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.prev, w.next, w.listed = q.last, nil, true
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.n.Add(1)
}

// remove takes w out, unless it was woken, which it reports.
func (q *waiters) remove(w *waiter) (woken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.listed {
		return true
	}
	q.unlinkLocked(w)
	return false
}

func (q *waiters) unlinkLocked(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
	q.n.Add(-1)
}

// wake wakes the first waiter, unless one is on its way already.
func (q *waiters) wake() {
	if q.awake.Load() > 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked()
}

func (q *waiters) wakeLocked() {
	if w := q.first; w != nil && q.awake.Load() == 0 {
		q.unlinkLocked(w)
		q.awake.Add(1)
		q.woken.Add(1)
		w.woken <- struct{}{}
	}
}

// wakeAll wakes everybody: the crawl is over, one way or another.
func (q *waiters) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.first; w != nil; w = q.first {
		q.unlinkLocked(w)
		q.awake.Add(1)
		q.woken.Add(1)
		w.woken <- struct{}{}
	}
}

// arm sets the timer to go off in d at the latest; at is the same as a time.
func (q *waiters) arm(at int64, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || at >= q.armed || q.first == nil {
		return
	}
	q.armed = at
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.ring)
	} else {
		q.timer.Reset(d)
	}
}

// disarm notes that the timer has gone off.
func (q *waiters) disarm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = never
}

// close stops the timer for good.
func (q *waiters) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
}
