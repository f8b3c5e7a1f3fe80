package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/state"
)

// runner is one crawl that holds a slot, from its start to the record of its end.
type runner struct {
	d       *dispatcher
	id      string
	dir     datadir.Dir
	log     *os.File
	began   time.Time
	isTrial bool         // of the dispatcher's goroutine alone
	isExtra bool         // it has the slot for cancelled crawls; written before it is shared
	isOpen  atomic.Bool  // the store is open and has taken its disk space; written by hasBegun
	size    atomic.Int64 // bytes of the directory when it was last measured; 0 if it was not; written by measure
	sizing  atomic.Bool  // it is being measured
	sizeAt  time.Time    // when it is to be measured again; of the goroutine that has set sizing

	// Of the dispatcher's goroutine; see hasTooManyHosts.
	hosts     int // that it held in memory at hostsAt; before it, as many as there can be, or 0 for a new crawl
	hostsAt   time.Time
	manyHosts bool

	// editing is held while the crawl takes over the settings of its row, so that the later of two edits wins.
	editing sync.Mutex

	mu       sync.Mutex
	crawl    *crawl.Crawl      // guarded by mu; nil if it could not be made; replaced by again
	outputs  *results.Outputs  // of crawl; guarded by mu, and read without it when the run has ended
	plan     Plan              // guarded by mu; as it was when the run began
	settings *config.Settings  // guarded by mu; with the limits of the last edit
	edits    int64             // guarded by mu; row.edits when the crawl got the settings of its row
	renew    bool              // guarded by mu; the run stops only to begin again with other limits
	mode     *crawl.StopMode   // guarded by mu; how it was asked to stop; nil if it was not
	why      *Waiting          // guarded by mu; why it was asked to pause; nil if the process ends
	givenUp  bool              // guarded by mu; it was asked to end without outputs, as if it were cancelled
	sample   *monitor.Live     // guarded by mu
	at       time.Time         // guarded by mu; of sample
	notices  []crawl.Notice    // guarded by mu; not yet recorded as events
	blocked  map[string]string // guarded by mu; hosts that this run does not ask any more, and why
}

// sampleFor is how long a sample of a running crawl is shown, so that many readers cost no more than one.
const sampleFor = 500 * time.Millisecond

// start starts a crawl whose store is barred, unless it should not run any more. If it cannot be started, it is tried
// again later. A crawl that is to be cancelled is given up when the waits have grown to the longest.
func (d *dispatcher) start(ctx context.Context, e *entry) error {
	err := d.tryStart(ctx, e)
	if err != nil && d.retries.failed(e.id, time.Now()) && e.desired == DesiredCancel {
		return errors.Join(err, d.s.Write(ctx, func(tx *Tx) error {
			row, err := getRow(ctx, tx, "", e.id)
			if err != nil || row.Desired != DesiredCancel || row.State.Ended() {
				return err
			}
			return row.fail(tx, Actor{System: "dispatcher"}, errUnwritten.Error())
		}))
	}
	return err
}

// errUnwritten is why a cancelled crawl has no files.
var errUnwritten = errors.New("its files could not be written, because the server's disk is full; the pages that are " +
	"recorded can be read")

func (d *dispatcher) tryStart(ctx context.Context, e *entry) (err error) {
	defer func() {
		if d.runner(e.id) == nil {
			d.resting.allow(e.id)
		}
	}()
	if err := d.unclosed.reclaim(e.id); err != nil {
		return err
	}
	var r *row
	starts, resumed := false, false
	err = d.s.Write(ctx, func(tx *Tx) (err error) {
		starts = false
		if r, err = getRow(ctx, tx, "", e.id); err != nil {
			return err
		}
		by := Actor{System: "dispatcher"}
		switch {
		case r.State == Finishing || r.Desired == DesiredCancel && !r.State.Ended():
			if r.trial == awaitsTrial {
				r.trial = onTrial
			}
			err := r.endOrFinish(tx, by)
			starts = r.State == Finishing
			return err
		case r.Desired == DesiredRun && (r.State == Queued || r.State == Running):
			resumed = r.hasStarted()
			if !resumed {
				r.StartedAt = page.Time{Time: tx.now}
			}
			r.State, r.Waiting, r.resumeFirst, starts = Running, nil, false, true
			return r.move(tx, by, CrawlStarted, map[string]any{"state": Running, "resumed": resumed})
		}
		return nil
	})
	if err != nil || !starts {
		return err
	}
	// The row says that the crawl runs. If the process ends now, it is paused as any other (drain).
	ctx = context.WithoutCancel(ctx)
	run := &runner{d: d, id: r.ID, dir: d.s.Crawls.DataDir(r.ID), began: time.Now(), isTrial: r.trial == onTrial,
		isExtra: e.isExtra}
	if resumed {
		run.hosts = math.MaxInt
	}
	if err := run.prepare(ctx); err != nil {
		return errors.Join(run.end(nil, err), run.closeLog())
	}
	d.mu.Lock()
	d.runners[run.id] = run
	d.mu.Unlock()
	d.space.room -= state.OpenBytes
	d.jobs.Go(run.run)
	return run.setLimits(ctx) // an edit since the row was read did not find the runner
}

