package frontier

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// An Opening is how a partition is opened.
type Opening struct {
	// At counts as the time of the last request to every host of the partition, also to hosts that become known later;
	// zero means now.
	At time.Time
	// NotBefore is the earliest time of a request to any of them; zero means no limit.
	NotBefore time.Time
	// Granted is how many pages the partition may have under Options.Grants, and Used how many
	// it had.
	Granted, Used int64
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
	Host weburl.HostID
	At   time.Time
}

// A Mark says how many batches of another session's links a partition has
// received.
type Mark struct {
	Partition uint8
	Session   [16]byte
	Batch     uint64
}

// A partition is the state of one partition in a frontier. It is guarded by the mutex of the shard that owns it, which
// is s in its methods.
//
// Hosts are leased only while their partition is open. A closed partition has no hosts, except those with requests that
// were leased before it was closed.
type partition struct {
	number  uint8
	state   partitionState
	opening uint32 // how often it was closed
	leases  int    // out, without those of earlier openings
	live    int64  // its part of the frontier's live
	drained chan struct{}

	// openedAt counts as the last request to hosts that become known, notBefore is
	// the earliest time of their first request. Clock; 0 for none.
	openedAt, notBefore int64
	// Pages under Options.Grants.
	granted int64 // that it may have
	used    int64 // tickets taken, with those of pages that are finished
	short   bool  // a host waits for a ticket
	// since is a run: hosts that were blocked or abandoned in it or later stay so, and their rows of failures go on.
	// What earlier runs recorded of that is over.
	since uint64
}

type partitionState uint8

const (
	partitionOpen     partitionState = iota
	partitionClosed                  // it has no hosts; links to it are sent
	partitionLoading                 // it is being opened: hosts come in, and are not leased; links to it are sent
	partitionDraining                // no new leases
)

// takesLinks reports whether links of the partition are recorded here. Otherwise they are sent to its owner.
func (p *partition) takesLinks() bool {
	return p.state == partitionOpen || p.state == partitionDraining
}

// admit makes a host that becomes known wait as the Opening demands: the previous owner may have sent it a request a
// moment ago.
func (p *partition) admit(h *host) {
	h.lastStart = max(h.lastStart, p.openedAt)
	h.notBefore = max(h.notBefore, p.notBefore)
}

// endLease counts a lease that is no longer out.
func (p *partition) endLease() {
	if p.leases--; p.leases == 0 && p.state == partitionDraining {
		close(p.drained)
	}
}

// touch marks all hosts of the partition to be settled.
func (p *partition) touch(s *shard) {
	for i := range s.hosts.all(p.number) {
		s.touch(i)
	}
}

// load reads the keys and backlogs of the partition from the store. It fails if the partition is closed meanwhile. It
// locks the shard.
func (p *partition) load(ctx context.Context, s *shard, store Store, opening uint32) error {
	remember := func(keys []weburl.Key) error {
		s.lock()
		defer s.mu.Unlock()
		if p.opening != opening {
			return ErrPartitionClosed
		}
		for _, k := range keys {
			s.known.remember(k)
		}
		return nil
	}
	const batch = 1024
	keys := make([]weburl.Key, 0, batch)
	for k, err := range store.Keys(ctx, p.number, p.number) {
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
	for b, err := range store.Backlogs(ctx, p.number, p.number) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		s.lock()
		if p.opening != opening {
			s.mu.Unlock()
			return ErrPartitionClosed
		}
		s.resume(&b)
		s.unlock()
	}
	return nil
}

// closed is what the next owner must know of the hosts.
func (p *partition) closed(s *shard) Closed {
	now := s.time()
	c := Closed{At: time.Unix(0, now)}
	for i, h := range s.hosts.all(p.number) {
		if at := s.schedule.nextStart(i, h); at > now {
			c.Hosts = append(c.Hosts, HostNotBefore{h.id, time.Unix(0, at)})
		}
	}
	return c
}

// close forgets what the shard has of the partition, in one step.
func (p *partition) close(s *shard) {
	if p.state == partitionDraining && p.leases > 0 {
		close(p.drained) // the call that waits for it finds the partition closed
	}
	p.state, p.drained = partitionClosed, nil
	p.opening++
	for i := len(s.leases.out) - 1; i >= 0; i-- {
		if l := s.leases.out[i]; s.hosts.at(l.host).id.Partition() == p.number {
			l.disownLocked()
		}
	}
	for i, h := range s.hosts.all(p.number) {
		p.closeHost(s, i, h)
	}
	s.hosts.forgetPartition(p.number)
	s.facts = slices.DeleteFunc(s.facts, func(f HostFact) bool { return f.Host.Partition() == p.number })
	s.known.filters.Replace(p.number, nil)
}

