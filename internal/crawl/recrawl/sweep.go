package recrawl

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// A Frontier queues visits.
type Frontier interface {
	Revisit(ctx context.Context, links []frontier.Link, facts ...frontier.CrawlFact) error
	Source() (release func())
	Stats() frontier.Stats
}

// SweepOptions are what a sweep needs.
type SweepOptions struct {
	Store    *state.Store
	Frontier Frontier
	Scope    *scope.Scope
	Levels   bool            // the crawl has a depth limit: visits have the depths of their pages
	Starts   []frontier.Link // the start URLs, which are visited in every recrawl
	// PlainHTTP returns the URL over http that is visited too if a start URL ended so. Nil means that there are none.
	PlainHTTP func(start weburl.URL, f *frontier.Finish) (weburl.URL, bool)
	// LedTo reports whether redirects of start URLs lead to a page. Only crawls with a depth limit need it; nil means
	// that they lead to none.
	LedTo func(weburl.Key) bool
	// Sitemaps queues the known sitemaps of some hosts. It is nil if the crawl reads none.
	Sitemaps func(ctx context.Context, first, last weburl.HostID) error
	// Checks means that URLs outside of the crawl are checked, and again in each generation.
	Checks bool
	Log    *slog.Logger
	// Shared are the facts of the crawl as a whole, in a crawl of several machines. The sweeper then queues visits of
	// partitions that are opened here. Nil means one machine, whose store has all facts and partitions.
	Shared map[string][]byte
}

// A Sweeper queues visits in a recrawl, and when the rules have become wider: with the settings of a run, or because a
// start URL led to a further site.
type Sweeper struct {
	o          SweepOptions
	generation uint32
	history    *scope.History // of the rules, as the sweeper was made
	number     []byte         // number of the sweep, as facts have it
	counted    state.Counters // as they were when the run began
	terms      Terms
	matcher    *scope.Matcher
	starts     map[weburl.Key]bool
	parts      *partitions // of this machine among several; nil for one

	mu     sync.Mutex
	jobs   []recheck     // guarded by mu; hosts whose answers 304 are checked again
	jobbed chan struct{} // has one element if there may be jobs
}

// recheck is a host whose answers 304 are checked again. Release is called when these visits are queued; until then the
// crawl is not drained.
type recheck struct {
	host    string
	release func()
}

// NewSweeper reads from the store what the generation under way is to visit.
func NewSweeper(o SweepOptions) (*Sweeper, error) {
	facts := o.Shared
	if facts == nil {
		facts = o.Store.Facts()
	}
	s := &Sweeper{
		o: o, generation: generationOf(facts), history: o.Scope.History(), counted: o.Store.Counters(),
		starts: map[weburl.Key]bool{},
		jobbed: make(chan struct{}, 1),
	}
	s.number = sweepNumber(facts, s.history)
	if o.Shared != nil {
		s.parts = newPartitions()
	}
	var err error
	if s.terms, err = readTerms(facts); err != nil {
		return nil, err
	}
	if s.matcher, err = s.terms.matcher(); err != nil {
		return nil, err
	}
	hasher := o.Store.Hasher()
	for i := range o.Starts {
		s.starts[hasher.Key(o.Starts[i].URL)] = true
	}
	return s, nil
}

// sitemapWait is how long a sweep waits for sitemaps. They may say which pages have changed, and these are visited
// first.
const sitemapWait = 30 * time.Second

// sitemapLook is how often it looks whether they are read.
const sitemapLook = 20 * time.Millisecond

// Begin holds the crawl, so that it is not drained. Pass release to Run, which calls it when all visits are queued. In
// a crawl of several machines, Pending does that by partition.
func (s *Sweeper) Begin() (release func()) {
	if s.parts != nil {
		return func() {}
	}
	return s.o.Frontier.Source()
}

