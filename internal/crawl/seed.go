package crawl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/page"
)

// addLinks adds links to the frontier that no page of the crawl names. It returns how many of them were new.
func (r *run) addLinks(ctx context.Context, links []frontier.Link) (added int, err error) {
	r.traps.Begin()
	defer r.traps.End()
	return r.frontier.Add(ctx, links)
}

// addStarts adds the start URLs. In a resumed crawl they are known already, unless it ended before they were written.
func (r *run) addStarts(ctx context.Context) error {
	_, err := r.addLinks(ctx, r.startLinks())
	if err == nil {
		err = r.crashes.retryCrashed(ctx)
	}
	if r.settings.IgnoreRobots {
		sites := urlsOf(r.starts)
		if r.cluster == nil {
			sites = slices.AppendSeq(sites, maps.Keys(extensions(r.store)))
		}
		for i := 0; err == nil && i < len(sites); i++ {
			err = r.requestSitemaps(ctx, sites[i].Origin())
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("add the start URLs: %w", err)
	}
	return nil
}

// startLinks are the start URLs.
func (r *run) startLinks() []frontier.Link {
	links := make([]frontier.Link, 0, len(r.starts))
	for _, start := range r.starts {
		links = append(links, frontier.Link{URL: start.URL, Source: page.SourceStart, Discovered: time.Now()})
	}
	return links
}

// startIndexes asks the public indexes until ctx ends. The caller calls join, which waits for them.
func (r *run) startIndexes(ctx context.Context) (join func()) {
	return r.indexes.Start(ctx, seeding.IndexOptions{
		Starts: r.starts, Scope: r.scope, Hasher: r.hasher, Params: r.params, Store: r.store, Gate: r.gate, Hold: r.frontier.Source, Add: r.addLinks, Warn: r.warnings.add, Log: r.log,
	})
}
