package crawl

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/report"
)

// limits ends a crawl at its limits and warns before. Safety caps come first, then what the user asked for.
type limits struct {
	pages     int           // 0 is none
	requested int           // safe profile only: pages that the user asked for; 0 if no number was given
	duration  time.Duration // 0 is none
	safe      bool

	log     *slog.Logger
	start   string // the first start URL, for the log
	endings *endings

	warnAt atomic.Int64 // pages in use at which the next warning is due; noMorePages if none is
	mu     sync.Mutex   // guards the step from one value of warnAt to the next
}

// noMorePages is a number of pages that is never reached.
const noMorePages = math.MaxInt64

// warnPercents returns the shares of a limit at which a warning is due.
func warnPercents() []int64 { return []int64{80, 95} }

func newLimits(s *config.Settings, log *slog.Logger, start string, e *endings) *limits {
	l := &limits{
		pages: s.PageCap(), requested: s.RequestedURLs, duration: s.Duration, safe: s.Profile == config.Safe, log: log, start: start, endings: e,
	}
	l.warnAt.Store(l.nextPages(0))
	return l
}

// nextPages is the smallest number of pages above used at which a warning is due.
func (l *limits) nextPages(used int64) int64 {
	for _, percent := range warnPercents() {
		if due := (int64(l.pages)*percent + 99) / 100; due > used {
			return due
		}
	}
	return noMorePages
}

// safetyPages begins the message of a safe crawl that has had all its pages.
const safetyPages = "Safety limit: Maximum"

// pagesReached ends the run at the page limit.
func (l *limits) pagesReached() {
	if l.safe && l.pages == config.SafePages {
		requested := int64(l.requested)
		if requested == 0 {
			requested = l.endings.found()
		}
		text := fmt.Sprintf(safetyPages+" %d pages per crawl (requested: %d)", config.SafePages, requested)
		if l.endings.set(ending{status: report.Partial, success: true, reason: text, errors: []string{text}}) {
			l.log.Warn(text, "start_url", l.start)
		}
		return
	}
	text := fmt.Sprintf("Reached max_urls limit of %d, stopping crawl", l.pages)
	if l.endings.set(ending{status: report.Partial, success: true, reason: text}) {
		l.log.Info(text)
	}
}

// timeReached ends the run at the time limit, and says whether the run must stop at once.
func (l *limits) timeReached(elapsed time.Duration) (atOnce bool) {
	if l.safe && l.duration == config.SafeDuration {
		text := fmt.Sprintf("Safety limit: Crawl timeout exceeded (%dms)", config.SafeDuration.Milliseconds())
		if l.endings.set(ending{status: report.Partial, success: false, reason: text, errors: []string{text}}) {
			l.log.Warn(text, "start_url", l.start)
		}
		return true
	}
	unit := time.Second
	if l.duration%time.Second != 0 {
		unit = time.Millisecond // whole seconds would show an elapsed time below the limit
	}
	text := fmt.Sprintf("Reached duration limit of %ss (elapsed: %ss), stopping crawl", seconds(l.duration), seconds(elapsed.Truncate(unit)))
	if l.endings.set(ending{status: report.Partial, success: true, reason: text}) {
		l.log.Info(text)
	}
	return false
}

// seconds writes a duration as a number of seconds, whole where it is whole.
func seconds(d time.Duration) string { return fmt.Sprintf("%g", d.Seconds()) }

// pagesUsed is called when the number of pages in use has changed. It warns when that number reaches a share of the limit at which a warning is
// due; each share once, and only the largest if one page reaches several.
func (l *limits) pagesUsed(used int64) {
	if used < l.warnAt.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if used < l.warnAt.Load() {
		return // another worker has warned
	}
	l.warnAt.Store(l.nextPages(used))
	for _, percent := range slices.Backward(warnPercents()) {
		if used*100 >= int64(l.pages)*percent {
			l.log.Warn(fmt.Sprintf("%d %% of the page limit is used", percent), "used", used, "limit", l.pages)
			return
		}
	}
}

// timeMarks are the times since the crawl's begin at which a warning is due, and at the end the time limit itself. Without a limit there are none.
func (l *limits) timeMarks() []time.Duration {
	if l.duration <= 0 {
		return nil
	}
	var marks []time.Duration
	for _, percent := range warnPercents() {
		marks = append(marks, l.duration/100*time.Duration(percent)+l.duration%100*time.Duration(percent)/100)
	}
	return append(marks, l.duration)
}

// timeUsed warns that a share of the time limit is used up: that of the given index in timeMarks.
func (l *limits) timeUsed(mark int) {
	percent := warnPercents()[mark]
	l.log.Warn(fmt.Sprintf("%d %% of the time limit is used", percent), "used", l.timeMarks()[mark], "limit", l.duration)
}
