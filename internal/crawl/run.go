package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
)

// run is one crawl while it runs.
type run struct {
	settings *config.Settings
	log      *slog.Logger
	metrics  *metrics.Metrics
	dir      Dir
	version  string

	store    *state.Store
	hasher   urlnorm.Hasher // of the store's seed
	frontier *frontier.Frontier
	fetcher  Fetcher
	client   *fetch.Client // the fetcher when it is the run's own, else nil
	parser   *parser.Parser
	scope    *Scope
	traps    *Traps
	robots   *robotsKeeper
	seeds    *seeder
	sources  []source
	gov      *governor
	breaker  *breaker
	parsing  *semaphore
	readings sync.Pool // of *reading
	lag      *lagMeter
	tally    *tally
	linkage  *linkage
	limits   *limits
	monitor  *Monitor
	phase    phases

	token      string // product token for robots.txt
	starts     []Start
	startHosts map[string]bool
	bare       map[string]bool // start URLs that were bare domains
	clock      clock
	interrupts <-chan struct{}
	hostLimit  atomic.Bool // some host reached max-urls-per-host

	exporting sync.Mutex // one export at a time: they write under the same names

	mu       sync.Mutex
	end      ending          // guarded by mu
	warnings []string        // guarded by mu; what the report shall mention
	lost     map[string]bool // guarded by mu; hosts of starts that were abandoned
}

// ending is why a run ended. The first reason counts.
type ending struct {
	set     bool
	status  Status
	success bool
	reason  string   // for people
	errors  []string // messages for the report
}

// Run crawls until there is nothing left, a limit is reached or somebody interrupts, and returns what it amounted to. The error
// is about the crawl itself: a data directory that cannot be used, a disk that fails. Cancelling ctx leaves at once, without
// outputs; the directory stays consistent.
func Run(ctx context.Context, o Options) (rep *Report, err error) {
	r, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		r.monitor.freeze()
		r.monitor.exportLast()
		err = errors.Join(err, r.frontier.Close(), r.store.Close())
	}()
	var watching sync.WaitGroup
	defer watching.Wait()
	looking, look := context.WithCancel(context.Background())
	defer look()
	watching.Go(func() { r.monitor.keep(looking) })
	if o.NoControl {
		r.log.Debug("no control socket, as asked")
	} else if control, err := r.serveControl(r.monitor); err != nil {
		r.log.Warn("no control socket: 'mapwright status' will not see this crawl run", "error", err)
	} else {
		watching.Go(control.serve)
		defer control.close()
	}
	r.registerMetrics()
	if o.Started != nil {
		o.Started(r.monitor)
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

// crawl runs the workers to the end of the crawl.
func (r *run) crawl(ctx context.Context) error {
	release, err := r.holdSlot(ctx)
	if err != nil || release == nil {
		return err
	}
	defer release()
	r.clock.begin()
	r.phase.enter(Crawling, "")

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
		joinSources := r.startSources(leasing)
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
		joinSources()
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
		links = append(links, frontier.Link{URL: s.URL, Source: sourceStart, Discovered: time.Now()})
	}
	_, err := r.frontier.Add(ctx, links)
	if err == nil {
		err = r.resumeSitemaps(ctx)
	}
	for i := 0; err == nil && i < len(r.starts) && r.settings.IgnoreRobots; i++ {
		err = r.seedWithoutRobots(ctx, r.starts[i].URL.Origin())
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("add the start URLs: %w", err)
	}
	return nil
}

// ended notes why workers find no more leases.
func (r *run) ended(err error) {
	if errors.Is(err, frontier.ErrLimit) {
		r.limits.pagesReached(r)
		return
	}
	r.endWith(ending{status: Complete, success: true, reason: "nothing left to fetch"})
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

// warn adds a line to the report's warnings, and logs it. The list is bounded.
func (r *run) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxWarning {
		text = strings.ToValidUTF8(text[:maxWarning], "") + "…"
	}
	r.log.Warn(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.warnings) < maxWarnings {
		r.warnings = append(r.warnings, text)
	}
}

// maxWarnings bounds the report's list, maxWarning a line of it: what is wrong with a URL can be that it is endless.
const (
	maxWarnings = 200
	maxWarning  = 1000
)

// admit judges a link that is probably new, before it is recorded: a trap, or something that robots.txt forbids, is recorded as
// that and never queued.
func (r *run) admit(l *frontier.Link) {
	if l.Source != sourceStart {
		if trap := r.traps.Check(l.URL, l.Parent); trap != "" {
			f := finish{outcome: page.Trap, at: time.Now(), facts: page.Facts{Trap: trap, ContentLength: -1, ResponseTime: -1}}
			l.Finish = f.record()
			return
		}
	}
	if r.settings.IgnoreRobots {
		return
	}
	// The clock was read when the link was found, as a rule. There can be a hundred thousand a second.
	now := l.Discovered
	if now.IsZero() {
		now = time.Now()
	}
	if a := r.robots.cached(l.URL.Origin(), now); a != nil && !a.match(l.URL).Allowed {
		ev, _ := a.Check(l.URL)
		l.Finish = failure(page.BlockedByRobots, "", ev)
	}
}
