package crawl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	"github.com/mapwright/mapwright/internal/robots"
	"github.com/mapwright/mapwright/internal/seed"
	"github.com/mapwright/mapwright/internal/traps"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// open makes or opens the store and builds everything around it. Nothing runs yet.
func open(ctx context.Context, shared *Shared, o Options, stop <-chan struct{}) (*run, error) {
	// The plan keeps the settings as they were given; the run has as many workers as there are sockets for.
	settings, cut, err := fitWorkers(o.Settings)
	if err != nil {
		return nil, err
	}
	r := &run{
		settings: settings, log: o.Log, metrics: o.Metrics, dir: o.Dir, version: o.Version, interrupts: stop, noControl: o.NoControl, started: o.Started,
		gov: newGovernor(settings), breaker: &breaker{log: o.Log}, warnings: &warnings{log: o.Log}, gate: shared.gate,
		parsing: newSemaphore(o.Settings.ParseSemaphoreLimit), lag: &lagMeter{}, tally: &tally{}, linkage: report.NewLinkage(), token: robots.ProductToken(o.Settings.UserAgent),
		startHosts: map[string]bool{}, bare: map[string]bool{},
	}
	r.clock.opened = time.Now()
	var extractors []parser.Extractor
	extractors, err = parseExtractors(o.Settings.Extract)
	if err != nil {
		return nil, err
	}
	r.parser, err = parser.New(parser.Options{Images: o.Settings.Images, NoLinkText: !o.Settings.Links, StructuredLinks: o.Settings.StructuredLinks, Extract: extractors, RobotsToken: r.token})
	if err != nil {
		return nil, err
	}
	r.indexes, err = seeding.NewIndexes(o.Settings, func(base, usual string) (seed.Fetcher, func(), error) {
		return sourceFetcher(settings, base, usual, o.Fetcher)
	})
	if err != nil {
		return nil, err
	}
	r.starts = o.Starts
	if o.Plan != nil {
		if r.starts, err = o.Plan.URLs(); err != nil {
			return nil, err
		}
		// The export at the end would fail.
		if err := export.CheckReplace(report.ExportOptions(o.Settings, r.starts, o.Dir)); err != nil {
			return nil, err
		}
	}
	if r.store, err = r.openStore(o.Plan != nil, o.LogFS); err != nil {
		return nil, err
	}
	fail := func(err error) (*run, error) {
		err = errors.Join(err, r.store.Close())
		if o.Plan == nil {
			// Nothing was fetched. The next start must not find a crawl that never began.
			err = errors.Join(err, state.Wipe(r.dir.State()), datadir.RemovePlan(r.dir))
		}
		return nil, err
	}
	r.sayRecovery(r.store.Recovery())
	if cut != "" {
		r.warnings.add("%s", cut)
	}
	if err := r.facts(o); err != nil {
		return fail(err)
	}
	for _, s := range r.starts {
		r.startHosts[s.URL.Host()] = true
		if s.Bare {
			r.bare[s.URL.String()] = true
		}
	}
	if r.scope, err = r.newScope(); err != nil {
		return fail(err)
	}
	if r.fetcher = o.Fetcher; r.fetcher == nil {
		if r.client, err = newFetcher(shared.client, settings, r.starts); err != nil {
			return fail(err)
		}
		r.fetcher = r.client
	}
	r.hasher = urlnorm.NewHasher(r.store.Seed())
	r.traps = traps.New(trapRules(o.Settings), r.store.Seed())
	r.robots = robotscache.New(r.store, robotscache.Reader{Token: r.token, Strict: settings.RobotsStrict}, shared.robotsMemory)
	r.limits = newLimits(r)
	r.hosts = &hostObserver{log: r.log, metrics: r.metrics, warn: r.warnings.add, starts: r.startHosts}
	if r.frontier, err = r.newFrontier(ctx, shared.pace); err != nil {
		return fail(err)
	}
	r.crashes = &crashGuard{store: r.store, frontier: r.frontier, log: r.log, retry: settings.RetryCrashed, retried: map[frontier.Key]bool{}}
	r.sitemaps = seeding.New(seeding.Options{
		Settings: settings, Scope: r.scope, StartHosts: r.startHosts, Hasher: r.hasher, Store: r.store, Frontier: r.frontier, Linkage: r.linkage,
		Add: r.addLinks, Warn: r.warnings.add, Requested: int(r.store.Counters().Sitemaps),
	})
	r.monitor = monitor.New(monitor.Options{
		Settings: r.settings, Starts: r.starts, Dir: r.dir, Log: r.log, Metrics: r.metrics, Frontier: r.frontier, Store: r.store, Figures: r.figures,
	})
	return r, nil
}

// fitWorkers fits the number of workers into the process's limit of open files. It returns the settings with that number, and what to tell the user if it is less than was asked for.
func fitWorkers(s *config.Settings) (fitted *config.Settings, cut string, err error) {
	most, err := mostWorkers()
	if err != nil {
		return nil, "", err
	}
	if s.MaxWorkers <= most {
		return s, "", nil
	}
	fewer := *s
	fewer.MaxWorkers = most
	return &fewer, fmt.Sprintf("only %d of %d workers are used, because the limit of open files is too low for more: raise it, for example with 'ulimit -n %d'",
		most, s.MaxWorkers, fetch.FilesFor(2*s.MaxWorkers)), nil
}

