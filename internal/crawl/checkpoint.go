package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
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

// saveSnapshots saves what is not in the records: the dedup filters, and what sitemaps list.
func (r *run) saveSnapshots(w *state.SnapshotWriter) error {
	if r.linkage.active.Load() {
		if err := w.Put(linkageName, linkageForm, r.linkage.save); err != nil {
			return err
		}
	}
	if err := r.frontier.SaveFolds(w, r.store.Run()); err != nil {
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
			r.warn("reading all known URLs from the store, since a part of the log that is only needed for speed is damaged: %v", err)
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

// restoreFolds gives a frontier what was computed from evidence up to the last checkpoint, and the evidence since.
func (r *run) restoreFolds(ctx context.Context, f *frontier.Frontier) error {
	snapshots, at := r.store.Snapshots()
	last := uint64(0) // run of the evidence so far
	for _, s := range snapshots {
		if s.Name == frontier.FoldName {
			err := r.store.ReadSnapshot(s, func(b io.Reader) (err error) {
				last, err = f.RestoreFolds(b)
				return err
			})
			if err != nil {
				r.warn("failures of domains in a row are counted from the last checkpoint on only: %v", err)
			}
		}
	}
	err := r.store.EvidenceSince(ctx, at, func(at frontier.Position, run uint64, e frontier.Evidence) {
		if run != last {
			f.FoldNewRun()
		}
		last = run
		f.Fold(at, e)
	})
	f.FoldNewRun()
	// Without a checkpoint that can be read, the log may not begin where it should.
	if _, damaged := errors.AsType[*wal.CorruptError](err); damaged || errors.Is(err, wal.ErrOutOfRange) {
		r.warn("failures of domains in a row are counted anew, since a part of the log cannot be read that is needed for nothing else: %v", err)
		return nil
	}
	return err
}

// restoreFilters reads the filters of the last checkpoint and returns its position; 0 if there is none.
func (r *run) restoreFilters(f *frontier.Frontier) (at frontier.Position, err error) {
	snapshots, at := r.store.Snapshots()
	byName := map[string]state.Snapshot{}
	var names []string
	for _, s := range snapshots {
		if s.Name == linkageName {
			if err := r.store.ReadSnapshot(s, r.linkage.load); err != nil {
				r.warn("what sitemaps listed is lost; orphans cannot all be told: %v", err)
			}
		}
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
