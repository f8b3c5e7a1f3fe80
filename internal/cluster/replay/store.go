package replay

import (
	"context"
	"errors"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/state"
)

// Open makes a store in a new directory that holds all partitions of a crawl at the
// moment of a snapshot. What is written to the store stays in it. The caller closes the
// store and removes the directory.
func Open(ctx context.Context, r Reader, s *cluster.Snapshot, dir string) (*state.Store, error) {
	if err := s.Crawl.CheckIdentity(); err != nil {
		return nil, err
	}
	return state.Open(dir, state.Options{
		Mode: state.CreateOnly, Seed: s.Crawl.Seed, Journal: &journal{ctx, r, s},
		SyncBytes: 1 << 40, SyncInterval: 24 * time.Hour, GCInterval: state.Off, // it need not survive a crash
	})
}

// A journal gives a store the logs of a crawl. Records that the store adds go nowhere:
// the store is not opened again.
type journal struct {
	ctx      context.Context // of Open: the store replays without one of its own
	reader   Reader
	snapshot *cluster.Snapshot
}

func (j *journal) Append(context.Context, *state.Batch) error { return nil }

func (j *journal) Replay(ctx context.Context, after state.Positions, fn func(frontier.Position, []byte) error) error {
	for _, at := range after {
		if at > 0 {
			return errors.New("the log of a crawl is read from its beginning only")
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(j.ctx, func() { cancel(context.Cause(j.ctx)) })()
	defer cancel(nil)
	return Records(ctx, j.reader, j.snapshot, fn)
}

func (j *journal) Truncate(context.Context, state.Positions) error { return nil }
func (j *journal) Stats() state.JournalStats                       { return state.JournalStats{} }
func (j *journal) Close() error                                    { return nil }
