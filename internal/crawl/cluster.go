package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// clusterBatch is how long the first record of a batch waits for others in a crawl of several machines. A commit is a
// transaction of the engine.
const clusterBatch = 200 * time.Millisecond

// viewOf sets the options of the store so that it is a view of the session's journal. It deletes the view of an earlier
// session: the engine has everything.
func viewOf(o *Options, so *state.Options) error {
	info, err := state.Look(o.Dir.State())
	if err != nil {
		return err
	}
	switch {
	case info.Exists && !info.View:
		return fmt.Errorf("data directory %s %w: a machine of a cluster needs one of its own", o.Dir, datadir.ErrHas)
	case info.Exists:
		if err := state.Wipe(o.Dir.State()); err != nil {
			return err
		}
	}
	so.Journal, so.Seed = o.Cluster.Journal(), o.Cluster.Crawl().Seed
	so.BatchDelay = clusterBatch
	return nil
}

// A LeftError says that this machine has left a crawl of several machines in good order, without a report.
type LeftError struct {
	Finished bool   // the crawl has ended, and another machine writes the report
	Changed  bool   // the settings of the crawl have changed; the machine may join again
	Reason   string // why the crawl ended
}

// Error implements error.
func (e *LeftError) Error() string {
	if e.Changed {
		return "this machine has left the crawl in good order, to join again with its new settings"
	}
	if e.Finished {
		return fmt.Sprintf("the crawl has ended (%s); another machine writes the report", e.Reason)
	}
	return "this machine has left the crawl in good order; other machines go on with it, or 'mapwright join'"
}

// A member is a run's part in a crawl of several machines.
type member struct {
	*run
	session *session.Session
	local   session.Local
	over    chan struct{} // closed when the crawl has ended

	// Written by work, and read when that has ended.
	end    session.End
	ended  bool
	failed error
}

// joinCluster makes the run a member of the crawl of its session.
func (r *run) joinCluster() {
	s := r.o.Cluster
	frontier.MemberOf(r.frontier).Hold() // links may come from other machines until the session ends
	r.cluster = &member{run: r, session: s, over: make(chan struct{}), local: session.Local{
		Frontier: r.frontier, Store: r.store, Pages: r.tally.fetched, Timeout: r.settings.Timeout,
		Duration: r.settings.Duration, Levels: r.settings.MaxDepth >= 0,
		Fold: func(at frontier.Position, run uint64, e frontier.Evidence) {
			if run >= r.store.Run() {
				r.frontier.Fold(at, e) // not of earlier runs: a new run tries domains again
			}
			r.traps.Fold(e)
			r.linkage.fold(e)
		},
		Seed:     r.seed,
		TryAgain: r.crashes.retryCrashed,
		Extend: func(target string) {
			if u, err := weburl.Parse(target); err == nil && !r.scope.Contains(u) {
				r.scope.Extend(u)
			}
		},
		Receive: r.sitemaps.Receive,
		Answer: func(ctx context.Context, fact frontier.OriginFact) error {
			answer := frontier.OriginFact{State: fact.State, Status: fact.Status, Fetched: fact.Fetched,
				Expires: fact.Expires, Body: fact.Body}
			return r.robots.Keep(ctx, fact.Origin, answer)
		},
	}}
	r.limits.duration.Store(0) // the session keeps the time limit of all machines
}

// seed adds the start URLs and those of the public indexes.
func (r *run) seed(ctx context.Context) error {
	if err := r.addStarts(ctx); err != nil {
		return err
	}
	r.startIndexes(ctx)()
	return ctx.Err()
}

// leaveWithin is how long a machine that leaves waits for an engine that is away. Then it ends as if it were killed.
const leaveWithin = 30 * time.Second

// work takes part in the crawl until the crawl has ended, and then closes m.over. If the session fails, it calls stop.
func (m *member) work(ctx context.Context, stop func()) {
	left := make(chan struct{})
	defer close(left)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-left:
		case <-time.After(leaveWithin):
			m.session.Abort()
		}
	})()
	end, err := m.session.Work(ctx, m.local)
	switch {
	case err == nil:
		m.end, m.ended = end, !end.Changed
		if m.ended {
			m.note(end)
		}
		close(m.over)
	case ctx.Err() == nil || m.session.Over() != nil:
		m.failed = err
		stop()
	}
}

// note sets the run's ending by the reason for which the crawl has ended.
func (m *member) note(end session.End) {
	switch end.Reason {
	case session.ReasonLimit:
		m.limits.pagesReached()
	case session.ReasonDuration:
		m.limits.duration.Store(int64(m.local.Duration))
		m.limits.timeReached(m.local.Duration)
	default:
		m.endings.set(drained())
	}
}

// conclude ends the session. The machine that has decided the end of the crawl takes all partitions and writes the
// report; the others close their partitions and leave.
func (m *member) conclude(ctx context.Context, err error) error {
	defer m.session.Close()
	defer context.AfterFunc(ctx, m.session.Abort)()
	if over := m.session.Over(); over != nil {
		return over
	}
	if err = errors.Join(err, m.failed); err != nil {
		return err
	}
	if !m.end.Won {
		defer time.AfterFunc(leaveWithin, m.session.Abort).Stop()
		if err := m.session.Leave(ctx, m.local); err != nil {
			return err
		}
		return &LeftError{Finished: m.ended, Changed: m.end.Changed, Reason: m.end.Reason}
	}
	if err := m.session.TakeAll(ctx, m.local); err != nil {
		return err
	}
	if err := m.run.conclude(ctx); err != nil {
		return err
	}
	return m.session.Leave(ctx, m.local)
}

// settle tells the engine the reason that follows from the status, if it is not the one that the engine has. The end
// was decided before the records of all partitions were read.
func (m *member) settle(status page.Status) error {
	reason := m.end.Reason
	switch {
	case status == page.Complete:
		reason = session.ReasonComplete
	case status == page.Failed:
		reason = session.ReasonFailed
	case reason == session.ReasonComplete:
		reason = session.ReasonPerHost
	}
	if reason == m.end.Reason {
		return nil
	}
	return m.session.Settle(reason)
}

// figures are what the monitor shows of the cluster, and the counters of the partitions that this machine has.
func (m *member) figures() (*monitor.Cluster, state.Counters) {
	f := m.session.Figures()
	var own state.Counters
	for _, p := range f.Owned {
		c := m.local.Store.PartitionCounters(p)
		own.Add(&c)
	}
	return &monitor.Cluster{
		Name: f.Name, Machines: f.Machines, Partitions: len(f.Owned), Unowned: f.Unowned, Handovers: f.Waiting,
		Sent: f.Sent, Batches: f.Batches,
		BatchMS: float64(f.Tally.Batch.Microseconds()) / 1000, Takeovers: f.Tally.Takeovers, Fenced: f.Tally.Fenced,
		Replaying: int(f.Tally.Replaying), RowsLeft: f.Tally.RowsLeft, ReadBytes: f.ReadBytes, Away: f.Away.Seconds(),
	}, own
}
