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
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
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
		Generation: r.visits.Generation(),
		Duration:   r.settings.Duration, Levels: r.settings.MaxDepth >= 0,
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
			r.extending.Lock()
			defer r.extending.Unlock()
			if u, err := weburl.Parse(target); err == nil && !r.scope.Contains(u) {
				r.scope.Extend(u)
				r.frontier.AskRobotsAgain()
			}
		},
		Receive: r.sitemaps.Receive,
		Answer: func(ctx context.Context, fact frontier.OriginFact) error {
			answer := frontier.OriginFact{State: fact.State, Status: fact.Status, Fetched: fact.Fetched,
				Expires: fact.Expires, Body: fact.Body}
			return r.robots.Keep(ctx, fact.Origin, answer)
		},
		Opening: r.openingPartition, Opened: r.openedPartition, Closing: func(uint8) {},
		Pending: func(uint8) bool { return false },
	}}
	if g := r.o.Plan.Generation; g != nil {
		r.cluster.local.Before = time.Duration(g.UsedMS) * time.Millisecond
	}
	if r.sweeper != nil {
		r.cluster.local.Closing, r.cluster.local.Pending = r.sweeper.Closing, r.sweeper.Pending
	}
	r.limits.duration.Store(0) // the session keeps the time limit of all machines
}

// facts are those of the crawl as a whole. In a crawl of several machines they are in the plan: a machine must know
// them before it opens a partition.
func (r *run) facts() map[string][]byte {
	if r.o.Cluster == nil {
		return r.store.Facts()
	}
	facts := map[string][]byte{}
	if g := r.o.Plan.Generation; g != nil {
		for name, text := range g.Facts {
			facts[name] = []byte(text)
		}
	}
	return facts
}

// openingPartition learns what is recorded of a partition, before its pages are visited.
func (r *run) openingPartition(p uint8) {
	r.visits.Open(p, r.store.FactsLike(recrawl.FactNames()...))
	if r.sweeper != nil {
		r.sweeper.Opening(p)
	}
}

// openedPartition records how the pages of a partition are read from now on. The owner of partition 0 also records what
// the plan says of the generation, for everything that reads the store. Then the visits of the partition can be queued.
func (r *run) openedPartition(p uint8) error {
	known, facts := r.store.FactsLike(recrawl.FactNames()...), []frontier.CrawlFact(nil)
	set := func(f frontier.CrawlFact) {
		if string(known[f.Name]) != string(f.Value) {
			facts = append(facts, f)
		}
	}
	generation := r.visits.Generation()
	set(recrawl.ReaderFactOf(p, known, generation, readerOf(r.settings)))
	if p == 0 {
		for name, value := range r.facts() {
			set(frontier.CrawlFact{Name: name, Value: value})
		}
		if begun, err := page.Generation(known); err == nil && begun < generation {
			facts = append(facts, frontier.CrawlFact{Name: page.FactStatus, Value: []byte(page.Running)})
		}
	}
	if len(facts) > 0 {
		if _, err := r.store.Commit(frontier.Record{Facts: facts}); err != nil {
			return err
		}
		for _, f := range facts {
			known[f.Name] = f.Value
		}
		r.visits.Open(p, known) // how the pages of this generation are read is known now
	}
	if r.sweeper != nil {
		r.sweeper.Opened(p, known)
	}
	return nil
}

// PlanRecrawl puts the next generation of a crawl of several machines into its plan. The crawl has ended, in the given
// run, and has taken the given time; failed says that it found nothing.
func PlanRecrawl(plan *datadir.Plan, again *Recrawl, run uint64, used time.Duration, failed bool) error {
	generation := uint32(0)
	if g := plan.Generation; g != nil {
		facts := map[string][]byte{page.FactGeneration: []byte(g.Facts[page.FactGeneration])}
		var err error
		if generation, err = page.Generation(facts); err != nil {
			return err
		}
		if g.Run > run {
			generation-- // it was put into the plan, and has not begun
		}
	}
	if failed && generation == 0 {
		return fmt.Errorf("it %w: it failed, so there is nothing to visit again", ErrNotAgain)
	}
	facts, err := recrawl.Begin(generation+1, again.terms())
	if err != nil {
		return err
	}
	g := datadir.PlanGeneration{Run: run + 1, UsedMS: used.Milliseconds(), Facts: map[string]string{}}
	for _, f := range facts {
		g.Facts[f.Name] = string(f.Value)
	}
	plan.Begin(g)
	return nil
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
	case reason == session.ReasonComplete && m.run.settings.MaxURLsPerHost > 0:
		reason = session.ReasonPerHost
	case reason == session.ReasonComplete:
		reason = session.ReasonAway
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
