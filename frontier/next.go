package frontier

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Next waits for a URL that may be fetched now, and leases it. It returns
// ErrDrained, ErrLimit or ErrClosed, the context's error, or the store's.
func (f *Frontier) Next(ctx context.Context) (*Lease, error) {
	for {
		if err := f.over(ctx); err != nil {
			if f.waiters.n.Load() > 0 {
				f.passOn(false) // this call may have been woken for what it does not take now
			}
			return nil, err
		}
		if l := f.take(); l != nil {
			return l, nil
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// over is the reason to lease nothing any more.
func (f *Frontier) over(ctx context.Context) error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.live.Load() == 0 {
		return ErrDrained
	}
	if f.limitReached() {
		return ErrLimit
	}
	return nil
}

// limitReached reports whether all tickets are spent for good, and some page
// would need another.
func (f *Frontier) limitReached() bool {
	return f.tickets.exhausted() && f.busy.Load() == 0 && f.pages.Load() > 0
}

// take leases from any shard where a host's time has come.
func (f *Frontier) take() *Lease {
	f.release()
	now, n := f.clock(), len(f.shards)
	from := 0
	if n > 1 {
		from = rand.IntN(n)
	}
	for i := range n {
		s := f.shards[(from+i)%n]
		if s.due.Load() > now {
			continue
		}
		s.lock()
		s.now = now
		l := s.take(now)
		if l != nil && l.kind == KindPage && s.commit(Record{Leased: s.keyOnly(l.key)}) != nil {
			l.over.Store(true)
			s.land(l, &Result{})
			s.putBack(l, now, int(l.attempts))
			l = nil
		}
		s.unlock()
		if l != nil {
			return l
		}
	}
	return nil
}

// release lets one host go on that waits for a robots slot, and one that waits for
// a ticket, if there are any again.
func (f *Frontier) release() {
	if f.robotsWaiters.Load() > 0 && f.robots.free() {
		f.releaseOne(func(s *shard) *fifo { return &s.robotsWait }, &f.robotsWaiters, hostRobotsWait)
	}
	if f.ticketWaiters.Load() > 0 && !f.tickets.exhausted() {
		f.releaseOne(func(s *shard) *fifo { return &s.ticketWait }, &f.ticketWaiters, hostTicketWait)
	}
}

func (f *Frontier) releaseOne(queue func(*shard) *fifo, waiting *atomic.Int64, flag hostFlags) {
	from := rand.IntN(len(f.shards))
	for i := range f.shards {
		s := f.shards[(from+i)%len(f.shards)]
		s.lock()
		found := false
		for !found {
			h, ok := queue(s).pop()
			if !ok {
				break
			}
			waiting.Add(-1)
			if found = s.hosts.at(h).flags&flag != 0; found {
				s.hosts.at(h).flags &^= flag
				s.touch(h)
			}
		}
		s.unlock()
		if found {
			return
		}
	}
}

// wait returns when there may be something to lease, or when the crawl is over.
func (f *Frontier) wait(ctx context.Context) error {
	w, _ := f.idlers.Get().(*waiter)
	if w == nil {
		w = &waiter{woken: make(chan struct{}, 1)}
	}
	f.waiters.add(w)
	// Only now that everybody who makes work sees somebody wait: look once more.
	now := f.clock()
	due := f.firstDue()
	if due <= now || f.over(ctx) != nil || f.couldRelease() {
		if f.waiters.remove(w) {
			f.arrive(w)
		}
		f.idlers.Put(w)
		return nil
	}
	f.arm(due, now)
	select {
	case <-w.woken:
		f.waiters.awake.Add(-1)
		f.idlers.Put(w)
		return nil
	case <-ctx.Done():
		if f.waiters.remove(w) {
			f.arrive(w)
			f.passOn(false) // somebody else must take what this one was woken for
		}
		f.idlers.Put(w)
		return ctx.Err()
	}
}

// arrive takes in the waking of a waiter that did not wait for it.
func (f *Frontier) arrive(w *waiter) {
	<-w.woken
	f.waiters.awake.Add(-1)
}

func (f *Frontier) couldRelease() bool {
	return f.robotsWaiters.Load() > 0 && f.robots.free() || f.ticketWaiters.Load() > 0 && !f.tickets.exhausted()
}

// firstDue is when the first host of all shards may be leased.
func (f *Frontier) firstDue() int64 {
	due := int64(never)
	for _, s := range f.shards {
		due = min(due, s.due.Load())
	}
	return due
}

// comeBack is how long whoever ends a lease is given to ask for the next one.
const comeBack = 500 * time.Microsecond

// passOn wakes another waiter if there is more work, or sets the timer. Work that
// somebody makes who will be back in a moment is his first: another who is woken
// for it finds it gone, or makes him lie down instead.
func (f *Frontier) passOn(returning bool) {
	due, now := f.firstDue(), f.clock()
	switch work := due <= now || f.couldRelease(); {
	case work && returning:
		f.arm(now+int64(comeBack), now)
	case work:
		f.waiters.wake()
	default:
		f.arm(due, now)
	}
}

// ring is what the timer does.
func (f *Frontier) ring() {
	f.waiters.disarm()
	f.passOn(false)
}

func (f *Frontier) arm(due, now int64) {
	if due != never {
		f.waiters.arm(due, time.Duration(due-now))
	}
}
