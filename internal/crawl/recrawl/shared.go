package recrawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// partitions are those of a crawl of several machines. They are opened and closed here while the sweeper runs, and each
// is swept by the machine that has it. Whether a partition is swept, and which of its hosts wait for a re-check, are
// facts in its log, so the next owner goes on after a kill. The methods do nothing on a nil pointer: one machine has
// all partitions.
type partitions struct {
	opened chan struct{} // has one element if a partition may have been opened

	mu      sync.Mutex
	list    [256]sharedPartition // guarded by mu
	current int                  // guarded by mu; the partition that Run works on, -1 for none
	stop    context.CancelFunc   // guarded by mu; makes Run leave current
	left    chan struct{}        // guarded by mu; closed when Run has left current
}

// sharedPartition is one of several machines' partitions.
type sharedPartition struct {
	open     bool // here: visits can be queued
	swept    bool // all visits of the generation are queued
	rechecks int  // hosts whose answers 304 are to be checked again
}

func newPartitions() *partitions { return &partitions{opened: make(chan struct{}, 1), current: -1} }

// addRecheck changes how many hosts of a partition wait for a re-check.
func (ps *partitions) addRecheck(p uint8, by int) {
	if ps == nil {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.list[p].rechecks += by
}

// Opening begins a partition anew, before its pages are visited here.
func (s *Sweeper) Opening(p uint8) {
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	s.parts.list[p] = sharedPartition{}
}

// Opened makes Run queue the visits of a partition that is open here now, unless its facts say that they are queued.
func (s *Sweeper) Opened(p uint8, facts map[string][]byte) {
	s.addOpenJobs(facts, func(host string) bool { return s.partitionOf(host) == p })
	swept := bytes.Equal(facts[factPartition+strconv.Itoa(int(p))], s.number)
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	s.parts.list[p].open, s.parts.list[p].swept = true, swept
	select {
	case s.parts.opened <- struct{}{}:
	default:
	}
}

// Closing makes Run leave a partition, and waits for that. Nothing is queued in the partition after it.
func (s *Sweeper) Closing(p uint8) {
	ps := s.parts
	ps.mu.Lock()
	ps.list[p].open = false
	working := ps.current == int(p)
	left := ps.left
	if working {
		ps.stop()
	}
	ps.mu.Unlock()
	if working {
		<-left
	}
	s.dropJobs(p)
}

// Pending reports whether visits of a partition are still to be queued. It is true from before the record that makes
// it so is committed until after the one that queues them.
func (s *Sweeper) Pending(p uint8) bool {
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	return !s.parts.list[p].swept || s.parts.list[p].rechecks > 0
}

// IsSwept reports whether all visits of the generation are queued in all partitions. Of those that are not open here it
// is not known.
func (s *Sweeper) IsSwept() bool {
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	for p := range s.parts.list {
		if !s.parts.list[p].swept {
			return false
		}
	}
	return true
}

// within works on a partition. Among several machines it does nothing if the partition is not open here, and stops when
// the partition is to be closed; its next owner goes on.
func (s *Sweeper) within(ctx context.Context, p uint8, do func(context.Context) error) error {
	ps := s.parts
	if ps == nil {
		return do(ctx)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	left := make(chan struct{})
	defer close(left)
	ps.mu.Lock()
	if !ps.list[p].open {
		ps.mu.Unlock()
		return nil
	}
	ps.current, ps.stop, ps.left = int(p), stop, left
	ps.mu.Unlock()
	err := do(working)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.current = -1
	if !ps.list[p].open && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sweepOpened queues what is due in the partitions that were opened here and are not swept: as sweepAll, for some
// partitions. It does not wait for the sitemaps of other machines' hosts.
func (s *Sweeper) sweepOpened(ctx context.Context) error {
	var due []uint8
	s.parts.mu.Lock()
	for p := range s.parts.list {
		if part := &s.parts.list[p]; part.open && !part.swept {
			due = append(due, uint8(p))
		}
	}
	s.parts.mu.Unlock()
	for _, p := range due {
		err := s.within(ctx, p, func(ctx context.Context) error {
			first, last := hostsOf(p)
			return s.queueFirst(ctx, first, last)
		})
		if err != nil {
			return err
		}
	}
	if err := s.awaitSitemaps(ctx); err != nil {
		return err
	}
	total := 0
	for _, p := range due {
		err := s.within(ctx, p, func(ctx context.Context) error {
			n, err := s.sweepShared(ctx, p)
			total += n
			return err
		})
		if err != nil {
			return fmt.Errorf("queue pages again: %w", err)
		}
	}
	if len(due) > 0 {
		s.o.Log.Info("pages that are due are queued for another visit", "generation", s.generation, "partitions",
			len(due), "pages", total)
	}
	return nil
}

// sweepShared queues what is due in one partition. The fact that says so is in the last record.
func (s *Sweeper) sweepShared(ctx context.Context, p uint8) (n int, err error) {
	first, last := hostsOf(p)
	if err := s.sweepChecks(ctx, first, last); err != nil {
		return 0, err
	}
	if n, err = s.sweep(ctx, p, nil); err != nil {
		return 0, err
	}
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	s.parts.list[p].swept = true
	return n, nil
}
