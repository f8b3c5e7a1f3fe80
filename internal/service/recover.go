package service

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// trial says how a crawl is treated that ran when the process ended three times within ten minutes. One of these crawls
// may be the cause, so they run one at a time.
type trial int

const (
	noTrial     trial = iota
	awaitsTrial       // paused or finishing, until those before it have run
	onTrial           // runs, and no other of them
	convicted         // the process ended while it was on trial: it stays paused until a key resumes it
)

const (
	uncleanEnds  = 3                // in a row
	uncleanSpan  = 10 * time.Minute // between the first and the last of them
	trialTime    = time.Minute      // a crawl that has run so long is not the cause
	recoveryText = "the server ended three times within ten minutes while this crawl ran; it goes on by itself, one " +
		"crawl at a time"
	convictText = "the server ended while this crawl ran and no other that it might have been; it may be the cause: " +
		"resume it to try again, or delete it"
)

func (s *Service) crawlDir(id string) string { return filepath.Join(s.crawlsDir(), id) }

// recoverWhenRoom is recover. It waits while the disk is full: requests are answered meanwhile, and deletes may make
// room.
func (s *Service) recoverWhenRoom(ctx context.Context) (process int64, err error) {
	for {
		process, err = s.recover(context.WithoutCancel(ctx))
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != ErrDiskFull {
			return process, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(stepEvery):
		}
	}
}

// recover corrects the states of crawls at the start of a process, when none runs. It records the process and returns
// its id.
func (s *Service) recover(ctx context.Context) (process int64, err error) {
	if err := removeAll(s.trashDir()); err != nil {
		return 0, err
	}
	strays, err := s.strays(ctx)
	if err != nil {
		return 0, err
	}
	for _, dir := range strays {
		s.o.Log.Warn("there is a crawl's directory that the database does not know; it is left alone", "directory", dir)
	}
	ran, err := s.readRan(ctx)
	if err != nil {
		return 0, err
	}
	return s.begin(ctx, ran)
}

// ran is what a crawl has left that ran when the process ended.
type ran struct {
	counters *state.Counters // nil if it had not begun, or cannot be read: what was recorded stays
	disk     int64
}

// readRan reads what the crawls have left that ran. It does so before the transaction, because nothing else can be
// written during it.
func (s *Service) readRan(ctx context.Context) (map[string]ran, error) {
	all := map[string]ran{}
	rows, err := loadRows(ctx, s.db.Read(), false, "WHERE state IN (?, ?, ?)", Running, Pausing, Finishing)
	for _, r := range rows {
		left := ran{disk: r.disk}
		if c, err := countersIn(s.Crawls.DataDir(r.ID), r.Generation); err == nil {
			left.counters = &c
		}
		if r.Waiting == nil || r.Waiting.Code != WaitPlan { // else disk is what the crawl needs to go on
			left.disk = sizeOf(s.crawlDir(r.ID)) // a store that was closed takes less than one that is open
		}
		all[r.ID] = left
	}
	return all, err
}

// untrue are the ids of the crawls that a process may have left in a state that is not true any more: those that ran,
// and those that have no directory any more.
func (s *Service) untrue(ctx context.Context, tx *Tx) ([]string, error) {
	ran, err := Collect(ctx, tx, Column[string], "SELECT id FROM crawl WHERE state IN (?, ?, ?)", Running, Pausing,
		Finishing)
	if err != nil {
		return nil, err
	}
	begun, err := Collect(ctx, tx, Column[string],
		"SELECT id FROM crawl WHERE begun = 1 AND state NOT IN (?, ?, ?, ?, ?)", Running, Pausing, Finishing, Deleting,
		Failed)
	lost := slices.DeleteFunc(begun, func(id string) bool { return !isMissing(s.crawlDir(id)) })
	return append(ran, lost...), err
}

