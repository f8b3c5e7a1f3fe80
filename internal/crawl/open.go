package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/robots"
	"github.com/mapwright/mapwright/parser"
	"github.com/mapwright/mapwright/state"
	"github.com/mapwright/mapwright/wal"
)

// open makes or opens the store and builds everything around it. Nothing runs yet.
func open(ctx context.Context, shared *Shared, o Options, stop *stopSignal) (*run, error) {
	// The plan keeps the settings as they were given; the run has as many workers as there are sockets for.
	settings, cut, err := fitWorkers(o.Settings)
	if err != nil {
		return nil, err
	}
	o.Starts = datadir.TrimStarts(settings, o.Starts)
	r := &run{
		o: &o, settings: settings, params: settings.Params(), log: o.Log, metrics: o.Metrics, shared: shared,
		starts:   o.Starts,
		clock:    clock{opened: time.Now(), before: o.Managed.Elapsed},
		warnings: &warnings{log: o.Log}, endings: &endings{stop: stop}, limitsChanged: make(chan struct{}, 1),
	}
	if o.Cluster != nil {
		r.warnings.owned = func() []uint8 { return o.Cluster.Figures().Owned }
		began, err := recrawl.Began(r.facts())
		if err != nil {
			return nil, err
		}
		if !began.IsZero() {
			r.warnings.since = began.UTC().Format(factTime)
		}
	}
	if err := frontierOptions(settings).Validate(); err != nil {
		return nil, err
	}
	if r.parser, err = newParser(settings, shared.treeMemory, 0); err != nil {
		return nil, err
	}
	if r.indexes, err = seeding.NewIndexes(settings, r.sourceFetcher); err != nil {
		return nil, err
	}
	if o.Plan != nil {
		if r.starts, err = o.Plan.URLs(); err != nil {
			return nil, err
		}
		// Otherwise the export at the end would fail.
		if err := o.Outputs.Check(settings, r.starts, o.Dir); err != nil {
			return nil, err
		}
	}
	unmake := o.Dir.Unmaker()
	if r.store, err = openStore(&o); err != nil {
		if o.Plan == nil {
			err = errors.Join(err, unmake())
		}
		return nil, err
	}
	r.reportRecovery(r.store.Recovery())
	for _, text := range o.Warnings {
		r.warnings.add("%s", text)
	}
	if settings.Insecure && (o.Managed.Given == nil || o.Managed.Given["insecure"]) {
		r.warnings.add("CERTIFICATES ARE NOT CHECKED (--insecure): anyone on the way can read and change what is sent")
	}
	if cut != "" && o.Managed.Given == nil { // otherwise it is the operator's concern
		r.warnings.add("%s", cut)
	}
	err = r.connect(ctx)
	history := &scope.History{}
	if err == nil && o.Cluster == nil {
		if history, err = r.readHistory(ctx); err == nil {
			err = recordStart(ctx, r.store, &o, r.starts, readerOf(settings))
		}
	}
	if err == nil {
		err = r.recall()
	}
	if err == nil {
		err = r.build(ctx, history)
	}
	if err == nil && o.Cluster == nil {
		// Flags given to a resume are remembered once the run can begin.
		if err = r.remember(); err != nil {
			err = errors.Join(err, r.frontier.Close())
		}
	}
	if err == nil {
		return r, nil
	}
	err = errors.Join(err, r.archive.Close(), r.store.Close())
	if o.Plan == nil {
		// Nothing was fetched. The next start must not find a crawl that never began.
		err = errors.Join(err, state.Wipe(r.o.Dir.State()), datadir.RemovePlan(r.o.Dir), unmake())
	}
	return nil, err
}

// connect makes what fetches, and logs in. It comes before anything is recorded, because it may fail by what the user
// gave.
func (r *run) connect(ctx context.Context) (err error) {
	r.parsing = r.shared.parsing.Join(r.o.Managed.Account, r.settings.ParseSemaphoreLimit)
	if r.fetcher = r.o.Fetcher; r.fetcher == nil {
		if r.archive, err = openArchive(r.o, r.settings, r.starts); err != nil {
			return err
		}
		if r.client, err = r.newFetcher(); err != nil {
			return err
		}
		r.fetcher = r.client
	}
	if r.shared.denied != nil {
		r.fetcher = denyingFetcher{r.fetcher, r.shared.denied}
	}
	r.fetcher = withLog(r.fetcher, r.log)
	r.login, err = logIn(ctx, r.fetcher, r.settings, r.warnings.add)
	return err
}

