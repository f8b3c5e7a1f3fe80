package crawl

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// lateRobots lets the first requests for a robots.txt time out.
type lateRobots struct {
	fetch.Fetcher
	late atomic.Int64 // how many are left
}

func (f *lateRobots) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if strings.HasSuffix(r.URL.String(), "/robots.txt") && f.late.Add(-1) >= 0 {
		time.Sleep(r.Timeout)
		return nil, &fetch.Error{Kind: fetch.Timeout, Err: context.DeadlineExceeded}
	}
	return f.Fetcher.Do(ctx, r)
}

// A robots.txt that times out is asked for twice more, before the crawl goes on without it.
func TestLateRobots(t *testing.T) {
	for name, c := range map[string]struct {
		late    int64
		blocked bool
	}{"twice": {2, true}, "three times": {3, false}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := newMemoryWeb(t, testweb.Config{Seed: 4, Pages: 40, PageSize: 500, Links: 6, Log: true,
					Faults: testweb.OnAll(testweb.Disallow{})})
				s := polite(web.Server)
				o := web.options(s, newDir(t), web.StartURLs()...)
				f := &lateRobots{Fetcher: o.Fetcher}
				f.late.Store(c.late)
				o.Fetcher = f
				rep, err := runAlone(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if got := rep.Outcomes["blocked_by_robots"] > 0; got != c.blocked {
					t.Errorf("outcomes %v", rep.Outcomes)
				}
			})
		})
	}
}