func isMissing(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// begin records that a process begins, and brings the rows in line. It reads them again: requests are answered
// meanwhile, and a command that was accepted holds.
func (s *Service) begin(ctx context.Context, left map[string]ran) (process int64, err error) {
	err = s.Write(ctx, func(tx *Tx) error {
		ids, err := s.untrue(ctx, tx)
		if err != nil {
			return err
		}
		unstable, err := tx.isUnstable()
		if err != nil {
			return err
		}
		if err := tx.Insert("process", "started_at", tx.now); err != nil {
			return err
		}
		if process, err = Value[int64](ctx, tx, "SELECT MAX(id) FROM process"); err != nil {
			return err
		}
		for _, id := range ids { // one at a time: all of them may be too large for memory
			rows, err := loadRows(ctx, tx, false, "WHERE id = ?", id)
			if err != nil {
				return err
			}
			l, ok := left[id]
			for _, r := range rows {
				if ok {
					r.disk = l.disk
				}
				if err := s.recoverRow(tx, r, unstable, l.counters); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return process, err
}

// isUnstable says whether the last three processes ended without notice, within ten minutes. A process had ended at the
// latest when the next one began.
func (tx *Tx) isUnstable() (bool, error) {
	type process struct {
		started page.Time
		well    bool
	}
	last, err := Collect(tx.ctx, tx, func(p *process) []any { return []any{&p.started, &p.well} },
		"SELECT started_at, ended_well FROM process ORDER BY id DESC LIMIT ?", uncleanEnds)
	if err != nil || len(last) < uncleanEnds {
		return false, err
	}
	if slices.ContainsFunc(last, func(p process) bool { return p.well }) {
		return false, nil
	}
	return tx.now.Sub(last[uncleanEnds-2].started.Time) <= uncleanSpan, nil
}

// recoverRow corrects one row. counters are what the crawl has counted if it ran, nil if that is not known.
func (s *Service) recoverRow(tx *Tx, r *row, unstable bool, counters *state.Counters) error {
	by := Actor{System: "recovery"}
	if r.begun && r.State != Deleting && r.State != Failed {
		if isMissing(s.crawlDir(r.ID)) {
			const lost = "the crawl's directory is missing: the database may have been restored without it; submit " +
				"the crawl again"
			return errors.Join(tx.settle(r.ID, r.counted), r.fail(tx, by, lost)) // what was reserved for it is free
		}
	}
	if r.State != Running && r.State != Pausing && r.State != Finishing {
		return nil
	}
	if counters != nil {
		if err := r.takeStored(tx, counters); err != nil {
			return err
		}
	}
	wasTried := r.trial == onTrial
	if unstable || wasTried {
		switch {
		case wasTried && r.State == Finishing:
			return r.fail(tx, by, "its files could not be written: the server ended while it wrote them and no other "+
				"crawl that might have been the cause did; the pages that are recorded can be read")
		case r.State == Finishing: // its outputs may be new in part, so it is not paused, and cannot be cancelled
			r.trial = awaitsTrial
		case wasTried && r.Desired == DesiredRun:
			r.trial = convicted
			return r.paused(tx, by, &Waiting{Code: WaitRecovery, Detail: convictText})
		case r.Desired == DesiredRun && r.State != Pausing:
			r.trial = awaitsTrial
			return r.paused(tx, by, &Waiting{Code: WaitRecovery, Detail: recoveryText})
		}
	}
	switch {
	case r.State == Pausing:
		return r.paused(tx, by, cmp.Or(r.Waiting, pausedByKey()))
	case r.State == Running && r.Desired == DesiredPause:
		return r.paused(tx, by, pausedByKey())
	case r.State == Running:
		r.State, r.resumeFirst = Queued, true
	case r.Desired != DesiredCancel: // a cancelled crawl that is finishing may have waited for a slot
		r.resumeFirst = true
	}
	r.Progress.stopped()
	return r.move(tx, by, "", nil)
}

// takeStored adds what a crawl has counted to what is used, and gives back what was reserved for it. It also updates
// how far the crawl is, because the row may be ten seconds old.
func (r *row) takeStored(tx *Tx, counters *state.Counters) error {
	r.counted = max(r.counted, int64(counters.Counted))
	r.PagesCounted = r.counted // not more than is booked: what was under way counts when it is requested again
	r.Found, r.Done, r.Pending = int64(counters.Discovered), int64(counters.Done()), int64(counters.Pending())
	r.Bytes = int64(counters.Bytes)
	r.Outcomes, r.StatusClasses = monitor.OutcomeCounts(counters, 0), monitor.ClassCounts(counters)
	return tx.settle(r.ID, int64(counters.Counted))
}

// countersIn reads the counters of the crawl in a directory. Counted is 0 if they are of another generation.
func countersIn(dir datadir.Dir, generation uint32) (state.Counters, error) {
	store, err := state.Open(dir.State(), state.Options{Mode: state.ReadOnly})
	if err != nil {
		return state.Counters{}, err
	}
	counters := store.Counters()
	if counters.Generation != generation {
		counters.Counted = 0
	}
	return counters, store.Close()
}

// endWell records that a process ended with notice.
func (s *Service) endWell(process int64) error {
	return s.Write(context.Background(),
		func(tx *Tx) error { return tx.Change("UPDATE process SET ended_well = 1 WHERE id = ?", process) })
}

// strays lists the directories of crawls that the database does not know, as after an older database was restored. They
// are never deleted.
func (s *Service) strays(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.crawlsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known, err := Collect(ctx, s.db.Read(), Column[string], "SELECT id FROM crawl ORDER BY id")
	if err != nil {
		return nil, err
	}
	strays := []string{}
	for _, e := range entries {
		if _, found := slices.BinarySearch(known, e.Name()); !found {
			strays = append(strays, filepath.Join(s.crawlsDir(), e.Name()))
		}
	}
	return strays, nil
}

// mostRemovals is how many crawls are deleted at once: each opens its store, which takes memory and disk.
const mostRemovals = 4

// removeInTurns deletes crawls, as many as may be deleted at once: one of each account, then a second one, first of the
// account whose last removal began longest ago.
func (d *dispatcher) removeInTurns(deleting []*entry, now time.Time) {
	turn, count := map[*entry]int{}, map[string]int{}
	for _, e := range deleting {
		turn[e] = count[e.account]
		count[e.account]++
	}
	slices.SortStableFunc(deleting, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), cmp.Compare(d.removed[a.account], d.removed[b.account]))
	})
	for _, e := range deleting {
		if d.remove(e.id, now) {
			d.removals++
			d.removed[e.account] = d.removals
		}
	}
}

// remove deletes a crawl, in a goroutine, unless as many are being deleted as may be. It reports whether it does. A
// kill at any point leaves the row with the state deleting, and the removal begins again.
func (d *dispatcher) remove(id string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removing[id] || len(d.removing) >= mostRemovals || !d.retries.isDue(id, now) ||
		!d.resting.bar(id, &d.jobs, d.wake) {
		return false
	}
	d.removing[id] = true
	d.jobs.Go(func() {
		defer d.resting.allow(id)
		// a store that cannot be closed is removed all the same, which may be what frees the disk
		_ = d.unclosed.reclaim(id)
		if err := d.s.removeCrawl(context.Background(), id); err != nil {
			d.retries.failed(id, time.Now())
			d.s.o.Log.Error("cannot delete a crawl; this is tried again", "crawl", id, "error", err)
		} else {
			d.retries.forget(id)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.removing, id)
		d.wake() // others may wait
	})
	return true
}

// removeCrawl adds what the crawl has counted to what is used, renames its directory, removes it, and then its row.
func (s *Service) removeCrawl(ctx context.Context, id string) error {
	r, err := getRow(ctx, s.db.Read(), "", id)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == ErrNotFound {
		return nil // it was removed after the step had read which crawls are to be
	}
	if err != nil {
		return err
	}
	counters, err := countersIn(s.Crawls.DataDir(id), r.Generation)
	if err != nil {
		counters.Counted = 0 // it has not begun, or cannot be read; what was booked stays
	}
	trash := filepath.Join(s.trashDir(), id)
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(s.crawlDir(id), trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	return s.Write(ctx, func(tx *Tx) error {
		if err := tx.settle(id, int64(counters.Counted)); err != nil {
			return err
		}
		for _, statement := range []string{"DELETE FROM crawl WHERE id = ?", "DELETE FROM crawl_input WHERE crawl = ?",
			"DELETE FROM crawl_run WHERE crawl = ?", "DELETE FROM idempotency WHERE crawl = ? AND answer_json = ''"} {
			if err := tx.Change(statement, id); err != nil {
				return err
			}
		}
		return r.record(tx, CrawlDeleted, Actor{System: "dispatcher"},
			map[string]any{"name": r.Name, "at": page.Time{Time: tx.now}})
	})
}

// removeAll empties a directory.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