// build makes the parts of a run over its open store. Whatever fails, the caller closes the store.
func (r *run) build(ctx context.Context, history *scope.History) (err error) {
	o, settings, store := r.o, r.settings, r.store
	r.enter(monitor.Crawling, "")
	// Settings of several machines may change within a run.
	r.resumed = store.Run() > 1 || o.Cluster != nil
	facts := r.facts()
	swept := o.Cluster != nil || recrawl.IsSwept(facts, history) // several machines sweep by partition
	r.bare = map[string]bool{}
	for _, s := range r.starts {
		if s.Bare {
			r.bare[s.URL.String()] = true
		}
	}
	if r.scope, err = newScope(settings, r.starts, store); err != nil {
		return err
	}
	r.scope.SetHistory(history)
	r.unfollowed.Store(r.resumed)
	r.relisted.Store(r.resumed)
	if settings.MaxDepth >= 0 && r.resumed && o.Cluster == nil {
		if err := r.followStarts(ctx, func(_, _ weburl.URL) {}); err != nil {
			return err
		}
	}
	counted := store.Counters()
	r.visits = recrawl.NewVisits(store, facts, readerOf(settings), func(l *frontier.Link, f *page.Facts) bool {
		history := r.scope.History()
		return history.IsOutdated(f.LeftOut, &counted) || history.IsNearer(f.LeftOut, l.Depth) ||
			r.archive != nil && f.Archived == ""
	})
	generation := r.visits.Generation()
	if generation > 0 {
		if r.parser, err = newParser(settings, r.shared.treeMemory, generation); err != nil {
			return err
		}
	}
	generationBegan, err := recrawl.Began(facts)
	if err != nil {
		return err
	}
	r.robots = robotscache.New(store, settings, r.shared.robotsMemory, generation, generationBegan, r.compute)
	r.resetFolds()
	if r.frontier, err = r.newFrontier(); err != nil {
		return err
	}
	if err := r.restore(ctx); err != nil {
		return errors.Join(err, r.frontier.Close())
	}

	r.hasher = weburl.NewHasher(store.Seed())
	r.crashes = &crashGuard{run: r, began: time.Now(), retried: map[weburl.Key]bool{}}
	var isOpen func(uint8) bool
	var mayStart func() (time.Duration, error)
	if o.Cluster != nil {
		isOpen, mayStart = frontier.MemberOf(r.frontier).IsOpen, o.Cluster.StartsIn
	}
	r.permits, r.gate = newPermits(settings, r.log, mayStart), r.shared.gate.Join(o.Managed.Account, math.MaxInt)
	r.limits = newLimits(r)
	if o.Managed.Quota != nil {
		r.quota = &quota{run: r, grants: o.Managed.Quota}
	}
	counters := store.Counters()
	r.checks.Store(int64(counters.Checks))
	r.sitemaps = seeding.New(seeding.Options{
		IsOpen:   isOpen,
		Settings: settings, Scope: r.scope, Hasher: r.hasher, Store: store, Frontier: r.frontier, Add: r.addListed,
		HasRoom: r.hasRoom, Warn: r.warnings.add,
		Requested: int(counters.Sitemaps - counters.Checks), Generation: generation,
		Again: !swept, Limits: o.Sitemaps,
	})
	if generation > 0 || !swept {
		if r.sweeper, err = r.newSweeper(); err != nil {
			return errors.Join(err, r.frontier.Close())
		}
	}
	if o.Cluster != nil {
		r.joinCluster()
	}
	r.monitor = monitor.New(monitor.Options{
		Settings: settings, Starts: r.starts, Dir: r.o.Dir, Log: r.log, Metrics: o.Metrics, Frontier: r.frontier,
		Store: store, Figures: r.figures,
	})
	return nil
}

// newSweeper makes what queues the visits that are due as the facts and the scope are now.
func (r *run) newSweeper() (*recrawl.Sweeper, error) {
	o := recrawl.SweepOptions{
		Store: r.store, Frontier: r.frontier, Scope: r.scope, Levels: r.settings.MaxDepth >= 0, Starts: r.startLinks(),
		LedTo:    r.isLedTo,
		Sitemaps: r.revisitSitemaps, Checks: r.settings.Checks(), Log: r.log,
		PlainHTTP: func(start weburl.URL, f *frontier.Finish) (weburl.URL, bool) {
			return standsForHTTP(&datadir.Start{URL: start, Bare: r.bare[start.String()]}, f)
		},
	}
	if r.o.Cluster != nil {
		o.Sitemaps, o.Shared = r.sitemaps.Revisit, r.facts()
	}
	return recrawl.NewSweeper(o)
}

