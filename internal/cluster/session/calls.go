package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
)

const (
	// callTimeout is for one attempt of a call other than a beat.
	callTimeout = 30 * time.Second
	// firstPause and lastPause are between attempts while the engine is away.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	// sayAfter is how long the engine must be away before that is logged. Shorter absences do no harm.
	sayAfter = time.Second
)

// calls makes calls to an engine, and again while it cannot be reached.
type calls struct {
	engine cluster.Engine
	log    *slog.Logger

	mu   sync.Mutex
	away time.Time // guarded by mu; since when the engine cannot be reached, zero if it can
	said bool      // guarded by mu; it was logged that the engine cannot be reached
}

// isAway reports whether a call may succeed later.
func isAway(err error) bool {
	return errors.Is(err, cluster.ErrAway) || errors.Is(err, cluster.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}

// repeat makes a call until the engine has answered it, or ctx has ended. An engine without room is asked again too.
func (c *calls) repeat(ctx context.Context, call func(context.Context) error) error {
	full := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		err := call(attempt)
		cancel()
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, cluster.ErrFull):
			if !full {
				c.log.Warn("paused: the engine has no room; nothing more is recorded until it has", "error", err)
			}
			full = true
		case isAway(err):
			c.answered(err)
		default:
			if c.answered(err); full {
				c.log.Info("the engine has room again")
			}
			return err
		}
		sleep(ctx, pause)
	}
}

// ask makes a call as repeat does, and returns its value.
func ask[T any](ctx context.Context, c *calls, call func(context.Context) (T, error)) (value T, err error) {
	err = c.repeat(ctx, func(ctx context.Context) (err error) {
		value, err = call(ctx)
		return err
	})
	return value, err
}

// look asks for a snapshot of the crawl, without what is known.
func (s *Session) look(ctx context.Context, known cluster.Known) (*cluster.Snapshot, error) {
	return ask(ctx, &s.calls, func(ctx context.Context) (*cluster.Snapshot,
		error) {
		return s.engine.Look(ctx, s.id.Crawl, known)
	})
}

// answered notes whether the engine could be reached, and logs it when that changes.
func (c *calls) answered(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch gone := isAway(err); {
	case gone && c.away.IsZero():
		c.away = time.Now()
	case gone && !c.said && time.Since(c.away) >= sayAfter:
		c.said = true
		c.log.Warn("paused: the engine cannot be reached; requests are not started after the lease has ended, and "+
			"nothing more is recorded until the engine is back", "error", err)
	case !gone && c.said:
		c.log.Info("the engine can be reached again", "was_away", time.Since(c.away).Round(time.Millisecond))
		fallthrough
	case !gone:
		c.away, c.said = time.Time{}, false
	}
}

// Away reports whether the engine cannot be reached.
func (c *calls) Away() bool { return !c.awaySince().IsZero() }

// awaySince is since when the engine cannot be reached; the zero time if it can.
func (c *calls) awaySince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
