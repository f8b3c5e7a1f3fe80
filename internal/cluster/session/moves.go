package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// move begins what the last snapshot asks for: partitions to claim, to close, and to follow.
// What was begun before goes on.
func (w *work) move() error {
	snap, _ := w.latest()
	moves := cluster.NextMoves(snap, w.id.ID)
	// The snapshot may be older than what this session has done since.
	owned := w.journal.owns()
	isOwned := func(p uint8) bool { return slices.Contains(owned, p) }
	moves.Close = slices.DeleteFunc(moves.Close, func(p uint8) bool { return !isOwned(p) })
	moves.Claim, moves.Wait = slices.DeleteFunc(moves.Claim, isOwned), slices.DeleteFunc(moves.Wait, isOwned)
	for _, p := range moves.Close {
		if w.begin(p) {
			w.group.Go(func() error {
				defer w.done(p)
				err := w.closePartition(w.ctx, &w.Local, p)
				if w.ctx.Err() != nil {
					return nil // it is open again
				}
				return err
			})
		}
	}
	for _, p := range moves.Wait {
		if w.begin(p) {
			w.group.Go(func() error {
				defer w.done(p)
				return w.follow(p)
			})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	claims := slices.DeleteFunc(moves.Claim, func(p uint8) bool { return w.busy[p] })
	if len(claims) == 0 || w.opening {
		return nil
	}
	w.opening = true
	for _, p := range claims {
		w.busy[p] = true
	}
	w.group.Go(func() error {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.opening = false
			for _, p := range claims {
				delete(w.busy, p)
			}
		}()
		return w.claim(w.Session.ctx, claims)
	})
	return nil
}

// begin marks a partition as busy. It reports false if the partition is busy already.
func (w *work) begin(p uint8) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[p] {
		return false
	}
	w.busy[p] = true
	return true
}

func (w *work) done(p uint8) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, p)
}

// claim makes this session the owner of those of the partitions that can be claimed, and opens them.
func (w *work) claim(ctx context.Context, parts []uint8) error {
	snap, at := w.latest()
	if snap == nil { // no beat was answered yet: the session has found out by itself that the crawl has ended
		var err error
		if snap, err = w.look(ctx, cluster.Known{Plan: w.crawl.PlanVersion}); err != nil {
			return err
		}
		at = time.Now()
	}
	claimed, err := ask(ctx, &w.calls, func(ctx context.Context) ([]cluster.Claimed,
		error) {
		return w.engine.Claim(ctx, w.id, parts)
	})
	if err == nil {
		err = w.refresh(ctx)
	}
	if err != nil {
		w.failIfOver(err)
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(opensAtOnce)
	for i := range claimed {
		c := &claimed[i]
		w.journal.claimed(c, isLost(snap, c.Partition))
		group.Go(func() error { return w.open(ctx, c, snap, at) })
	}
	return group.Wait()
}

// isLost reports whether the owner of a partition has ended without closing it.
func isLost(snap *cluster.Snapshot, p uint8) bool {
	if snap == nil || snap.Parts[p].Owner == (cluster.SessionID{}) {
		return false
	}
	owner := snap.Member(snap.Parts[p].Owner)
	return owner == nil || !snap.Alive(owner)
}

// failIfOver ends the session if an error of the engine means that.
func (s *Session) failIfOver(err error) {
	if errors.Is(err, cluster.ErrFenced) || errors.Is(err, cluster.ErrRolledBack) ||
		errors.Is(err, cluster.ErrNoCrawl) {
		s.fail(err)
	}
}

// open brings a claimed partition up from its log, and opens it. The snapshot, taken at a time of
// this machine's clock, tells how far the engine's clock is away.
func (w *work) open(ctx context.Context, c *cluster.Claimed, snap *cluster.Snapshot, at time.Time) error {
	p := c.Partition
	if err := w.follow(p); err != nil {
		return err
	}
	if _, _, err := w.Store.OpenPartition(ctx, p); err != nil {
		return err
	}
	w.Opening(p)
	o := w.openingOf(c, snap, at)
	o.Granted, o.Used = int64(c.Granted), int64(w.counters(p).Counted)
	if err := w.Frontier.OpenPartition(ctx, p, o); err != nil || !w.Resumed() {
		return err
	}
	return w.Opened(p)
}

// follow brings the view of a partition up to the end of its log. A part of that would be of no use, so
// only the end of the session ends it.
func (w *work) follow(p uint8) error {
	domains := false
	err := w.Store.Follow(w.Session.ctx, p, func(at frontier.Position, run uint64, e frontier.Evidence) {
		domains = true
		w.Fold(at, run, e)
	})
	if domains {
		w.Frontier.FoldRun(false)
	}
	return err
}

// openingOf says when hosts of a claimed partition may be asked. An owner that did not close it may have
// started requests until its lease ended, and they may take as long as a request can.
// After that, and after an owner that closed it, each host gets one full delay.
func (w *work) openingOf(c *cluster.Claimed, snap *cluster.Snapshot, at time.Time) frontier.Opening {
	now := time.Now()
	if c.Head.Seq == 0 && c.Epoch == 1 {
		return frontier.Opening{At: time.Unix(1, 0)} // no machine has asked any of its hosts
	}
	if c.LastBeat.IsZero() {
		return frontier.Opening{At: now}
	}
	free := localTime(c.LastBeat, snap, at).Add(cluster.StartWithin + w.Timeout)
	if free.Before(now) {
		free = now
	}
	return frontier.Opening{At: free, NotBefore: free}
}

// closePartition drains a partition and gives it up in good order. If ctx ends while the partition is being drained, it
// is open again. After that, only the end of the session stops the closing.
func (s *Session) closePartition(ctx context.Context, l *Local, p uint8) error {
	said, err := l.Frontier.DrainPartition(ctx, p)
	if err != nil {
		return err
	}
	l.Closing(p)
	least := frontier.MemberOf(l.Frontier).LeastDepth()
	held := l.Frontier.ClosePartition(p)
	if err := l.Store.Flush(s.ctx); err != nil {
		return err
	}
	s.journal.setClosing(p, l.status(p, held, least, l.Pending(p)))
	return l.Store.ClosePartition(s.ctx, p, said)
}

// Leave closes all partitions in good order and ends the session. The caller's workers have ended. Whatever
// happens, the session has ended when Leave returns.
func (s *Session) Leave(ctx context.Context, l Local) error {
	defer s.Close()
	group, closing := errgroup.WithContext(ctx)
	group.SetLimit(opensAtOnce)
	for _, p := range s.journal.owns() {
		group.Go(func() error { return s.closePartition(closing, &l, p) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("leave the crawl: %w", err)
	}
	s.quit(ctx)
	return nil
}

// TakeAll makes this session the owner of all partitions, as the others leave or their leases end, so that it has
// everything that was recorded. The caller's workers have ended.
func (s *Session) TakeAll(ctx context.Context, l Local) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	w := &work{Session: s, Local: l, ctx: ctx, busy: map[uint8]bool{}}
	for {
		var left []uint8
		owned := s.journal.owns()
		for p := range cluster.Partitions {
			if !slices.Contains(owned, uint8(p)) {
				left = append(left, uint8(p))
			}
		}
		if len(left) == 0 {
			return nil
		}
		if err := w.claim(ctx, left); err != nil {
			if over := s.Over(); over != nil {
				return over
			}
			return err
		}
		if len(s.journal.owns()) < cluster.Partitions {
			sleep(ctx, lookEvery)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
