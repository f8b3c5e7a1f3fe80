package frontier

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A PartitionStore is a Store whose partitions can be read one by one.
type PartitionStore interface {
	Store
	// Backlogs goes through the hosts with queued links of the partitions from first
	// to last, both included.
	Backlogs(ctx context.Context, first, last uint8) iter.Seq2[Backlog, error]
	// Keys goes through the keys of all links that were ever committed, likewise.
	Keys(ctx context.Context, first, last uint8) iter.Seq2[Key, error]
}

// An Opening is how a partition is opened.
type Opening struct {
	// At counts as the time of the last request to every host of the partition, also
	// to those that are unknown until then; zero means now.
	At time.Time
	// NotBefore is the earliest time of a request to any of them; zero means none.
	NotBefore time.Time
	// NewRun means that a user asked for another run: blocked and abandoned hosts
	// are tried again.
	NewRun bool
}

// Closed is what the next owner of a drained partition must know beside its
// records.
type Closed struct {
	At time.Time
	// Hosts are those whose delay or rest ends after At.
	Hosts []HostNotBefore
}

// A HostNotBefore is the earliest time of the next request to a host.
type HostNotBefore struct {
	Host HostID
	At   time.Time
}

// A Mark says how many batches of another session's links a partition has
// received.
type Mark struct {
	Partition uint8
	Session   [16]byte
	Batch     uint64
}

// A partition is what a frontier keeps of one. It is guarded by the mutex of the
// shard that owns it.
type partition struct {
	state   partitionState
	opening uint32 // how often it was closed
	leases  int    // out, without those of earlier openings
	live    int64  // its part of the frontier's live
	drained chan struct{}

	// openedAt counts as the last request to hosts that become known, notBefore is
	// the earliest time of their first request. Clock; 0 for none.
	openedAt, notBefore int64
	newRun              bool
}

type partitionState uint8

const (
	partitionOpen     partitionState = iota
	partitionClosed                  // it has no hosts; links to it are sent
	partitionLoading                 // it is being opened: hosts come in, and are not leased; links to it are sent
	partitionDraining                // no new leases
)

// takesLinks reports whether links of the partition are recorded here. Those of
// another are sent to whoever owns it.
func (p *partition) takesLinks() bool {
	return p.state == partitionOpen || p.state == partitionDraining
}

// partitionOf is the partition of a host.
func (s *shard) partitionOf(h *host) *partition { return &s.f.parts[h.id.Partition()] }

func (f *Frontier) shardOfPartition(p uint8) *shard { return f.shards[f.owners[p]] }

// OpenPartition takes in a partition that is closed: what its links are, and what
// is queued of them. The frontier is not drained meanwhile.
func (f *Frontier) OpenPartition(ctx context.Context, p uint8, o Opening) error {
	store, ok := f.store.(PartitionStore)
	if !ok {
		return fmt.Errorf("open partition %d: the store cannot read partitions", p)
	}
	defer f.Source()()
	s := f.shardOfPartition(p)
	s.lock()
	part := &f.parts[p]
	if part.state != partitionClosed {
		s.mu.Unlock()
		return fmt.Errorf("open partition %d: it is not closed", p)
	}
	part.state, part.newRun = partitionLoading, o.NewRun
	opening := part.opening
	part.openedAt, part.notBefore = s.time(), 0
	if !o.At.IsZero() {
		part.openedAt = f.clockOf(o.At)
	}
	if !o.NotBefore.IsZero() {
		part.notBefore = f.clockOf(o.NotBefore)
	}
	s.mu.Unlock()
	err := f.loadPartition(ctx, store, p, opening)
	s.lock()
	defer s.unlock()
	switch {
	case part.opening != opening:
		return fmt.Errorf("open partition %d: %w", p, ErrPartitionClosed)
	case err != nil:
		s.close(p)
		return fmt.Errorf("open partition %d: %w", p, err)
	}
	part.state = partitionOpen
	f.notOpen.Add(-1)
	s.touchPartition(p)
	return nil
}