// setLimits gives the crawl the limits of its row, within those of its plan as that is now. The caps of a safe crawl
// stay; a crawl whose plan has become safe gets them, and a later start makes it a safe crawl. Pages and time are
// changed in the run; for others the run is paused and begins again.
func (r *runner) setLimits(ctx context.Context) error {
	r.editing.Lock()
	defer r.editing.Unlock()
	row, err := r.d.s.getWhole(ctx, "", r.id)
	if err != nil || row.isSafe() || r.planOfRun().Safe || row.State == Finishing { // then no limit matters
		return err
	}
	plan, err := r.d.s.Accounts.planOfCrawl(ctx, row)
	if err != nil {
		return err
	}
	if plan.Safe {
		r.current().CapSafe()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.edits = row.edits
		return nil
	}
	settings, err := r.d.s.o.settings(row, &plan)
	if err != nil {
		return err
	}
	r.current().Change(settings.MaxURLs, settings.Duration)
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.settings.StoredWithSecrets(), settings.StoredWithSecrets()
	r.settings = settings
	differs := func(name string) bool {
		return name != "max-urls" && name != "duration" && !slices.Equal(before[name], now[name])
	}
	if slices.ContainsFunc(limitSettings(), differs) {
		r.renew = true
		r.crawl.Stop(crawl.Pause)
		return nil
	}
	r.edits = row.edits
	return nil
}

// again makes the crawl again if its run was paused only to change its limits. It reports whether another run follows.
func (r *runner) again() (bool, error) {
	r.editing.Lock()
	defer r.editing.Unlock()
	r.mu.Lock()
	ended := r.crawl
	renew := r.renew && (r.mode == nil || *r.mode == crawl.Gracefully) // a crawl that is cancelled writes its outputs
	r.renew = false
	r.mu.Unlock()
	if !renew {
		return false, nil
	}
	if err := ended.Reclaim(); err != nil {
		return false, err
	}
	ctx := context.Background()
	live, notices := ended.Status(), r.takeNotices()
	if err := r.d.s.Write(ctx, func(tx *Tx) error { return r.save(tx, live, notices) }); err != nil {
		return false, err
	}
	return true, r.prepare(ctx)
}

