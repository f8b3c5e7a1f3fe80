package report

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/state"
)

// Pages reads a store in the order of an export: by partition, host name and URL, independent of the seed of the crawl.
// It settles outcomes that only the whole crawl can tell, such as redirect loops.
func Pages(s *state.Store, types []string, room *datadir.Room) export.Source {
	return func(ctx context.Context) iter.Seq2[*page.Line, error] {
		return func(yield func(*page.Line, error) bool) {
			read := func(ctx context.Context) iter.Seq2[readLine, error] { return readPages(ctx, s, types, room) }
			for l, err := range ahead(ctx, func(l readLine) int { return l.bytes }, read) {
				if !yield(l.line, err) || err != nil {
					return
				}
			}
		}
	}
}

// readLine is a line, and how many bytes its facts have in the store.
type readLine struct {
	line  *page.Line
	bytes int
}

func readPages(ctx context.Context, s *state.Store, types []string,
	room *datadir.Room) iter.Seq2[readLine, error] {
	return func(yield func(readLine, error) bool) {
		var err error
		p := newPageReader(s, types)
		if p.generation, err = page.Generation(s.Facts()); err != nil {
			yield(readLine{}, err)
			return
		}
		before := s.Counters()
		var found, finished uint64
		for rec, err := range sortPages(ctx, s, sortSpace(s, room).Part(4)) {
			var out readLine
			if err == nil {
				out.line, err = p.read(ctx, &rec)
			}
			if rec.Finish != nil {
				out.bytes = len(rec.Finish.Facts)
			}
			if !yield(out, err) || err != nil {
				return
			}
			if !rec.Link.URL.IsZero() {
				found++
			}
			if rec.Finish != nil {
				finished++
			}
		}
		if err := checkCounts(&before, found, finished); err != nil {
			yield(readLine{}, err)
		}
	}
}

// checkCounts compares how many pages were read with how many were counted when they were recorded. Each is recorded
// once, so fewer pages mean that some are lost: Badger takes a block that it cannot read for the end of its table.
func checkCounts(recorded *state.Counters, found, finished uint64) error {
	if found >= recorded.Discovered && finished >= recorded.Finished {
		return nil
	}
	return &state.CorruptError{What: "the state directory",
		Reason: fmt.Sprintf("%d URLs are recorded as found and %d as finished, but %d and %d can be read",
			recorded.Discovered, recorded.Finished, found, finished)}
}

// pageReader turns stored pages into exported ones. Pages come by host, so it keeps the facts of one host at a time.
type pageReader struct {
	store   *state.Store
	types   []string
	hasher  weburl.Hasher
	host    frontier.HostFact     // of the present host
	parents map[string]parentPage // by URL; bounded

	generation uint32
}

func newPageReader(s *state.Store, types []string) *pageReader {
	return &pageReader{store: s, types: types, hasher: s.Hasher()}
}

func (p *pageReader) read(ctx context.Context, rec *state.Page) (*page.Line, error) {
	outcome, status := page.Pending, 0
	l := &rec.Link
	line := &page.Line{
		SchemaVersion: page.SchemaVersion, URL: l.URL, Depth: int(l.Depth), ParentURL: l.Parent.String(),
		Source: page.SourceName(l.Source), DiscoveredAt: page.Time{Time: l.Discovered},
		FirstSeenAt: page.Time{Time: l.Discovered},
	}
	if f := rec.Finish; f != nil {
		if err := line.Facts.Decode(f.Facts); err != nil {
			return nil, fmt.Errorf("%s: %w", l.URL, err)
		}
		outcome = page.Outcome(f.Outcome)
		status = int(f.Status)
		line.CrawledAt, line.StatusCode, line.Attempts = page.Time{Time: rec.FactsAt}, status, int(f.Attempts)
		line.Generation, line.CheckedAt, line.ChangedAt = int(f.Generation), page.Time{Time: f.CheckedAt},
			page.Time{Time: f.ChangedAt}
		line.Change, line.Stale = page.Change(f.Change).String(), int(f.Failures)
		if outcome == page.Redirect {
			hops, endless, err := p.walk(ctx, l.URL.String(), f.RedirectTo)
			if err != nil {
				return nil, err
			}
			if line.Hops = hops; endless {
				outcome = page.RedirectLoop
			}
		}
	} else {
		host, err := p.hostFact(ctx, l.Key.Host)
		if err != nil {
			return nil, err
		}
		if host.Blocked || host.Abandoned {
			outcome = page.HostBlocked
		}
	}
	line.SetFacts(&line.Facts)
	if err := addVisit(line, rec); err != nil {
		return nil, err
	}
	if line.LastModified.IsZero() {
		line.LastModified.Time = sitemapLastMod(rec)
	}
	line.Outcome = outcome.String()
	line.InSitemap, line.Linked = p.namedBy(rec)
	line.Indexable, line.IndexableReason = page.Indexable(line.URL.String(), outcome, status, &line.Facts, p.types)
	var err error
	line.Unlinked, err = p.isUnlinked(ctx, rec)
	return line, err
}

