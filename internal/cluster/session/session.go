// Package session makes a machine work on a crawl of several machines: it joins, beats,
// claims and closes partitions, passes links on and takes those of others in, and finds out
// that the crawl has ended. DESIGN.md of package cluster has the rules.
//
// The order of calls: Join begins a session, and its beats. The caller makes a store over
// [Session.Journal] and a frontier over the store, asks [Session.MayStart] before each request, and
// calls Work, which returns when the crawl has ended or the session is over. Leave closes what
// the session owns and ends it. If the session is over ([Session.Over]), everything that was
// made for it is thrown away, and the machine may join again.
package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Options are the settings of Join.
type Options struct {
	Engine  cluster.Engine
	Crawl   cluster.CrawlID
	Machine cluster.MachineID
	Name    string               // of the machine, for people
	Clock   func() time.Duration // nil means cluster.UptimeClock
	Log     *slog.Logger         // nil means none
	// Earlier is the tally of the earlier sessions of this process.
	Earlier cluster.Tally
	// Resume, when not nil, begins another run of a crawl that does not run, or changes the settings of one that runs.
	Resume *Resume
	// PlanVersion is the version of the settings that the machine works with. Zero means that of the crawl.
	PlanVersion uint64
}

// Resume has the new settings of a crawl.
type Resume struct {
	Plan    []byte // settings
	MaxURLs uint64
	Anew    bool // the run is the first of a generation: pages and depths count anew
}

// ErrNotRunning means that the crawl has ended or is paused, so there is nothing to join.
var ErrNotRunning = errors.New("the crawl does not run")

// A Session is a machine's share in a crawl, from Join to Leave.
type Session struct {
	calls
	id      cluster.Session
	crawl   cluster.Crawl // as it was when the session joined
	resume  *resumption   // what Work changes of the crawl first; nil for nothing
	lease   *cluster.SessionLease
	journal *Journal
	earlier cluster.Tally // of sessions before

	ctx  context.Context // ends with the session; its cause says why
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // of the goroutine that beats
	news chan struct{}  // has a token when there is a new snapshot

	snapMu sync.Mutex
	snap   *cluster.Snapshot // guarded by snapMu; of the last beat
	known  cluster.Known     // guarded by snapMu; what the next beat need not bring
	at     time.Time         // guarded by snapMu; this machine's time of snap

	machines atomic.Int64 // that are alive; written by learn
}

// A resumption changes a crawl.
type resumption struct {
	from   cluster.Crawl // the row before
	newRun bool          // begin another run
	done   atomic.Bool   // written by Work
	Resume
}

// newPlan reports whether the settings change.
func (r *resumption) newPlan() bool {
	return !bytes.Equal(r.Plan, r.from.Plan) || r.MaxURLs != r.from.MaxURLs
}

// Resumed reports whether the crawl was changed as Options.Resume says, or there was nothing to change.
func (s *Session) Resumed() bool { return s.resume == nil || s.resume.done.Load() }

// Join begins a session. The context is for the call alone.
func Join(ctx context.Context, o Options) (*Session, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = cluster.UptimeClock()
	}
	before := time.Now()
	snap, err := o.Engine.Look(ctx, o.Crawl, cluster.Known{})
	if err != nil {
		return nil, fmt.Errorf("look at the crawl: %w", err)
	}
	if err := cluster.CheckClock(before, snap.Now, time.Now()); err != nil {
		return nil, err
	}
	if err := snap.Crawl.CheckIdentity(); err != nil {
		return nil, err
	}
	if o.PlanVersion != 0 {
		// if the settings have changed since, the first beat brings the new version
		snap.Crawl.PlanVersion = o.PlanVersion
	}
	if snap.Crawl.State != cluster.Running && o.Resume == nil {
		return nil, fmt.Errorf("%w: it is %s (%s)", ErrNotRunning, snap.Crawl.State, snap.Crawl.Reason)
	}
	s := &Session{
		calls: calls{engine: o.Engine, log: o.Log}, crawl: snap.Crawl, lease: cluster.NewSessionLease(o.Clock),
		id:   cluster.Session{Crawl: o.Crawl, ID: cluster.NewID(), Machine: o.Machine, Name: o.Name},
		news: make(chan struct{}, 1), earlier: o.Earlier,
		known: cluster.Known{Plan: snap.Crawl.PlanVersion},
	}
	run := snap.Crawl.Run
	if o.Resume != nil {
		s.resume = &resumption{from: snap.Crawl, newRun: snap.Crawl.State != cluster.Running, Resume: *o.Resume}
		s.crawl.MaxURLs = o.Resume.MaxURLs
		if s.resume.newPlan() {
			s.crawl.PlanVersion++
		}
		if s.resume.newRun {
			run++
		}
	}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	if s.journal, err = newJournal(s.ctx, &s.calls, s.id, run, s.fail); err != nil {
		return nil, err
	}
	if err := s.repeat(ctx, func(ctx context.Context) error { return o.Engine.Join(ctx, s.id) }); err != nil {
		return nil, fmt.Errorf("join the crawl: %w", err)
	}
	s.wg.Go(s.beat)
	return s, nil
}

