package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
)

// run is one crawl while its data directory is open.
type run struct {
	o        *Options
	settings *config.Settings // with as many workers as there are sockets for
	log      *slog.Logger
	starts   []datadir.Start
	turns    turns
	cluster  *member // nil in a crawl of one machine

	store       *state.Store
	frontier    *frontier.Frontier
	client      *fetch.Client // the fetcher when it is the run's own, else nil
	checkpoints *checkpoints
	seeds       *seeds
	sweeper     *recrawl.Sweeper // nil in the first crawl
	workers     *workers
	supervisor  *supervisor
	monitor     *monitor.Monitor

	history  scope.History // of the rules by which links are left out; not changed once the run is open
	progress *progress
	warnings *warnings
	endings  *endings
}

// run crawls to the end and writes the outputs. The control socket answers for the given crawl.
func (r *run) run(ctx context.Context, controlled monitor.Controlled) (err error) {
	defer func() {
		r.monitor.Freeze()
		r.monitor.ExportLast()
	}()
	var watching sync.WaitGroup
	defer watching.Wait()
	looking, look := context.WithCancel(context.Background())
	defer look()
	watching.Go(func() { r.monitor.Keep(looking) })
	if r.o.NoControl {
		r.log.Debug("no control socket, as asked")
	} else if control, err := monitor.Listen(r.o.Dir.Socket(), controlled, r.log); err != nil {
		r.log.Warn("no control socket: 'mapwright status' will not see this crawl run", "error", err)
	} else {
		watching.Go(control.Serve)
		defer control.Close()
	}
	r.monitor.Register()
	if r.o.Started != nil {
		r.o.Started(r.monitor)
	}
	err = r.crawl(ctx)
	if r.client != nil {
		err = errors.Join(err, r.client.Close()) // an export can take long, and needs no connections
	}
	if r.cluster != nil {
		return r.cluster.conclude(ctx, err, r.conclude)
	}
	if err != nil {
		return err
	}
	if paused := r.endings.get().paused; paused != nil {
		if err := r.store.Flush(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if _, nothing := r.endings.left(); !nothing || paused != ErrQuota {
			return cmp.Or(r.checkpoints.save(ctx), paused)
		}
	}
	return r.conclude(ctx)
}

// change changes the limits of the run.
func (r *run) change(maxURLs int, duration time.Duration) {
	r.workers.limits.change(maxURLs, duration)
	r.limitsChanged(int64(maxURLs))
}

// capSafe gives the run the caps of the safe profile.
func (r *run) capSafe() { r.limitsChanged(r.workers.limits.capSafe()) }

// limitsChanged makes changed limits hold.
func (r *run) limitsChanged(pages int64) {
	if r.workers.quota == nil {
		r.frontier.SetMaxURLs(pages)
	} else {
		r.workers.quota.setLimit()
	}
	select {
	case r.supervisor.limitsChanged <- struct{}{}:
	default: // it will look anyway
	}
}

// close closes the frontier and the store.
func (r *run) close() error { return errors.Join(r.frontier.Close(), r.store.Close()) }

// figures are what the monitor shows beside what frontier and store count.
func (r *run) figures() monitor.Figures {
	phase, parsing := r.progress.phase.get(), r.workers.pages.parsing
	f := monitor.Figures{
		Phase: phase.phase, Note: phase.note, Began: r.progress.clock.began(), Elapsed: r.progress.clock.elapsed(),
		Pages: r.progress.tally.fetched(), Bytes: r.progress.tally.bytes.Load(),
		Workers:     monitor.ControlUse{Most: r.settings.MaxWorkers},
		Parsing:     monitor.ControlUse{Limit: parsing.limit(), InUse: parsing.used(), Waiting: parsing.waiting()},
		ParserWaits: parsing.waited(),
	}
	f.Generation = r.endings.generation
	if r.sweeper != nil {
		tally := &r.progress.tally
		f.Outcomes, f.Conditional, f.NotModified = &[32]int64{}, tally.conditional.Load(), tally.notModified.Load()
		for i := range tally.outcomes {
			f.Outcomes[i] = tally.outcomes[i].Load()
		}
	}
	f.Limits = monitor.Limits{Pages: int(r.workers.limits.pages.Load()),
		Time: time.Duration(r.workers.limits.duration.Load()), Counted: r.progress.clock.counted()}
	if r.cluster != nil {
		f.Cluster, f.Counters = r.cluster.figures()
		f.Limits.Time = r.settings.Duration // which the session looks at
	}
	f.Workers.Limit, f.Workers.InUse, f.Workers.Waiting, f.WorkerWaits = r.workers.permits.state()
	f.PauseReason, f.PauseLeft, f.Pauses = r.workers.permits.paused()
	return f
}

// crawl runs the workers to the end of the crawl.
func (r *run) crawl(ctx context.Context) error {
	release, err := r.supervisor.holdSlot(ctx, r.starts[0].URL, r.o.Dir)
	if err != nil || release == nil {
		return err
	}
	defer release()
	if r.endings.interrupted() { // while the store was opened
		return nil
	}
	r.progress.clock.begin()
	if err := r.checkpoints.note(); err != nil {
		return err
	}
	r.progress.phase.enter(monitor.Crawling, "")
	r.workers.quota.refresh(ctx)

	// Leasing ends first, so that nothing new begins; fetching ends when the grace period is over.
	leasing, stopLeasing := context.WithCancel(ctx)
	defer stopLeasing()
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()

	helpers, helping := context.WithCancel(ctx)
	defer helping()
	var background sync.WaitGroup
	background.Go(func() { r.workers.lag.run(helpers) })
	background.Go(func() { r.supervisor.run(helpers, stopLeasing, stopFetching) })
	background.Go(func() { r.checkpoints.run(helpers) })

	if r.cluster != nil {
		defer context.AfterFunc(ctx, r.cluster.session.Abort)()
		background.Go(func() { r.cluster.work(leasing, r.supervisor.ended, func() { stopLeasing(); stopFetching() }) })
	} else {
		err = r.seeds.addStarts(leasing)
	}
	var sweeping error
	if err == nil && r.sweeper != nil {
		release := r.sweeper.Begin()
		background.Go(func() {
			if sweeping = r.sweeper.Run(leasing, release); sweeping != nil {
				stopLeasing()
				stopFetching()
			}
		})
	}
	if err == nil {
		joinIndexes := func() {}
		if r.cluster == nil {
			joinIndexes = r.seeds.startIndexes(leasing)
		}
		err = r.workers.run(leasing, fetching, func() {
			stopLeasing()
			stopFetching()
		})
		stopLeasing() // a limit may have ended the crawl before the sources
		joinIndexes()
	}
	helping()
	background.Wait()
	r.warnings.save() // another machine may write the report
	if err = errors.Join(err, sweeping); err == nil {
		err = ctx.Err()
	}
	return err
}

// conclude decides the status of the crawl, makes it durable and writes the outputs.
func (r *run) conclude(ctx context.Context) error {
	r.progress.phase.enter(monitor.Writing, "")
	crawled := r.progress.clock.elapsed()
	if err := r.store.Flush(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// of several machines it is whole only now
	if _, err := r.checkpoints.folds.linkage.record(ctx, r.store); err != nil {
		return err
	}
	if err := r.endings.settle(ctx); err != nil {
		return err
	}
	if r.endings.finishing != nil {
		r.endings.finishing()
	}
	end := r.endings.get()
	// complete is written only now, after everything that it speaks of is durable.
	ended := []frontier.CrawlFact{{Name: page.FactStatus, Value: []byte(end.status)},
		{Name: page.FactReason, Value: []byte(end.reason)}}
	if _, err := r.store.Commit(frontier.Record{Facts: ended}); err != nil {
		return err
	}
	if err := r.checkpoints.save(ctx); err != nil {
		return err
	}
	if r.cluster != nil {
		if err := r.cluster.settle(end.status); err != nil {
			return err
		}
	}
	if r.store.Counters().Discovered <= smallCrawl {
		defer r.turns.take(ctx)()
	}
	return r.o.Outputs.Finish(ctx, &monitor.Ended{
		Store: r.store, Settings: r.settings, Given: r.o.Managed.Given, Starts: r.starts, Dir: r.o.Dir,
		Version: r.o.Version, Log: r.log, Unnamed: r.checkpoints.folds.linkage.isFull(), Status: end.status,
		Success: end.success, Reason: end.reason, Errors: end.errors, Warnings: r.warnings.all(),
		Pages: r.progress.tally.fetched(), Crawled: crawled, HotBytes: int64(r.frontier.Stats().HotBytes),
		Spent: r.spent,
	})
}

// spent is what the runs of the generation used until now. It is recorded.
func (r *run) spent(ctx context.Context) (monitor.Spent, error) {
	if r.cluster != nil {
		h, err := r.cluster.session.History(ctx)
		if err != nil {
			return monitor.Spent{}, err
		}
		return monitor.Spent{Began: h.Created, Runs: int(h.Run), Elapsed: h.Used, Cluster: h}, nil
	}
	all := r.progress.clock.all()
	return monitor.Spent{Began: all.began, Runs: all.runs, Elapsed: all.elapsed}, r.checkpoints.note()
}