// Run queues sitemaps and start pages, then, when the sitemaps are read or after a while, all pages that are due. After
// that it calls release, and queues again what Distrust asks for, until ctx ends. What an earlier run has queued is not
// queued again.
func (s *Sweeper) Run(ctx context.Context, release func()) error {
	defer release()
	var err error
	var opened <-chan struct{}
	if s.parts != nil {
		opened = s.parts.opened
	} else {
		s.addOpenJobs(s.o.Store.Facts(), func(string) bool { return true })
		err = s.sweepAll(ctx)
	}
	release()
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-opened:
			err = s.sweepOpened(ctx)
		case <-s.jobbed:
			err = s.recheckAll(ctx)
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range s.jobs {
		job.release()
	}
	s.jobs = nil
	return err
}

// sweepAll queues everything that is due.
func (s *Sweeper) sweepAll(ctx context.Context) error {
	facts := s.o.Store.Facts()
	if IsSwept(facts, s.history) {
		return nil
	}
	if err := s.queueFirst(ctx, 0, math.MaxUint64); err != nil {
		return err
	}
	if err := s.awaitSitemaps(ctx); err != nil {
		return err
	}
	total := 0
	for p := range 256 {
		n, err := s.sweep(ctx, uint8(p), facts)
		if err != nil {
			return fmt.Errorf("queue pages again: %w", err)
		}
		total += n
	}
	if err := s.sweepChecks(ctx, 0, math.MaxUint64); err != nil {
		return fmt.Errorf("queue checks again: %w", err)
	}
	if err := s.o.Frontier.Revisit(ctx, nil, frontier.CrawlFact{Name: factSwept, Value: s.number}); err != nil {
		return err
	}
	switch {
	case s.generation == 0 && total > 0:
		s.o.Log.Info("less is left out than before, by the settings or because start URLs led to further sites: the "+
			"pages that are concerned are visited again", "pages", total)
	case s.generation > 0:
		s.o.Log.Info("all pages that are due are queued for another visit", "generation", s.generation, "pages", total)
	}
	return nil
}

// queueFirst queues what is visited first of some hosts: start pages and sitemaps.
func (s *Sweeper) queueFirst(ctx context.Context, first, last weburl.HostID) error {
	if err := s.queueStarts(ctx, first, last); err != nil {
		return fmt.Errorf("queue the start URLs again: %w", err)
	}
	if s.o.Sitemaps == nil {
		return nil
	}
	if err := s.o.Sitemaps(ctx, first, last); err != nil {
		return fmt.Errorf("queue the sitemaps again: %w", err)
	}
	return nil
}

// sweepChecks queues the checks of some hosts that have no visit in this generation, and those that settings of an
// earlier run left out. Those that are queued already are pending, or their finish has this generation.
func (s *Sweeper) sweepChecks(ctx context.Context, first, last weburl.HostID) error {
	if !s.o.Checks {
		return nil
	}
	var again []frontier.Link
	var queued map[weburl.Key]uint32
	var host weburl.HostID
	hasher := s.o.Store.Hasher()
	for m, err := range s.o.Store.SitemapsOf(ctx, first, last) {
		if err != nil {
			return err
		}
		f := m.Finish
		if !m.Link.Check || f == nil || page.Outcome(f.Outcome) == page.Crashed ||
			f.Generation >= s.generation && page.Outcome(f.Outcome) != page.Excluded {
			continue
		}
		if p, known, err := s.o.Store.Page(ctx, hasher.Key(m.Link.URL)); err != nil {
			return err
		} else if known && s.inScope(&p) {
			continue // it is a page of the crawl by now
		}
		if queued == nil || host != m.Link.Key.Host {
			host = m.Link.Key.Host
			if queued, err = QueuedVisits(ctx, s.o.Store, host); err != nil {
				return err
			}
		}
		if queued[m.Link.Key] > 0 {
			continue
		}
		again = append(again, frontier.Link{Key: m.Link.Key, URL: m.Link.URL, Sitemap: true, Check: true,
			Source: m.Link.Source, Hops: m.Link.Hops, Visit: max(1, f.Visit) + 1, Before: f.Summary()})
		if len(again) == batch {
			if err := s.o.Frontier.Revisit(ctx, again); err != nil {
				return err
			}
			again = again[:0]
		}
	}
	return s.o.Frontier.Revisit(ctx, again)
}

