package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/slot"
)

// dispatcher moves crawls towards what is desired. The goroutine of Run takes all decisions. Each running crawl has a
// goroutine of its own (runner). The removal of a crawl and the wait for the slot of safe crawls have one each too.
type dispatcher struct {
	s     *Service
	woken chan struct{} // has room for one
	jobs  sync.WaitGroup
	slot  safeSlot
	// mostHosts is how many hosts a crawl may hold in memory. Each takes about half a kilobyte, so all crawls together
	// take half of Options.MemoryLimit for them.
	mostHosts int

	// Used by the goroutine of Run alone.
	space   space
	month   string
	saved   time.Time // when the progress of running crawls was last recorded
	pruneAt time.Time // when old events are looked for again
	started []string  // accounts in the order of their last starts; kept when their crawls are deleted
	barred  []string  // crawls whose stores were barred for their starts, and were not closed yet in the last step
	// how many removals have begun, and how many had with the last one of each account
	removals int
	removed  map[string]int

	mu       sync.Mutex
	runners  map[string]*runner // guarded by mu; crawls that hold a slot
	waits    map[string]Waiting // guarded by mu; of queued crawls, as of the last step
	order    []*entry           // guarded by mu; of queued crawls, as of the last step; a step replaces it
	removing map[string]bool    // guarded by mu; crawls whose directory is being removed
	turned   bool               // guarded by mu; quotas have changed

	retries  retries
	unclosed unclosed
	resting  restingStores
}

func newDispatcher(s *Service) *dispatcher {
	return &dispatcher{s: s, woken: make(chan struct{}, 1), runners: map[string]*runner{}, waits: map[string]Waiting{},
		removing: map[string]bool{}, removed: map[string]int{},
		retries: retries{all: map[string]retry{}}, unclosed: unclosed{all: map[string]*crawl.Crawl{}},
		slot: safeSlot{queue: slot.Queue{Dir: s.o.SlotDir, Log: s.o.Log}}, resting: newRestingStores(),
		mostHosts: int(s.o.MemoryLimit / int64(s.o.MaxCrawls) / 1024)}
}

// stepEvery is how often the dispatcher looks at what it is not told of: free disk, retention, crawls of other
// processes.
const stepEvery = time.Second

// wake makes the dispatcher look at the database.
func (d *dispatcher) wake() {
	select {
	case d.woken <- struct{}{}:
	default: // it will look anyway
	}
}

// regrant makes the dispatcher ask for the quotas of all running crawls again.
func (d *dispatcher) regrant() {
	d.mu.Lock()
	d.turned = true
	d.mu.Unlock()
	d.wake()
}

// Run runs crawls until ctx ends. It then pauses those that run, so that the next process goes on with them, and
// returns. It may be called once.
func (s *Service) Run(ctx context.Context) error {
	if s.lock == nil {
		return errors.New("the service was opened for its records only")
	}
	d := s.Crawls.dispatch
	for _, dir := range []string{s.crawlsDir(), s.trashDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	process, err := s.recoverWhenRoom(ctx)
	if err == nil {
		d.started, err = loadStarted(context.WithoutCancel(ctx), s.db.Read())
	}
	if err == nil {
		d.resting.open()
		d.loop(ctx)
		d.drain()
		err = errors.Join(d.resting.close(), s.endWell(process))
	}
	return err
}

// loop takes steps until ctx ends.
func (d *dispatcher) loop(ctx context.Context) {
	d.month = monthOf(time.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.woken:
		case <-timer.C:
		}
		if err := d.step(ctx); err != nil && ctx.Err() == nil {
			d.s.o.Log.Error("cannot look after the crawls; this is tried again", "error", err)
		}
		now := time.Now()
		timer.Reset(min(stepEvery, nextMonth(now).Sub(now)))
	}
}

// drain pauses all crawls and waits until their goroutines have ended.
func (d *dispatcher) drain() {
	d.mu.Lock()
	for _, r := range d.runners {
		r.stop(crawl.Suspend, nil)
	}
	d.mu.Unlock()
	d.slot.release(d)
	d.jobs.Wait()
	d.slot.release(d)
}