// prepare makes the crawl of the row.
func (r *runner) prepare(ctx context.Context) error {
	s := r.d.s
	row, err := s.getWhole(ctx, "", r.id)
	if err != nil {
		return err
	}
	starts, faults := parseStarts(row.starts)
	if err := Invalid("the crawl", faults); err != nil {
		return err
	}
	starts = eachOnce(starts)
	plan, err := s.Accounts.planOfCrawl(ctx, row)
	if err != nil {
		return err
	}
	settings, err := s.o.settings(row, &plan)
	if err != nil {
		return err
	}
	// The directory says whether the crawl is new: a kill can come between its making and any record of it.
	exists, err := r.dir.Holds()
	if err != nil {
		return err
	}
	if err := datadir.Make(string(r.dir)); err != nil {
		return err
	}
	if r.log == nil {
		if r.log, err = disk.OpenAppend(r.dir.Log()); err != nil {
			return err
		}
	}
	outputs := &results.Outputs{}
	o := crawl.Options{
		Outputs: outputs, Settings: settings, Starts: starts, Dir: r.dir, Version: s.o.Version, NoControl: true,
		Fetcher:  s.o.Fetcher,
		Warnings: row.Warnings, FreeBytes: s.o.FreeBytes,
		Started: func(m *monitor.Monitor) { r.hasBegun(m.Live().Generation) },
		Log:     slog.New(slog.NewJSONHandler(&hidingWriter{r.log, r.dir}, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Managed: crawl.Managed{
			Account: row.Account, Elapsed: row.elapsed, Given: row.givenKeys(), Quota: &grants{s, row.ID},
			Room: r.d.outputRoom(row.Account, row.ID), HotSetBytes: s.o.hotSetBytes(), Finishing: r.finishing,
			HasSlot: true, GuardStarts: true, Notify: r.notify,
		},
	}
	if exists {
		o.Plan = datadir.NewPlan(settings, starts)
		o.Plan.CreatedAt = row.CreatedAt
		if row.recrawl != nil && row.Generation > 0 {
			if o.Recrawl, err = row.recrawl.options(); err != nil {
				return err
			}
			o.Recrawl.Generation, o.Recrawl.Ordered = row.Generation, row.StartedAt.Time
		}
	}
	made, err := crawl.New(s.shared, o)
	if err != nil {
		return err
	}
	if row.State == Finishing && row.Desired == DesiredCancel {
		made.Stop(crawl.Gracefully)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crawl, r.outputs, r.plan, r.settings, r.blocked = made, outputs, plan, settings, map[string]string{}
	r.edits = row.edits
	if r.mode != nil { // it was asked to stop after the run before had ended
		made.Stop(*r.mode)
	}
	return nil
}

// current is the crawl of the run that is under way, or nil if it could not be made.
func (r *runner) current() *crawl.Crawl {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crawl
}

// planOfRun is the plan as it was when the run began.
func (r *runner) planOfRun() Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan
}

// hasBegun records that the crawl has a directory, so that its loss is noticed, and the generation that the directory
// is in: it has come further than the row if the database is an older copy.
func (r *runner) hasBegun(generation uint32) {
	r.isOpen.Store(true)
	err := r.d.s.Write(context.Background(),
		func(tx *Tx) error {
			return tx.Change("UPDATE crawl SET begun = 1, generation = MAX(generation, ?) WHERE id = ?", generation, r.id)
		})
	if err != nil {
		r.d.s.o.Log.Error("cannot record that a crawl has begun", "crawl", r.id, "error", err)
	}
}

// run runs the crawl and records its end.
func (r *runner) run() {
	err := r.current().Run(context.Background())
	for errors.Is(err, crawl.ErrPaused) {
		more, failed := r.again()
		if failed != nil {
			err = failed
		}
		if !more || failed != nil {
			break
		}
		err = r.current().Run(context.Background())
	}
	if err := errors.Join(r.end(r.outputs.Report, err), r.closeLog()); err != nil {
		r.d.retries.failed(r.id, time.Now())
		r.d.s.o.Log.Error("cannot record how a crawl ended; it is started again", "crawl", r.id, "error", err)
	}
	r.d.slot.releaseOf(r.d, r.id)
	if ended := r.current(); ended.Reclaim() != nil {
		r.d.unclosed.add(r.id, ended)
	}
	r.d.resting.allow(r.id) // before the runner is gone, which is what readers look at
	r.d.mu.Lock()
	delete(r.d.runners, r.id)
	r.d.mu.Unlock()
	r.d.wake()
}

// hidingWriter writes lines of a log without the path of the crawl's directory: the crawl's user reads them.
type hidingWriter struct {
	log io.Writer
	dir datadir.Dir
}

// Write implements [io.Writer].
func (w *hidingWriter) Write(line []byte) (int, error) {
	escaped := ToJSON(string(w.dir))
	text := w.dir.Hide(datadir.Dir(escaped[1 : len(escaped)-1]).Hide(string(line)))
	_, err := io.WriteString(w.log, text)
	return len(line), err
}

// givenKeys are the settings that the submission gave. An earlier version kept null among them, which gives no value.
func (r *row) givenKeys() map[string]bool {
	keys := map[string]bool{}
	for key, value := range r.given {
		if string(value) != "null" {
			keys[key] = true
		}
	}
	return keys
}

// isOperators reports whether a setting is as the operator says now: one that only the operator or an admin may give,
// unless the submission gave it, and headers if the submission gave neither them nor where they go.
func (r *row) isOperators(e *config.Entry) bool {
	given := r.givenKeys()
	switch {
	case e.Name == "header" || e.Name == "header-to":
		return !given["header"] && !given["header_to"]
	case e.Permission == config.Admin:
		return !given[config.FileKey(e.Name)]
	}
	return e.Permission == config.Operator // an earlier version let users give some of them
}

func (r *runner) closeLog() error {
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}

// stop stops the crawl. Why is the reason of a pause, or of the end of a crawl that cannot be paused. It is nil if the
// process ends or a user cancels the crawl.
func (r *runner) stop(mode crawl.StopMode, why *Waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why, r.mode = why, &mode
	r.crawl.Stop(mode)
}

// giveUp ends a recrawl that may not go on and cannot be paused. The outputs of the generation before stay.
func (r *runner) giveUp(why *Waiting) {
	r.mu.Lock()
	r.givenUp = true
	r.mu.Unlock()
	r.stop(crawl.Pause, why)
}

// live is the status of the crawl, at most half a second old.
func (r *runner) live() *monitor.Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.sample == nil || now.Sub(r.at) >= sampleFor {
		// a run that begins again has no figures yet
		if live := r.crawl.Status(); r.sample == nil || !live.StartedAt.IsZero() {
			live.PID = 0 // of the server, which users need not know
			r.sample = live
		}
		r.at = now
	}
	return r.sample
}

const (
	maxNotices = 1000 // that wait to be recorded
	// mostBlocks is how many blocked hosts of a crawl have an event. Events stay for months and count in no plan, and a
	// crawl of dead hosts costs its account nothing else.
	mostBlocks = 20
)

// notify takes a notice of the crawl. The dispatcher records it with its next step, so that the crawl does not wait for
// the database.
func (r *runner) notify(n crawl.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notices) < maxNotices {
		r.notices = append(r.notices, n)
	}
	if n.Host != "" && len(r.blocked) < maxNotices {
		r.blocked[n.Host] = n.Reason
	}
}

