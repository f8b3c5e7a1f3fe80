package crawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/report"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/slot"
	"github.com/mapwright/mapwright/internal/words"
)

// supervise watches what can end a run from outside (time, signals), warns when the time limit comes near, and takes the governor's steps. It
// returns when ctx ends.
func (r *run) supervise(ctx context.Context, stopLeasing, stopFetching context.CancelFunc) {
	tick := time.NewTicker(governorEvery)
	defer tick.Stop()
	// One timer goes from mark to mark, so that on a busy machine too the warnings come before the end.
	marks := r.limits.timeMarks()
	mark, timer := 0, time.NewTimer(time.Hour)
	defer timer.Stop()
	var due <-chan time.Time
	if len(marks) > 0 {
		timer.Reset(marks[0] - r.clock.elapsed())
		due = timer.C
	}
	var graceOver <-chan time.Time
	stop := func(grace time.Duration) {
		stopLeasing()
		graceOver = time.After(grace)
	}
	interrupted := r.interrupts
	for {
		select {
		case <-ctx.Done():
			return
		case <-interrupted:
			interrupted = nil
			r.endWith(ending{status: report.Cancelled, reason: "interrupted"})
			r.phase.enter(monitor.Stopping, "")
			r.log.Info("stopping: no new fetches, those under way may finish", "grace", r.settings.Grace)
			stop(r.settings.Grace)
		case <-due:
			if mark < len(marks)-1 {
				r.limits.timeUsed(r.log, mark)
				mark++
				timer.Reset(marks[mark] - r.clock.elapsed())
				continue
			}
			r.phase.enter(monitor.Stopping, "")
			if r.limits.timeReached(r, r.clock.elapsed()) {
				stop(0)
			} else {
				stop(r.settings.Grace)
			}
		case <-graceOver:
			stopFetching()
		case <-tick.C:
			r.govern()
		}
	}
}

// govern takes one step of the governor by what commits take now.
func (r *run) govern() {
	latency := r.store.Stats().CommitLatency
	switch from, to := r.gov.step(latency); {
	case to < from:
		r.metrics.Governor("shrink")
		r.log.Info("commits are slow: fewer workers", "from", from, "to", to, "commit_latency", latency)
	case to > from:
		r.metrics.Governor("grow")
		r.log.Debug("commits are quick again: more workers", "from", from, "to", to, "commit_latency", latency)
	}
}

// cursorsEvery is how often it is noted how far hosts' queues are done. A resume looks at every URL after these marks, so they
// are set more often than filters are saved.
const cursorsEvery = 10 * time.Second

// keepCheckpoints bounds what a resume has to read again: at each interval, or sooner when the log has grown.
func (r *run) keepCheckpoints(ctx context.Context) {
	tick := time.NewTicker(r.settings.SaveInterval)
	defer tick.Stop()
	cursors := time.NewTicker(cursorsEvery)
	defer cursors.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-cursors.C:
			if err := r.frontier.Checkpoint(ctx); err != nil && ctx.Err() == nil {
				r.log.Error("cannot note how far the hosts' queues are done", "error", err)
			}
			continue
		case <-tick.C:
		case <-r.store.CheckpointDue():
		}
		if err := r.checkpoint(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("checkpoint failed", "error", err)
		}
	}
}

// holdSlot waits for the machine-wide slot of safe crawls. A nil release without an error means that the wait was interrupted.
func (r *run) holdSlot(ctx context.Context) (release func(), err error) {
	if r.settings.Profile != config.Safe {
		return func() {}, nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.interrupts:
			cancel()
		case <-waiting.Done():
		}
	}()
	began := time.Now()
	info := slot.Info{PID: os.Getpid(), StartURL: r.starts[0].URL.String(), DataDir: string(r.dir), Since: began}
	onWait := func(w slot.Waiting) {
		url := strconv.QuoteToGraphic(w.Owner.StartURL) // another user may have written it
		r.phase.enter(monitor.Queueing, fmt.Sprintf("another safe crawl runs (process %d, %s) and only one may at a time; %s before this one",
			w.Owner.PID, url, words.Count(int64(w.Ahead), "goes", "go")))
		r.log.Info("Waiting for another safe crawl to end: only one runs at a time on a machine",
			"ahead", w.Ahead, "pid", w.Owner.PID, "start_url", page.EscapeControls(w.Owner.StartURL), "started_at", w.Owner.Since.Format(time.RFC3339), "waited", time.Since(began).Round(time.Second))
	}
	s, err := slot.Acquire(waiting, slot.Dir(), info, onWait)
	if errors.Is(err, slot.ErrUnusable) {
		own, ownErr := slot.OwnDir()
		if ownErr != nil {
			return nil, fmt.Errorf("wait for the slot of safe crawls: %w", errors.Join(err, ownErr))
		}
		r.log.Warn("Files of other users prevent that safe crawls of all users of this machine wait for each other; this one waits only for those of its own user",
			"directory", slot.Dir(), "error", err)
		s, err = slot.Acquire(waiting, own, info, onWait)
	}
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			r.endWith(ending{status: report.Cancelled, reason: "interrupted while waiting for another safe crawl to end"})
			return nil, nil
		}
		return nil, fmt.Errorf("wait for the slot of safe crawls: %w", err)
	}
	return func() {
		if err := s.Release(); err != nil {
			r.log.Warn("cannot give the slot of safe crawls back", "error", err)
		}
	}, nil
}
