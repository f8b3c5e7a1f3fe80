package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/export"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/traps"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

// run is one crawl while its data directory is open.
type run struct {
	settings *config.Settings
	log      *slog.Logger
	metrics  *metrics.Metrics
	dir      datadir.Dir
	version  string

	store    *state.Store
	hasher   urlnorm.Hasher // of the store's seed
	frontier *frontier.Frontier
	fetcher  Fetcher
	client   *fetch.Client // the fetcher when it is the run's own, else nil
	parser   *parser.Parser
	scope    *scope.Scope
	traps    *traps.Traps
	robots   *robotscache.Cache
	sitemaps *seeding.Sitemaps
	indexes  *seeding.Indexes
	gov      *governor
	breaker  *breaker
	gate     *gate // of all crawls of the process
	crashes  *crashGuard
	hosts    *hostObserver
	warnings *warnings
	parsing  *semaphore
	readings sync.Pool // of *reading
	lag      *lagMeter
	tally    *tally
	linkage  *report.Linkage
	limits   *limits
	monitor  *monitor.Monitor
	phase    phases

	token      string // product token for robots.txt
	starts     []datadir.Start
	startHosts map[string]bool
	bare       map[string]bool // start URLs that were bare domains
	clock      clock
	interrupts <-chan struct{}
	noControl  bool
	started    func(*monitor.Monitor) // may be nil

	exporting sync.Mutex // one export at a time: they write under the same names

	mu  sync.Mutex
	end ending // guarded by mu
}

// ending is why a run ended. The first reason counts.
type ending struct {
	set     bool
	status  report.Status
	success bool
	reason  string   // for people
	errors  []string // messages for the report
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
	if r.noControl {
		r.log.Debug("no control socket, as asked")
	} else if control, err := monitor.Listen(r.dir.Socket(), controlled, r.log); err != nil {
		r.log.Warn("no control socket: 'mapwright status' will not see this crawl run", "error", err)
	} else {
		watching.Go(control.Serve)
		defer control.Close()
	}
	r.monitor.Register()
	if r.started != nil {
		r.started(r.monitor)
	}
	err = r.crawl(ctx)
	if r.client != nil {
		err = errors.Join(err, r.client.Close()) // an export can take long, and needs no connections
	}
	if err != nil {
		return nil, err
	}
	return r.finish(ctx)
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
	return export.Write(ctx, report.Pages(r.store, types), o)
}

// figures are what the monitor shows beside what frontier and store count.
func (r *run) figures() monitor.Figures {
	phase := r.phase.get()
	f := monitor.Figures{
		Phase: phase.phase, Note: phase.note, Began: r.clock.began(), Elapsed: r.clock.elapsed(), Pages: r.tally.fetched(), Bytes: r.tally.bytes.Load(),
		Workers: monitor.ControlUse{Most: r.settings.MaxWorkers}, Parsing: monitor.ControlUse{Limit: r.parsing.limit(), InUse: r.parsing.used(), Waiting: r.parsing.waiting()},
		WorkerWaits: r.gov.waited(), ParserWaits: r.parsing.waited(),
	}
	f.Workers.Limit, f.Workers.InUse, f.Workers.Waiting = r.gov.state()
	f.PauseReason, f.PauseLeft, f.Pauses = r.breaker.state()
	return f
}

