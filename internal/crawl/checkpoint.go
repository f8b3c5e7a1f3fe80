package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/traps"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// checkpoint notes how far hosts' queues are done, saves the dedup filters and cuts the log.
func (r *run) checkpoint(ctx context.Context) error {
	start := time.Now()
	if err := r.frontier.Checkpoint(ctx); err != nil {
		return fmt.Errorf("checkpoint the frontier: %w", err)
	}
	if err := r.store.Checkpoint(ctx, r.saveSnapshots); err != nil {
		return err
	}
	r.metrics.Checkpoint(time.Since(start))
	return nil
}

// saveSnapshots saves what was computed from records.
func (r *run) saveSnapshots(w *state.SnapshotWriter) error {
	if r.linkage.Active() {
		if err := w.Put(report.LinkageName, report.LinkageVersion, r.linkage.Save); err != nil {
			return err
		}
	}
	if err := r.frontier.SaveFolds(w, r.store.Run()); err != nil {
		return err
	}
	known, err := r.traps.Snapshot()
	if err == nil {
		err = w.Put(traps.SnapshotName, traps.SnapshotVersion, func(w io.Writer) error {
			_, err := w.Write(known)
			return err
		})
	}
	if err != nil {
		return err
	}
	return r.frontier.SaveFilters(w)
}

// rememberBatch is how many keys the frontier is told at once.
const rememberBatch = 4096

// restore gives a new frontier what earlier runs knew: the dedup filters as of the last checkpoint, the keys recorded since
// (or all, where the filters cannot be used), and the hosts that have something pending.
func (r *run) restore(ctx context.Context, f *frontier.Frontier) error {
	since, err := r.restoreFilters(f)
	if err != nil {
		r.log.Warn("the stored filters cannot be used: making them anew from the store", "error", err)
		since = 0
	}
	if err := r.restoreFolds(ctx, f); err != nil {
		return err
	}
	// The two read different things, and neither minds the other.
	var remembering errgroup.Group
	remembering.Go(func() error { return r.remember(ctx, f, since) })
	err = f.Resume(ctx, r.store.Backlogs(ctx, 0, 255))
	return errors.Join(err, remembering.Wait())
}

// remember tells the frontier the keys that were recorded after a position, or all if it is 0.
func (r *run) remember(ctx context.Context, f *frontier.Frontier, since frontier.Position) error {
	keys := r.store.KeysSince(ctx, since)
	if since == 0 {
		keys = r.store.Keys(ctx, 0, 255)
	}
	batch := make([]frontier.Key, 0, rememberBatch)
	for k, err := range keys {
		if _, damaged := errors.AsType[*wal.CorruptError](err); damaged && since > 0 {
			// All that this part of the log says is in the store too; a key that is named twice does no harm.
			r.warnings.add("reading all known URLs from the store, since a part of the log that is only needed for speed is damaged: %v", err)
			return r.remember(ctx, f, 0)
		}
		if err != nil {
			return fmt.Errorf("read the known URLs: %w", err)
		}
		if batch = append(batch, k); len(batch) == rememberBatch {
			f.Remember(batch)
			batch = batch[:0]
		}
	}
	f.Remember(batch)
	return nil
}

// restoreFolds gives a frontier, the traps and the linkage what was computed from evidence up to a checkpoint, and the evidence since. If what the last
// checkpoint saved is damaged, the one before it gives the same result: the log begins there. Without that one, the whole log does. If it was cut, the crawl is refused,
// since it would come to another result.
func (r *run) restoreFolds(ctx context.Context, f *frontier.Frontier) error {
	snapshots, at := r.store.Snapshots()
	last, damage := r.readFolds(f, snapshots)
	if damage != nil {
		r.log.Warn("what was learned from pages cannot be read from the last checkpoint: computing it anew from the one before", "error", damage)
		var err error
		snapshots, at = r.store.EarlierSnapshots()
		if last, err = r.readFolds(f, snapshots); err != nil {
			damage = errors.Join(damage, err)
			last, at = 0, 0 // a log that was never cut is enough
		}
	}
	began := r.began()
	err := r.store.EvidenceSince(ctx, at, func(at frontier.Position, run uint64, e frontier.Evidence) {
		if last < began && run >= began {
			f.FoldNewRun()
		}
		last = run
		f.Fold(at, e)
		r.traps.Fold(e)
		r.linkage.Fold(e)
	})
	if err != nil && damage != nil {
		return fmt.Errorf("what was learned from pages is lost, and the crawl would come to another result: %w", errors.Join(damage, err))
	}
	if err != nil {
		return err
	}
	if last < began {
		f.FoldNewRun()
	}
	f.FoldContinued()
	return nil
}

// readFolds reads what a checkpoint saved of evidence, and returns the number of the run that made it. After an error nothing of it is kept.
func (r *run) readFolds(f *frontier.Frontier, snapshots []state.Snapshot) (run uint64, err error) {
	r.traps, r.linkage = traps.New(trapRules(r.settings), r.store.Seed()), report.NewLinkage()
	domains := func(b io.Reader) (err error) {
		run, err = f.RestoreFolds(b)
		return err
	}
	for _, fold := range []struct {
		name string
		read func(io.Reader) error
	}{{traps.SnapshotName, r.traps.Restore}, {report.LinkageName, r.linkage.Load}, {frontier.FoldName, domains}} {
		for _, s := range snapshots {
			if s.Name != fold.name {
				continue
			}
			if err := r.store.ReadSnapshot(s, fold.read); err != nil {
				r.traps, r.linkage = traps.New(trapRules(r.settings), r.store.Seed()), report.NewLinkage() // a wrong checksum is known at the end only
				return 0, err
			}
		}
	}
	return run, nil
}

// restoreFilters reads the filters of the last checkpoint and returns its position; 0 if there is none.
func (r *run) restoreFilters(f *frontier.Frontier) (at frontier.Position, err error) {
	snapshots, at := r.store.Snapshots()
	byName := map[string]state.Snapshot{}
	var names []string
	for _, s := range snapshots {
		if frontier.IsFilter(s.Name) {
			byName[s.Name] = s
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	err = f.RestoreFilters(names, func(name string, read func(io.Reader) error) error {
		return r.store.ReadSnapshot(byName[name], read)
	})
	return at, err
}
