// Package memory has a [cluster.Engine] in memory, for simulations and as the model of
// other engines. Its clock is that of the process, so it runs in testing/synctest, and
// its user chooses which calls fail. New makes it; nothing needs to be closed.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// A Fault is what happens to one call.
type Fault uint8

// The faults of a call.
const (
	None        Fault = iota
	Away              // nothing is done; the caller is told so
	RequestLost       // nothing is done; the caller cannot know
	AnswerLost        // it is done; the caller cannot know
)

// An Engine keeps crawls in memory.
type Engine struct {
	// Fault is asked before each call, by the name of its method; nil means None. It
	// must not be changed while calls are made.
	Fault func(call string) Fault

	mu     sync.Mutex
	crawls map[cluster.CrawlID]*crawl // guarded by mu
	ahead  time.Duration              // guarded by mu; of the engine's clock before that of the process
}

var _ cluster.Engine = (*Engine)(nil)

// New makes an engine without crawls.
func New() *Engine { return &Engine{crawls: map[cluster.CrawlID]*crawl{}} }

// Advance sets the engine's clock forward.
func (e *Engine) Advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead += d
}

// Save copies everything; the returned function brings it back, as an engine does that
// has lost what it had acknowledged. The clock goes on.
func (e *Engine) Save() (restore func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	saved := map[cluster.CrawlID]*crawl{}
	for id, c := range e.crawls {
		saved[id] = c.clone()
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		clear(e.crawls)
		for id, c := range saved {
			e.crawls[id] = c.clone()
		}
	}
}