// fitWorkers fits the number of workers into the process's limit of open files. It returns the settings with that
// number, and what to tell the user if it is less than was asked for.
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
	return &fewer, fmt.Sprintf("only %d of %d workers are used, because the limit of open files is too low for more: "+
		"raise it, for example with 'ulimit -n %d'",
		most, s.MaxWorkers, fetch.FilesFor(2*s.MaxWorkers)), nil
}

// readerOf returns a hash of what decides how pages are read: the parser's version and some settings.
func readerOf(s *config.Settings) string {
	how := []string{strconv.Itoa(parser.Version), robots.ProductToken(s.UserAgent)}
	for _, is := range []bool{s.RecordsLinks(), s.Images, s.StructuredLinks} {
		how = append(how, strconv.FormatBool(is))
	}
	if s.CheckAssets {
		how = append(how, "assets")
	}
	if s.CheckFragments {
		how = append(how, "fragments")
	}
	return recrawl.Reader(append(how, s.Extract...))
}

// newParser makes the parser by the settings. In a recrawl, and to find near-duplicates, it also computes a SimHash,
// which tells small changes of a text from large ones.
func newParser(s *config.Settings, treeMemory int64, generation uint32) (*parser.Parser, error) {
	extractors, err := parseExtractors(s.Extract)
	if err != nil {
		return nil, err
	}
	return parser.New(parser.Options{
		Images: s.Images, Assets: s.CheckAssets, IDs: s.CheckFragments, NoLinkText: !s.RecordsLinks(),
		StructuredLinks: s.StructuredLinks, Extract: extractors, Params: s.Params(),
		RobotsToken: robots.ProductToken(s.UserAgent), SimHash: generation > 0 || s.NearDuplicates,
		MaxLinks: maxLinks, MaxLinkBytes: linkBytes(s), TreeMemory: treeMemory,
	})
}

// maxLinks is how many links of a page are kept: as many as a sitemap may have entries.
const maxLinks = 50_000

