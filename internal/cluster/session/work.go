package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/state"
)

// Local is the part of the crawl that runs on this machine.
type Local struct {
	Frontier *frontier.Frontier // with Options.Closed; the caller has called Hold of its Member
	Store    *state.Store       // over the session's journal
	// Timeout is how long a request of any machine of the crawl can take.
	Timeout time.Duration
	// Generation is that of the crawl. Page limits count one generation.
	Generation uint32
	// Duration is how long a generation may take in all; zero means no limit. Before is how long earlier ones took.
	Duration, Before time.Duration
	// Levels means that each depth is finished on all machines before the next is begun.
	Levels bool
	// Pages is how many pages this session has fetched.
	Pages func() int64
	// Fold is called with evidence that other machines recorded.
	Fold func(at frontier.Position, run uint64, e frontier.Evidence)
	// Seed adds the start URLs and those of public indexes.
	Seed func(context.Context) error
	// TryAgain queues what a new run tries again. It is called before the run begins, when all partitions are open.
	TryAgain func(context.Context) error
	// Extend extends the scope as another machine has.
	Extend func(target string)
	// Answer stores the robots.txt of an origin that another machine has fetched.
	Answer func(context.Context, frontier.OriginFact) error
	// Receive is called with links that other machines sent, before they are recorded.
	Receive func(context.Context, []frontier.Link) error
	// Opening is called when the store has a partition open, before the frontier gives out leases of it. Opened is
	// called when these may be given out and the run has begun.
	Opening func(p uint8)
	Opened  func(p uint8) error
	// Closing is called before the frontier closes a partition that is drained. When it returns, nothing more is queued
	// in the partition.
	Closing func(p uint8)
	// Pending reports whether visits of a partition are still to be queued, by this machine or the next owner. It is
	// called with all shards of the frontier locked.
	Pending func(p uint8) bool
}

// counters are those of a partition. Before its first page of a generation is finished, none of its pages are counted.
func (l *Local) counters(p uint8) state.Counters {
	c := l.Store.PartitionCounters(p)
	if c.Generation < l.Generation {
		c.Generation, c.Counted = l.Generation, 0
	}
	return c
}

// An End is how a crawl ended.
type End struct {
	Reason string // as the row of the crawl has it
	Won    bool   // this session has decided it, and writes the report
	// Changed means that the crawl has not ended: its settings have changed, and the machine leaves to join again with
	// them.
	Changed bool
}

// Reasons for which a crawl ends, in its row.
const (
	ReasonComplete = "complete"
	ReasonLimit    = "max-urls"
	ReasonDuration = "duration"
	ReasonPerHost  = "max-urls-per-host" // set by Settle, like ReasonFailed
	ReasonFailed   = "failed"
	ReasonAway     = "hosts-away" // set by Settle: hosts ask for more patience than a run has
)

// TokenStart is the token of the start URLs and public indexes.
const TokenStart = "start"

const (
	// pollEvery is how often hand-overs are asked for and the status of partitions is looked at.
	pollEvery = 100 * time.Millisecond
	// lookEvery is how often a session that has nothing to do looks whether the crawl is complete.
	lookEvery = 500 * time.Millisecond
	// opensAtOnce is how many partitions are opened or closed at the same time.
	opensAtOnce = cluster.Partitions
)

// A work is a call of Work.
type work struct {
	*Session
	Local
	group *errgroup.Group // of seeding, moves and following
	ctx   context.Context // ends with the work

	mu      sync.Mutex
	busy    map[uint8]bool // guarded by mu; partitions that are being opened, closed or followed
	seeding bool           // guarded by mu
	opening bool           // guarded by mu; a call of claim runs
	scopes  int            // guarded by mu; extensions that are known

	// Of run alone.
	grants grants
	twins  twins
	lookAt time.Time // when to look again whether the crawl is complete
}

