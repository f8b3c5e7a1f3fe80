package crawl

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// permits says whether this crawl may take work. A worker takes a permit before its lease, and holds it while it
// fetches and parses. It gets none while this machine fails (no file descriptors, no route, no resolver), or does not
// hold its lease in the cluster. It also gets none while as many permits are in use as the governor allows.
//
// A failure of this machine says nothing about hosts, and further requests would fail too. Therefore the crawl pauses.
// Each pause is twice as long as the one before, until something succeeds.
//
// The governor is a small controller over the worker cap: while commits are slow, fewer workers may run, so that the
// queue in front of the disk does not grow to seconds. The cap falls by a quarter at each step above the upper
// threshold, at least to one, and grows by an eighth below the lower one; in between it stays. Steps are taken once per
// interval, which is longer than the moving average of commit latency takes to show what the last step did.
type permits struct {
	log *slog.Logger
	// after which time to ask again whether the cluster's lease allows work, 0 if it does now; nil for one machine
	starts  func() (again time.Duration, err error)
	most    int
	high    time.Duration
	low     time.Duration
	enabled bool // the governor

	mu      sync.Mutex
	limit   int           // guarded by mu; the cap
	used    int           // guarded by mu
	waiting int           // guarded by mu; workers that wait for room
	waits   int64         // guarded by mu; how many workers had to wait, in all
	room    chan struct{} // guarded by mu; closed and replaced when room appears while a worker waits for it
	until   time.Time     // guarded by mu; the end of the last pause
	pause   time.Duration // guarded by mu; how long it was; 0 after a success
	reason  string        // guarded by mu; of the pause
	trips   int           // guarded by mu; pauses
}

const (
	// governorEvery is the time between two steps of the governor.
	governorEvery = 500 * time.Millisecond

	// The first pause, and the longest.
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

func newPermits(s *config.Settings, log *slog.Logger, starts func() (time.Duration, error)) *permits {
	return &permits{
		log: log, starts: starts, most: s.MaxWorkers, limit: s.MaxWorkers, room: make(chan struct{}),
		high:    time.Duration(s.ThrottleThresholdMS) * time.Millisecond,
		low:     time.Duration(s.UnthrottleThresholdMS) * time.Millisecond,
		enabled: s.GovernorEnabled,
	}
}

// acquire waits for a permit. It returns the error of ctx, or one that says that the session of the cluster is over.
func (p *permits) acquire(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for waited := false; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		again, err := p.closedLocked()
		if err != nil {
			return err
		}
		if again > 0 {
			p.awaitLocked(ctx, nil, time.After(again))
			continue
		}
		if p.used < p.limit {
			p.used++
			return nil
		}
		if !waited {
			waited = true
			p.waits++
		}
		p.waiting++
		p.awaitLocked(ctx, p.room, nil)
		p.waiting--
	}
}

// closedLocked returns after which time to ask again if no worker gets a permit now; 0 if one may get it.
func (p *permits) closedLocked() (again time.Duration, err error) {
	if !p.until.IsZero() { // usually it is zero, and the clock is not read
		if again = time.Until(p.until); again > 0 {
			return again, nil
		}
	}
	if p.starts == nil {
		return 0, nil
	}
	return p.starts()
}

func (p *permits) awaitLocked(ctx context.Context, room <-chan struct{}, timer <-chan time.Time) {
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-room:
	case <-timer:
	case <-ctx.Done():
	}
}

// release releases a permit.
func (p *permits) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.wakeLocked()
}

func (p *permits) wakeLocked() {
	if p.waiting > 0 && p.used < p.limit {
		close(p.room)
		p.room = make(chan struct{})
	}
}

// trip starts a pause because this machine fails, unless one is under way.
func (p *permits) trip(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.until) {
		return
	}
	p.pause = min(max(2*p.pause, firstPause), mostPause)
	p.until, p.reason = now.Add(p.pause), err.Error()
	p.trips++
	p.log.Warn("pausing: this machine fails, not the hosts", "error", err, "pause", p.pause)
}

// succeeded is called when a request was answered: the next pause is a first one again.
func (p *permits) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause, p.reason = 0, ""
}

// paused says why and for how long the crawl is paused, and how often it was; the reason is empty if it is not.
func (p *permits) paused() (reason string, left time.Duration, trips int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left = time.Until(p.until); left <= 0 {
		return "", 0, p.trips
	}
	return p.reason, left, p.trips
}

// step moves the cap by the latency of commits, and returns the cap before and after.
func (p *permits) step(latency time.Duration) (from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from = p.limit
	switch {
	case !p.enabled:
	case latency > p.high:
		// The load comes from the permits in use. If the cap is far above them, many steps would change nothing.
		p.limit = max(1, min(p.limit, max(p.used, 1))*3/4)
	case latency < p.low && p.limit < p.most:
		p.limit = min(p.most, p.limit+max(1, p.limit/8))
		p.wakeLocked()
	}
	return from, p.limit
}

// state returns the cap, the permits in use, the workers that wait for one, and how often a worker had to wait.
func (p *permits) state() (limit, used, waiting int, waits int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit, p.used, p.waiting, p.waits
}
