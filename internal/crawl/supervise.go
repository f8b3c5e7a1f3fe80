package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/mapwright/mapwright/state"
)

// supervisor ends a run for what comes from outside: the time limit and the stop of the user. It also takes the
// governor's steps.
type supervisor struct {
	settings *config.Settings
	log      *slog.Logger
	metrics  *metrics.Metrics
	stop     *stopSignal
	hasSlot  bool // the caller holds the slot of safe crawls
	store    *state.Store
	permits  *permits
	limits   *limits
	room     *room
	endings  *endings
	progress *progress

	ended         chan struct{} // closed when the crawl of several machines has ended; nil in one of one machine
	away          func() bool   // the engine of several machines cannot be reached; nil in a crawl of one machine
	backAt        time.Time     // when the engine was last away
	limitsChanged chan struct{} // has room for one: the time limit was changed
}

// run watches what can end a run from outside (time, stop), warns before the time limit, and takes the governor's
// steps. It returns when ctx ends.
func (s *supervisor) run(ctx context.Context, stopLeasing, stopFetching context.CancelFunc) {
	tick := time.NewTicker(governorEvery)
	defer tick.Stop()
	// One timer goes from mark to mark, so that on a busy machine too the warnings come before the end.
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var (
		marks []time.Duration
		mark  int
		due   <-chan time.Time
	)
	// setMarks leaves out what was warned of already: marks that were passed at the given time.
	setMarks := func(passed time.Duration) {
		marks, mark, due = s.limits.timeMarks(), 0, nil
		for mark < len(marks)-1 && marks[mark] < passed {
			mark++
		}
		if len(marks) > 0 {
			timer.Reset(marks[mark] - s.progress.clock.counted())
			due = timer.C
		}
	}
	// not the time that this run has had: on a busy machine that may be beyond a mark by now
	setMarks(s.progress.clock.before)
	var graceOver <-chan time.Time
	end := func(grace time.Duration) {
		stopLeasing()
		graceOver = time.After(grace)
	}
	interrupted, ended := s.stop.called, s.ended
	for {
		select {
		case <-ctx.Done():
			return
		case <-interrupted:
			interrupted = nil
			s.endings.set(s.stop.ending())
			s.progress.phase.enter(monitor.Stopping, "")
			s.log.Info("stopping: no new fetches, those under way may finish", "grace", s.settings.Grace)
			end(s.settings.Grace)
		case <-s.limitsChanged:
			setMarks(s.progress.clock.counted())
		case <-ended:
			ended = nil
			s.progress.phase.enter(monitor.Stopping, "")
			end(s.settings.Grace)
		case <-due:
			if mark < len(marks)-1 {
				s.limits.timeUsed(mark)
				mark++
				timer.Reset(marks[mark] - s.progress.clock.counted())
				continue
			}
			s.progress.phase.enter(monitor.Stopping, "")
			due = nil
			if s.limits.timeReached(s.progress.clock.counted()) {
				end(0)
			} else {
				end(s.settings.Grace)
			}
		case <-graceOver:
			stopFetching()
		case <-tick.C:
			s.govern()
			s.room.release()
		}
	}
}

// awayCounts is how long the moving average of commit latency shows that the engine was away.
const awayCounts = 5 * time.Second

// govern takes one step of the governor by what commits take now.
func (s *supervisor) govern() {
	latency := s.store.Stats().CommitLatency
	if s.ended != nil {
		latency -= clusterBatch // a batch of several machines' journal waits so long on purpose
		// While the engine is away requests end with the lease, and fewer workers would help nothing.
		if s.away() {
			s.backAt = time.Now()
		}
		if time.Since(s.backAt) < awayCounts {
			return
		}
	}
	switch from, to := s.permits.step(latency); {
	case to < from:
		s.metrics.Governor("shrink")
		s.log.Info("commits are slow: fewer workers", "from", from, "to", to, "commit_latency", latency)
	case to > from:
		s.metrics.Governor("grow")
		s.log.Debug("commits are quick again: more workers", "from", from, "to", to, "commit_latency", latency)
	}
}

// holdSlot waits for the machine-wide slot of safe crawls. A nil release without an error means that the wait was
// interrupted.
func (s *supervisor) holdSlot(ctx context.Context, start weburl.URL, dir datadir.Dir) (release func(), err error) {
	if s.settings.Profile != config.Safe || s.hasSlot {
		return func() {}, nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stop.called:
			cancel()
		case <-waiting.Done():
		}
	}()
	began := time.Now()
	info := slot.Info{PID: os.Getpid(), StartURL: start.String(), DataDir: string(dir), Since: began}
	onWait := func(w slot.Waiting) {
		url := strconv.QuoteToGraphic(w.Owner.StartURL) // another user may have written it
		s.progress.phase.enter(monitor.Queueing,
			fmt.Sprintf("another safe crawl runs (process %d, %s) and only one may at a time; %s before this one",
				w.Owner.PID, url, words.Count(int64(w.Ahead), "goes", "go")))
		s.log.Info("Waiting for another safe crawl to end: only one runs at a time on a machine",
			"ahead", w.Ahead, "pid", w.Owner.PID, "start_url", page.EscapeControls(w.Owner.StartURL), "started_at",
			w.Owner.Since.Format(time.RFC3339), "waited", time.Since(began).Round(time.Second))
	}
	held, err := slot.Acquire(waiting, slot.Dir(), info, onWait)
	if errors.Is(err, slot.ErrUnusable) {
		own, ownErr := slot.OwnDir()
		if ownErr != nil {
			return nil, fmt.Errorf("wait for the slot of safe crawls: %w", errors.Join(err, ownErr))
		}
		s.log.Warn("Files of other users prevent that safe crawls of all users of this machine wait for each other; "+
			"this one waits only for those of its own user",
			"directory", slot.Dir(), "error", err)
		held, err = slot.Acquire(waiting, own, info, onWait)
	}
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			s.endings.set(ending{status: page.Cancelled,
				reason: "interrupted while waiting for another safe crawl to end"})
			return nil, nil
		}
		return nil, fmt.Errorf("wait for the slot of safe crawls: %w", err)
	}
	return func() {
		if err := held.Release(); err != nil {
			s.log.Warn("cannot release the slot of safe crawls", "error", err)
		}
	}, nil
}
