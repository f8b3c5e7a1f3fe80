package frontier

import (
	"context"
	"fmt"
)

// Revisit queues links again that are finished: each has Visit over 1, one more
// than the visit that is finished, and Before. The caller makes sure that none is
// queued twice in the same visit; which URLs are due is not the frontier's to
// know.
func (f *Frontier) Revisit(ctx context.Context, links []Link) error {
	for len(links) > 0 {
		n := min(len(links), batchMost)
		if err := f.revisit(ctx, links[:n]); err != nil {
			return fmt.Errorf("visit again: %w", err)
		}
		links = links[n:]
	}
	return nil
}

func (f *Frontier) revisit(ctx context.Context, links []Link) error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	b, err := f.batch(links)
	if err != nil {
		return err
	}
	defer f.recycle(b)
	for i := range links {
		if links[i].Visit < 2 {
			return fmt.Errorf("%s: visit %d is not a later one", links[i].URL, links[i].Visit)
		}
		l := links[i]
		l.Key, l.Finish = b.keys[i], nil
		l.settlePriority()
		b.fresh = append(b.fresh, l)
	}
	if err := f.store.Ready(ctx); err != nil {
		return fmt.Errorf("wait for the store: %w", err)
	}
	for _, s := range b.shards {
		s.lock()
	}
	defer f.unlock(b.shards)
	for _, k := range b.keys {
		if !f.parts[k.Host.Partition()].takesLinks() {
			return ErrPartitionClosed
		}
	}
	b.rec[0] = Record{Visits: b.fresh}
	if _, err := f.store.Commit(b.rec[:]...); err != nil {
		return f.fail(commitError(err))
	}
	for i := range b.fresh {
		l := &b.fresh[i]
		f.shardOf(l.Key.Host).push(l)
	}
	return nil
}
