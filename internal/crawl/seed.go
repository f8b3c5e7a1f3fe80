package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/seeding"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

// seeds are the URLs that a run begins with, and the public indexes that name more.
type seeds struct {
	starts       []datadir.Start
	add          addLinks
	crashes      *crashGuard
	robots       *robotsServer
	indexes      *seeding.Indexes
	indexOptions seeding.IndexOptions
}

// addLinks adds links to the frontier that no page of the crawl names. It returns how many of them were new.
type addLinks func(ctx context.Context, links []frontier.Link) (added int, err error)

func newAddLinks(f *frontier.Frontier, t *traps.Traps) addLinks {
	return func(ctx context.Context, links []frontier.Link) (int, error) {
		t.Begin()
		defer t.End()
		return f.Add(ctx, links)
	}
}

// addStarts adds the start URLs. In a resumed crawl they are known already, unless it ended before they were written.
func (s *seeds) addStarts(ctx context.Context) error {
	_, err := s.add(ctx, s.links())
	if err == nil {
		err = s.crashes.retryCrashed(ctx)
	}
	for i := 0; err == nil && i < len(s.starts) && s.robots.ignore; i++ {
		err = s.robots.requestSitemaps(ctx, s.starts[i].URL.Origin())
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("add the start URLs: %w", err)
	}
	return nil
}

// links are the start URLs.
func (s *seeds) links() []frontier.Link {
	links := make([]frontier.Link, 0, len(s.starts))
	for _, start := range s.starts {
		links = append(links, frontier.Link{URL: start.URL, Source: page.SourceStart, Discovered: time.Now()})
	}
	return links
}

// startIndexes asks the public indexes until ctx ends. The caller calls join, which waits for them.
func (s *seeds) startIndexes(ctx context.Context) (join func()) {
	return s.indexes.Start(ctx, s.indexOptions)
}
