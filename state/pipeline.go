package state

import (
	"context"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/overlay"
	"github.com/mapwright/mapwright/state/internal/record"
)

// durableBatches is how many batches may wait for the applier. They count towards Options.QueueBytes.
const durableBatches = 64

// A pipeline brings committed records into the journal and then into Badger. It has
// two goroutines: the writer, which alone appends to the journal, and the applier.
type pipeline struct {
	*access
	opts    *Options
	journal Journal
	overlay *overlay.Overlay
	latency latencies
	durable chan *Batch   // from the writer to the applier
	replays chan *replay  // from Follow to the applier
	ended   chan struct{} // closed when the applier has ended

	// Set by the opening before the goroutines start.
	applier     *applier
	keeper      *keeper
	checkpoints *checkpoints
}

func newPipeline(a *access, o *Options) *pipeline {
	return &pipeline{
		access: a, opts: o, overlay: overlay.New(), durable: make(chan *Batch, durableBatches),
		replays: make(chan *replay), ended: make(chan struct{}),
	}
}

// write is the writer goroutine. It takes batches from the queue and appends them
// to the journal, which for the local log means to write and to fsync. While it
// waits for that, the queue fills the next batch. It goes on when Badger fails, so
// that what was committed until then is durable.
func (p *pipeline) write() {
	defer close(p.durable)
	before := p.journal.Stats()
	found := before.Size - before.Written
	for b := p.queue.take(); b != nil; b = p.queue.take() {
		p.latency.appending(b.at)
		if err := p.journal.Append(context.Background(), b); err != nil {
			p.fail(fmt.Errorf("append to journal: %w", err))
			return
		}
		took := time.Since(b.at)
		p.latency.appended(took)
		if p.opts.ObserveDurable != nil {
			p.opts.ObserveDurable(took, b.len())
		}
		p.setDurable(b.last())
		p.checkpoints.logged(found + p.journal.Stats().Written)
		p.durable <- b
	}
}

// apply is the applier goroutine: it brings batches that are durable into
// Badger. After a failure it only receives them, so that the writer goes on.
func (p *pipeline) apply() {
	defer close(p.ended)
	defer p.applier.txns.Discard()
	p.applier.kept = true // batches are recycled, and replays end, when they are in Badger
	for {
		var err error
		select {
		case b, more := <-p.durable:
			switch {
			case !more:
				return
			case p.failed() != nil:
				continue
			}
			err = p.applyFrom(b)
		case r := <-p.replays:
			if err = p.failed(); err == nil {
				err = p.applyReplay(r)
			}
			r.done <- err
		}
		if err != nil {
			p.fail(err)
		}
	}
}

// applyFrom applies a batch, and those that are waiting behind it as far as one
// transaction goes.
func (p *pipeline) applyFrom(b *Batch) (err error) {
	defer p.guard(&err)
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	var done []*Batch
	for b != nil {
		if err := p.addBatch(b); err != nil {
			return err
		}
		done = append(done, b)
		b = nil
		if !p.applier.txns.Full(4) {
			select {
			case b = <-p.durable: // nil if it was closed
			default:
			}
		}
	}
	err = p.applier.commit(func() {
		for _, b := range done {
			p.appliedBatch(b)
		}
	})
	if err != nil || len(p.durable) > 0 {
		return err // Badger writes while the next batches are put together
	}
	return p.applier.await()
}

// replay passes records that another machine wrote to the applier, and waits until they are applied.
func (p *pipeline) replay(ctx context.Context, r *replay) error {
	select {
	case p.replays <- r:
		return <-r.done
	case <-p.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipeline) applyReplay(r *replay) (err error) {
	defer p.guard(&err)
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	facts := record.Visitor{Fact: func(f frontier.CrawlFact) error {
		p.applier.view.setFacts([]frontier.CrawlFact{f})
		return nil
	}}
	for i, rec := range r.recs {
		if err := p.applier.replay(r.at[i], rec); err != nil {
			return err
		}
		if err := record.Walk(rec, &facts); err != nil {
			return err
		}
	}
	return p.applier.commitAndWait()
}

func (p *pipeline) appliedBatch(b *Batch) {
	took := time.Since(b.at)
	if p.opts.ObserveApplied != nil {
		p.opts.ObserveApplied(took, b.len())
	}
	p.queue.recycle(b)
}

func (p *pipeline) addBatch(b *Batch) error {
	for i := range b.len() {
		rec := b.record(i)
		if err := p.applier.add(b.position(i), rec, int64(len(rec)+recordOverhead)); err != nil {
			return err
		}
	}
	return nil
}

// committed follows each transaction of the applier.
func (p *pipeline) committed(a applied) {
	p.overlay.RemoveLinks(a.links)
	p.overlay.RemoveFacts(a.position)
	p.setApplied(a.position, a.cost)
	p.keeper.applied(a.cost)
}