func parseExtractors(texts []string) ([]parser.Extractor, error) {
	var out []parser.Extractor
	for _, text := range texts {
		x, err := parser.ParseExtractor(text)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// openStore opens the state directory: of a new crawl it must not be there, of a resumed one it must.
func (r *run) openStore(resumed bool, logFS wal.FS) (*state.Store, error) {
	mode := state.CreateOnly
	if resumed {
		mode = state.ExistingOnly
	} else if err := datadir.Make(string(r.dir)); err != nil {
		return nil, fmt.Errorf("data directory %s %w: %w", r.dir, datadir.ErrUnusable, err)
	}
	return state.Open(r.dir.State(), state.Options{
		Mode: mode, BatchRecords: r.settings.CommitBatch, BatchDelay: r.settings.CommitEvery, Logger: r.log, Log: wal.Options{FS: logFS},
		ObserveDurable: func(d time.Duration, _ int) { r.metrics.Commit("durable", d) },
		ObserveApplied: func(d time.Duration, _ int) { r.metrics.Commit("applied", d) },
	})
}

// sayRecovery says how the run before ended, if it did not end well, and what had to be mended.
func (r *run) sayRecovery(rec state.Recovery) {
	if rec.TornTail != nil {
		r.warnings.add("the log ended in the middle of a write: %v", rec.TornTail)
	}
	if rec.Snapshots != nil {
		r.warnings.add("what the last checkpoint saved cannot be read, and is made anew: %v", rec.Snapshots)
	}
	if rec.Unclean {
		r.log.Info("the run before ended without notice: going on from what it had recorded", "in_flight", rec.InFlight, "applied_again", rec.Applied, "took", rec.Took.Round(time.Millisecond))
	}
}

// Names of the facts of a crawl in the store, beside those of package report. Those without a subject are about the crawl as a whole. The others have their subject behind them, and
// lie in the partition that they follow from.
const (
	factExtends = "extends scope " // with the target of a start's redirect; in the partition of the start
	factBegan   = "began"          // number of the last run, in decimal, that began after one that had ended in good order; runs after it go on in its place
)

// factOf is a fact in the partition of a host.
func (r *run) factOf(host, name string, value []byte) frontier.CrawlFact {
	return frontier.CrawlFact{Partition: r.hasher.HostID(host).Partition(), Name: name, Value: value}
}

// runFact is one fact about the crawl as a whole.
func runFact(s *state.Store, name string) ([]byte, bool) {
	value, ok := s.Facts()[name]
	return value, ok
}

// facts notes that a run is under way, and writes the plan: flags given to a resume count from then on.
func (r *run) facts(o Options) error {
	plan := o.Plan
	if plan == nil {
		plan = datadir.NewPlan(o.Settings, o.Starts)
	}
	plan.Settings = o.Settings.Stored()
	if err := plan.Write(r.dir); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	facts := []frontier.CrawlFact{{Name: report.FactStatus, Value: []byte(report.Running)}}
	if !r.isContinued() {
		facts = append(facts, frontier.CrawlFact{Name: factBegan, Value: strconv.AppendUint(nil, r.store.Run(), 10)})
	}
	_, err := r.store.Commit(frontier.Record{Facts: facts})
	return err
}

// isContinued reports whether the run before ended without recording how, or was killed after that while it exported, so that this one goes on in its place: hosts that were
// given up stay so. It is asked before this run records that it is under way.
func (r *run) isContinued() bool {
	status, _ := runFact(r.store, report.FactStatus)
	return r.began() > 0 && (report.Status(status) == report.Running || r.store.Recovery().Unclean)
}

// began is the run that tried all hosts again, and that this one continues or is. It is 0 before that is recorded.
func (r *run) began() uint64 {
	value, _ := runFact(r.store, factBegan)
	number, _ := strconv.ParseUint(string(value), 10, 64)
	return number
}

// newScope spans the start URLs and what their redirects added in earlier runs.
func (r *run) newScope() (*scope.Scope, error) {
	var urls []urlnorm.URL
	for _, s := range r.starts {
		urls = append(urls, s.URL)
	}
	var added []string
	for name := range r.store.Facts() {
		if target, ok := strings.CutPrefix(name, factExtends); ok {
			added = append(added, target)
		}
	}
	for _, a := range added {
		if u, err := urlnorm.Parse(a); err == nil {
			urls = append(urls, u)
			r.startHosts[u.Host()] = true
		}
	}
	return scope.New(r.settings, urls)
}

// extendScope takes the target of a start's redirect into the scope, and remembers it for a resume.
func (r *run) extendScope(start, target urlnorm.URL) {
	if scope.ExceedsLimit(target) || r.scope.Contains(target) {
		return
	}
	r.scope.Extend(target)
	_, err := r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{r.factOf(start.Host(), factExtends+target.String(), []byte{1})}})
	if err != nil {
		r.log.Error("cannot record that a redirect extends the scope", "target", target.String(), "error", err)
	}
}