// step looks at the time, the disk and the database, and brings all crawls one step further.
func (d *dispatcher) step(ctx context.Context) error {
	now := time.Now()
	d.turnMonth(ctx, now)
	opening := slices.DeleteFunc(d.all(), func(r *runner) bool { return r.isOpen.Load() })
	if d.space.look(&d.s.o, int64(len(opening))) {
		if err := errors.Join(d.s.db.Refill(), d.unclosed.reclaimAll()); err != nil {
			d.s.o.Log.Warn("cannot use the disk that is free again", "error", err)
		}
	}
	d.jobs.Go(func() { d.resting.sweep(now) })
	// Crawls move on if these fail, as on a full disk: a crawl that is deleted makes room.
	errs := errors.Join(d.saveProgress(ctx, now), d.expire(ctx, now), d.tidy(ctx, now))
	return errors.Join(errs, d.moveAll(ctx, now))
}

// tidy removes what is not kept any longer, and gives its space back to the disk, once a minute and in bounded steps.
func (d *dispatcher) tidy(ctx context.Context, now time.Time) error {
	if now.Before(d.pruneAt) {
		return nil
	}
	old, err := d.s.prune(ctx, now)
	free, shrinkErr := d.s.db.Shrink(ctx)
	if !old && !free {
		d.pruneAt = now.Add(pruneEvery)
	}
	return errors.Join(err, shrinkErr, d.s.db.Refill())
}

// moveAll brings all crawls one step further.
func (d *dispatcher) moveAll(ctx context.Context, now time.Time) error {
	entries, err := loadEntries(ctx, d.s.db.Read(), d.running())
	if err != nil {
		return err
	}
	accounts, err := loadTerms(ctx, d.s.db.Read(), entries, now)
	if err != nil {
		return err
	}
	for i, id := range d.started {
		if t := accounts[id]; t != nil {
			t.turn = i + 1
		}
	}
	plans, err := d.s.Accounts.Plans(ctx)
	if err != nil {
		return err
	}
	// The last crawl of an account may have ended since the entries were read.
	entries = slices.DeleteFunc(entries, func(e *entry) bool { return accounts[e.account] == nil })
	for _, e := range entries {
		t := accounts[e.account]
		e.safePlan = !e.planByAdmin && t.plan.Safe ||
			slices.ContainsFunc(plans, func(p Plan) bool { return p.Name == e.plan && p.Safe })
		if r := d.runner(e.id); r != nil && t.plan.DiskBytes > 0 {
			t.disk += max(0, r.measured(now)-e.disk) // what it has written since its size was stored
		}
	}
	return d.advance(ctx, entries, accounts, now)
}

// advance moves every crawl towards what is desired.
func (d *dispatcher) advance(ctx context.Context, entries []*entry, accounts map[string]*terms, now time.Time) error {
	var errs []error
	var resting, queued, deleting []*entry
	for _, e := range entries {
		r := d.runner(e.id)
		if r == nil {
			resting = append(resting, e)
			continue
		}
		accounts[e.account].running++
		errs = append(errs, d.command(ctx, r, e, accounts[e.account]), r.passTrial(ctx, now))
	}
	trials := isOnTrial(d.all(), now) || slices.ContainsFunc(resting, func(e *entry) bool {
		return e.trial == onTrial && e.state == Queued && accounts[e.account].hindrance(now) == nil &&
			(!e.needsSafeSlot() || d.slot.isHeldFor(e.id))
	})
	kept := 0 // slots for crawls that ran when the process ended, and have yet to be on trial
	for _, e := range resting {
		switch {
		case e.state == Deleting:
			deleting = append(deleting, e)
		case e.mustFinish():
			queued = append(queued, e)
		case e.state == Pausing, e.state == Running && e.desired == DesiredPause:
			// the end of its run could not be recorded
			errs = append(errs, d.repairPause(ctx, e.id))
		case e.state == Queued, e.state == Running: // as above
			queued = append(queued, e)
		case d.mayRequeue(e, accounts[e.account], trials, now):
			trials = trials || e.wait == WaitRecovery
			if err := d.requeue(ctx, e); err != nil {
				errs = append(errs, err)
				continue
			}
			queued = append(queued, e) // it keeps its age, and may be before others that are queued
		case e.state == Paused && e.trial == awaitsTrial && e.wait == WaitRecovery &&
			accounts[e.account].hindrance(now) == nil:
			kept++
		}
	}
	d.removeInTurns(deleting, now)
	return errors.Join(append(errs, d.startQueued(ctx, queued, accounts, kept, now))...)
}

