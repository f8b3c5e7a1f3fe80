package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/sweep"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
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
	sweeper     *sweep.Sweeper // nil in the first crawl
	workers     *workers
	supervisor  *supervisor
	monitor     *monitor.Monitor

	history  scope.History // of the rules by which links are left out; not changed once the run is open
	progress *progress
	warnings *warnings
	endings  *endings

	exporting sync.Mutex // one export at a time: they write under the same names
}

// run crawls to the end and writes the outputs. The control socket answers for the given crawl.
func (r *run) run(ctx context.Context, controlled monitor.Controlled) (rep *report.Report, err error) {
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
		return nil, err
	}
	if paused := r.endings.get().paused; paused != nil {
		if err := r.store.Flush(ctx); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		if _, nothing := r.endings.left(); !nothing || paused != ErrQuota {
			return nil, cmp.Or(r.checkpoints.save(ctx), paused)
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

// export writes the pages that are recorded so far.
func (r *run) export(ctx context.Context, o export.Options, types []string) (*export.Result, error) {
	if err := r.store.Flush(ctx); err != nil {
		return nil, err
	}
	r.exporting.Lock()
	defer r.exporting.Unlock()
	return report.Export(ctx, r.store, types, o)
}

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
func (r *run) conclude(ctx context.Context) (*report.Report, error) {
	r.progress.phase.enter(monitor.Writing, "")
	crawled := r.progress.clock.elapsed()
	if err := r.store.Flush(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	// of several machines it is whole only now
	if _, err := r.checkpoints.folds.linkage.Record(ctx, r.store); err != nil {
		return nil, err
	}
	if err := r.endings.settle(ctx); err != nil {
		return nil, err
	}
	if r.endings.finishing != nil {
		r.endings.finishing()
	}
	end := r.endings.get()
	// complete is written only now, after everything that it speaks of is durable.
	ended := []frontier.CrawlFact{{Name: page.FactStatus, Value: []byte(end.status)},
		{Name: page.FactReason, Value: []byte(end.reason)}}
	if _, err := r.store.Commit(frontier.Record{Facts: ended}); err != nil {
		return nil, err
	}
	if err := r.checkpoints.save(ctx); err != nil {
		return nil, err
	}
	if r.cluster != nil {
		if err := r.cluster.settle(end.status); err != nil {
			return nil, err
		}
	}
	rep := r.report(&end, crawled)
	if r.store.Counters().Discovered <= smallCrawl {
		defer r.turns.take(ctx)()
	}
	exporting := time.Now()
	known := len(rep.Warnings)
	r.exporting.Lock()
	defer r.exporting.Unlock()
	pages := report.Crawl{Store: r.store, Unnamed: r.checkpoints.folds.linkage.Full(), Settings: r.settings,
		Given: r.o.Managed.Given, Starts: r.starts, Dir: r.o.Dir}
	if err := pages.Complete(ctx, rep); err != nil {
		return nil, err
	}
	for _, text := range rep.Warnings[known:] {
		r.log.Warn(text)
	}
	rep.EndedAt, rep.ExportSeconds = page.Time{Time: time.Now()}, time.Since(exporting).Seconds()
	if r.cluster != nil {
		if err := r.cluster.describe(ctx, rep); err != nil {
			return nil, err
		}
	} else {
		rep.Elapsed = r.progress.clock.all().elapsed.Seconds()
		if err := r.checkpoints.note(); err != nil { // the time of the export too
			return nil, err
		}
	}
	return rep, r.writeReport(rep)
}

// writeReport writes report.html and report.json. A report.html that Mapwright did not write stays, and report.json
// says so.
func (r *run) writeReport(rep *report.Report) error {
	r.hidePaths(rep.Warnings)
	r.hidePaths(rep.Errors)
	switch err := ui.Write(r.o.Dir, rep); {
	case errors.Is(err, datadir.ErrNotOurs):
		rep.Warnings = append(rep.Warnings, err.Error())
		r.hidePaths(rep.Warnings)
		rep.Files = slices.DeleteFunc(rep.Files, func(name string) bool { return name == datadir.ReportHTMLName })
		r.log.Warn(err.Error())
	case err != nil:
		return err
	}
	return report.Write(r.o.Dir, rep)
}

// hidePaths removes the path of the data directory from texts that a user of a service reads.
func (r *run) hidePaths(texts []string) {
	for i := range texts {
		if r.o.Managed.Given != nil {
			texts[i] = r.o.Dir.Hide(texts[i])
		}
	}
}

// report is the part of the report that is known before the pages are read.
func (r *run) report(end *ending, crawled time.Duration) *report.Report {
	counters := r.store.Counters()
	pages, runs := r.progress.tally.fetched(), r.progress.clock.all()
	rep := &report.Report{
		SchemaVersion: report.Version, Version: r.o.Version, Status: end.status, Success: end.success,
		Reason: end.reason,
		Errors: append([]string{}, end.errors...), Warnings: r.warnings.all(), Profile: string(r.settings.Profile),
		IgnoredRobots: r.settings.IgnoreRobots,
		StartedAt:     page.Time{Time: runs.began}, Runs: runs.runs, CrawlSeconds: crawled.Seconds(), Pages: pages,
		PagesPerSec: float64(pages) / max(crawled.Seconds(), 0.001),
		Bytes:       int64(counters.Bytes), SkippedLinks: scope.SkippedSince(&counters, &state.Counters{}),
	}
	for _, s := range r.starts {
		rep.StartURLs = append(rep.StartURLs, s.URL.String())
	}
	rep.HotSetBytes = int64(r.frontier.Stats().HotBytes)
	if r.settings.IgnoreRobots {
		rep.Warnings = append(rep.Warnings, "robots.txt was ignored")
	}
	return rep
}
