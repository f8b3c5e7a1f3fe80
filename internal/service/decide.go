package service

import (
	"fmt"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
)

// Why commands are refused.
const (
	refusedSafe      = "a safe crawl runs once: it cannot be paused, resumed or crawled again; submit a new one"
	refusedCancelled = "the crawl is being cancelled"
)

// decide changes the row as a command wants, and returns the type of the event to record, or none. A command writes
// what is desired, and the state only where no work is needed. What the engine does by itself, such as the way from
// running to paused, is not here.
func (r *row) decide(c Command, now time.Time) (EventType, error) {
	changed := *r
	event, refusal := changed.apply(c, now)
	if refusal == "" {
		*r = changed
		return event, nil
	}
	return "", &Error{Code: ErrState, Detail: refusal, State: r.State, Allowed: r.allowed(now)}
}

// allowed lists the commands that change something. A repeated command changes nothing and is not refused.
func (r *row) allowed(now time.Time) []Command {
	return slices.DeleteFunc(Commands(), func(c Command) bool {
		try := *r
		_, refusal := try.apply(c, now)
		return refusal != "" || try.State == r.State && try.Desired == r.Desired
	})
}

// apply is decide with the reason of a refusal. After a refusal the row must not be used.
func (r *row) apply(c Command, now time.Time) (event EventType, refusal string) {
	if c == CommandDelete {
		r.State, r.Desired = Deleting, DesiredDelete
		return "", ""
	}
	if r.Desired == DesiredCancel && !r.State.Ended() && c != CommandCancel {
		return "", refusedCancelled
	}
	switch r.State {
	case Queued, Paused:
		return r.applyWaiting(c, now)
	case Running, Pausing:
		switch {
		case c == CommandPause && r.isSafe():
			return "", refusedSafe
		case c == CommandPause:
			r.Desired = DesiredPause
			return "", ""
		case c == CommandResume:
			r.Desired = DesiredRun
			return "", ""
		case c == CommandCancel:
			r.Desired = DesiredCancel
			return "", ""
		}
	case Finishing, Cancelled:
		if c == CommandCancel && r.Desired == DesiredCancel {
			return "", ""
		}
	case Complete, Partial, Failed:
		// it ended meanwhile, or fell back to the generation before
		if c == CommandCancel && r.Desired == DesiredCancel {
			return "", ""
		}
		return r.applyEnded(c, now)
	}
	return "", fmt.Sprintf("a crawl that is %s cannot do this: %s", r.State, c)
}

// applyWaiting is apply for a crawl that is queued or paused.
func (r *row) applyWaiting(c Command, now time.Time) (event EventType, refusal string) {
	switch {
	case c == CommandPause && r.isSafe() && r.hasStarted():
		return "", refusedSafe
	case c == CommandPause:
		if r.State == Queued {
			event = CrawlPaused
		}
		r.State, r.Desired = Paused, DesiredPause
		r.Waiting = pausedByKey()
		return event, ""
	case c == CommandResume && r.State == Queued:
		return "", ""
	case c == CommandResume:
		r.State, r.Desired, r.Waiting = Queued, DesiredRun, nil
		if r.trial != noTrial {
			r.trial, r.resumeFirst = onTrial, true // it may be the cause still, and others wait for their trials
		}
		return CrawlResumed, ""
	case c == CommandCancel && r.hasStarted() && r.Generation == 0:
		r.Desired = DesiredCancel // the engine writes the outputs of what was found
		if r.trial == convicted {
			r.trial = awaitsTrial
		}
		return "", ""
	case c == CommandCancel:
		r.setCancelled(now)
		return CrawlFinished, ""
	}
	return "", fmt.Sprintf("a crawl that is %s cannot do this: %s", r.State, c)
}

// applyEnded is apply for a crawl that is complete, partial or failed.
func (r *row) applyEnded(c Command, now time.Time) (event EventType, refusal string) {
	switch {
	case c == CommandRecrawl && (r.State != Failed || r.Generation > 0): // the site may have been down
		if r.nextIsSafe() && r.State == Partial {
			return "", r.refuseSafe()
		}
		r.beginGeneration(now)
		return CrawlQueued, ""
	case c == CommandResume && r.State != Complete:
		if r.nextIsSafe() {
			return "", r.refuseSafe()
		}
		if r.lastRun > r.Generation {
			return "", "a later generation was cancelled, so this one cannot go on: crawl again"
		}
		if limit := r.limitInTheWay(); limit != "" && r.State == Partial {
			return "", limit
		}
		r.State, r.Desired, r.queuedAt = Queued, DesiredRun, Millis(now)
		r.EndedAt, r.Result = page.Time{}, Result{}
		return CrawlResumed, ""
	}
	return "", fmt.Sprintf("a crawl that is %s cannot do this: %s", r.State, c)
}

// pausedByKey is why a crawl waits that a user has paused.
func pausedByKey() *Waiting {
	return &Waiting{Code: WaitOperator, Detail: "paused by a key: resume it to go on"}
}

// beginGeneration queues the next generation of an ended crawl.
func (r *row) beginGeneration(now time.Time) {
	r.Generation = max(r.Generation, r.lastRun) + 1
	r.State, r.Desired, r.Waiting, r.queuedAt = Queued, DesiredRun, nil, Millis(now)
	r.StartedAt, r.EndedAt, r.Result = page.Time{}, page.Time{}, Result{}
	r.elapsed, r.counted = 0, 0
	r.PagesCounted, r.Problems = 0, nil
}

// refuseSafe says why a crawl whose next run would be safe is refused.
func (r *row) refuseSafe() string {
	if r.isSafe() {
		return refusedSafe
	}
	return fmt.Sprintf("plan %q makes its crawls safe now, and a safe crawl that ended %s cannot go on", r.Plan,
		r.State)
}

// limitInTheWay names the limit, of the crawl or of its plan, that a resumed crawl would reach at once, and what to do.
// It is empty if there is none.
func (r *row) limitInTheWay() string {
	own, _ := config.ParseNumber(r.setting("max-urls"))
	switch pages := r.next.MaxURLs; {
	case pages > 0 && pages != own && r.PagesCounted >= int64(pages):
		return fmt.Sprintf("the crawl has used the %d pages that plan %q allows", pages, r.Plan)
	case pages > 0 && r.PagesCounted >= int64(pages):
		return "the crawl has used its limit max_urls: raise it first"
	case r.next.Duration > 0 && r.elapsed >= r.next.Duration:
		return "the crawl has used its limit duration: raise it first"
	}
	return ""
}