// startQueued starts the crawls of the queue whose turn it is, and notes what the others wait for. It keeps some slots
// for crawls that are on trial or will be.
func (d *dispatcher) startQueued(ctx context.Context, queued []*entry, accounts map[string]*terms, kept int,
	now time.Time) error {
	var errs []error
	waits, order := map[string]Waiting{}, []*entry{}
	var barred []string
	nextSafe := "" // the first safe crawl that only needs slots
	queue := inOrder(queued, accounts)
	d.giveExtraSlot(queue, accounts, now)
	for _, e := range queue {
		t := accounts[e.account]
		slots := d.s.o.MaxCrawls - kept
		if e.trial == onTrial {
			slots = d.s.o.MaxCrawls
		}
		wait, hasSlot := d.hindrance(e, t, now), e.isExtra || d.slotsUsed() < slots
		if wait == nil && e.needsSafeSlot() && nextSafe == "" {
			nextSafe = e.id
			d.slot.giveTo(d, e.id, hasSlot)
		}
		switch {
		case wait != nil:
		case !hasSlot:
			wait = &Waiting{Code: WaitSlot, Detail: fmt.Sprintf("%d crawls run, and no more run at once",
				d.s.o.MaxCrawls)}
		case e.needsSafeSlot() && !d.slot.isHeldFor(e.id):
			wait = &Waiting{Code: WaitSafeSlot, Detail: d.slot.detail()}
			if d.slot.isFor(e.id) {
				t.running++ // a later crawl of the account does not take the place that its plan allows
			}
		case !d.resting.bar(e.id, &d.jobs, d.wake):
			barred = append(barred, e.id)
			wait = &Waiting{Code: WaitSlot, Detail: "its pages are being read; it starts when its readers have ended"}
		default:
			if err := d.start(ctx, e); err != nil {
				errs = append(errs, err)
				wait = &Waiting{Code: WaitSlot, Detail: retryText}
			} else {
				t.running++
				d.started = append(slices.DeleteFunc(d.started, func(id string) bool { return id == e.account }),
					e.account)
				continue
			}
		}
		order = append(order, e)
		wait.Position = len(order)
		waits[e.id] = *wait
	}
	if nextSafe == "" {
		d.slot.giveTo(d, "", false)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits, d.order = waits, order
	for _, id := range d.barred { // it need not start any more
		if !slices.Contains(barred, id) && d.runners[id] == nil && !d.removing[id] {
			d.resting.allow(id)
		}
	}
	d.barred = barred
	return errors.Join(errs...)
}

// giveExtraSlot gives the slot beyond --max-crawls, if it is free, to a crawl that is to be cancelled. So cancelling
// ends, though other crawls may run for days. Accounts take turns: the one whose last start is longest ago gets it.
func (d *dispatcher) giveExtraSlot(queue []*entry, accounts map[string]*terms, now time.Time) {
	if slices.ContainsFunc(d.all(), func(r *runner) bool { return r.isExtra }) {
		return
	}
	var next *entry
	for _, e := range queue {
		if e.desired == DesiredCancel && d.retries.isDue(e.id, now) && !d.awaitsTrial(e, now) &&
			(next == nil || accounts[e.account].turn < accounts[next.account].turn) {
			next = e
		}
	}
	if next != nil {
		next.isExtra = true
	}
}

// hindrance says why a crawl of the queue may not start now, however many slots are free; nil if it may. To write
// outputs needs no pages, and ends also for a disabled account; if the disk is full, it is tried again and again.
func (d *dispatcher) hindrance(e *entry, t *terms, now time.Time) *Waiting {
	var wait *Waiting
	switch {
	case d.awaitsTrial(e, now): // also one that has the extra slot, if another one has begun since
		wait = &Waiting{Code: WaitRecovery, Detail: recoveryText}
	case e.isExtra:
		return nil
	case e.mustFinish():
		wait = t.runningWait()
	default:
		wait = d.runHindrance(e, t, now)
	}
	if wait == nil && !d.retries.isDue(e.id, now) {
		wait = &Waiting{Code: WaitSlot, Detail: retryText}
	}
	return wait
}

// runHindrance is hindrance for a crawl that is to run.
func (d *dispatcher) runHindrance(e *entry, t *terms, now time.Time) *Waiting {
	wait := t.hindrance(now)
	switch {
	case wait != nil:
	case d.space.low || !d.space.hasRoom(&d.s.o):
		wait = &Waiting{Code: WaitDisk, Detail: d.s.o.diskDetail()}
	}
	return wait
}

// awaitsTrial reports whether a crawl is to be on trial when it starts, and another one is now.
func (d *dispatcher) awaitsTrial(e *entry, now time.Time) bool {
	return (e.trial == awaitsTrial || e.trial == onTrial) && isOnTrial(d.all(), now)
}

const retryText = "it could not be started, or its files could not be written; this is tried again"

// queue is the crawls that wait, in the order in which they start.
func (d *dispatcher) queue() []*entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.order
}