// crawl runs the workers to the end of the crawl.
func (r *run) crawl(ctx context.Context) error {
	release, err := r.holdSlot(ctx)
	if err != nil || release == nil {
		return err
	}
	defer release()
	select {
	case <-r.interrupts: // while the store was opened
		r.endWith(ending{status: report.Cancelled, reason: "interrupted"})
		return nil
	default:
	}
	r.clock.begin()
	r.phase.enter(monitor.Crawling, "")

	// Leasing ends first, so that nothing new begins; fetching ends when the grace period is over.
	leasing, stopLeasing := context.WithCancel(ctx)
	defer stopLeasing()
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()

	helpers, helping := context.WithCancel(ctx)
	defer helping()
	var background sync.WaitGroup
	background.Go(func() { r.lag.run(helpers) })
	background.Go(func() { r.supervise(helpers, stopLeasing, stopFetching) })
	background.Go(func() { r.keepCheckpoints(helpers) })

	err = r.seed(leasing)
	if err == nil {
		joinIndexes := r.indexes.Start(leasing, seeding.IndexOptions{
			Starts: r.starts, Scope: r.scope, Hasher: r.hasher, Store: r.store, Gate: r.gate, Hold: r.frontier.Source, Add: r.addLinks, Warn: r.warnings.add, Log: r.log,
		})
		var workers errgroup.Group
		for range r.settings.MaxWorkers {
			workers.Go(func() error {
				err := (&worker{run: r}).work(leasing, fetching)
				if err != nil {
					stopLeasing() // one worker's trouble is the store's, and so everybody's
					stopFetching()
				}
				return err
			})
		}
		err = workers.Wait()
		stopLeasing() // a limit may have ended the crawl before the sources
		joinIndexes()
	}
	helping()
	background.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// seed adds the start URLs. In a resumed crawl they are known already, unless it ended before they were written.
func (r *run) seed(ctx context.Context) error {
	links := make([]frontier.Link, 0, len(r.starts))
	for _, s := range r.starts {
		links = append(links, frontier.Link{URL: s.URL, Source: page.SourceStart, Discovered: time.Now()})
	}
	err := r.addLinks(ctx, links)
	if err == nil {
		err = r.crashes.retryCrashed(ctx)
	}
	for i := 0; err == nil && i < len(r.starts) && r.settings.IgnoreRobots; i++ {
		err = r.seedWithoutRobots(ctx, r.starts[i].URL.Origin())
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("add the start URLs: %w", err)
	}
	return nil
}

// seedWithoutRobots requests the sitemaps of a start's origin in a crawl that ignores robots.txt.
func (r *run) seedWithoutRobots(ctx context.Context, origin string) error {
	fact, err := r.robots.Fact(ctx, origin)
	if err != nil {
		return err
	}
	requested, err := r.sitemaps.FromRobots(ctx, &fact, &robotscache.Answer{})
	if err != nil || !requested {
		return err
	}
	_, err = r.robots.Update(ctx, origin, frontier.OriginFact{}, true)
	return err
}

// ended notes why workers find no more leases.
func (r *run) ended(err error) {
	if errors.Is(err, frontier.ErrLimit) {
		r.limits.pagesReached(r)
		return
	}
	r.endWith(ending{status: report.Complete, success: true, reason: "nothing left to fetch"})
}

// endWith sets the ending, unless there is one.
func (r *run) endWith(e ending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.set {
		return false
	}
	e.set = true
	r.end = e
	return true
}

// admit judges a link that is probably new, before it is recorded: a trap, or something that robots.txt forbids, is recorded as
// that and never queued.
func (r *run) admit(l *frontier.Link, e []frontier.Evidence) []frontier.Evidence {
	if l.Sitemap {
		return e // the rules for it are others; see serveSitemap
	}
	if l.Source != page.SourceStart {
		var v traps.Verdict
		if v, e = r.traps.Admit(l, page.IsListed(l.Source), e); v.Skip {
			l.Skip = uint8(scope.Trapped)
			return e
		} else if v.Trap != "" {
			l.Finish = trapped(v.Trap)
			return e
		}
	}
	if r.settings.IgnoreRobots {
		return e
	}
	// The clock was read when the link was found, as a rule. There can be a hundred thousand a second.
	now := l.Discovered
	if now.IsZero() {
		now = time.Now()
	}
	if a := r.robots.Cached(l.URL.Origin(), now); a != nil && !a.Match(l.URL).Allowed {
		ev, _ := a.Check(l.URL)
		l.Finish = failure(page.BlockedByRobots, "", ev)
	}
	return e
}
