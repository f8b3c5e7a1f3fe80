package crawl

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/sweep"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// aloneAfter is how many unclean ends find a page in flight before it is tried alone. Most of such pages did nothing: they were in flight when
// another page, or something outside of the crawl, ended the process.
const aloneAfter = 3

// crashGuard knows which pages and sitemaps were in flight when earlier runs ended without notice, and which of them are tried alone.
type crashGuard struct {
	store    *state.Store
	frontier *frontier.Frontier
	log      *slog.Logger
	retry    bool                  // --retry-crashed
	retried  map[frontier.Key]bool // pages and sitemaps that retry tries again, alone from the first; not changed once there are leases
}

// mustBeAlone says whether a lease is for a page or a sitemap that is tried alone.
func (g *crashGuard) mustBeAlone(l *frontier.Lease) bool {
	if l.Kind() == frontier.KindRobots {
		return false // it is not recorded as in flight
	}
	key := l.Link().Key
	n, alone := g.store.UncleanEnds(key)
	if alone {
		return g.retry
	}
	return n >= aloneAfter || g.retried[key]
}

// crashedAlone returns why a page or a sitemap is given up: the process ended without notice while it was tried alone. It is empty otherwise, and if the user
// asks for another try.
func (g *crashGuard) crashedAlone(l *frontier.Lease) string {
	n, alone := g.store.UncleanEnds(l.Link().Key)
	if !alone || g.retry {
		return ""
	}
	return fmt.Sprintf("the process ended without notice while this was tried alone (it was in flight at %s)", words.Count(int64(n), "such end"))
}

// markAlone makes durable that a page or a sitemap is in flight with nothing else being read.
func (g *crashGuard) markAlone(ctx context.Context, l *frontier.Lease) error {
	key := l.Link().Key
	n, _ := g.store.UncleanEnds(key)
	g.log.Info("trying a URL alone, because it was in flight when earlier runs ended without notice", "url", l.URL().String(), "unclean_ends", n)
	if _, err := g.store.Commit(frontier.Record{Alone: []frontier.Key{key}}); err != nil {
		return err
	}
	return g.store.Flush(ctx)
}

// retryCrashed queues the pages and sitemaps again that were given up because they ended the process.
func (g *crashGuard) retryCrashed(ctx context.Context) error {
	if !g.retry {
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

// requeueCrashed queues those of a list that are crashed, and returns how many there are.
func (g *crashGuard) requeueCrashed(ctx context.Context, list iter.Seq2[state.Page, error], sitemaps bool) (n int, _ error) {
	var again []frontier.Link
	var host frontier.HostID
	var queued map[frontier.Key]uint32 // of the host
	for p, err := range list {
		if err != nil {
			return n, err
		}
		if p.Finish == nil || page.Outcome(p.Finish.Outcome) != page.Crashed {
			continue
		}
		if queued == nil || host != p.Link.Key.Host {
			host = p.Link.Key.Host
			if queued, err = sweep.QueuedVisits(ctx, g.store, host); err != nil {
				return n, err
			}
		}
		n++
		g.retried[p.Link.Key] = true
		link := p.Link
		link.Sitemap = sitemaps
		link.Visit, link.Before = max(1, p.Finish.Visit)+1, p.Finish.Summary()
		if queued[link.Key] != link.Visit { // else an earlier run queued it and did not come to it
			again = append(again, link)
		}
	}
	return n, g.frontier.Revisit(ctx, again)
}
