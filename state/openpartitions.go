package state

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

var _ frontier.Store = (*Store)(nil)

// A SharedJournal is a journal that several machines share. The store over it is a view that belongs to one session: no
// partition is open at first, Follow brings one up from the journal, and Close records nothing. The directory cannot be
// opened again: the next session makes another view.
type SharedJournal interface {
	Journal
	// View returns the identity of the crawl that the store is a view of, which is not zero, and the number of the
	// crawl's run.
	View() (crawl [16]byte, run uint64)
}

// openPartitions are the partitions that a store has open. Open opens all of them.
type openPartitions struct {
	mu  sync.Mutex
	set record.PartitionSet // guarded by mu
	// last is the last record that a view has of each partition that is not open. It belongs to
	// the call of Follow or ClosePartition, of which there is one at a time for a partition.
	last [record.Partitions]frontier.Position
}

func (o *openPartitions) opened() record.PartitionSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.set
}

// change opens or closes a partition in the set. It reports false if that changes nothing.
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
	at, err := s.append(ctx, record.AppendClosed(nil, s.run, set, map[uint8]frontier.Closed{p: c}))
	if err != nil {
		s.parts.change(p, true)
		return fmt.Errorf("close partition %d: %w", p, err)
	}
	s.parts.last[p] = at
	return nil
}

// OpenPartition records that a partition is open again. From then on nothing of it is in flight. It returns what
// ClosePartition recorded; false if that is not known, because the partition was not closed in good order, or too long
// ago. In a view the caller has brought the partition up to date with Follow.
func (s *Store) OpenPartition(ctx context.Context, p uint8) (frontier.Closed, bool, error) {
	if !s.parts.change(p, true) {
		return frontier.Closed{}, false, fmt.Errorf("open partition %d: it is open", p)
	}
	s.view.mu.Lock()
	closed, known := s.view.closings[p]
	delete(s.view.closings, p)
	crashed := s.view.crashedLocked(p)
	s.view.mu.Unlock()
	var set record.PartitionSet
	set.Add(p)
	if _, err := s.append(ctx, record.AppendOpened(nil, s.run, set, crashed)); err != nil {
		s.parts.change(p, false)
		return frontier.Closed{}, false, fmt.Errorf("open partition %d: %w", p, err)
	}
	return closed, known, nil
}

// A replay is a part of a journal on its way to the applier of a view.
type replay struct {
	at   []frontier.Position
	recs [][]byte
	done chan error
}

// replayBytes is how much of a journal is applied at once.
const replayBytes = 1 << 20

// Follow applies the journal up to its end to a partition of a view. The partition must not be open here. It calls fold
// for the evidence that is new.
func (s *Store) Follow(ctx context.Context, p uint8, fold func(frontier.Position, uint64, frontier.Evidence)) error {
	if open := s.parts.opened(); open.Has(p) {
		return fmt.Errorf("follow partition %d: it is open", p)
	}
	evidence := evidenceOf(fold)
	next, size := &replay{done: make(chan error, 1)}, 0
	send := func() error {
		if len(next.recs) == 0 {
			return nil
		}
		if err := s.pipeline.replay(ctx, next); err != nil {
			return err
		}
		s.parts.last[p] = next.at[len(next.at)-1]
		next, size = &replay{done: make(chan error, 1)}, 0
		return nil
	}
	err := s.journal.Replay(ctx, Positions{p: s.parts.last[p]}, func(at frontier.Position, rec []byte) error {
		if err := evidence(at, rec); err != nil {
			return err
		}
		next.at, next.recs = append(next.at, at), append(next.recs, slices.Clone(rec))
		if size += len(rec); size >= replayBytes {
			return send()
		}
		return nil
	})
	if err == nil {
		err = send()
	}
	if err != nil {
		return fmt.Errorf("follow partition %d: %w", p, err)
	}
	s.queue.raise(s.parts.last[p])
	return nil
}

// append puts one encoded record into the journal and waits until it is applied.
func (s *Store) append(ctx context.Context, rec []byte) (frontier.Position, error) {
	s.enqueued(int64(len(rec) + recordOverhead))
	at, err := s.queue.put(rec, []int{len(rec)}, nil)
	if err != nil {
		return 0, err
	}
	return at, s.waitApplied(ctx, at)
}

// Settled reports whether all that was committed is durable and applied.
func (s *Store) Settled() bool {
	committed, _ := s.queue.last()
	durable, applied, _ := s.marks()
	return durable >= committed && applied >= committed
}
