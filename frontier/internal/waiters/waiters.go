// Package waiters holds the list of calls that wait for work, with the one timer that wakes the first of them. It
// knows nothing of the work.
package waiters

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A List is the calls that wait, in the order of arrival, and a timer.
//
// Wake wakes one waiter at a time: while a woken one has not begun to look for work, no other is woken. A woken call
// that finds work looks for more before it returns, and wakes the next waiter or sets the timer. A call that finds no
// work sets the timer and waits again. So as long as any call waits, a woken one is looking or the timer is set, and
// one piece of work never wakes many calls.
type List struct {
	n     atomic.Int64 // how many wait; written under mu
	awake atomic.Int64 // how many were woken and have not returned from Wait or Leave
	woken atomic.Int64 // how many were ever woken

	pool sync.Pool // of *Waiter

	mu          sync.Mutex // guards everything below
	first, last *Waiter
	ring        func() // what the timer calls
	timer       *time.Timer
	armed       int64 // when the timer fires; unset if it will not
	closed      bool
}

const unset = math.MaxInt64

// A Waiter is one call that waits.
type Waiter struct {
	woken      chan struct{} // holds one
	prev, next *Waiter
	listed     bool
}

// Init sets what is called when the timer fires. It is called before anything else.
func (q *List) Init(ring func()) { q.armed, q.ring = unset, ring }

// Len is how many calls wait.
func (q *List) Len() int64 { return q.n.Load() }

// Wakeups is how many calls were ever woken.
func (q *List) Wakeups() int64 { return q.woken.Load() }

// Enter puts the calling goroutine into the list. From then on Wake may choose it. It must call Wait or Leave next.
func (q *List) Enter() *Waiter {
	w, _ := q.pool.Get().(*Waiter)
	if w == nil {
		w = &Waiter{woken: make(chan struct{}, 1)}
	}
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
	return w
}

// Wait returns nil when w is woken. If the context ends first it returns its error, and whether w was woken
// nevertheless: then another waiter must be woken for the work. The waiter must not be used again.
func (q *List) Wait(ctx context.Context, w *Waiter) (woken bool, err error) {
	select {
	case <-w.woken:
		q.awake.Add(-1)
		q.pool.Put(w)
		return true, nil
	case <-ctx.Done():
		return q.Leave(w), ctx.Err()
	}
}

// Leave takes w out of the list, and reports whether it was woken before. The waiter must not be used again.
func (q *List) Leave(w *Waiter) (woken bool) {
	if woken = !q.remove(w); woken {
		<-w.woken
		q.awake.Add(-1)
	}
	q.pool.Put(w)
	return woken
}

// remove takes w out of the list, unless it was woken.
func (q *List) remove(w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.listed {
		return false
	}
	q.unlinkLocked(w)
	return true
}

func (q *List) unlinkLocked(w *Waiter) {
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

// Wake wakes the first waiter, unless a woken one has not looked for work yet.
func (q *List) Wake() {
	if q.awake.Load() > 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first != nil && q.awake.Load() == 0 {
		q.wakeLocked(q.first)
	}
}

// WakeAll wakes all waiters.
func (q *List) WakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first != nil {
		q.wakeLocked(q.first)
	}
}

func (q *List) wakeLocked(w *Waiter) {
	q.unlinkLocked(w)
	q.awake.Add(1)
	q.woken.Add(1)
	w.woken <- struct{}{}
}

// Arm sets the timer to fire in d at the latest; at is the same as a time of the caller's clock. Without waiters, or
// if the timer fires earlier already, it does nothing.
func (q *List) Arm(at int64, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || at >= q.armed || q.first == nil {
		return
	}
	q.armed = at
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.fire)
	} else {
		q.timer.Reset(d)
	}
}

func (q *List) fire() {
	q.mu.Lock()
	q.armed = unset
	q.mu.Unlock()
	q.ring()
}

// Close stops the timer for good and wakes all waiters.
func (q *List) Close() {
	q.mu.Lock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.WakeAll()
}