// takeNotices takes the notices that are not yet recorded.
func (r *runner) takeNotices() []crawl.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.notices
	r.notices = nil
	return all
}

// HostBlock is a running crawl that does not ask a host any more.
type HostBlock struct {
	Crawl  string `json:"crawl"` // its id
	Reason string `json:"reason"`
}

// BlockedOn lists the running crawls that do not ask a host any more, in the order of their ids.
func (c *Crawls) BlockedOn(ctx context.Context, caller *Caller, host string) ([]HostBlock, error) {
	list := []HostBlock{}
	for _, r := range c.dispatch.all() {
		r.mu.Lock()
		reason, blocked := r.blocked[host]
		r.mu.Unlock()
		if !blocked {
			continue
		}
		_, err := getRow(ctx, c.s.db.Read(), caller.Visible(), r.id)
		if _, hidden := errors.AsType[*Error](err); hidden {
			continue // it is of another account
		}
		if err != nil {
			return nil, err
		}
		list = append(list, HostBlock{r.id, reason})
	}
	slices.SortFunc(list, func(a, b HostBlock) int { return strings.Compare(a.Crawl, b.Crawl) })
	return list, nil
}

// countBlocks must count them by an index: a crawl may have very many other events, and all who write wait.
const countBlocks = "SELECT count(*) FROM event WHERE crawl = ? AND type = 'host.blocked'"

// recordNotices records notices of a crawl as events.
func (r *row) recordNotices(tx *Tx, notices []crawl.Notice) error {
	blocks := int64(-1) // not counted yet
	for _, n := range notices {
		what := LimitWarning
		if n.Host != "" {
			what = HostBlocked
			if blocks < 0 {
				var err error
				if blocks, err = One(tx.ctx, tx, Column[int64],
					countBlocks, r.ID); err != nil {
					return err
				}
			}
			if blocks++; blocks > mostBlocks {
				continue
			}
		}
		if err := r.record(tx, what, Actor{System: "crawl"}, n); err != nil {
			return err
		}
	}
	return nil
}

// save records notices and how far the crawl is, so that little is lost with the process. live is taken before the
// transaction: to take it may mean to wait for a crawl that waits for a transaction.
func (r *runner) save(tx *Tx, live *monitor.Live, notices []crawl.Notice) error {
	row, err := getRow(tx.ctx, tx, "", r.id)
	if err != nil {
		return err
	}
	row.take(live)
	err = tx.Change("UPDATE crawl SET elapsed_ms = ?, progress_json = ?, disk_bytes = ? WHERE id = ?",
		row.elapsed.Milliseconds(), row.Progress, cmp.Or(r.size.Load(), row.disk), row.ID)
	return errors.Join(err, row.recordNotices(tx, notices))
}

// onTrial says whether the crawl is on trial: it runs alone of those that may have ended the process.
func (r *runner) onTrial(now time.Time) bool { return r.isTrial && !r.isProved(now) }

// isProved says whether the crawl has run so long that it is not the cause if the process ends.
func (r *runner) isProved(now time.Time) bool {
	return now.Sub(r.began) >= cmp.Or(r.d.s.o.trial, trialTime)
}

// isOnTrial says whether one of the running crawls is on trial.
func isOnTrial(running []*runner, now time.Time) bool {
	return slices.ContainsFunc(running, func(r *runner) bool { return r.onTrial(now) })
}

// passTrial records that a crawl has run long enough not to be the cause if the process ends.
func (r *runner) passTrial(ctx context.Context, now time.Time) error {
	if !r.isTrial || r.onTrial(now) {
		return nil
	}
	r.isTrial = false
	return r.d.s.Write(ctx, func(tx *Tx) error {
		return tx.Change("UPDATE crawl SET trial = ? WHERE id = ? AND trial = ?", noTrial, r.id, onTrial)
	})
}