// Work takes part in the crawl until that has ended. The error is the context's, or says why the
// session is over. All goroutines have ended when it returns.
func (s *Session) Work(ctx context.Context, l Local) (End, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	w := &work{Session: s, Local: l, busy: map[uint8]bool{}}
	w.group, w.ctx = errgroup.WithContext(ctx)
	s.journal.countBy(w.counters, l.Pages)
	var end End
	var err error
	if s.resume != nil && s.resume.newRun {
		err = w.openAll()
	}
	if s.resume != nil && err == nil {
		err = w.changeCrawl()
	}
	if err == nil {
		end, err = w.run()
	}
	cancel()
	if failed := w.group.Wait(); err == nil || errors.Is(err, context.Canceled) {
		if failed != nil && !errors.Is(failed, context.Canceled) {
			err = failed
		}
	}
	if over := s.Over(); over != nil {
		return End{}, over
	}
	return end, err
}

// openAll opens all partitions before another run. What they held before the run says nothing about
// it: hosts that were given up are tried again, so a crawl that was complete may have work.
func (w *work) openAll() error {
	select {
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-w.news: // the first snapshot
	}
	if err := w.awaitOthers(); err != nil {
		return err
	}
	if err := w.TakeAll(w.ctx, w.Local); err != nil {
		return err
	}
	if err := w.TryAgain(w.ctx); err != nil {
		return err
	}
	for {
		if err := w.Store.Flush(w.ctx); err != nil {
			return err
		}
		told := false
		if _, err := w.journal.report(func() (list map[uint8]cluster.PartStatus, ok bool) {
			list, told = w.statuses()
			return list, told
		}); err != nil {
			return err
		}
		if told {
			return nil
		}
	}
}

// awaitOthers waits until the machines that joined before this one have left. One of them may still write the report of
// the run before, for which it takes all partitions; two sessions that take all partitions would wait for each other.
func (w *work) awaitOthers() error {
	for {
		snap, err := w.look(w.ctx, cluster.Known{Plan: w.crawl.PlanVersion})
		if err != nil {
			return err
		}
		me := snap.Member(w.id.ID)
		if me == nil || snap.Crawl.State != w.resume.from.State || snap.Crawl.Run != w.resume.from.Run {
			return errChanged
		}
		others := slices.ContainsFunc(snap.Members, func(m cluster.Member) bool {
			first := cmp.Or(m.Joined.Compare(me.Joined), bytes.Compare(m.Session[:], me.Session[:])) < 0
			return first && snap.Alive(&m)
		})
		if !others {
			return nil
		}
		sleep(w.ctx, lookEvery)
	}
}

// errChanged ends a session that was to change a crawl which another has changed.
var errChanged = fmt.Errorf("the crawl has been changed since: %w", cluster.ErrFenced)

// changeCrawl changes settings and state of the crawl. If the machine is killed in between, the crawl has the new
// settings and does not run; the next resume begins the run.
func (w *work) changeCrawl() error {
	r := w.resume
	var changes []cluster.Change
	if r.newPlan() {
		changes = append(changes, cluster.SetPlan{Version: r.from.PlanVersion, Plan: r.Plan, MaxURLs: r.MaxURLs})
	}
	if r.newRun {
		changes = append(changes, cluster.SetState{From: r.from.State, To: cluster.Running, NewRun: true, Anew: r.Anew})
	}
	for _, c := range changes {
		done, err := w.journal.change(c)
		if err == nil && !done {
			err = errChanged
		}
		if err != nil {
			return err
		}
	}
	if r.newRun && r.Anew {
		for p := range cluster.Partitions {
			frontier.MemberOf(w.Frontier).Grant(uint8(p), 0)
		}
	}
	r.done.Store(true)
	for _, p := range w.journal.owns() { // they were opened before the run began
		if err := w.Opened(p); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) run() (End, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var end *End
		var err error
		select {
		case <-w.ctx.Done():
			return End{}, context.Cause(w.ctx)
		case <-w.news:
			snap, _ := w.latest()
			if end, err = w.consider(snap); err == nil && end == nil {
				err = w.move()
			}
		case <-tick.C:
			end, err = w.poll()
		}
		if err != nil {
			return End{}, err
		}
		if end != nil {
			return *end, nil
		}
	}
}

