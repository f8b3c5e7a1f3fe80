package crawl

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

const (
	// aloneAfter: a page that was in flight at this many unclean ends of the process is suspected, and is tried alone.
	// Most such pages did no harm: another page, or something outside of the crawl, ended the process.
	aloneAfter = 3

	// crashedAfter: a page that was in flight alone at this many unclean ends is given up.
	crashedAfter = 2

	// calm is how old a run must be before it tries a suspected page: in a series of quick kills no run gets that old.
	// A page that was in flight alone at one unclean end waits twice as long, so that kills at equal intervals do not
	// hit it alone twice.
	calm = 10 * time.Second
)

// crashGuard knows which pages and sitemaps were in flight when earlier runs ended without notice, and which of them
// are tried alone. DESIGN.md of package state says what follows from which end.
type crashGuard struct {
	*run
	began time.Time // when the run began
	// pages and sitemaps that --retry-crashed tries again, alone and without a wait; not changed once there are leases
	retried map[weburl.Key]bool
	waiting sync.Once // to log once that pages wait
}

// suspect says whether a page is tried alone, and how old the run must be first. Ends is at how many unclean ends the
// page was in flight; alone is at how many of these it was tried alone.
func suspect(ends, alone int) (suspected bool, age time.Duration) {
	if ends < aloneAfter && alone == 0 {
		return false, 0
	}
	return true, calm * time.Duration(1+alone)
}

// judge says whether a lease is for a page or a sitemap that is tried alone, and how long it has to wait before.
func (g *crashGuard) judge(l *frontier.Lease) (alone bool, wait time.Duration) {
	if l.Kind() == frontier.KindRobots {
		return false, 0 // it is not noted as in flight
	}
	key := l.Link().Key
	ends, aloneEnds := g.store.UncleanEnds(key)
	suspected, age := suspect(ends, aloneEnds)
	switch {
	case g.retried[key], suspected && g.settings.RetryCrashed:
		return true, 0
	case !suspected, aloneEnds >= crashedAfter: // see crashedAlone
		return false, 0
	}
	if wait = age - time.Since(g.began); wait > 0 {
		g.waiting.Do(func() {
			g.log.Info("some URLs were in flight when earlier runs ended without notice: they wait until this run "+
				"has lasted a while, and are then tried alone",
				"url", l.URL().String(), "unclean_ends", ends, "wait", wait.Round(time.Second))
		})
	}
	return true, max(0, wait)
}

// crashedAlone returns why a page or a sitemap is given up: the process ended without notice twice while it was tried
// alone. It is empty otherwise, and if the user asks for another try.
func (g *crashGuard) crashedAlone(l *frontier.Lease) string {
	n, alone := g.store.UncleanEnds(l.Link().Key)
	if alone < crashedAfter || g.settings.RetryCrashed {
		return ""
	}
	return fmt.Sprintf("the process ended without notice %d times while this was tried alone (it was in flight at %s)",
		alone, words.Count(int64(n), "such end"))
}

// begin notes that a worker reads a page or a sitemap from now on, in case it ends the process.
func (g *crashGuard) begin(ctx context.Context, worker int, l *frontier.Lease, alone bool) error {
	if l.Kind() == frontier.KindRobots {
		return nil
	}
	link := l.Link()
	if alone {
		n, _ := g.store.UncleanEnds(link.Key)
		g.log.Info("trying a URL alone, because it was in flight when earlier runs ended without notice", "url",
			l.URL().String(), "unclean_ends", n)
	}
	if g.o.Cluster == nil {
		g.store.SetInFlight(worker, &link, alone)
		return nil
	}
	if !alone && link.Visit > 1 {
		return nil // a 304 needs no record, and reading records other answers
	}
	if err := l.RecordInFlight(); err != nil || !alone {
		return err
	}
	if _, err := g.store.Commit(frontier.Record{Alone: []weburl.Key{link.Key}}); err != nil {
		return err
	}
	return g.store.Flush(ctx)
}

// reading is called before the body of an answer is read. In a crawl of several machines it records that the page is in
// flight.
func (g *crashGuard) reading(l *frontier.Lease) error {
	if g.o.Cluster == nil {
		return nil
	}
	return l.RecordInFlight()
}

// end notes that a worker does not read a page or a sitemap any more.
func (g *crashGuard) end(worker int, l *frontier.Lease) {
	if g.o.Cluster == nil && l.Kind() != frontier.KindRobots {
		g.store.SetInFlight(worker, nil, false)
	}
}

// retryCrashed queues the pages and sitemaps again that were given up because they ended the process.
func (g *crashGuard) retryCrashed(ctx context.Context) error {
	if !g.settings.RetryCrashed {
		return nil
	}
	pages, err := g.requeueCrashed(ctx, g.store.Pages(ctx), false)
	if err != nil {
		return fmt.Errorf("look for crashed pages: %w", err)
	}
	sitemaps, err := g.requeueCrashed(ctx, g.store.Sitemaps(ctx), true)
	if err != nil {
		return fmt.Errorf("look for crashed sitemaps: %w", err)
	}
	what := words.Count(int64(pages), "page")
	if sitemaps > 0 {
		what += " and " + words.Count(int64(sitemaps), "sitemap")
	}
	g.log.Info(fmt.Sprintf("--retry-crashed: trying %s again", what))
	return nil
}

// requeueCrashed queues the crashed URLs of a list again, and returns how many there are.
func (g *crashGuard) requeueCrashed(ctx context.Context, list iter.Seq2[state.Page, error], sitemaps bool) (n int,
	_ error) {
	var again []frontier.Link
	var host weburl.HostID
	var queued map[weburl.Key]uint32 // the queued visits of the host's URLs
	for p, err := range list {
		if err != nil {
			return n, err
		}
		if p.Finish == nil || page.Outcome(p.Finish.Outcome) != page.Crashed {
			continue
		}
		if queued == nil || host != p.Link.Key.Host {
			host = p.Link.Key.Host
			if queued, err = recrawl.QueuedVisits(ctx, g.store, host); err != nil {
				return n, err
			}
		}
		n++
		g.retried[p.Link.Key] = true
		link := p.Link
		link.Sitemap = sitemaps
		link.Visit, link.Before = max(1, p.Finish.Visit)+1, p.Finish.Summary()
		if queued[link.Key] != link.Visit { // else an earlier run queued it and did not serve it
			again = append(again, link)
		}
	}
	return n, g.frontier.Revisit(ctx, again)
}