// call runs one call on a crawl, unless a fault prevents it. The caller cannot know whether a Commit
// was done whose request or answer is lost; any other call is repeated.
func call[T any](ctx context.Context, e *Engine, name string, id cluster.CrawlID,
	fn func(c *crawl, now time.Time) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	fault, lost := None, cluster.ErrAway
	if e.Fault != nil {
		fault = e.Fault(name)
	}
	if name == "Commit" {
		lost = cluster.ErrUnknown
	}
	switch fault {
	case Away:
		return none, cluster.ErrAway
	case RequestLost:
		return none, lost
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.crawls[id]
	if c == nil {
		return none, cluster.ErrNoCrawl
	}
	value, err := fn(c, time.Now().Add(e.ahead))
	if fault == AnswerLost {
		err = lost
	}
	if err != nil {
		return none, err
	}
	return value, nil
}

// do runs a call that returns nothing.
func (e *Engine) do(ctx context.Context, name string, id cluster.CrawlID,
	fn func(c *crawl, now time.Time) error) error {
	_, err := call(ctx, e, name, id, func(c *crawl, now time.Time) (any, error) { return nil, fn(c, now) })
	return err
}

// Create implements [cluster.Catalog].
func (e *Engine) Create(ctx context.Context, row cluster.Crawl, tokens ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.crawls {
		if c.row.Name == row.Name || c.row.ID == row.ID {
			if c.row.ID == row.ID && c.row.Name == row.Name {
				return nil
			}
			return cluster.ErrExists
		}
	}
	e.crawls[row.ID] = newCrawl(row, tokens, time.Now().Add(e.ahead))
	return nil
}

// List implements [cluster.Catalog].
func (e *Engine) List(ctx context.Context) ([]cluster.Crawl, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []cluster.Crawl
	for _, c := range e.crawls {
		row := c.row
		row.Plan = nil
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b cluster.Crawl) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// Look implements [cluster.Catalog].
func (e *Engine) Look(ctx context.Context, id cluster.CrawlID, known cluster.Known) (*cluster.Snapshot, error) {
	return call(ctx, e, "Look", id, func(c *crawl, now time.Time) (*cluster.Snapshot,
		error) {
		return c.snapshot(now, known), nil
	})
}

// Sessions implements [cluster.Catalog].
func (e *Engine) Sessions(ctx context.Context, id cluster.CrawlID) ([]cluster.Member, error) {
	return call(ctx, e, "Sessions", id, func(c *crawl, _ time.Time) ([]cluster.Member, error) {
		return c.allSessions(),
			nil
	})
}

// Delete implements [cluster.Catalog].
func (e *Engine) Delete(ctx context.Context, id cluster.CrawlID) error {
	err := e.do(ctx, "Delete", id, func(*crawl, time.Time) error {
		delete(e.crawls, id)
		return nil
	})
	if errors.Is(err, cluster.ErrNoCrawl) {
		return nil
	}
	return err
}

// Join implements [cluster.Members].
func (e *Engine) Join(ctx context.Context, s cluster.Session) error {
	return e.do(ctx, "Join", s.Crawl, func(c *crawl, now time.Time) error { return c.join(s, now) })
}

// Beat implements [cluster.Members].
func (e *Engine) Beat(ctx context.Context, s cluster.Session, known cluster.Known) (*cluster.Snapshot, error) {
	return call(ctx, e, "Beat", s.Crawl, func(c *crawl, now time.Time) (*cluster.Snapshot, error) {
		if err := c.beat(s, now); err != nil {
			return nil, err
		}
		return c.snapshot(now, known), nil
	})
}

// Leave implements [cluster.Members].
func (e *Engine) Leave(ctx context.Context, s cluster.Session) error {
	return e.do(ctx, "Leave", s.Crawl, func(c *crawl, now time.Time) error {
		c.leave(s, now)
		return nil
	})
}

// Claim implements [cluster.Members].
func (e *Engine) Claim(ctx context.Context, s cluster.Session, parts []uint8) ([]cluster.Claimed, error) {
	return call(ctx, e, "Claim", s.Crawl, func(c *crawl, now time.Time) ([]cluster.Claimed,
		error) {
		return c.claim(s.ID, parts, now)
	})
}

// Change implements [cluster.Members].
func (e *Engine) Change(ctx context.Context, s cluster.Session, ch cluster.Change) (bool, error) {
	return call(ctx, e, "Change", s.Crawl, func(c *crawl, now time.Time) (bool,
		error) {
		return c.change(s.ID, ch, now)
	})
}

// Commit implements [cluster.Log].
func (e *Engine) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	return e.do(ctx, "Commit", s.Crawl, func(c *crawl, _ time.Time) error { return c.commit(s.ID, b) })
}

// Read implements [cluster.Log].
func (e *Engine) Read(ctx context.Context, id cluster.CrawlID, part uint8, after cluster.Place,
	limit int) ([]cluster.Row, error) {
	return call(ctx, e, "Read", id, func(c *crawl, _ time.Time) ([]cluster.Row, error) {
		log := c.logs[part]
		if after.Seq > uint64(len(log)) || after.Seq > 0 && log[after.Seq-1].Place != after {
			return nil, cluster.ErrRolledBack
		}
		var rows []cluster.Row
		for _, r := range log[after.Seq:] {
			if limit <= 0 && len(rows) > 0 {
				break
			}
			limit -= len(r.Body)
			r.Body = bytes.Clone(r.Body)
			rows = append(rows, r)
		}
		return rows, nil
	})
}

// Inbox implements [cluster.Log].
func (e *Engine) Inbox(ctx context.Context, s cluster.Session, after []frontier.Mark, limit int) ([]cluster.Handover,
	error) {
	return call(ctx, e, "Inbox", s.Crawl, func(c *crawl, _ time.Time) ([]cluster.Handover, error) {
		var list []cluster.Handover
		for _, h := range c.handovers {
			if c.parts[h.To].Owner != s.ID || isReceived(&h, after) {
				continue
			}
			if limit <= 0 && len(list) > 0 {
				break
			}
			limit -= len(h.Body)
			h.Body = bytes.Clone(h.Body)
			list = append(list, h)
		}
		return list, nil
	})
}

// Close implements [cluster.Engine]. It does nothing.
func (e *Engine) Close() error { return nil }

// isReceived reports whether a hand-over is received with one of the marks.
func isReceived(h *cluster.Handover, marks []frontier.Mark) bool {
	return slices.ContainsFunc(marks, func(m frontier.Mark) bool {
		return m.Partition == h.To && m.Session == h.From && h.Batch <= m.Batch
	})
}