// consider looks at a snapshot: whether the crawl has ended, and what others have changed of it.
func (w *work) consider(snap *cluster.Snapshot) (*End, error) {
	if snap.Crawl.Run < w.journal.run {
		return nil, nil // the snapshot is older than this run
	}
	if snap.Crawl.State != cluster.Running {
		return &End{Reason: snap.Crawl.Reason}, nil
	}
	if snap.Crawl.PlanVersion > w.crawl.PlanVersion {
		w.log.Info("the settings of the crawl have changed: this machine joins again with them")
		return &End{Changed: true}, nil
	}
	w.extend(snap)
	w.grants.learn(snap)
	if name := w.twins.look(snap, &w.id); name != "" {
		w.log.Warn("another process has the identity of this machine, so one of the two gets nothing to do: its data "+
			"directory is a copy; "+
			"stop one, delete the file machine in its data directory, and start it again", "process", name)
	}
	if err := w.raise(snap); err != nil {
		return nil, err
	}
	switch {
	case snap.Complete():
		return w.finish(ReasonComplete, cluster.IfComplete)
	case snap.LimitReached():
		return w.finish(ReasonLimit, cluster.IfLimitReached)
	case w.Duration > 0 && snap.Crawl.Used-w.Before >= w.Duration:
		return w.finish(ReasonDuration, cluster.Always)
	}
	return nil, w.takeToken(snap)
}

// raise opens the levels that the crawl has come to, and raises the level if no machine has anything less deep left.
func (w *work) raise(snap *cluster.Snapshot) error {
	if !w.Levels {
		return nil
	}
	level, least := snap.Crawl.Level, uint32(cluster.NoDepth)
	for i := range snap.Parts {
		least = min(least, snap.Parts[i].Status.Least)
	}
	if least > level && least != cluster.NoDepth && snap.MayRaise(least) {
		done, err := w.journal.change(cluster.RaiseLevel{From: level, To: least})
		if err != nil {
			return err
		}
		if done {
			level = least
		}
	}
	frontier.MemberOf(w.Frontier).OpenLevel(level)
	return nil
}

// finish decides that the crawl has ended, if no other session does.
func (w *work) finish(reason string, when cluster.Condition) (*End, error) {
	won, err := w.journal.change(cluster.SetState{From: cluster.Running, To: cluster.Finished, Reason: reason,
		If: when})
	if err != nil || !won {
		return nil, err // the next snapshot says how it ended, or that it goes on
	}
	return &End{Reason: reason, Won: true}, nil
}

// extend takes over scope extensions of other machines.
func (w *work) extend(snap *cluster.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := snap.Scopes - len(snap.Scope) // number of those that the snapshot does not have
	for i, target := range snap.Scope {
		if first+i >= w.scopes {
			w.Extend(target)
		}
	}
	w.scopes = max(w.scopes, snap.Scopes)
	w.snapMu.Lock()
	w.Session.known.Scope = w.scopes
	w.snapMu.Unlock()
}

// refresh asks the engine for scope extensions. What was handed over, and what a claimed
// partition holds, may follow from an extension that was committed before it.
func (w *work) refresh(ctx context.Context) error {
	w.mu.Lock()
	known := cluster.Known{Plan: w.crawl.PlanVersion, Scope: w.scopes}
	w.mu.Unlock()
	snap, err := w.look(ctx, known)
	if err == nil {
		w.extend(snap)
	}
	return err
}

// takeToken takes the token of the start URLs, if no living session has it, and seeds.
func (w *work) takeToken(snap *cluster.Snapshot) error {
	for _, t := range snap.Tokens {
		holder := snap.Member(t.Holder)
		if t.Name != TokenStart || holder != nil && snap.Alive(holder) {
			continue
		}
		got, err := w.journal.change(cluster.TakeToken{Name: t.Name})
		if err != nil {
			return err
		}
		if got {
			w.group.Go(w.seed)
		}
	}
	return nil
}

// seed adds URLs from sources, and releases their token when all of them are durable.
func (w *work) seed() error {
	w.mu.Lock()
	again := w.seeding
	w.seeding = true
	w.mu.Unlock()
	if again {
		return nil
	}
	err := w.Seed(w.ctx)
	if err == nil {
		err = w.Store.Flush(w.ctx)
	}
	if err == nil {
		w.journal.release(TokenStart)
	}
	return err
}