// command makes a running crawl do what is desired.
func (d *dispatcher) command(ctx context.Context, r *runner, e *entry, t *terms) error {
	switch {
	case e.desired == DesiredDelete:
		r.stop(crawl.AtOnce, nil)
	case e.state == Running && e.desired == DesiredCancel && e.generation > 0:
		r.stop(crawl.Pause, pausedByKey()) // it writes no outputs: those of the generation before stay
	case e.state == Running && e.desired == DesiredCancel:
		r.stop(crawl.Gracefully, nil)
	case e.state == Running && e.desired == DesiredPause:
		return d.pause(ctx, r, pausedByKey(), Actor{System: "dispatcher"})
	case e.state == Running:
		why, by := d.mustStop(r, t)
		switch {
		case why == nil:
		case e.isSafe() && e.generation > 0: // it cannot be paused, and writes no outputs
			r.giveUp(why)
		case e.isSafe(): // it cannot be paused: it ends with what it has
			r.stop(crawl.Gracefully, why)
		default:
			return d.pause(ctx, r, why, by)
		}
	}
	return nil
}

// mustStop says why a crawl may not go on, and which part of the service says so. It is nil if it may.
func (d *dispatcher) mustStop(r *runner, t *terms) (*Waiting, Actor) {
	switch {
	case r.hasTooManyHosts(d.mostHosts, time.Now()):
		return &Waiting{Code: WaitOperator, Detail: fmt.Sprintf("it has found more than %d hosts that it has not "+
				"finished, and a crawl of this server holds no more in memory: narrow it, for example by only_hosts, and resume it",
				d.mostHosts)},
			Actor{System: "dispatcher"}
	case d.space.low:
		return &Waiting{Code: WaitDisk, Detail: d.s.o.diskDetail()}, Actor{System: "disk"}
	case t.diskUsed():
		return t.diskWait(), Actor{System: "quota"}
	case t.disabled:
		return &Waiting{Code: WaitAccount,
				Detail: "the account is disabled; the crawl goes on by itself when it is enabled"},
			Actor{System: "dispatcher"}
	}
	return nil, Actor{}
}

// pause begins to pause a running crawl. A crawl that is seen as pausing begins nothing new.
func (d *dispatcher) pause(ctx context.Context, r *runner, why *Waiting, by Actor) error {
	r.stop(crawl.Pause, why)
	return d.s.Write(ctx, func(tx *Tx) error {
		row, err := getRow(ctx, tx, "", r.id)
		if err != nil || row.State != Running {
			return err
		}
		row.State, row.Waiting = Pausing, why
		if why.Code == WaitOperator {
			row.Desired = DesiredPause // it does not go on by itself
		}
		row.disk = cmp.Or(r.size.Load(), row.disk)
		return row.move(tx, by, CrawlPausing, map[string]any{"state": Pausing, "waiting": why})
	})
}

// mayRequeue says whether the reason for which the service paused a crawl is gone. trials says whether a crawl is on
// trial.
func (d *dispatcher) mayRequeue(e *entry, t *terms, trials bool, now time.Time) bool {
	if e.state != Paused || e.desired != DesiredRun {
		return false
	}
	switch e.wait {
	case WaitDisk:
		return !d.space.low && d.space.hasRoom(&d.s.o) && d.retries.isDue(e.id, now)
	case WaitQuota:
		return t.quotaLeft()
	case WaitPlan:
		return !t.diskUsed()
	case WaitAccount:
		return !t.disabled
	case WaitRecovery:
		return e.trial == awaitsTrial && !trials && t.hindrance(now) == nil
	}
	return false
}

// requeue queues a paused crawl again.
func (d *dispatcher) requeue(ctx context.Context, e *entry) error {
	err := d.s.Write(ctx, func(tx *Tx) error {
		row, err := getRow(ctx, tx, "", e.id)
		if err != nil || row.State != Paused || row.Desired != DesiredRun {
			return err
		}
		if row.trial == awaitsTrial {
			row.trial, row.resumeFirst = onTrial, true // as others that ran when the process ended
		}
		row.State, row.Waiting = Queued, nil
		return row.move(tx, Actor{System: "dispatcher"}, CrawlResumed, nil)
	})
	if err == nil && e.trial == awaitsTrial {
		e.trial, e.resumeFirst = onTrial, true
	}
	return err
}