// linkBytes is how many bytes of a page's links are kept: 8 MiB, or less if the include and exclude expressions are
// large. A step of an expression takes about 3 ns per byte, so the links of a page take at most about 6 s.
func linkBytes(s *config.Settings) int {
	const work, most = 2 << 30, 8 << 20
	return min(most, work/max(1, config.PatternSteps(s.Include, s.Exclude)))
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

// openStore opens the state directory. It must not exist for a new crawl, and must exist for a resumed one.
func openStore(o *Options) (*state.Store, error) {
	mode := state.CreateOnly
	if o.Plan != nil && o.Cluster == nil {
		mode = state.ExistingOnly
	} else if err := datadir.Make(string(o.Dir)); err != nil {
		return nil, fmt.Errorf("data directory %s %w: %w", o.Dir, datadir.ErrUnusable, err)
	}
	so := state.Options{
		Mode: mode, Workers: o.Settings.MaxWorkers, Logger: o.Log, Log: wal.Options{FS: o.LogFS},
		FreeBytes:      o.FreeBytes,
		ObserveDurable: func(d time.Duration, _ int) { o.Metrics.Observe(metrics.Commits, "durable", d) },
		ObserveApplied: func(d time.Duration, _ int) { o.Metrics.Observe(metrics.Commits, "applied", d) },
	}
	if o.Cluster != nil {
		if err := viewOf(o, &so); err != nil {
			return nil, err
		}
	}
	return state.Open(o.Dir.State(), so)
}

// outputRoom bounds the outputs.
func (o *Options) outputRoom() *datadir.Room {
	if o.Managed.Room != nil {
		return o.Managed.Room
	}
	return datadir.NewRoom(state.DefaultMinFree, o.FreeBytes)
}

// reportRecovery logs how the run before ended, if it was interrupted, and what could not be read.
func (r *run) reportRecovery(rec state.Recovery) {
	if rec.TornTail != nil {
		r.warnings.add("the log ended in the middle of a write: %v", rec.TornTail)
	}
	if rec.Snapshots != nil {
		r.warnings.add("what the last checkpoint saved cannot be read, and is computed again: %v", rec.Snapshots)
	}
	if rec.Unclean {
		r.log.Info("the run before ended without notice: going on from what it had recorded", "in_flight", rec.InFlight,
			"applied_again", rec.Applied, "took", rec.Took.Round(time.Millisecond))
	}
}

// recall reads what earlier runs of the generation recorded for the report. Runs of an earlier version of the program
// recorded nothing; the terms of the recrawl or the plan tell when they began.
func (r *run) recall() error {
	r.warnings.keep(r.store)
	facts := r.store.Facts()
	before := readPastRuns(facts[factClock])
	if before.runs == 0 && r.o.Plan != nil {
		began, err := recrawl.Began(facts)
		if err != nil {
			return err
		}
		if before.began = began; began.IsZero() {
			before.began = r.o.Plan.CreatedAt.Time
		}
	}
	before.elapsed = max(before.elapsed, r.o.Managed.Elapsed)
	r.clock.past = before
	return nil
}

// Names of the facts of a crawl in the store, beside those of package page. A fact about the crawl as a whole has a
// fixed name. The name of any other fact ends with its subject, and it is in the partition of the host that it follows
// from.
const (
	// followed by the target of a start's redirect; see extension
	factExtends = "extends scope "
	// number, in decimal, of the last run that did not continue an interrupted one; later runs continue it
	factBegan = "began"
	factTexts = "texts" // a result of readerOf, and the number of the first run that read pages in this way
	// when the first run of the generation began to crawl, the milliseconds of all its runs, and how many runs began to
	factClock = "clock"
	// followed by the text of a warning of the generation; the value is when it was recorded; in partition 0 if one
	// machine crawls
	factWarning = "warning "

	factTime = "2006-01-02T15:04:05.000000000Z" // form of times in facts, in UTC; they sort as texts
)

// recordStart records that a run is under way, and writes the plan of a new crawl or of a recrawl. A recrawl begins the
// next generation, in the same record. Reader is the result of readerOf.
func recordStart(ctx context.Context, store *state.Store, o *Options, starts []datadir.Start, reader string) error {
	known := store.Facts()
	generation, err := page.Generation(known)
	if err != nil {
		return err
	}
	began, err := recrawl.Began(known)
	if err != nil {
		return err
	}
	var facts []frontier.CrawlFact
	if o.Recrawl.begins(generation, began) {
		if err := checkFinished(store, o, generation); err != nil {
			return err
		}
		generation = max(o.Recrawl.Generation, generation+1)
		if facts, err = recrawl.Begin(generation, o.Recrawl.terms()); err != nil {
			return err
		}
		facts = append(facts, frontier.CrawlFact{Name: factClock}) // its report is about this generation alone
		for _, text := range storedWarnings(known, "") {
			facts = append(facts, frontier.CrawlFact{Name: factWarning + text})
		}
		withdrawn, err := withdrawals(ctx, store, o.Settings, starts)
		if err != nil {
			return err
		}
		facts = append(facts, withdrawn...)
	}
	if o.Plan == nil || o.Recrawl != nil {
		if err := writePlan(o); err != nil {
			return err
		}
	}
	facts = append(facts, frontier.CrawlFact{Name: page.FactStatus, Value: []byte(page.Running)},
		recrawl.ReaderFact(known, generation, reader))
	if o.Recrawl != nil || !isContinued(store) {
		facts = append(facts, frontier.CrawlFact{Name: factBegan, Value: strconv.AppendUint(nil, store.Run(), 10)})
	}
	if !strings.HasPrefix(string(known[factTexts]), reader+" ") {
		value := fmt.Appendf(nil, "%s %d", reader, store.Run())
		facts = append(facts, frontier.CrawlFact{Name: factTexts, Value: value})
	}
	_, err = store.Commit(frontier.Record{Facts: facts})
	return err
}

// readHistory makes the history of the rules by which links are left out, from what earlier runs recorded and the rules
// of this one. If an earlier version of the program began the crawl, the rules are in the plan. They are recorded
// before the plan can be replaced.
func (r *run) readHistory(ctx context.Context) (*scope.History, error) {
	h, known, err := scope.ReadHistory(r.store.Facts())
	if err != nil {
		return nil, err
	}
	now := scope.RulesOf(r.settings)
	switch {
	case !known && r.o.Plan == nil:
		h.Rules = now
	case !known:
		plan := r.o.Plan
		if written, err := datadir.ReadPlan(r.o.Dir); err == nil {
			plan = written // the plan that a service passes has the settings of this run already
		}
		h = scope.History{Rules: now, Edition: 1, Later: true}
		if before, err := config.Load(config.FromStored(plan.Settings)); err == nil {
			h.Rules = scope.RulesOf(before.Settings)
		}
		if err := r.recordHistory(&h); err != nil {
			return nil, err
		}
		if err := r.store.Flush(ctx); err != nil {
			return nil, err
		}
	}
	// What redirects brought into the scope has the edition that it began. It is noted before it can be withdrawn.
	// Earlier versions of the program recorded none, and did not read again what they had read before.
	noted, earlier := h.Edition, false
	for _, e := range extensions(r.store) {
		h.Extended(e.edition)
		earlier = earlier || len(e.by) == 0
	}
	if earlier && !h.Extends {
		h.Extended(h.Edition + 1)
	}
	if h.Extends = true; h.Edition > noted {
		if err := r.recordHistory(&h); err != nil {
			return nil, err
		}
	}
	now.MaxChecks = r.settings.MaxChecks
	if counted := r.store.Counters(); counted.Skips[scope.CheckLimit] == 0 {
		h.Rules.MaxChecks = 0
	}
	h.Begin(now)
	return &h, nil
}

func (r *run) recordHistory(h *scope.History) error {
	fact, err := h.Fact()
	if err == nil {
		_, err = r.store.Commit(frontier.Record{Facts: []frontier.CrawlFact{fact}})
	}
	return err
}

// remember records the settings of a run that can begin, and then the rules that follow from them: if the process ends
// in between, the next run finds that they differ.
func (r *run) remember() error {
	if r.o.Plan != nil && r.o.Recrawl == nil {
		if err := writePlan(r.o); err != nil {
			return err
		}
	}
	return r.recordHistory(r.scope.History())
}

// writePlan writes the plan with the settings of the run.
func writePlan(o *Options) error {
	plan := o.Plan
	if plan == nil {
		plan = datadir.NewPlan(o.Settings, o.Starts)
	}
	plan.Settings = o.Settings.Stored()
	if err := plan.Write(o.Dir); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// ErrNotAgain means that a crawl cannot be crawled again as it is.
var ErrNotAgain = errors.New("cannot be crawled again")

// checkFinished refuses a recrawl of a crawl that is not finished. A caller that says when it was ordered may begin a
// generation though the last is unfinished. A recrawl may follow one that failed, for example because the site was
// down: a resume would find nothing to do. A safe crawl that reached its page cap is refused, because a recrawl would
// fetch more pages than it may have.
func checkFinished(store *state.Store, o *Options, generation uint32) error {
	facts, why := store.Facts(), ""
	status := page.Status(facts[page.FactStatus])
	switch {
	case o.Settings.Profile == config.Safe && status == page.Partial &&
		strings.HasPrefix(string(facts[page.FactReason]), safetyPages):
		why = "it is a safe crawl that had all its pages; use another profile, in another data directory"
	case status == page.Complete, status == page.Partial:
		return nil
	case generation > 0 && (status == page.Failed || !o.Recrawl.Ordered.IsZero()):
		return nil
	case status == page.Failed:
		why = fmt.Sprintf("it failed, so there is nothing to visit again; '%s' deletes it", o.Dir.Command("wipe"))
	default:
		why = fmt.Sprintf("it is not finished; go on with '%s' first", o.Dir.Command("resume"))
	}
	return fmt.Errorf("the crawl in data directory %s %w: %s", o.Dir, ErrNotAgain, why)
}

// isContinued reports whether this run continues the one before, which did not record its end or was killed while it
// exported. Hosts that were given up then stay given up. Call it before this run records its status.
func isContinued(store *state.Store) bool {
	status := page.Status(store.Facts()[page.FactStatus])
	return began(store) > 0 && (status == page.Running || store.Recovery().Unclean)
}

// began returns the number of the run that this one continues, or its own number if it continues none. That run tried
// all hosts again. Zero means that nothing is recorded yet.
func began(store *state.Store) uint64 {
	number, _ := strconv.ParseUint(string(store.Facts()[factBegan]), 10, 64)
	return number
}

// textsBegan returns the number of the first run that read pages as this one does; 0 in a crawl of several machines.
func textsBegan(store *state.Store) uint64 {
	_, run, _ := strings.Cut(string(store.Facts()[factTexts]), " ")
	number, _ := strconv.ParseUint(run, 10, 64)
	return number
}
