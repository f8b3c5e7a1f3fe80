package state

import (
	"context"
	"fmt"
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

var _ frontier.PartitionStore = (*Store)(nil)

// openPartitions are the partitions that a store has open. Open opens all of them.
type openPartitions struct {
	mu  sync.Mutex
	set record.PartitionSet // guarded by mu
}

func (o *openPartitions) opened() record.PartitionSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.set
}

// change opens or closes a partition in the set. It reports false if it is so
// already.
func (o *openPartitions) change(p uint8, open bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.set.Has(p) == open {
		return false
	}
	o.set[p/64] ^= 1 << (p % 64)
	return true
}

// ClosePartition records that a partition was closed in good order. That is durable
// and applied when it returns.
func (s *Store) ClosePartition(ctx context.Context, p uint8, c frontier.Closed) error {
	for _, h := range c.Hosts {
		if h.Host.Partition() != p {
			return fmt.Errorf("close partition %d: a host is of partition %d", p, h.Host.Partition())
		}
	}
	if !s.parts.change(p, false) {
		return fmt.Errorf("close partition %d: it is not open", p)
	}
	var set record.PartitionSet
	set.Add(p)
	if err := s.append(ctx, record.AppendClosed(nil, s.run, set, map[uint8]frontier.Closed{p: c})); err != nil {
		s.parts.change(p, true)
		return fmt.Errorf("close partition %d: %w", p, err)
	}
	return nil
}

// OpenPartition records that a partition is open again, which ends what was in
// flight of it. It returns what was said when the partition was closed; false if
// that is not known, because it was not closed in good order or too long ago.
func (s *Store) OpenPartition(ctx context.Context, p uint8) (frontier.Closed, bool, error) {
	if !s.parts.change(p, true) {
		return frontier.Closed{}, false, fmt.Errorf("open partition %d: it is open", p)
	}
	s.view.mu.Lock()
	closed, known := s.view.closings[p]
	delete(s.view.closings, p)
	s.view.mu.Unlock()
	var set record.PartitionSet
	set.Add(p)
	if err := s.append(ctx, record.AppendOpened(nil, s.run, set, nil)); err != nil {
		s.parts.change(p, false)
		return frontier.Closed{}, false, fmt.Errorf("open partition %d: %w", p, err)
	}
	return closed, known, nil
}

// append puts one encoded record into the journal and waits until it is applied.
func (s *Store) append(ctx context.Context, rec []byte) error {
	s.marks.enqueued(int64(len(rec) + recordOverhead))
	at, err := s.queue.put(rec, []int{len(rec)}, nil)
	if err != nil {
		return err
	}
	return s.waitApplied(ctx, at)
}

// Received returns the last batch of a session that a partition has received, 0 for
// none.
func (s *Store) Received(ctx context.Context, p uint8, session [16]byte) (uint64, error) {
	if err := s.Flush(ctx); err != nil {
		return 0, err
	}
	var batch uint64
	m := frontier.Mark{Partition: p, Session: session}
	_, err := s.get(record.MarkKey(&m), func(b []byte) error {
		r, err := record.ValueReader("mark", b)
		if err != nil {
			return err
		}
		batch = r.Uvarint()
		return r.Done("mark")
	})
	if err != nil {
		return 0, fmt.Errorf("read mark: %w", err)
	}
	return batch, nil
}