// repairPause records the pause of a crawl if the end of its run could not be recorded.
func (d *dispatcher) repairPause(ctx context.Context, id string) error {
	return d.s.Write(ctx, func(tx *Tx) error {
		row, err := getRow(ctx, tx, "", id)
		if err != nil || row.State != Pausing && row.State != Running || d.runner(id) != nil {
			return err
		}
		return row.paused(tx, Actor{System: "dispatcher"}, cmp.Or(row.Waiting, pausedByKey()))
	})
}

// turnMonth makes running crawls ask for pages again, and take the limits of their plans, when the UTC month turns, and
// when a plan has changed.
func (d *dispatcher) turnMonth(ctx context.Context, now time.Time) {
	month := monthOf(now)
	d.mu.Lock()
	turned := d.turned || month != d.month
	d.turned = false
	d.mu.Unlock()
	d.month = month
	if turned {
		for _, r := range d.all() {
			r.current().Regrant(ctx)
			if err := r.setLimits(ctx); err != nil {
				d.s.o.Log.Error("cannot change the limits of a running crawl", "crawl", r.id, "error", err)
			}
		}
	}
}

// saveEvery is how often the progress of running crawls is recorded.
const saveEvery = 10 * time.Second

// saveProgress records how far running crawls are, and their notices as events.
func (d *dispatcher) saveProgress(ctx context.Context, now time.Time) error {
	due := now.Sub(d.saved) >= saveEvery
	type news struct {
		live    *monitor.Live
		notices []crawl.Notice
	}
	all := map[*runner]news{}
	for _, r := range d.all() {
		if list := r.takeNotices(); due || len(list) > 0 {
			all[r] = news{r.live(), list}
		}
	}
	if due {
		d.saved = now
	}
	if len(all) == 0 {
		return nil
	}
	return d.s.Write(ctx, func(tx *Tx) error {
		for r, n := range all {
			if err := r.save(tx, n.live, n.notices); err != nil {
				return err
			}
		}
		return nil
	})
}

// expire deletes crawls whose retention is over.
func (d *dispatcher) expire(ctx context.Context, now time.Time) error {
	if d.s.o.Retention == 0 {
		return nil
	}
	before := now.Add(-d.s.o.Retention)
	const most = 1000 // at once; the next step takes more
	const ended = "SELECT id FROM crawl INDEXED BY crawl_ended WHERE state IN ('complete', 'partial', 'failed', " +
		"'cancelled') AND ended_at > 0 AND ended_at <= ? ORDER BY ended_at LIMIT ?"
	ids, err := Collect(ctx, d.s.db.Read(), Column[string], ended, before, most)
	if err != nil || len(ids) == 0 {
		return err
	}
	return d.s.Write(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Change("UPDATE crawl SET state = 'deleting', desired = 'delete' WHERE id IN ("+ended+")", before, most),
			tx.Audit(&Caller{System: "retention"}, "crawl.delete", "", map[string]any{"crawls": len(ids)}))
	})
}

// running are the ids of the running crawls.
func (d *dispatcher) running() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(d.runners))
}

// all are the running crawls.
func (d *dispatcher) all() []*runner {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.runners))
}

// runner returns the goroutine of a running crawl, or nil.
func (d *dispatcher) runner(id string) *runner {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runners[id]
}

// slotsUsed is how many of the --max-crawls slots are held.
func (d *dispatcher) slotsUsed() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runners {
		if !r.isExtra {
			n++
		}
	}
	return n
}

// changed tells a running crawl of new limits, and the dispatcher of a new priority.
func (d *dispatcher) changed(ctx context.Context, id string) error {
	d.wake()
	if run := d.runner(id); run != nil {
		return run.setLimits(ctx)
	}
	return nil
}

// complete adds to a crawl what is not stored.
func (d *dispatcher) complete(c *Crawl) {
	d.mu.Lock()
	run, wait := d.runners[c.ID], d.waits[c.ID]
	d.mu.Unlock()
	switch {
	case run == nil && c.isInQueue() && wait.Code != "":
		c.Waiting = &wait
	case run == nil && c.isInQueue() && c.State != Finishing:
		c.Waiting = &Waiting{Code: WaitSlot, Detail: "it was queued just now"}
	case c.State == Paused && c.Waiting != nil && c.Waiting.Code == WaitQuota:
		c.Waiting.Until = page.Time{Time: nextMonth(time.Now())}
	case run != nil && (c.State == Running || c.State == Pausing || c.State == Finishing):
		c.Progress.take(run.live())
	}
}