// finishing records that the outputs are being written. It returns false for a recrawl that was cancelled before,
// though the dispatcher has not stopped it yet, and for a crawl that was edited before, which may not be over: its run
// begins again.
func (r *runner) finishing() bool {
	ctx := context.Background()
	live := r.current().Status()
	isCancelled, isEdited := false, false
	err := r.d.s.Write(ctx, func(tx *Tx) error {
		row, err := getRow(ctx, tx, "", r.id)
		if err != nil || row.State != Running && row.State != Pausing {
			return err
		}
		if isCancelled = row.Desired == DesiredCancel && row.Generation > 0; isCancelled {
			return nil
		}
		if isEdited = row.Desired != DesiredCancel && r.misses(row); isEdited {
			return nil
		}
		row.State, row.Waiting = Finishing, nil
		row.take(live)
		return row.move(tx, Actor{System: "dispatcher"}, CrawlFinishing, nil)
	})
	if err != nil {
		r.d.s.o.Log.Error("cannot record that a crawl writes its outputs", "crawl", r.id, "error", err)
	}
	if isCancelled {
		r.stop(crawl.Pause, pausedByKey())
	}
	return !isCancelled && !isEdited
}

// misses reports whether a row was edited after the crawl got its settings. If so, the run begins again.
func (r *runner) misses(row *row) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row.edits == r.edits || row.isSafe() || r.plan.Safe { // then no limit matters
		return false
	}
	r.renew = true
	return true
}

// end records how the run ended.
func (r *runner) end(rep *report.Report, runErr error) error {
	ctx := context.Background()
	size := sizeOf(string(r.dir))
	notices := r.takeNotices()
	r.mu.Lock()
	why, givenUp := r.why, r.givenUp
	r.mu.Unlock()
	if rep != nil {
		if err := r.keepReport(rep); err != nil {
			r.d.s.o.Log.Warn("cannot keep the report of a generation", "crawl", r.id, "error", err)
		}
	}
	var live *monitor.Live
	if ended := r.current(); ended != nil {
		live = ended.Status()
	}
	isFull := errors.Is(runErr, disk.ErrFull) || errors.Is(runErr, syscall.ENOSPC)
	if !isFull || time.Since(r.began) > lastRetry {
		r.d.retries.forget(r.id)
	}
	isLast := isFull && r.d.retries.failed(r.id, time.Now())
	return r.d.s.Write(ctx, func(tx *Tx) error {
		if live != nil {
			if err := tx.settle(r.id, live.Tickets); err != nil {
				return err
			}
		}
		row, err := getRow(ctx, tx, "", r.id)
		if err != nil {
			return err
		}
		if err := row.recordNotices(tx, notices); err != nil {
			return err
		}
		isTried := row.trial == onTrial && !r.isProved(time.Now())
		row.disk, row.trial = size, noTrial
		pause := func(by Actor, why *Waiting) error {
			if isTried {
				row.trial = awaitsTrial // it has not run long enough
			}
			return row.paused(tx, by, why)
		}
		if rep == nil && why != nil && why.Code == WaitPlan {
			row.disk = max(size, r.size.Load()) // what it needs to go on; at rest it may need less
		}
		if live != nil {
			row.take(live)
		}
		if row.State == Deleting {
			return row.move(tx, Actor{}, "", nil)
		}
		by := Actor{System: "dispatcher"}
		switch {
		case rep != nil:
			if why != nil && rep.Status == page.Cancelled {
				rep.Reason = stopReason(why.Code)
			}
			return row.finish(tx, by, rep)
		case errors.Is(runErr, crawl.ErrPaused) && why == nil:
			return row.move(tx, by, "", nil) // the process ends; the next one goes on
		case errors.Is(runErr, crawl.ErrPaused) && givenUp:
			row.setCancelled(tx.now)
			row.Reason = stopReason(why.Code)
			return row.recordEnd(tx, by, false)
		case errors.Is(runErr, crawl.ErrPaused):
			return pause(by, why)
		case errors.Is(runErr, crawl.ErrQuota):
			plan, err := tx.planOf(row.Account)
			if err != nil {
				return err
			}
			why := &Waiting{Code: WaitQuota, Detail: quotaDetail(&plan, tx.now)}
			return errors.Join(pause(by, why), tx.quotaReached(row))
		case isFull && row.Desired == DesiredCancel && isLast:
			return row.fail(tx, by, errUnwritten.Error())
		case isFull && row.State == Finishing:
			if isTried {
				row.trial = awaitsTrial
			}
			return row.endOrFinish(tx, by)
		case isFull:
			return pause(Actor{System: "disk"}, &Waiting{Code: WaitDisk, Detail: r.d.s.o.diskDetail()})
		}
		r.d.s.o.Log.Error("a crawl failed", "crawl", r.id, "error", runErr)
		text := strings.ReplaceAll(runErr.Error(), "data directory "+string(r.dir), "its data directory")
		return row.fail(tx, by, r.dir.Hide(text))
	})
}

