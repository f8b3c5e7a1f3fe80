package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// resetFolds forgets all evidence.
func (r *run) resetFolds() {
	r.traps, r.linkage = traps.New(r.settings.Traps, r.store.Seed()), &linkage{}
}

// saveTraps writes what traps have learned.
func (r *run) saveTraps(w *state.SnapshotWriter) error {
	known, err := r.traps.Snapshot()
	if err != nil {
		return err
	}
	return w.Put(traps.SnapshotName, traps.SnapshotVersion, func(w io.Writer) error {
		_, err := w.Write(known)
		return err
	})
}

// cursorsEvery is the time between two notes of how far the hosts' queues are done. A resume looks at every URL after
// the last note, so notes are made more often than filters are saved.
const cursorsEvery = 10 * time.Second

// keepCheckpoints makes a checkpoint at each interval, or sooner when the log has grown, until ctx ends. That bounds
// what a resume has to read again.
func (r *run) keepCheckpoints(ctx context.Context) {
	tick := time.NewTicker(r.settings.SaveInterval)
	defer tick.Stop()
	cursors := time.NewTicker(cursorsEvery)
	defer cursors.Stop()
	notes := time.NewTimer(r.clock.noteEvery())
	defer notes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-notes.C:
			if err := r.noteClock(); err != nil && ctx.Err() == nil {
				r.log.Error("cannot note how long the crawl runs", "error", err)
			}
			notes.Reset(r.clock.noteEvery())
			continue
		case <-cursors.C:
			if err := r.frontier.Checkpoint(ctx); err != nil && ctx.Err() == nil {
				r.log.Error("cannot note how far the hosts' queues are done", "error", err)
			}
			continue
		case <-tick.C:
		case <-r.store.CheckpointDue():
		}
		if err := r.checkpoint(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("checkpoint failed", "error", err)
		}
	}
}

// noteClock records how long the runs of the generation have crawled so far, and warnings that are not recorded yet. In
// a crawl of several machines the engine keeps the time.
func (r *run) noteClock() error {
	r.warnings.save()
	if r.o.Cluster != nil {
		return nil
	}
	_, err := r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{r.clock.all().fact()}})
	return err
}

// checkpoint notes how far hosts' queues are done and how long the crawl runs, saves the filters and the folds, and
// cuts the log.
func (r *run) checkpoint(ctx context.Context) error {
	start := time.Now()
	if err := r.noteClock(); err != nil {
		return fmt.Errorf("note the time: %w", err)
	}
	if err := r.archive.Sync(); err != nil {
		return err
	}
	if err := r.frontier.Checkpoint(ctx); err != nil {
		return fmt.Errorf("checkpoint the frontier: %w", err)
	}
	if r.o.Cluster != nil {
		return nil
	}
	err := r.store.Checkpoint(ctx, func(w *state.SnapshotWriter) error {
		if err := r.saveTraps(w); err != nil {
			return err
		}
		if err := r.frontier.SaveFolds(w, r.store.Run()); err != nil {
			return err
		}
		return r.frontier.SaveFilters(w)
	})
	if err != nil {
		return err
	}
	r.metrics.Observe(metrics.Checkpoints, "", time.Since(start))
	return nil
}

// rememberBatch is how many keys the frontier is given at once.
const rememberBatch = 4096

// restore gives the frontier, which is new, what earlier runs knew: the dedup filters as of the last checkpoint, the
// keys recorded since (or all, where the filters cannot be used), and the hosts that have something pending.
func (r *run) restore(ctx context.Context) error {
	if r.o.Cluster != nil {
		return nil // partitions are brought up when they are opened
	}
	since, err := r.restoreFilters()
	if err != nil {
		r.log.Warn("the stored filters cannot be used: computing them again from the store", "error", err)
		since = 0
	}
	if err := r.restoreFolds(ctx); err != nil {
		return err
	}
	if err := r.restoreNames(ctx); err != nil {
		return fmt.Errorf("record which URLs are listed and linked: %w", err)
	}
	// The two read different things, and can do so at the same time.
	var remembering errgroup.Group
	remembering.Go(func() error { return r.rememberKeys(ctx, since) })
	err = r.frontier.Resume(ctx, r.store.Backlogs(ctx, 0, 255))
	return errors.Join(err, remembering.Wait())
}

