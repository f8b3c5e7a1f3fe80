package frontier

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mapwright/mapwright/frontier/internal/limit"
	"github.com/mapwright/mapwright/frontier/internal/waiters"
)

// A dispatcher gives leases to the calls of Next, and lets them wait while there
// are none.
//
// No call waits while a host may be leased: a call enters the list of waiters and
// looks at all shards after that, and a call that makes work publishes it first and
// looks at the list after that. Thus one of the two sees the other.
type dispatcher struct {
	waiting waiters.List

	shards          *shardSet
	clock           *clock
	life            *lifetime
	totals          *totals
	tickets, robots *limit.Slots
}

func (d *dispatcher) init(f *Frontier) {
	d.shards, d.clock, d.life, d.totals, d.tickets, d.robots = &f.shards, &f.clock, &f.life, &f.totals, &f.tickets,
		&f.robots
	d.waiting.Init(func() { d.wakeNext(false) })
}

// next is Frontier.Next.
func (d *dispatcher) next(ctx context.Context) (*Lease, error) {
	for {
		if err := d.over(ctx); err != nil {
			if d.waiting.Len() > 0 {
				d.wakeNext(false) // this call may have been woken for what it does not take now
			}
			return nil, err
		}
		if l := d.take(); l != nil {
			return l, nil
		}
		if err := d.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// over is the reason to lease nothing any more.
func (d *dispatcher) over(ctx context.Context) error {
	if err := d.life.err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.totals.live.Load() == 0 {
		return ErrDrained
	}
	if d.limitReached() {
		return ErrLimit
	}
	return nil
}

// limitReached reports whether all tickets are spent for good, and a page would need
// another or a sitemap could name one.
func (d *dispatcher) limitReached() bool {
	return d.tickets.Exhausted() && d.totals.busy.Load() == 0 && d.totals.urls.Load() > 0
}

// take leases from any shard where a host's time has come. Which shard is tried
// first is random, so that not all calls wait for the same mutex.
func (d *dispatcher) take() *Lease {
	d.release()
	shards, now, from := d.shards.all, d.clock.now(), 0
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
func (d *dispatcher) release() {
	if d.robots.CanServe() {
		d.releaseOne(func(s *shard) *slotQueue { return &s.leases.robots })
	}
	if d.tickets.CanServe() {
		d.releaseOne(func(s *shard) *slotQueue { return &s.leases.tickets })
	}
}

func (d *dispatcher) releaseOne(queue func(*shard) *slotQueue) {
	shards := d.shards.all
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

func (d *dispatcher) couldRelease() bool { return d.robots.CanServe() || d.tickets.CanServe() }

// wait returns when there may be something to lease, or when the crawl is over.
func (d *dispatcher) wait(ctx context.Context) error {
	w := d.waiting.Enter()
	now, due := d.clock.now(), d.shards.firstDue()
	if due <= now || d.over(ctx) != nil || d.couldRelease() {
		d.waiting.Leave(w)
		return nil
	}
	d.arm(due, now)
	woken, err := d.waiting.Wait(ctx, w)
	if err != nil && woken {
		d.wakeNext(false) // another call must take what this one was woken for
	}
	return err
}

// comeBack is how long a worker that ends a lease is given to call Next again.
const comeBack = 500 * time.Microsecond

// wakeNext wakes a waiter if there is work, or sets the timer. If the calling worker
// returns to Next shortly (returning), it takes the new work itself. Waking another
// waiter as well would only make one of the two wait again, so that wake-up is
// delayed by half a millisecond.
func (d *dispatcher) wakeNext(returning bool) {
	now, due := d.clock.now(), d.shards.firstDue()
	switch work := due <= now || d.couldRelease(); {
	case work && returning:
		d.arm(now+int64(comeBack), now)
	case work:
		d.waiting.Wake()
	default:
		d.arm(due, now)
	}
}

// arm has the first waiter woken at the given time.
func (d *dispatcher) arm(due, now int64) {
	if due != never {
		d.waiting.Arm(due, time.Duration(due-now))
	}
}