// closeHost forgets what is queued of a host. The host itself is freed when
// nothing refers to it any more.
func (p *partition) closeHost(s *shard, i int32, h *host) {
	s.giveBack(h, 0)
	for range h.ticketed {
		s.returnTicket(h)
	}
	s.effects.gate.forget(&s.queues, h)
	s.queues.clear(&h.hostQueue)
	if h.flags&hostRobotsAsked != 0 {
		s.robots.refuseAll(i, h)
	}
	if h.flags&hostRobotsAway != 0 {
		s.robots.endWait(i, h)
	}
	h.tickets, h.counted = 0, 0
	const waits = hostRobotsWait | hostTicketWait | hostHeld | hostFactDirty
	h.flags = h.flags&^waits | hostClosed
	s.touch(i)
}

// settleHost frees a host of a closed partition, unless a request or a loader
// still refers to it.
func (p *partition) settleHost(s *shard, i int32, h *host) {
	s.recount(h)
	s.schedule.set(i, h, never)
	if h.disowned > 0 || h.flags&(hostAsking|hostLoading) != 0 {
		return
	}
	s.freeHost(i)
}

// partitionSet are the partitions of a frontier.
type partitionSet struct {
	list [partitions]partition
	// notOpen is how many partitions do not take links; written under the mutexes of
	// their shards.
	notOpen  atomic.Int64
	closings atomic.Int64 // how often a partition was closed
}

// init makes all partitions, open or closed.
func (ps *partitionSet) init(closed bool) {
	for p := range ps.list {
		ps.list[p].number = uint8(p)
		if closed {
			ps.list[p].state = partitionClosed
		}
	}
	if closed {
		ps.notOpen.Store(partitions)
	}
}

func (ps *partitionSet) at(p uint8) *partition { return &ps.list[p] }

// of is the partition of a host.
func (ps *partitionSet) of(id weburl.HostID) *partition { return &ps.list[id.Partition()] }

// close closes a partition of a shard, which is locked, unless it is closed.
func (ps *partitionSet) close(p uint8, s *shard) {
	part := ps.at(p)
	if part.state == partitionClosed {
		return
	}
	if part.takesLinks() { // else it is counted as not open already
		ps.notOpen.Add(1)
	}
	ps.closings.Add(1)
	part.close(s)
}

// beginRun notes that all partitions were opened just now, and sets their since.
func (ps *partitionSet) beginRun(shards *shardSet, since uint64) {
	for p := range ps.list {
		s := shards.ofPartition(uint8(p))
		s.lock()
		ps.list[p].openedAt, ps.list[p].since = s.time(), since
		s.mu.Unlock()
	}
}

// OpenPartition opens a closed partition: it loads the keys of all its links, and its queues. The frontier is not
// drained meanwhile.
func (f *Frontier) OpenPartition(ctx context.Context, p uint8, o Opening) error {
	defer f.Source()()
	s := f.shards.ofPartition(p)
	s.lock()
	part := f.parts.at(p)
	if part.state != partitionClosed {
		s.mu.Unlock()
		return fmt.Errorf("open partition %d: it is not closed", p)
	}
	part.state, part.since = partitionLoading, f.o.Continues
	if o.NewRun {
		part.since = f.o.newRun()
	}
	part.granted, part.used, part.short = o.Granted, o.Used, false
	opening := part.opening
	part.openedAt, part.notBefore = s.time(), 0
	if !o.At.IsZero() {
		part.openedAt = f.clock.at(o.At)
	}
	if !o.NotBefore.IsZero() {
		part.notBefore = f.clock.at(o.NotBefore)
	}
	s.mu.Unlock()
	err := part.load(ctx, s, f.store, opening)
	s.lock()
	defer s.unlock()
	switch {
	case part.opening != opening:
		return fmt.Errorf("open partition %d: %w", p, ErrPartitionClosed)
	case err != nil:
		f.parts.close(p, s)
		return fmt.Errorf("open partition %d: %w", p, err)
	}
	part.state = partitionOpen
	f.parts.notOpen.Add(-1)
	part.touch(s)
	return nil
}

// DrainPartition gives out no more leases of a partition, waits for those that are
// out, and commits what is to be kept of its hosts. Its links are still recorded,
// until ClosePartition. If it fails, the partition is open again.
func (f *Frontier) DrainPartition(ctx context.Context, p uint8) (Closed, error) {
	s := f.shards.ofPartition(p)
	s.lock()
	part := f.parts.at(p)
	if part.state != partitionOpen {
		s.mu.Unlock()
		return Closed{}, fmt.Errorf("drain partition %d: it is not open", p)
	}
	part.state, part.drained = partitionDraining, make(chan struct{})
	drained := part.drained
	if part.leases == 0 {
		close(drained)
	}
	part.touch(s)
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
		part.touch(s)
		return Closed{}, fmt.Errorf("drain partition %d: %w", p, err)
	}
	return part.closed(s), nil
}