// rememberKeys gives the frontier the keys that were recorded after a position, or all if it is 0.
func (r *run) rememberKeys(ctx context.Context, since frontier.Position) error {
	keys := r.store.KeysSince(ctx, since)
	if since == 0 {
		keys = r.store.Keys(ctx, 0, 255)
	}
	batch := make([]weburl.Key, 0, rememberBatch)
	for k, err := range keys {
		if _, damaged := errors.AsType[*wal.CorruptError](err); damaged && since > 0 {
			// All that this part of the log says is in the store too; a key that is named twice does no harm.
			r.warnings.add("reading all known URLs from the store, since a part of the log that is only needed for "+
				"speed is damaged: %v", err)
			return r.rememberKeys(ctx, 0)
		}
		if err != nil {
			return fmt.Errorf("read the known URLs: %w", err)
		}
		if batch = append(batch, k); len(batch) == rememberBatch {
			r.frontier.Remember(batch)
			batch = batch[:0]
		}
	}
	r.frontier.Remember(batch)
	return nil
}

// restoreFolds restores the folds from the last checkpoint and the evidence since. If that checkpoint is damaged, it
// uses the one before, where the log begins. If that is damaged too, it folds the whole log, or refuses the crawl if
// the log was cut: the crawl would come to another result.
func (r *run) restoreFolds(ctx context.Context) error {
	snapshots, at := r.store.Snapshots()
	last, damage := r.readFolds(snapshots)
	if damage != nil {
		r.log.Warn("what was learned from pages cannot be read from the last checkpoint: computing it again from the "+
			"one before", "error", damage)
		var err error
		snapshots, at = r.store.EarlierSnapshots()
		if last, err = r.readFolds(snapshots); err != nil {
			damage = errors.Join(damage, err)
			last, at = 0, 0 // a log that was never cut is enough
		}
	}
	began, texts := began(r.store), textsBegan(r.store)
	goTo := func(run uint64) {
		if last < began && run >= began {
			r.frontier.FoldRun(true)
		}
		if last < texts && run >= texts {
			r.traps.ForgetTexts()
		}
		last = run
	}
	err := r.store.EvidenceSince(ctx, at, func(at frontier.Position, run uint64, e frontier.Evidence) {
		goTo(run)
		r.frontier.Fold(at, e)
		r.traps.Fold(e)
		r.linkage.fold(e)
	})
	if err != nil && damage != nil {
		return fmt.Errorf("what was learned from pages is lost, and the crawl would come to another result: %w",
			errors.Join(damage, err))
	}
	if err != nil {
		return err
	}
	goTo(math.MaxUint64)
	r.frontier.FoldRun(false)
	return nil
}

// restoreNames makes the frontier record links if sitemaps or public indexes have brought URLs. It also commits what an
// earlier version of the program knew of those links. That version kept it in checkpoints and evidence, which are
// deleted with the next two checkpoints.
func (r *run) restoreNames(ctx context.Context) error {
	known, err := r.linkage.record(ctx, r.store)
	if known || r.store.Facts()[frontier.FactListed] != nil {
		r.frontier.NameLinks()
	}
	r.linkage = &linkage{}
	return err
}

// readFolds reads the folds that a checkpoint saved, and returns the number of the run that made it. After an error
// nothing of it is kept. A wrong checksum is found only when a snapshot was read to its end.
func (r *run) readFolds(snapshots []state.Snapshot) (run uint64, err error) {
	r.resetFolds()
	defer func() {
		if err != nil {
			r.resetFolds()
		}
	}()
	var domains []byte // the frontier cannot forget them again
	for _, fold := range []struct {
		name string
		read func(io.Reader) error
	}{{traps.SnapshotName, r.traps.Restore}, {linkageName, r.linkage.load},
		{frontier.FoldName, func(b io.Reader) (err error) { domains, err = io.ReadAll(b); return err }}} {
		for _, s := range snapshots {
			if s.Name != fold.name {
				continue
			}
			if err := r.store.ReadSnapshot(s, fold.read); err != nil {
				return 0, err
			}
		}
	}
	if domains == nil {
		return 0, nil
	}
	return r.frontier.RestoreFolds(bytes.NewReader(domains))
}

// restoreFilters reads the filters of the last checkpoint and returns its position; 0 if there is none.
func (r *run) restoreFilters() (at frontier.Position, err error) {
	snapshots, at := r.store.Snapshots()
	byName := map[string]state.Snapshot{}
	var names []string
	for _, s := range snapshots {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	found, err := r.frontier.RestoreFilters(names, func(name string, read func(io.Reader) error) error {
		return r.store.ReadSnapshot(byName[name], read)
	})
	if !found {
		return 0, nil
	}
	return at, err
}
