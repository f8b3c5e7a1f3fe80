package service

import (
	"context"
	"time"
)

// Figures are what metrics show of the service.
type Figures struct {
	Crawls     map[State]int
	OldestWait time.Duration // of a queued crawl
	FreeDisk   int64         // bytes
}

// Figures returns the figures of this moment.
func (s *Service) Figures(ctx context.Context) (f Figures, err error) {
	f.Crawls = map[State]int{}
	for _, state := range States() {
		f.Crawls[state] = 0
	}
	type count struct {
		state  State
		n      int
		oldest int64
	}
	counts, err := Collect(ctx, s.db.Read(), func(c *count) []any { return []any{&c.state, &c.n, &c.oldest} },
		"SELECT state, COUNT(*), MIN(queued_at) FROM crawl GROUP BY state")
	if err != nil {
		return f, err
	}
	for _, c := range counts {
		f.Crawls[c.state] = c.n
		if c.state == Queued {
			f.OldestWait = max(0, time.Since(time.UnixMilli(c.oldest)))
		}
	}
	f.FreeDisk, err = s.o.FreeBytes(s.o.Dir)
	return f, err
}