// fail ends the session for a reason, unless it has ended.
func (s *Session) fail(err error) {
	s.lease.End()
	s.end(err)
}

// Abort ends the session at once, without telling the engine: others take over when the lease has ended.
func (s *Session) Abort() { s.fail(errAborted) }

var errAborted = errors.New("the machine has stopped without closing its partitions")

// Over is why the session ended before Leave, nil if it did not. After ErrFenced and
// ErrRolledBack the machine may join again.
func (s *Session) Over() error {
	if err := context.Cause(s.ctx); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// errLeft ends a session that has left.
var errLeft = errors.New("the session has left")

// Journal is the journal of this session's view.
func (s *Session) Journal() *Journal { return s.journal }

// Machine is the identifier of the machine, which it has in all its sessions.
func (s *Session) Machine() cluster.MachineID { return s.id.Machine }

// Crawl is the crawl as it was when the session joined.
func (s *Session) Crawl() cluster.Crawl { return s.crawl }

// MayStart reports whether a request may be started now. Before another run has begun, none may: its pages would count
// as those of the run before.
func (s *Session) MayStart() bool {
	if r := s.resume; r != nil && r.newRun && !r.done.Load() {
		return false
	}
	return s.lease.Valid()
}

// StartsIn returns how long to wait before asking again whether requests may be started; 0 if they may be now. It
// returns an error if the session is over.
func (s *Session) StartsIn() (time.Duration, error) {
	if s.MayStart() {
		return 0, nil
	}
	return leaseCheck, s.ctx.Err()
}

// leaseCheck is how often a worker looks whether the lease is valid again.
const leaseCheck = 100 * time.Millisecond

// beat is the goroutine that renews the lease. It ends with the session.
func (s *Session) beat() {
	for {
		began := time.Now()
		hold := s.journal.holdings()
		s.snapMu.Lock()
		known, last := s.known, s.snap
		s.snapMu.Unlock()
		if last != nil {
			hold.Run, hold.Plan, hold.Level, hold.Scope = last.Crawl.Run, last.Crawl.PlanVersion, last.Crawl.Level,
				last.Scopes
		}
		var snap *cluster.Snapshot
		by := s.id
		by.Tally = s.Tally()
		attempt, cancel := context.WithTimeout(s.ctx, cluster.StartWithin)
		err := s.lease.Beat(attempt, func(ctx context.Context) (err error) {
			snap, err = s.engine.Beat(ctx, by, known)
			return err
		})
		cancel()
		if s.ctx.Err() != nil {
			return
		}
		s.answered(err)
		if err == nil {
			err = hold.Check(snap, s.id.ID)
		}
		switch {
		case err == nil:
			s.learn(snap)
		case !isAway(err):
			s.fail(fmt.Errorf("beat: %w", err))
			return
		}
		sleep(s.ctx, cluster.BeatEvery-time.Since(began))
	}
}

// learn stores a snapshot, and puts a token into news.
func (s *Session) learn(snap *cluster.Snapshot) {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	s.snap, s.at = snap, time.Now()
	s.machines.Store(int64(len(living(snap))))
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// latest is the snapshot of the last beat, with this machine's time of it; nil if there is none.
func (s *Session) latest() (*cluster.Snapshot, time.Time) {
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	return s.snap, s.at
}

// localTime is a time of the engine's clock by the clock of this machine.
func localTime(engine time.Time, snap *cluster.Snapshot, at time.Time) time.Time {
	return at.Add(engine.Sub(snap.Now))
}

// quit ends the session at the engine, if that can be reached, and stops the beats. Partitions that it did not close
// count as lost: others claim them, and wait as after a kill. If the engine cannot be told, they find out when the
// lease ends.
func (s *Session) quit(ctx context.Context) {
	s.lease.End()
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	by := s.id
	by.Tally = s.Tally()
	if err := s.repeat(ctx, func(ctx context.Context) error { return s.engine.Leave(ctx, by) }); err != nil {
		s.log.Debug("the engine was not told that the session ends", "error", err)
	}
	s.end(errLeft)
	s.wg.Wait()
}

// quitTimeout is how long a session that ends waits for the engine's answer.
const quitTimeout = 5 * time.Second

// Close ends the session without closing its partitions, if it has not ended. It is for a
// machine that cannot go on.
func (s *Session) Close() {
	if s.ctx.Err() == nil {
		s.quit(context.Background())
	}
	s.end(errLeft)
	s.wg.Wait()
}
