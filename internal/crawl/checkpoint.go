package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// checkpoints saves what a run computed from its records, so that the next one need not read all of them, and restores
// it.
type checkpoints struct {
	log      *slog.Logger
	metrics  *metrics.Metrics
	warnings *warnings
	clock    *clock
	every    time.Duration // between two checkpoints
	store    *state.Store
	frontier *frontier.Frontier // its filters and its folds
	folds    *folds
	view     bool // the store is a view that is not opened again: only the hosts' cursors are noted
}

// folds is what is computed from evidence, beside the frontier's own. Both are replaced while a run is opened, and not
// after that.
type folds struct {
	rules   traps.Rules
	seed    uint64
	traps   *traps.Traps
	linkage *linkage // of earlier versions
}

// reset forgets all evidence.
func (f *folds) reset() { f.traps, f.linkage = traps.New(f.rules, f.seed), &linkage{} }

// save writes one snapshot for each fold.
func (f *folds) save(w *state.SnapshotWriter) error {
	known, err := f.traps.Snapshot()
	if err != nil {
		return err
	}
	return w.Put(traps.SnapshotName, traps.SnapshotVersion, func(w io.Writer) error {
		_, err := w.Write(known)
		return err
	})
}

// cursorsEvery is how often it is noted how far hosts' queues are done. A resume looks at every URL after these marks,
// so they are set more often than filters are saved.
const cursorsEvery = 10 * time.Second

// run makes a checkpoint at each interval, or sooner when the log has grown, until ctx ends. That bounds what a resume
// has to read again.
func (c *checkpoints) run(ctx context.Context) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	cursors := time.NewTicker(cursorsEvery)
	defer cursors.Stop()
	notes := time.NewTimer(c.clock.noteEvery())
	defer notes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-notes.C:
			if err := c.note(); err != nil && ctx.Err() == nil {
				c.log.Error("cannot note how long the crawl runs", "error", err)
			}
			notes.Reset(c.clock.noteEvery())
			continue
		case <-cursors.C:
			if err := c.frontier.Checkpoint(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("cannot note how far the hosts' queues are done", "error", err)
			}
			continue
		case <-tick.C:
		case <-c.store.CheckpointDue():
		}
		if err := c.save(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("checkpoint failed", "error", err)
		}
	}
}

// note records how long the runs of the generation have crawled so far, and warnings that are not recorded yet. The
// time of several machines is the engine's.
func (c *checkpoints) note() error {
	c.warnings.save()
	if c.view {
		return nil
	}
	_, err := c.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{c.clock.all().fact()}})
	return err
}

// save notes how far hosts' queues are done and how long the crawl runs, saves the filters and the folds, and cuts the
// log.
func (c *checkpoints) save(ctx context.Context) error {
	start := time.Now()
	if err := c.note(); err != nil {
		return fmt.Errorf("note the time: %w", err)
	}
	if err := c.frontier.Checkpoint(ctx); err != nil {
		return fmt.Errorf("checkpoint the frontier: %w", err)
	}
	if c.view {
		return nil
	}
	err := c.store.Checkpoint(ctx, func(w *state.SnapshotWriter) error {
		if err := c.folds.save(w); err != nil {
			return err
		}
		if err := c.frontier.SaveFolds(w, c.store.Run()); err != nil {
			return err
		}
		return c.frontier.SaveFilters(w)
	})
	if err != nil {
		return err
	}
	c.metrics.Checkpoint(time.Since(start))
	return nil
}

// rememberBatch is how many keys the frontier is given at once.
const rememberBatch = 4096

// restore gives the frontier, which is new, what earlier runs knew: the dedup filters as of the last checkpoint, the
// keys recorded since (or all, where the filters cannot be used), and the hosts that have something pending.
func (c *checkpoints) restore(ctx context.Context) error {
	if c.view {
		return nil // partitions are brought up when they are opened
	}
	since, err := c.restoreFilters()
	if err != nil {
		c.log.Warn("the stored filters cannot be used: computing them again from the store", "error", err)
		since = 0
	}
	if err := c.restoreFolds(ctx); err != nil {
		return err
	}
	if err := c.restoreNames(ctx); err != nil {
		return fmt.Errorf("record which URLs are listed and linked: %w", err)
	}
	// The two read different things, and can do so at the same time.
	var remembering errgroup.Group
	remembering.Go(func() error { return c.remember(ctx, since) })
	err = c.frontier.Resume(ctx, c.store.Backlogs(ctx, 0, 255))
	return errors.Join(err, remembering.Wait())
}