// stopReason says why the service ended a crawl that cannot be paused.
func stopReason(code WaitCode) string {
	text := "the account is disabled"
	switch code {
	case WaitDisk:
		text = "the server's disk is nearly full"
	case WaitPlan:
		text = "the account's crawls use all the disk that its plan allows"
	case WaitOperator:
		text = "it has found more hosts than a crawl may hold in memory"
	}
	return "ended by the service, since " + text
}

// paused records that the crawl has stopped before its end. If it is to be cancelled, it is cancelled. If it was
// resumed meanwhile, it is queued again at once.
func (r *row) paused(tx *Tx, by Actor, why *Waiting) error {
	r.Progress.stopped()
	if r.Desired == DesiredCancel {
		return r.endOrFinish(tx, by)
	}
	r.State, r.Waiting = Paused, why
	if err := r.move(tx, by, CrawlPaused, map[string]any{"state": Paused, "waiting": why}); err != nil ||
		r.Desired != DesiredRun || why.Code != WaitOperator {
		return err
	}
	r.State, r.Waiting = Queued, nil
	return r.move(tx, by, CrawlResumed, nil)
}

// endOrFinish ends a crawl that does not run and is to be cancelled, or that is finishing. In the first generation the
// outputs of what was found are written first. A recrawl keeps the outputs of the generation before, unless it is
// finishing: then they may be new in part, and all of them are written.
func (r *row) endOrFinish(tx *Tx, by Actor) error {
	switch {
	case r.State == Finishing:
		return r.move(tx, by, "", nil) // it is tried again
	case r.Generation > 0:
		r.setCancelled(tx.now)
		return r.recordEnd(tx, by, false)
	}
	r.State, r.Waiting = Finishing, nil
	return r.move(tx, by, CrawlFinishing, nil)
}

// finish records the end of a generation. Its outputs are in place.
func (r *row) finish(tx *Tx, by Actor, rep *report.Report) error {
	if r.State, r.Waiting = State(rep.Status), nil; !r.State.Ended() {
		r.State = Failed
	}
	r.Generation = max(r.Generation, rep.Generation)
	r.Result = Result{Status: rep.Status, Success: new(rep.Success), Reason: rep.Reason,
		Errors: bounded(rep.Errors, "errors"), Warnings: r.Warnings}
	for _, text := range rep.Warnings {
		if !slices.Contains(r.Warnings, text) { // those of the settings are in the report too
			r.Warnings = append(r.Warnings, text)
		}
	}
	r.Warnings = bounded(r.Warnings, "warnings")
	r.EndedAt = rep.EndedAt
	r.Found, r.Outcomes, r.StatusClasses, r.Indexable = rep.URLs, rep.Outcomes, rep.StatusClasses, &rep.Indexable
	r.Progress.stopped()
	r.Problems = new(problems.TotalsOf(rep.Problems))
	r.elapsed = time.Duration(rep.Elapsed * float64(time.Second))
	return r.recordEnd(tx, by, true)
}

// fail records a crawl that cannot go on. One that is to be cancelled is cancelled, without outputs. The crawl's user
// reads the text.
func (r *row) fail(tx *Tx, by Actor, why string) error {
	r.Progress.stopped()
	if r.Desired == DesiredCancel && !r.State.Ended() {
		r.setCancelled(tx.now)
	} else {
		r.State, r.Waiting = Failed, nil
		r.Result = Result{Status: page.Failed, Success: new(bool), Reason: "the crawl could not go on",
			Warnings: r.Warnings}
		r.EndedAt = page.Time{Time: tx.now}
	}
	r.Errors = []string{why}
	return r.recordEnd(tx, by, false)
}

// recordEnd stores an ended crawl and its run, and deletes all runs but the newest and the one that the files are of. A
// generation that ended with files and was resumed keeps that run if it then ends without. A crawl that was cancelled
// before it began has no run.
func (r *row) recordEnd(tx *Tx, by Actor, hasFiles bool) error {
	r.resumeFirst = false // a later generation waits for its turn
	data := map[string]any{"state": r.State, "status": r.Status, "success": r.Success, "reason": r.Reason}
	if !r.hasStarted() {
		return r.move(tx, by, CrawlFinished, data)
	}
	filed, err := Value[int64](tx.ctx, tx, "SELECT COALESCE(MAX(generation), -1) FROM crawl_run WHERE "+ofFiles, r.ID)
	if err != nil {
		return err
	}
	if hasFiles || filed < int64(r.Generation) {
		err = tx.Put("crawl_run", "crawl, generation", "crawl, "+runColumns, r.ID, r.Generation, r.State, r.StartedAt,
			r.EndedAt, r.Result, r.Progress)
	}
	if hasFiles {
		filed = int64(r.Generation)
	}
	old := tx.Change("DELETE FROM crawl_run WHERE crawl = ? AND generation <= ? AND generation <> ?", r.ID,
		int64(r.Generation)-keptRuns, filed)
	return errors.Join(err, old, r.move(tx, by, CrawlFinished, data))
}