// queueStarts queues the start pages of some hosts, except those with a queued or finished visit in this generation.
func (s *Sweeper) queueStarts(ctx context.Context, first, last weburl.HostID) error {
	var again []frontier.Link
	hasher := s.o.Store.Hasher()
	queued := map[weburl.HostID]map[weburl.Key]uint32{}
	for i := range s.o.Starts {
		at := s.o.Starts[i].URL
		if host := hasher.HostID(at.Host()); host < first || host > last {
			continue
		}
		for more := true; more; {
			p, _, err := s.o.Store.Page(ctx, hasher.Key(at))
			if err != nil {
				return err
			}
			link, due, err := s.nextOfStart(ctx, &p, queued)
			if err != nil {
				return err
			}
			if due {
				again = append(again, link)
			}
			if more = s.o.PlainHTTP != nil; more {
				at, more = s.o.PlainHTTP(at, p.Finish)
			}
		}
	}
	return s.o.Frontier.Revisit(ctx, again)
}

// nextOfStart is the next visit of a start page, if it is due. It is noted in queued, the visits that are pending,
// since a start may be given twice.
func (s *Sweeper) nextOfStart(ctx context.Context, p *state.Page,
	queued map[weburl.HostID]map[weburl.Key]uint32) (l frontier.Link, due bool, err error) {
	if p.Finish == nil || p.Finish.Generation >= s.generation || page.Outcome(p.Finish.Outcome) == page.Crashed {
		return l, false, nil
	}
	key := p.Link.Key
	if queued[key.Host] == nil {
		if queued[key.Host], err = QueuedVisits(ctx, s.o.Store, key.Host); err != nil {
			return l, false, err
		}
	}
	l = s.next(p)
	l.Priority = frontier.PriorityStart
	due = queued[key.Host][key] != l.Visit
	queued[key.Host][key] = l.Visit
	return l, due, nil
}

// next is the next visit of a page. It has depth 0 so that its place in the queue can be chosen; the page's own depth
// is in the store. Under a depth limit one level is finished before the next, so there the visit has the page's depth.
func (s *Sweeper) next(p *state.Page) frontier.Link {
	l := frontier.Link{
		Key: p.Link.Key, URL: p.Link.URL, Priority: frontier.PriorityDepth, Source: p.Link.Source, Hops: p.Link.Hops,
		Visit: max(1, p.Finish.Visit) + 1, Before: p.Finish.Summary(),
	}
	if s.o.Levels {
		l.Depth = s.depth(p)
	}
	return l
}

// depth returns the depth of a page. It is 0 if a sitemap lists the page, wherever it was found, and if a start URL
// leads there.
func (s *Sweeper) depth(p *state.Page) uint16 {
	if p.Listed.Named || s.isLedTo(p.Link.Key) {
		return 0
	}
	return p.Link.Depth
}

func (s *Sweeper) isLedTo(k weburl.Key) bool { return s.o.LedTo != nil && s.o.LedTo(k) }

// awaitSitemaps waits until no sitemap is pending, but not for long, and then until what the sitemaps say can be read.
// That matters for the order of a recrawl, and for the depths of pages under a depth limit.
func (s *Sweeper) awaitSitemaps(ctx context.Context) error {
	if s.o.Sitemaps != nil && (s.generation > 0 || s.o.Levels) {
		if err := s.awaitRead(ctx); err != nil {
			return err
		}
	}
	return s.o.Store.Flush(ctx)
}

func (s *Sweeper) awaitRead(ctx context.Context) error {
	over := time.NewTimer(sitemapWait)
	defer over.Stop()
	look := time.NewTicker(sitemapLook)
	defer look.Stop()
	for {
		if st := s.o.Frontier.Stats(); st.Sitemaps-st.Unwanted <= 0 { // checks are not among them
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			s.o.Log.Info("some sitemaps are not read yet: queueing pages without knowing all that they say")
			return nil
		case <-look.C:
		}
	}
}