// poll receives what others have sent, shares pages, and reports the statuses of partitions to the engine.
func (w *work) poll() (*End, error) {
	if err := w.receive(); err != nil {
		return nil, err
	}
	if err := w.share(); err != nil {
		return nil, err
	}
	idle, err := w.report()
	if err != nil || !idle || time.Now().Before(w.lookAt) {
		return nil, err
	}
	w.lookAt = time.Now().Add(lookEvery)
	snap, err := w.look(w.ctx, cluster.Known{Plan: w.crawl.PlanVersion})
	if err != nil {
		return nil, err
	}
	if snap.Crawl.State != cluster.Running {
		return nil, nil // the next beat says how it ended
	}
	w.grants.learn(snap)
	switch {
	case snap.Complete():
		return w.finish(ReasonComplete, cluster.IfComplete)
	case snap.LimitReached():
		return w.finish(ReasonLimit, cluster.IfLimitReached)
	}
	return nil, w.raise(snap)
}

// report tells the engine what the partitions hold, if that is known exactly now. It reports whether
// nothing is in flight here.
func (w *work) report() (idle bool, err error) {
	if !w.Store.Settled() {
		return false, nil
	}
	return w.journal.report(w.statuses)
}

// statuses returns the statuses of the open partitions, as they are reported to the engine; false if they are not known
// now.
func (w *work) statuses() (map[uint8]cluster.PartStatus, bool) {
	member, least := frontier.MemberOf(w.Frontier), 0
	var pending [cluster.Partitions]bool
	list, ok := member.Statuses(func() bool {
		least = member.LeastDepth()
		for p := range pending {
			pending[p] = w.Pending(uint8(p))
		}
		return w.Store.Settled()
	})
	if !ok {
		return nil, false
	}
	statuses := map[uint8]cluster.PartStatus{}
	for p := range list {
		if list[p].Open {
			statuses[uint8(p)] = w.status(uint8(p), list[p], least, pending[p])
		}
	}
	return statuses, true
}

// status is the status of a partition, as it is reported to the engine. All records of the partition must be applied.
// Least is the least depth of what this machine has to do, which is not more than that of the partition. Visits that
// are pending can have any depth.
func (l *Local) status(p uint8, s frontier.PartitionStatus, least int, pending bool) cluster.PartStatus {
	status := cluster.PartStatus{Idle: s.Live == 0 && !pending, Busy: uint32(s.Leases), Least: uint32(max(0, least))}
	setCounters(&status, l.counters(p))
	switch {
	case status.Idle:
		status.Least = cluster.NoDepth
	case pending:
		status.Least = 0
	}
	return status
}

// inboxBytes is how many bytes of hand-overs are read at once.
const inboxBytes = 1 << 20

// receive records what others have sent to the partitions that are open here.
func (w *work) receive() error {
	list, err := ask(w.ctx, &w.calls, func(ctx context.Context) ([]cluster.Handover, error) {
		return w.engine.Inbox(ctx, w.id, w.journal.underway(), inboxBytes)
	})
	if err != nil || len(list) == 0 {
		return err
	}
	if err := w.refresh(w.ctx); err != nil {
		return err
	}
	for _, h := range list {
		if !frontier.MemberOf(w.Frontier).IsOpen(h.To) {
			continue // it is being opened or closed: its owner receives them then
		}
		if err := w.receiveOne(h); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) receiveOne(h cluster.Handover) error {
	parts, err := w.journal.codec.Decode(h.To, cluster.Place{}, h.Body)
	if err != nil {
		return err
	}
	handed, err := state.ReadHanded(parts...)
	if err != nil {
		return err
	}
	links, member := handed.Links, frontier.MemberOf(w.Frontier)
	if err := w.Receive(w.ctx, links); err != nil {
		return err
	}
	for _, q := range handed.Questions {
		if err := member.Ask(q); err != nil {
			return err
		}
	}
	for _, fact := range handed.Origins {
		if err := w.Answer(w.ctx, fact); err != nil {
			return err
		}
		member.Answered(fact.Host, fact.Origin)
	}
	mark := frontier.Mark{Partition: h.To, Session: h.From, Batch: h.Batch}
	w.journal.expect(mark)
	if _, err = w.Frontier.Receive(w.ctx, links, mark); errors.Is(err, frontier.ErrPartitionClosed) {
		w.journal.forget(mark)
		return nil // it is being opened or closed: its next owner receives them
	}
	if err != nil {
		return fmt.Errorf("take in links of another machine: %w", err)
	}
	return nil
}
