package crawl

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/slot"
	"github.com/mapwright/mapwright/internal/words"
)

// supervise watches what can end a run from outside (time, stop), warns before the time limit, and takes the governor's
// steps. It returns when ctx ends.
func (r *run) supervise(ctx context.Context, stopLeasing, stopFetching context.CancelFunc) {
	tick := time.NewTicker(governorEvery)
	defer tick.Stop()
	// One timer goes from mark to mark, so that the warnings come before the end even on a busy machine.
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var (
		marks []time.Duration
		mark  int
		due   <-chan time.Time
	)
	// setMarks reads the marks, and skips those before the given time, because they were warned of already.
	setMarks := func(passed time.Duration) {
		marks, mark, due = r.limits.timeMarks(), 0, nil
		for mark < len(marks)-1 && marks[mark] < passed {
			mark++
		}
		if len(marks) > 0 {
			timer.Reset(marks[mark] - r.clock.counted())
			due = timer.C
		}
	}
	// The time of this run is left out: it has warned of nothing yet, and on a busy machine it may have passed a mark.
	setMarks(r.clock.before)
	var graceOver <-chan time.Time
	end := func(grace time.Duration) {
		stopLeasing()
		graceOver = time.After(grace)
	}
	interrupted := r.endings.stop.called
	var ended <-chan struct{} // closed when a crawl of several machines has ended
	if r.cluster != nil {
		ended = r.cluster.over
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-interrupted:
			interrupted = nil
			r.endings.set(r.endings.stop.ending())
			end(r.settings.Grace)
			r.enter(monitor.Stopping, "")
			r.log.Info("stopping: no new fetches, those under way may finish", "grace", r.settings.Grace)
		case <-r.limitsChanged:
			setMarks(r.clock.counted())
		case <-ended:
			ended = nil
			r.enter(monitor.Stopping, "")
			end(r.settings.Grace)
		case <-due:
			if mark < len(marks)-1 {
				r.limits.timeUsed(mark)
				mark++
				timer.Reset(marks[mark] - r.clock.counted())
				continue
			}
			r.enter(monitor.Stopping, "")
			due = nil
			if r.limits.timeReached(r.clock.counted()) {
				end(0)
			} else {
				end(r.settings.Grace)
			}
		case <-graceOver:
			stopFetching()
		case <-tick.C:
			r.govern()
			r.releaseSitemaps()
		}
	}
}

// awayCounts is how long the moving average of commit latency shows that the engine was away.
const awayCounts = 5 * time.Second

// govern takes one step of the governor by what commits take now.
func (r *run) govern() {
	latency := r.store.Stats().CommitLatency
	if r.cluster != nil {
		latency -= usualLatency(r.o.Cluster.Distance())
		// While the engine is away, requests end with the machine's lease, and fewer workers would not help.
		if r.o.Cluster.Away() {
			r.backAt = time.Now()
		}
		if time.Since(r.backAt) < awayCounts {
			return
		}
	}
	switch from, to := r.permits.step(latency); {
	case to < from:
		r.metrics.Count(metrics.Governor, "shrink")
		r.log.Info("commits are slow: fewer workers", "from", from, "to", to, "commit_latency", latency)
	case to > from:
		r.metrics.Count(metrics.Governor, "grow")
		r.log.Debug("commits are quick again: more workers", "from", from, "to", to, "commit_latency", latency)
	}
}

// usualLatency is how long it takes in a crawl of several machines until a record is durable, if the engine has nothing
// else to do. The first record of a batch waits for others, and for the commit of the batch before if that takes
// longer. Then the batch is committed.
func usualLatency(commit time.Duration) time.Duration { return max(clusterBatch, commit) + commit }

// holdSlot waits for the machine-wide slot of safe crawls. A nil release without an error means that the wait was
// interrupted.
func (r *run) holdSlot(ctx context.Context, start weburl.URL, dir datadir.Dir) (release func(), err error) {
	if r.settings.Profile != config.Safe || r.o.Managed.HasSlot {
		return func() {}, nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.endings.stop.called:
			cancel()
		case <-waiting.Done():
		}
	}()
	began := time.Now()
	info := slot.Info{PID: os.Getpid(), StartURL: start.String(), DataDir: string(dir), Since: began}
	onWait := func(w slot.Waiting) {
		url := strconv.QuoteToGraphic(w.Owner.StartURL) // another user may have written it
		r.enter(monitor.Queueing,
			fmt.Sprintf("another safe crawl runs (process %d, %s) and only one may at a time; %s before this one",
				w.Owner.PID, url, words.Count(int64(w.Ahead), "goes", "go")))
		r.log.Info("Waiting for another safe crawl to end: only one runs at a time on a machine",
			"ahead", w.Ahead, "pid", w.Owner.PID, "start_url", page.EscapeControls(w.Owner.StartURL), "started_at",
			w.Owner.Since.Format(time.RFC3339), "waited", time.Since(began).Round(time.Second))
	}
	held, err := (&slot.Queue{Log: r.log}).Acquire(waiting, info, onWait)
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			r.endings.set(ending{status: page.Cancelled,
				reason: "interrupted while waiting for another safe crawl to end"})
			return nil, nil
		}
		return nil, fmt.Errorf("wait for the slot of safe crawls: %w", err)
	}
	return func() {
		if err := held.Release(); err != nil {
			r.log.Warn("cannot release the slot of safe crawls", "error", err)
		}
	}, nil
}