// remember gives the frontier the keys that were recorded after a position, or all if it is 0.
func (c *checkpoints) remember(ctx context.Context, since frontier.Position) error {
	keys := c.store.KeysSince(ctx, since)
	if since == 0 {
		keys = c.store.Keys(ctx, 0, 255)
	}
	batch := make([]weburl.Key, 0, rememberBatch)
	for k, err := range keys {
		if _, damaged := errors.AsType[*wal.CorruptError](err); damaged && since > 0 {
			// All that this part of the log says is in the store too; a key that is named twice does no harm.
			c.warnings.add("reading all known URLs from the store, since a part of the log that is only needed for "+
				"speed is damaged: %v", err)
			return c.remember(ctx, 0)
		}
		if err != nil {
			return fmt.Errorf("read the known URLs: %w", err)
		}
		if batch = append(batch, k); len(batch) == rememberBatch {
			c.frontier.Remember(batch)
			batch = batch[:0]
		}
	}
	c.frontier.Remember(batch)
	return nil
}

// restoreFolds gives the folds what was computed from evidence up to a checkpoint, and the evidence since. If what the
// last checkpoint saved is damaged, the one before it gives the same result: the log begins there. Without that one,
// the whole log does. If it was cut, the crawl is refused, since it would come to another result.
func (c *checkpoints) restoreFolds(ctx context.Context) error {
	snapshots, at := c.store.Snapshots()
	last, damage := c.readFolds(snapshots)
	if damage != nil {
		c.log.Warn("what was learned from pages cannot be read from the last checkpoint: computing it again from the "+
			"one before", "error", damage)
		var err error
		snapshots, at = c.store.EarlierSnapshots()
		if last, err = c.readFolds(snapshots); err != nil {
			damage = errors.Join(damage, err)
			last, at = 0, 0 // a log that was never cut is enough
		}
	}
	began, texts := began(c.store), textsBegan(c.store)
	goTo := func(run uint64) {
		if last < began && run >= began {
			c.frontier.FoldNewRun()
		}
		if last < texts && run >= texts {
			c.folds.traps.ForgetTexts()
		}
		last = run
	}
	err := c.store.EvidenceSince(ctx, at, func(at frontier.Position, run uint64, e frontier.Evidence) {
		goTo(run)
		c.frontier.Fold(at, e)
		c.folds.traps.Fold(e)
		c.folds.linkage.fold(e)
	})
	if err != nil && damage != nil {
		return fmt.Errorf("what was learned from pages is lost, and the crawl would come to another result: %w",
			errors.Join(damage, err))
	}
	if err != nil {
		return err
	}
	goTo(math.MaxUint64)
	c.frontier.FoldContinued()
	return nil
}

// restoreNames has links recorded if sitemaps or public indexes have brought URLs, and puts on record what an earlier
// version knew of those links. That version saved it in checkpoints and evidence, which go with the next two
// checkpoints.
func (c *checkpoints) restoreNames(ctx context.Context) error {
	known, err := c.folds.linkage.record(ctx, c.store)
	if known || c.store.Facts()[frontier.FactListed] != nil {
		c.frontier.NameLinks()
	}
	c.folds.linkage = &linkage{}
	return err
}

// readFolds reads what a checkpoint saved of evidence, and returns the number of the run that made it. After an error
// nothing of it is kept.
func (c *checkpoints) readFolds(snapshots []state.Snapshot) (run uint64, err error) {
	c.folds.reset()
	domains := func(b io.Reader) (err error) {
		run, err = c.frontier.RestoreFolds(b)
		return err
	}
	for _, fold := range []struct {
		name string
		read func(io.Reader) error
	}{{traps.SnapshotName, c.folds.traps.Restore}, {linkageName, c.folds.linkage.load},
		{frontier.FoldName, domains}} {
		for _, s := range snapshots {
			if s.Name != fold.name {
				continue
			}
			if err := c.store.ReadSnapshot(s, fold.read); err != nil {
				c.folds.reset() // a wrong checksum is known at the end only
				return 0, err
			}
		}
	}
	return run, nil
}

// restoreFilters reads the filters of the last checkpoint and returns its position; 0 if there is none.
func (c *checkpoints) restoreFilters() (at frontier.Position, err error) {
	snapshots, at := c.store.Snapshots()
	byName := map[string]state.Snapshot{}
	var names []string
	for _, s := range snapshots {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	found, err := c.frontier.RestoreFilters(names, func(name string, read func(io.Reader) error) error {
		return c.store.ReadSnapshot(byName[name], read)
	})
	if !found {
		return 0, nil
	}
	return at, err
}