// loadPartition takes in what the store has of a partition, unless it is closed
// meanwhile.
func (f *Frontier) loadPartition(ctx context.Context, store PartitionStore, p uint8, opening uint32) error {
	s, part := f.shardOfPartition(p), &f.parts[p]
	remember := func(keys []Key) error {
		s.lock()
		defer s.mu.Unlock()
		if part.opening != opening {
			return ErrPartitionClosed
		}
		for _, k := range keys {
			s.remember(k)
		}
		return nil
	}
	const batch = 1024
	keys := make([]Key, 0, batch)
	for k, err := range store.Keys(ctx, p, p) {
		if err != nil {
			return err
		}
		if keys = append(keys, k); len(keys) == batch {
			if err := remember(keys); err != nil {
				return err
			}
			keys = keys[:0]
		}
	}
	if err := remember(keys); err != nil {
		return err
	}
	for b, err := range store.Backlogs(ctx, p, p) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		s.lock()
		if part.opening != opening {
			s.mu.Unlock()
			return ErrPartitionClosed
		}
		s.resume(&b)
		s.unlock()
	}
	return nil
}

// DrainPartition gives out no more leases of a partition, waits for those that are
// out, and commits what is to be kept of its hosts. Its links are still recorded,
// until ClosePartition. If it fails, the partition is open again.
func (f *Frontier) DrainPartition(ctx context.Context, p uint8) (Closed, error) {
	s := f.shardOfPartition(p)
	s.lock()
	part := &f.parts[p]
	if part.state != partitionOpen {
		s.mu.Unlock()
		return Closed{}, fmt.Errorf("drain partition %d: it is not open", p)
	}
	part.state, part.drained = partitionDraining, make(chan struct{})
	drained := part.drained
	if part.leases == 0 {
		close(drained)
	}
	s.touchPartition(p)
	s.unlock()
	var err error
	select {
	case <-drained:
		err = f.Checkpoint(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	case <-f.ctx.Done():
		err = ErrClosed
	}
	s.lock()
	defer s.unlock()
	if part.state != partitionDraining || part.drained != drained {
		return Closed{}, fmt.Errorf("drain partition %d: %w", p, ErrPartitionClosed)
	}
	if err != nil {
		part.state, part.drained = partitionOpen, nil
		s.touchPartition(p)
		return Closed{}, fmt.Errorf("drain partition %d: %w", p, err)
	}
	return s.closed(p), nil
}

// closed is what the next owner of a partition must know of its hosts.
func (s *shard) closed(p uint8) Closed {
	now := s.time()
	c := Closed{At: time.Unix(0, now)}
	for i := range s.hosts.n {
		h := s.hosts.at(i)
		if h.id == 0 || h.id.Partition() != p {
			continue
		}
		if at := s.nextStart(i, h); at > now {
			c.Hosts = append(c.Hosts, HostNotBefore{h.id, time.Unix(0, at)})
		}
	}
	return c
}

// ClosePartition forgets a partition, drained or not. What is out of it can no
// longer be done: Start and Done return ErrPartitionClosed, and a lease keeps its
// host's slot until it ends. Nothing is committed.
func (f *Frontier) ClosePartition(p uint8) {
	s := f.shardOfPartition(p)
	s.lock()
	defer s.unlock()
	if f.parts[p].state != partitionClosed {
		s.close(p)
	}
}

// close is ClosePartition for a partition that is not closed.
func (s *shard) close(p uint8) {
	f := s.f
	part := &f.parts[p]
	if part.takesLinks() { // else it is counted as not open already
		f.notOpen.Add(1)
	}
	f.closings.Add(1)
	if part.state == partitionDraining && part.leases > 0 {
		close(part.drained) // whoever waits for it finds it closed
	}
	part.state, part.drained = partitionClosed, nil
	part.opening++
	for i := len(s.leases) - 1; i >= 0; i-- {
		if l := s.leases[i]; s.hosts.at(l.host).id.Partition() == p {
			s.disown(l)
		}
	}
	for i := range s.hosts.n {
		if h := s.hosts.at(i); h.id != 0 && h.id.Partition() == p {
			s.closeHost(i, h)
		}
	}
	for id := range s.gone {
		if id.Partition() == p {
			delete(s.gone, id)
		}
	}
	s.facts = slices.DeleteFunc(s.facts, func(f HostFact) bool { return f.Host.Partition() == p })
	s.closeDomains(p)
	s.filters[p] = nil
}

// closeDomains forgets what is known of a partition's domains. Those with hosts go
// with the last of them.
func (s *shard) closeDomains(p uint8) {
	for id, i := range s.domainIDs {
		if uint8(id>>56) != p {
			continue
		}
		d := s.domains.at(i)
		d.failures, d.at, d.abandoned = 0, 0, false
		if d.hosts < 0 {
			delete(s.domainIDs, id)
			s.domains.release(i)
		}
	}
}

// touchPartition has all hosts of a partition settled.
func (s *shard) touchPartition(p uint8) {
	for i := range s.hosts.n {
		if h := s.hosts.at(i); h.id != 0 && h.id.Partition() == p {
			s.touch(i)
		}
	}
}

// disown takes a lease of a partition that closes from its host, but for the slot
// that its request holds.
func (s *shard) disown(l *Lease) {
	h := s.hosts.at(l.host)
	s.strike(l, h)
	l.disowned = true
	if !l.landed {
		h.disowned++
	}
	switch l.kind {
	case KindPage:
		s.change.permits++
		if l.ticket {
			s.returnTicket(h)
		}
	case KindRobots:
		s.endRobots(l, h)
		if l.ask != nil {
			s.refuseQuestion(h, l.ask)
		}
	}
}

// endDisowned gives the slot of a disowned lease back.
func (s *shard) endDisowned(l *Lease) error {
	if !l.landed {
		s.land(l, &Result{})
		s.hosts.at(l.host).disowned--
		s.touch(l.host)
	}
	return ErrPartitionClosed
}

// closeHost forgets what is queued of a host. The host itself is freed when
// nothing refers to it any more.
func (s *shard) closeHost(i int32, h *host) {
	s.giveBack(h, 0)
	for h.wait >= 0 {
		if s.waits.at(h.wait).ticket {
			s.returnTicket(h)
		}
		s.removeWait(h, h.wait)
	}
	for h.levels >= 0 {
		lv := s.levels.at(h.levels)
		s.changeGate(depthOf(lv.class), -int64(lv.gated))
		s.count.disk -= int64(lv.disk)
		next := lv.next
		s.levels.release(h.levels)
		h.levels = next
	}
	s.count.pending -= h.pending
	h.pending, h.sitemaps = 0, 0
	delete(s.sitemaps, i)
	if h.flags&hostRobotsAsked != 0 {
		s.refuseQuestions(i, h)
	}
	if h.flags&hostRobotsAway != 0 {
		s.endWait(i, h)
	}
	h.ended, h.saved = Cursor{}, Cursor{}
	h.tickets, h.counted = 0, 0
	const waits = hostRobotsWait | hostTicketWait | hostHeld | hostFactDirty
	h.flags = h.flags&^waits | hostClosed
	s.touch(i)
}

// settleClosed frees a host of a closed partition, unless a request or a loader
// still refers to it.
func (s *shard) settleClosed(i int32, h *host) {
	s.recount(h)
	if h.seat >= 0 {
		s.ready.remove(i)
	} else {
		s.parked.remove(i)
	}
	if h.disowned > 0 || h.flags&(hostAsking|hostLoading) != 0 {
		return
	}
	if h.seat >= 0 {
		s.seats.release(h.seat)
		h.seat = -1
	}
	s.freeHost(i)
}

// Receive records links of one partition that another session found and sent, and
// the mark that says so, in one record. It returns how many were new.
func (f *Frontier) Receive(ctx context.Context, links []Link, m Mark) (added int, err error) {
	if err := f.failed.Load(); err != nil {
		return 0, *err
	}
	b, err := f.batch(links)
	if err != nil {
		return 0, fmt.Errorf("receive links: %w", err)
	}
	defer f.recycle(b)
	for _, k := range b.keys {
		if k.Host.Partition() != m.Partition {
			return 0, fmt.Errorf("receive links: one is of partition %d, not %d", k.Host.Partition(), m.Partition)
		}
	}
	b.involve(f.shardOfPartition(m.Partition))
	b.marks = append(b.marks, m)
	if err := f.claimAll(ctx, b, nil); err != nil {
		return 0, fmt.Errorf("receive links: %w", err)
	}
	return b.added, nil
}
