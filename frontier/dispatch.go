package frontier

import (
	"context"
	"math/rand/v2"
	"time"
)

// Next waits for a URL that may be fetched now, and leases it. It returns
// ErrDrained, ErrLimit or ErrClosed, the context's error, or the store's.
//
// No call waits while a host may be leased: a call enters the list of waiters and
// looks at all shards after that, and a call that makes work publishes it first and
// looks at the list after that. Thus one of the two sees the other.
func (f *Frontier) Next(ctx context.Context) (*Lease, error) {
	for {
		if err := f.over(ctx); err != nil {
			if f.waiting.Len() > 0 {
				f.wakeNext(false) // this call may have been woken for what it does not take now
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

// over is the reason to lease nothing any more, or nil.
func (f *Frontier) over(ctx context.Context) error {
	if err := f.stopped(); err != nil {
		return err
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

// limitReached reports whether all tickets are spent for good and no check is left, while pages or sitemaps
// are still pending.
func (f *Frontier) limitReached() bool {
	return f.tickets.Exhausted() && f.busy.Load() == 0 && f.urls.Load() > 0
}

// take leases from any shard where a host's time has come. Which shard is tried
// first is random, so that not all calls wait for the same mutex.
func (f *Frontier) take() *Lease {
	f.release()
	shards, now, from := f.shards.all, f.clock.now(), 0
	if len(shards) > 1 {
		from = rand.IntN(len(shards))
	}
	for i := range shards {
		s := shards[(from+i)%len(shards)]
		if s.due.Load() > now {
			continue
		}
		s.lock()
		s.now = now
		l := s.take(now)
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
	if f.robots.CanServe() {
		f.releaseOne(func(s *shard) *slotQueue { return &s.leases.robots })
	}
	if f.tickets.CanServe() {
		f.releaseOne(func(s *shard) *slotQueue { return &s.leases.tickets })
	}
}

func (f *Frontier) releaseOne(queue func(*shard) *slotQueue) {
	shards := f.shards.all
	from := rand.IntN(len(shards))
	for i := range shards {
		s := shards[(from+i)%len(shards)]
		s.lock()
		h, found := queue(s).next(&s.hosts)
		if found {
			s.touch(h)
		}
		s.unlock()
		if found {
			return
		}
	}
}

func (f *Frontier) couldRelease() bool { return f.robots.CanServe() || f.tickets.CanServe() }

// wait returns when there may be something to lease, or when the crawl is over.
func (f *Frontier) wait(ctx context.Context) error {
	w := f.waiting.Enter()
	now, due := f.clock.now(), f.shards.firstDue()
	if due <= now || f.over(ctx) != nil || f.couldRelease() {
		f.waiting.Leave(w)
		return nil
	}
	f.arm(due, now)
	woken, err := f.waiting.Wait(ctx, w)
	if err != nil && woken {
		f.wakeNext(false) // another call must take what this one was woken for
	}
	return err
}

// comeBack is how long a worker that ends a lease is given to call Next again.
const comeBack = 500 * time.Microsecond

// wakeNext wakes a waiter if there is work, or sets the timer. If the calling worker
// returns to Next shortly (returning), it takes the new work itself. Waking another
// waiter as well would only make one of the two wait again, so that wake-up is
// delayed by half a millisecond.
func (f *Frontier) wakeNext(returning bool) {
	now, due := f.clock.now(), f.shards.firstDue()
	switch work := due <= now || f.couldRelease(); {
	case work && returning:
		f.arm(now+int64(comeBack), now)
	case work:
		f.waiting.Wake()
	default:
		f.arm(due, now)
	}
}

// arm has the first waiter woken at the given time.
func (f *Frontier) arm(due, now int64) {
	if due != never {
		f.waiting.Arm(due, time.Duration(due-now))
	}
}