// namedBy says whether a sitemap of the last generation lists a URL, and whether a page links to it or a redirect leads
// to it. Names of start URLs in the first crawl do not count: links to them are recorded only after the first sitemap
// was read.
func (p *pageReader) namedBy(rec *state.Page) (listed, linked bool) {
	source := rec.Link.Source
	listed = rec.Listed.Named && rec.Listed.Generation == p.generation || p.generation == 0 &&
		source == page.SourceSitemap
	linked = source == page.SourceLink || source == page.SourceRedirect ||
		rec.Linked.Named && (source != page.SourceStart || rec.Linked.Generation > 0)
	return listed, linked
}

// addVisit adds the error of the last visit, if that visit kept the facts of an earlier one.
func addVisit(line *page.Line, rec *state.Page) error {
	if len(rec.VisitFacts) == 0 {
		return nil
	}
	facts, err := page.Decode(rec.VisitFacts)
	if err != nil {
		return fmt.Errorf("%s: %w", line.URL, err)
	}
	if facts.Error != "" {
		line.Error = facts.Error
	}
	return nil
}

// sitemapLastMod is the last modification according to a sitemap. A time between two checks that found the same content
// is wrong; then the value that the first crawl read counts. It is zero if a change was found after the sitemap last
// listed the page.
func sitemapLastMod(rec *state.Page) time.Time {
	f, at, listed := rec.Finish, rec.Listed.LastMod, rec.Listed.Generation
	if at.IsZero() || f != nil && at.After(rec.FactsAt) && !at.After(f.CheckedAt) {
		at, listed = rec.Link.LastMod, 0
	}
	if f != nil && !f.ChangedAt.IsZero() && rec.FactsGeneration > listed {
		return time.Time{}
	}
	return at
}

// hostFact says whether a host's pending URLs wait because it is blocked or abandoned, and why.
func (p *pageReader) hostFact(ctx context.Context, id weburl.HostID) (*frontier.HostFact, error) {
	if p.host.Host != id {
		fact, _, err := p.store.Host(ctx, id)
		if err != nil {
			return nil, err
		}
		p.host, p.host.Host = fact, id
	}
	return &p.host, nil
}

// walk follows the redirects from a page on and reports whether they never end. The crawl itself does not see a loop,
// because it fetches every page once.
func (p *pageReader) walk(ctx context.Context, from, to string) (hops []string, endless bool, err error) {
	seen := map[string]bool{from: true}
	// One hop more than the longest chain: its last redirect leads to a URL that is not recorded.
	for range scope.MaxHops + 1 {
		to = page.BoundTarget(to) // the records of earlier versions have targets of any length
		hops = append(hops, to)
		if seen[to] {
			return hops, true, nil
		}
		seen[to] = true
		u, ok := weburl.FromCanonical(to)
		if !ok {
			return hops, false, nil
		}
		next, ok, err := p.store.Page(ctx, p.hasher.Key(u))
		if err != nil {
			return hops, false, err
		}
		if !ok || next.Finish == nil || next.Finish.RedirectTo == "" {
			return hops, false, nil
		}
		to = next.Finish.RedirectTo
	}
	return hops, true, nil
}

// Search selects recorded pages, in the order of their keys.
type Search struct {
	After  weburl.Key            // only pages behind it; the zero key is before all pages
	Most   int                   // pages that are found at most
	Bytes  int                   // of their lines together, from which on no further page is found; 0 means any
	Passes func(*page.Line) bool // nil finds all pages
	Until  time.Time             // when the search ends, with what it has found; zero means never
}

// Find reads the pages that a search selects, as far as they are recorded. Next is the key to go on behind; more is
// false if there are no pages behind it.
func Find(ctx context.Context, s *state.Store, types []string, w Search) (lines []*page.Line, next weburl.Key,
	more bool, err error) {
	p := newPageReader(s, types)
	next = w.After
	var (
		table = page.NewTable()
		text  []byte
		size  int
	)
	for rec, err := range s.PagesAfter(ctx, w.After) {
		if err != nil {
			return nil, next, false, err
		}
		if len(lines) == w.Most || w.Bytes > 0 && size >= w.Bytes ||
			!w.Until.IsZero() && next != w.After && time.Now().After(w.Until) {
			return lines, next, true, nil
		}
		next = rec.Link.Key
		if rec.Link.URL.IsZero() {
			continue // finished, and its discovery is not applied yet
		}
		line, err := p.read(ctx, &rec)
		if err != nil {
			return nil, next, false, err
		}
		if w.Passes == nil || w.Passes(line) {
			lines = append(lines, line)
			text = table.AppendJSON(text[:0], line)
			size += len(text)
		}
	}
	return lines, next, false, nil
}

// One reads the page of a URL as far as it is recorded; nil means that it was not found.
func One(ctx context.Context, s *state.Store, types []string, u weburl.URL) (*page.Line, error) {
	rec, ok, err := s.Page(ctx, s.Hasher().Key(u))
	if err != nil || !ok || rec.Link.URL.IsZero() {
		return nil, err
	}
	return newPageReader(s, types).read(ctx, &rec)
}
