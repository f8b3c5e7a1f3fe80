package frontier

import (
	"github.com/mapwright/mapwright/frontier/pace"
)

// effects are the changes of a call that matter outside its shard: those of the counters that all shards share, and the
// notices. They are collected while the shard is locked, and take effect together when it is unlocked. So no shared
// counter is zero for a moment while work is left.
type effects struct {
	hostCounts // changes of the counts of the shard's hosts
	gate       gateChanges
	permits    int64          // that became free
	returning  bool           // the caller ends a lease, and will most likely ask for the next
	wakes      []*pace.Handle // other crawls that may ask a host now
	notices    []Notice
	observed   bool // notices are wanted
}

// hostCounts are what hosts add to the counters of the frontier.
type hostCounts struct {
	live, urls, busy int64 // see Frontier
	pages, checks    int64 // of urls
	givenUp          int64 // pending pages of blocked and abandoned hosts, without those in flight
}

// change adds the difference between the counts of a host now and before. Pointers,
// because copies of the struct took 4 % of BenchmarkNextDone.
func (c *hostCounts) change(now, before *hostCounts) {
	c.live += now.live - before.live
	c.urls += now.urls - before.urls
	c.pages += now.pages - before.pages
	c.checks += now.checks - before.checks
	c.busy += now.busy - before.busy
	c.givenUp += now.givenUp - before.givenUp
}

// note keeps a notice for the observer, if there is one.
func (e *effects) note(n Notice) {
	if e.observed {
		e.notices = append(e.notices, n)
	}
}

// wake notes another crawl to be woken; nil means none.
func (e *effects) wake(crawl *pace.Handle) {
	if crawl != nil {
		e.wakes = append(e.wakes, crawl)
	}
}

// moveTo adds the effects to a sum, and empties them.
func (e *effects) moveTo(sum *effects) {
	sum.hostCounts.change(&e.hostCounts, &hostCounts{})
	sum.permits += e.permits
	sum.returning = sum.returning || e.returning
	e.hostCounts, e.permits, e.returning = hostCounts{}, 0, false
	if len(e.gate) > 0 {
		sum.gate = append(sum.gate, e.gate...)
		e.gate = e.gate[:0]
	}
	if len(e.wakes) > 0 {
		sum.wakes = append(sum.wakes, e.wakes...)
		clear(e.wakes)
		e.wakes = e.wakes[:0]
	}
	if len(e.notices) > 0 {
		sum.notices = append(sum.notices, e.notices...)
		e.notices = e.notices[:0]
	}
}

// count adds what one call changed to the counters, and reports whether the frontier is drained by it.
func (f *Frontier) count(c *hostCounts) (drained bool) {
	if c.urls != 0 {
		f.urls.Add(c.urls)
	}
	if c.busy != 0 {
		f.busy.Add(c.busy)
	}
	return c.live != 0 && f.live.Add(c.live) == 0
}

// unlock settles the touched hosts of the shards, which are locked, and unlocks them. It adds their effects to the
// counters that all shards share while the shards are still locked. After that it wakes those who wait: loaders, calls
// of Next, other crawls.
func (f *Frontier) unlock(shards []*shard) {
	for _, s := range shards {
		if len(s.touched) > 0 || s.schedule.hasParked() {
			s.settleAll(s.time())
		}
	}
	var sum effects
	var outbox []robotsNotice
	for _, s := range shards {
		s.effects.moveTo(&sum)
		if len(s.robots.outbox) > 0 {
			outbox = append(outbox, s.robots.takeOutbox()...)
		}
		s.due.Store(s.schedule.due())
	}
	told := func() {}
	if len(sum.notices) > 0 {
		told = MemberOf(f).Hold() // the observer hears of all before Next returns ErrDrained
	}
	drained := f.count(&sum.hostCounts)
	if len(sum.gate) > 0 {
		f.gate.apply(sum.gate)
	}
	for _, s := range shards {
		s.mu.Unlock()
	}
	if sum.permits > 0 {
		f.permits.Release(sum.permits)
		f.jobs.Freed()
	}
	if len(sum.gate) > 0 {
		f.gate.advance(&f.shards)
	}
	if drained || f.limitReached() {
		f.waiting.WakeAll()
	} else if f.waiting.Len() > 0 {
		f.wakeNext(sum.returning)
	}
	for _, crawl := range sum.wakes {
		crawl.Wake()
	}
	if len(outbox) > 0 {
		f.deliver(outbox)
	}
	for _, n := range sum.notices {
		f.o.Observe(n)
	}
	told()
}
