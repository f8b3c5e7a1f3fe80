package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/state"
)

// checkpoint notes how far hosts' queues are done, saves the dedup filters and cuts the log.
func (r *run) checkpoint(ctx context.Context) error {
	start := time.Now()
	if err := r.frontier.Checkpoint(ctx); err != nil {
		return fmt.Errorf("checkpoint the frontier: %w", err)
	}
	if err := r.store.Checkpoint(ctx, func(*state.SnapshotWriter) error { return nil }); err != nil {
		return err
	}
	r.metrics.Checkpoint(time.Since(start))
	return nil
}