// isDue reports whether a page is to be visited in this generation. Queued are the visits that are pending.
func (s *Sweeper) isDue(p *state.Page, queued map[weburl.Key]uint32) bool {
	f := p.Finish
	if f == nil || s.isVisited(f) || s.starts[p.Link.Key] || queued[p.Link.Key] > 0 {
		return false
	}
	switch page.Outcome(f.Outcome) {
	case page.Trap, page.Crashed:
		return false
	}
	if !s.terms.CheckedBefore.IsZero() && !f.CheckedAt.Before(s.terms.CheckedBefore) {
		return false
	}
	return s.inScope(p) && s.matcher.Check(p.Link.URL) == scope.InScope
}

// QueueNearer queues the pages that have a lower depth than when they were read, so that links of theirs that were too
// deep belong to the crawl. It returns how many. Nothing else may be queueing visits.
func (s *Sweeper) QueueNearer(ctx context.Context) (n int, err error) {
	var again []frontier.Link
	var queued map[weburl.Key]uint32
	var host weburl.HostID
	for p, err := range s.o.Store.PagesOf(ctx, 0, math.MaxUint64) {
		if err != nil {
			return n, err
		}
		depth := s.depth(&p)
		if p.Finish == nil || depth >= p.Link.Depth || !s.inScope(&p) {
			continue
		}
		facts, err := page.Decode(p.Finish.Facts)
		if err != nil {
			return n, fmt.Errorf("read what is known of %s: %w", p.Link.URL, err)
		}
		if !s.history.IsNearer(facts.LeftOut, depth) {
			continue
		}
		if queued == nil || host != p.Link.Key.Host {
			host = p.Link.Key.Host
			if queued, err = QueuedVisits(ctx, s.o.Store, host); err != nil {
				return n, err
			}
		}
		if queued[p.Link.Key] > 0 {
			continue
		}
		n++
		if again = append(again, s.next(&p)); len(again) == batch {
			if err := s.o.Frontier.Revisit(ctx, again); err != nil {
				return n, err
			}
			again = again[:0]
		}
	}
	return n, s.o.Frontier.Revisit(ctx, again)
}

// isVisited reports whether a page was visited in this generation. A visit that was not made, because settings of that
// moment left the page out, keeps the time of the last check.
func (s *Sweeper) isVisited(f *frontier.Finish) bool {
	return f.Generation >= s.generation && !f.CheckedAt.Before(s.terms.Began)
}

func (s *Sweeper) inScope(p *state.Page) bool {
	l := p.Link
	if l.Depth = s.depth(p); s.isLedTo(l.Key) {
		l.Priority = frontier.PriorityStart
	}
	return s.o.Scope.CheckKnown(&l) == scope.InScope
}

// mustRead reports whether a page is read although it is not due. That is so if narrower rules left out the page or
// links of it, and if links of it were too deep and are not any more, as the page has a lower depth now. It is also so
// for a start page that was read by rules without sitemaps, because its visit requests the sitemaps. Queued are the
// visits that are pending.
func (s *Sweeper) mustRead(p *state.Page, queued map[weburl.Key]uint32) (bool, error) {
	depth := s.depth(p)
	if p.Finish == nil || queued[p.Link.Key] > 0 || s.history.Widened() == 0 && depth >= p.Link.Depth || !s.inScope(p) {
		return false, nil
	}
	switch page.Outcome(p.Finish.Outcome) {
	case page.Excluded:
		return true, nil
	case page.Trap, page.Crashed:
		return false, nil
	}
	facts, err := page.Decode(p.Finish.Facts)
	if err != nil {
		return false, fmt.Errorf("read what is known of %s: %w", p.Link.URL, err)
	}
	return s.history.IsOutdated(facts.LeftOut, &s.counted) || s.o.Levels && s.history.IsNearer(facts.LeftOut, depth) ||
		s.starts[p.Link.Key] && s.history.IsUnseeded(facts.LeftOut), nil
}
