package state

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/wal"
)

// durableBatches is how many batches may wait for the applier. They are within
// what bounds the queue.
const durableBatches = 64

// write is the writer goroutine: it appends batches to the log. It goes on when
// Badger fails, so that what was committed until then is durable.
func (s *Store) write() {
	defer close(s.durable)
	var recs [][]byte
	found := s.log.Size() - s.log.Stats().Written
	for b := s.queue.take(); b != nil; b = s.queue.take() {
		recs = recs[:0]
		for i := range b.len() {
			recs = append(recs, b.record(i))
		}
		s.latency.appending(b.at)
		last, err := s.log.Append(recs...)
		if err == nil && last != wal.LSN(b.last()) {
			err = fmt.Errorf("log gave position %d, not %d", last, b.last())
		}
		if err != nil {
			s.fail(fmt.Errorf("append to log: %w", err))
			return
		}
		took := time.Since(b.at)
		s.latency.appended(took)
		if s.opts.ObserveDurable != nil {
			s.opts.ObserveDurable(took, b.len())
		}
		s.marks.setDurable(b.last())
		s.checkpoints.logged(found + s.log.Stats().Written)
		s.durable <- b
	}
}

// apply is the applier goroutine: it brings batches that are durable into
// Badger. After a failure it only takes them out of the writer's way.
func (s *Store) apply() {
	defer s.applier.txns.Discard()
	for b := range s.durable {
		if s.marks.failed() != nil {
			continue
		}
		if err := s.applyFrom(b); err != nil {
			s.fail(err)
		}
	}
}

// applyFrom applies a batch, and those that are waiting behind it as far as one
// transaction goes.
func (s *Store) applyFrom(b *batch) (err error) {
	defer s.guard(&err)
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var done []*batch
	for b != nil {
		if err := s.addBatch(b); err != nil {
			return err
		}
		done = append(done, b)
		b = nil
		if !s.applier.txns.Full(4) {
			select {
			case b = <-s.durable: // nil if it was closed
			default:
			}
		}
	}
	err = s.applier.commit(func() {
		for _, b := range done {
			s.appliedBatch(b)
		}
	})
	if err != nil || len(s.durable) > 0 {
		return err // Badger writes while the next batches are put together
	}
	return s.applier.await()
}

func (s *Store) appliedBatch(b *batch) {
	took := time.Since(b.at)
	s.latency.applied(took)
	if s.opts.ObserveApplied != nil {
		s.opts.ObserveApplied(took, b.len())
	}
	s.queue.recycle(b)
}

func (s *Store) addBatch(b *batch) error {
	for i := range b.len() {
		rec := b.record(i)
		if err := s.applier.add(b.first+uint64(i), rec, int64(len(rec)+recordOverhead)); err != nil {
			return err
		}
	}
	return nil
}

// committed follows each transaction of the applier.
func (s *Store) committed(a applied) {
	s.overlay.removeLinks(a.links)
	s.overlay.removeFacts(a.seq)
	s.marks.setApplied(a.seq, a.cost)
	s.keeper.applied(a.cost)
}