// ofFiles selects the runs of a crawl that wrote its files, but for cancelled ones. A failed run did if it has
// problems, which are those of its report.
const ofFiles = "crawl = ? AND (state IN ('complete', 'partial') OR state = 'failed' AND " +
	"json_extract(progress_json, '$.problems') IS NOT NULL)"

// fallBack returns a crawl whose recrawl was cancelled to the last run that wrote outputs: of the generation before, or
// of this one if it was resumed. EndedAt stays the time of the cancellation, from which retention counts.
func (r *row) fallBack(tx *Tx) error {
	if r.State != Cancelled || r.Generation == 0 {
		return nil
	}
	runs, err := loadRuns(tx.ctx, tx, ofFiles+" ORDER BY generation DESC LIMIT 1", r.ID)
	if err != nil || len(runs) == 0 {
		return err
	}
	last := &runs[0]
	text := fmt.Sprintf("recrawl %d was cancelled: the results are those of generation %d", r.Generation,
		last.Generation)
	if last.Generation == r.Generation {
		text = fmt.Sprintf("recrawl %d was resumed and cancelled: the results are those of its end before", r.Generation)
	} else {
		r.counted, r.elapsed = last.PagesCounted, time.Duration(last.Elapsed*float64(time.Second))
	}
	r.State, r.Generation, r.StartedAt, r.Result, r.Progress = last.State, last.Generation, last.StartedAt, last.Result,
		last.Progress
	r.Warnings = append(r.Warnings, text)
	return nil
}

// take copies the figures of a run.
func (r *row) take(live *monitor.Live) {
	if live.Phase == "" && live.Found == 0 {
		return // the run did not begin
	}
	r.Progress.take(live)
	r.elapsed = time.Duration(live.Elapsed * float64(time.Second))
}

// stopped resets the figures that only a running crawl has.
func (p *Progress) stopped() {
	p.InFlight, p.PagesPerSecNow = 0, 0
	p.Limits = slices.Clone(p.Limits) // a sample may have them too
	for i := range p.Limits {
		p.Limits[i].Left = 0
	}
}

// take copies the figures of a running crawl.
func (p *Progress) take(live *monitor.Live) {
	if live.StartedAt.IsZero() {
		return
	}
	p.Elapsed, p.Found, p.Done, p.Pending, p.InFlight = live.Elapsed, live.Found, live.Done, live.Pending, live.InFlight
	p.PagesCounted, p.Bytes, p.PagesPerSecNow = max(p.PagesCounted, live.Tickets), live.Bytes, live.PagesPerSecNow
	if live.Outcomes != nil {
		p.Outcomes, p.StatusClasses = live.Outcomes, live.Classes
	}
	if live.Limits != nil {
		p.Limits = live.Limits
	}
}