// ClosePartition forgets a partition, drained or not. For leases that are out, Start and Done then return
// ErrPartitionClosed, and each keeps its host's slot until it ends. Nothing is committed. It returns what the partition
// held.
func (f *Frontier) ClosePartition(p uint8) PartitionStatus {
	s := f.shards.ofPartition(p)
	s.lock()
	defer s.unlock()
	status := f.parts.at(p).status()
	f.parts.close(p, s)
	return status
}

// A PartitionStatus is what a partition holds.
type PartitionStatus struct {
	Open   bool  // its hosts are leased, or it is being drained
	Live   int64 // URLs and robots leases that are left; 0 means that it has nothing to do
	Leases int   // that are out
	// Short means that a host waits until more pages are granted.
	Short bool
}

func (p *partition) status() PartitionStatus {
	return PartitionStatus{Open: p.takesLinks(), Live: p.live, Leases: p.leases, Short: p.short}
}

// A Member is one of several frontiers that share the partitions of a crawl.
type Member struct{ f *Frontier }

// MemberOf returns the frontier as a member.
func MemberOf(f *Frontier) Member { return Member{f} }

// Hold keeps Next from returning ErrDrained until it is released, since the frontier may
// receive links from others. Unlike Source it holds no level.
func (m Member) Hold() (release func()) {
	f := m.f
	f.live.Add(1)
	return sync.OnceFunc(func() {
		if f.live.Add(-1) == 0 {
			f.waiting.WakeAll()
		}
	})
}

// OpenLevel allows leases of URLs up to and including a depth. It is for Options.LevelByLevel.
func (m Member) OpenLevel(depth uint32) {
	g := &m.f.gate
	priority := int32(PriorityDepth) + int32(min(int(depth), maxOrderedDepth))
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || g.open.Load() >= priority {
		return
	}
	g.open.Store(priority)
	for _, s := range m.f.shards.all {
		g.settleHosts(s)
	}
}

// LeastDepth is the least depth of what is unfinished here under Options.LevelByLevel, -1 if nothing is. Sitemaps,
// robots.txt and sources count as depth 0. It may be called by the function that Statuses calls.
func (m Member) LeastDepth() int { return m.f.gate.least() }

// Ask queues a question from another machine. The answer is what the caller stores for the question's origin.
func (m Member) Ask(q RobotsQuestion) error { return m.f.ask(q) }

// Answered ends the wait of an origin for an answer that another machine has sent and the caller has stored.
func (m Member) Answered(host weburl.HostID, origin string) {
	w := &robotsWait{host: host, origin: origin, foreign: true}
	m.f.deliver([]robotsNotice{{wait: w}})
}

// Grant sets how many pages a partition may have in total, those that it had included.
func (m Member) Grant(p uint8, pages int64) {
	s := m.f.shards.ofPartition(p)
	s.lock()
	defer s.unlock()
	part := m.f.parts.at(p)
	part.granted, part.short = pages, false
	for i, h := range s.hosts.all(p) {
		if h.flags&hostTicketWait != 0 {
			h.flags &^= hostTicketWait
			s.touch(i)
		}
	}
}

// TakeBack ends the grant of a partition that has nothing to do, and returns how many pages it used. It reports false
// if the partition has work, if it has used its whole grant, or if it is not open.
func (m Member) TakeBack(p uint8) (used int64, ok bool) {
	s := m.f.shards.ofPartition(p)
	s.lock()
	defer s.mu.Unlock()
	part := m.f.parts.at(p)
	if part.state != partitionOpen || part.live > 0 || part.used >= part.granted {
		return 0, false
	}
	part.granted = part.used
	return part.used, true
}

// IsOpen reports whether links of a partition are recorded here.
func (m Member) IsOpen(p uint8) bool {
	s := m.f.shards.ofPartition(p)
	s.lock()
	defer s.mu.Unlock()
	return m.f.parts.at(p).takesLinks()
}

// Statuses locks all shards and calls settled. If that returns true, Statuses returns what all partitions hold at this
// moment; otherwise it reports false. settled must not call the frontier, except for LeastDepth.
func (m Member) Statuses(settled func() bool) (list [partitions]PartitionStatus, ok bool) {
	f := m.f
	for _, s := range f.shards.all {
		s.lock()
		defer s.mu.Unlock()
	}
	if !settled() {
		return list, false
	}
	for p := range list {
		list[p] = f.parts.at(uint8(p)).status()
	}
	return list, true
}

// Receive records links of one partition that another session found and sent, and
// the mark that says so, in one record. It returns how many were new.
func (f *Frontier) Receive(ctx context.Context, links []Link, m Mark) (added int, err error) {
	if added, err = f.add(ctx, links, m); err != nil {
		return 0, fmt.Errorf("receive links: %w", err)
	}
	return added, nil
}