// keepReport keeps the report of this generation beside those of others.
func (r *runner) keepReport(rep *report.Report) error {
	text, err := os.ReadFile(r.dir.Report())
	if err != nil {
		return err
	}
	path := r.d.s.Crawls.reportFile(r.id, rep.Generation)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if rep.Generation >= keptRuns {
		if err := os.Remove(r.d.s.Crawls.reportFile(r.id, rep.Generation-keptRuns)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return datadir.WriteFile(path, datadir.Private, text)
}

// reportFile is the report.json of one generation of a crawl.
func (c *Crawls) reportFile(id string, generation uint32) string {
	return filepath.Join(string(c.DataDir(id)), "reports", strconv.FormatUint(uint64(generation), 10)+".json")
}

const (
	measureEvery = time.Second // how often the directory of a running crawl is measured
	measureShare = 10          // and at most this part of the time
)

// hasTooManyHosts reports whether the crawl holds more hosts in memory than it may, and their number grows. It counts
// them every stepEvery. A crawl that was narrowed still has them when it is resumed, and finishes them. Twice as many
// are too many in any case: each resume may add some.
func (r *runner) hasTooManyHosts(most int, now time.Time) bool {
	if now.Sub(r.hostsAt) < stepEvery {
		return r.manyHosts
	}
	if n := r.current().Hosts(); n > 0 { // none while the crawl is opened
		r.manyHosts = n > most && n > r.hosts || n > 2*most
		r.hosts, r.hostsAt = n, now
	}
	return r.manyHosts
}

// measured is how many bytes the crawl's directory had when it was last measured; 0 if it was not yet. It is measured
// again, by another goroutine, if that was some time ago: a crawl may have very many files.
func (r *runner) measured(now time.Time) int64 {
	if r.sizing.CompareAndSwap(false, true) {
		if now.Before(r.sizeAt) {
			r.sizing.Store(false)
		} else {
			r.d.jobs.Go(r.measure)
		}
	}
	return r.size.Load()
}

// measure counts the bytes of the crawl's directory while its store is open. What the store has reserved does not
// count: it is as much for a crawl of one page as for any other. While the store is opened or closed, it does not say
// how much that is.
func (r *runner) measure() {
	defer r.sizing.Store(false)
	began := time.Now()
	before := r.current().Reserved()
	size := sizeOf(string(r.dir))
	if after := r.current().Reserved(); before > 0 && after > 0 {
		r.size.Store(max(0, size-max(before, after)))
	}
	r.sizeAt = began.Add(max(measureEvery, measureShare*time.Since(began)))
}

// sizeOf is how many bytes of disk a directory uses; files that vanish meanwhile are not counted.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += disk.Allocated(info)
		}
		return nil
	})
	return bytes
}

// settings are the effective settings of a crawl that starts now: those of the row, under the limits of its plan and
// the budgets of the service. What crawls may reach is as the operator says now: a permission that was withdrawn ends.
func (o *Options) settings(r *row, plan *Plan) (*config.Settings, error) {
	base, err := config.Load(o.Base...)
	if err != nil {
		return nil, fmt.Errorf("settings of the service: %w", err)
	}
	own, operators := config.FromStored(r.stored), config.FromStored(base.Settings.StoredWithSecrets())
	for _, e := range base.Settings.Table() {
		if value, ok := operators[e.Name]; ok && r.isOperators(&e) {
			own[e.Name] = value
		}
	}
	layers := []config.Layer{own}
	if plan.Safe {
		layers = append(layers, config.Layer{config.SafeName: {Texts: []string{"true"}, From: "plan " + plan.Name}})
	}
	loaded, err := config.Load(layers...)
	if err != nil {
		return nil, fmt.Errorf("settings of the crawl: %w", err)
	}
	s := loaded.Settings
	if given := r.givenKeys(); given["header_to"] && !given["header"] {
		s.Headers = nil // an earlier version took the operator's, which are not for origins that a user names
	}
	for ; plan != nil; plan = plan.own {
		if plan.MaxURLs > 0 && (s.MaxURLs == 0 || s.MaxURLs > plan.MaxURLs) {
			s.MaxURLs = plan.MaxURLs
		}
	}
	share := o.MemoryLimit / int64(o.MaxCrawls)
	s.GlobalFrontierSizeLimit = int(clamp(share/4/bytesPerURL, 1000, int64(s.GlobalFrontierSizeLimit)))
	s.BloomCapacity = int(clamp(share/16/bytesPerKey, 10_000, int64(s.BloomCapacity)))
	s.ReadyHeapSizeLimit = int(clamp(share/8/bytesPerHost, 100, int64(s.ReadyHeapSizeLimit)))
	s.MaxWorkers = min(s.MaxWorkers, o.MaxWorkers)
	return s, nil
}

// hotSetBytes is the memory of one crawl for recently seen URLs.
func (o *Options) hotSetBytes() int {
	return int(clamp(o.MemoryLimit/int64(o.MaxCrawls)/8, 1<<20, 64<<20))
}

// What one queued URL and one host take in memory, rounded up. Most URLs take a quarter of this; hostile sites have
// some of 2,000 bytes.
const (
	bytesPerURL  = 1024
	bytesPerHost = 1024
	bytesPerKey  = 2 // in the dedup filter
)

func clamp(n, least, most int64) int64 { return max(least, min(n, most)) }

// shared are the budgets that all crawls share.
func (o *Options) shared() crawl.SharedOptions {
	share := o.MemoryLimit / int64(o.MaxCrawls)
	// More pages at once are not parsed sooner, and what a user waits for comes after all that compute.
	return crawl.SharedOptions{MaxWorkers: o.MaxWorkers, MaxParsers: runtime.GOMAXPROCS(0),
		OtherSockets: o.Connections, BodyMemory: o.MemoryLimit / 4,
		RobotsMemory: int(clamp(share/16, 1<<20, 16<<20)), TreeMemory: clamp(share/2, 128<<20, 512<<20)}
}
