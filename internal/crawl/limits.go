package crawl

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
)

// limits ends a crawl at its limits and warns before. Safety caps come first, then what the user asked for.
type limits struct {
	pages     atomic.Int64 // 0 means no limit; written by change and capSafe
	requested atomic.Int64 // safe profile only: pages that the user asked for, 0 if none; written by capSafe
	duration  atomic.Int64 // in ns; 0 means no limit; written by change and capSafe, and by member
	safe      atomic.Bool  // the caps of the safe profile hold; written by capSafe

	*run

	warnAt atomic.Int64 // pages in use at which the next warning is due; noMorePages if none is
	mu     sync.Mutex   // guards the step from one value of warnAt to the next
}

// noMorePages is a number of pages that is never reached.
const noMorePages = math.MaxInt64

// warnPercents returns the shares of a limit at which a warning is due.
func warnPercents() []int64 { return []int64{80, 95} }

func newLimits(r *run) *limits {
	l, s := &limits{run: r}, r.settings
	l.requested.Store(int64(s.RequestedURLs))
	l.safe.Store(s.Profile == config.Safe)
	l.pages.Store(int64(s.PageCap()))
	l.duration.Store(int64(s.Duration))
	l.warnAt.Store(l.nextPages(0))
	return l
}

// change changes the limits; zero means no limit.
func (l *limits) change(pages int, duration time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages.Store(int64(pages))
	l.duration.Store(int64(duration))
	l.warnAt.Store(l.nextPages(0))
}

// capSafe lowers the limits to the caps of the safe profile. A crawl that ends at one of them has the safe profile's
// message.
func (l *limits) capSafe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.safe.Load() {
		return
	}
	pages := l.pages.Load()
	l.requested.Store(pages)
	if pages == 0 || pages > config.SafePages {
		l.pages.Store(config.SafePages)
	}
	if d := l.duration.Load(); d == 0 || d > int64(config.SafeDuration) {
		l.duration.Store(int64(config.SafeDuration))
	}
	l.safe.Store(true)
	l.warnAt.Store(l.nextPages(0))
}

// nextPages is the smallest number of pages above used at which a warning is due.
func (l *limits) nextPages(used int64) int64 {
	for _, percent := range warnPercents() {
		if due := (l.pages.Load()*percent + 99) / 100; due > used {
			return due
		}
	}
	return noMorePages
}

// safetyPages begins the message of a safe crawl that has had all its pages.
const safetyPages = "Safety limit: Maximum"

// pagesReached ends the run at the page limit.
func (l *limits) pagesReached() {
	if l.safe.Load() && l.pages.Load() == config.SafePages {
		requested := l.requested.Load()
		if requested == 0 {
			requested = l.countFound()
		}
		text := fmt.Sprintf(safetyPages+" %d pages per crawl (requested: %d)", config.SafePages, requested)
		if l.endings.set(ending{status: page.Partial, success: true, reason: text, errors: []string{text}}) {
			l.log.Warn(text, "start_url", l.starts[0].URL.String())
		}
		return
	}
	text := fmt.Sprintf("Reached max_urls limit of %d, stopping crawl", l.pages.Load())
	if l.endings.set(ending{status: page.Partial, success: true, reason: text}) {
		l.log.Info(text)
	}
}

// timeReached ends the run at the time limit, and says whether the run must stop at once.
func (l *limits) timeReached(elapsed time.Duration) (atOnce bool) {
	duration := time.Duration(l.duration.Load())
	if l.safe.Load() && duration == config.SafeDuration {
		text := fmt.Sprintf("Safety limit: Crawl timeout exceeded (%dms)", config.SafeDuration.Milliseconds())
		if l.endings.set(ending{status: page.Partial, success: false, reason: text, errors: []string{text}}) {
			l.log.Warn(text, "start_url", l.starts[0].URL.String())
		}
		return true
	}
	unit := time.Second
	if duration%time.Second != 0 {
		unit = time.Millisecond // whole seconds would show an elapsed time below the limit
	}
	text := fmt.Sprintf("Reached duration limit of %ss (elapsed: %ss), stopping crawl", seconds(duration),
		seconds(elapsed.Truncate(unit)))
	if l.endings.set(ending{status: page.Partial, success: true, reason: text}) {
		l.log.Info(text)
	}
	return false
}

// seconds writes a duration as a number of seconds, whole where it is whole.
func seconds(d time.Duration) string { return fmt.Sprintf("%g", d.Seconds()) }

// pagesUsed is called when the number of pages in use has changed. It warns when that number reaches a share of the
// limit at which a warning is due; each share once, and only the largest if one page reaches several.
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
		if used*100 >= l.pages.Load()*percent {
			l.log.Warn(fmt.Sprintf("%d %% of the page limit is used", percent), "used", used, "limit", l.pages.Load())
			Notice{Limit: "pages", Percent: percent}.notice(l.o.Managed.Notify)
			return
		}
	}
}

// timeMarks are the times since the crawl's begin at which a warning is due, and at the end the time limit itself.
// Without a limit there are none.
func (l *limits) timeMarks() []time.Duration {
	duration := time.Duration(l.duration.Load())
	if duration <= 0 {
		return nil
	}
	var marks []time.Duration
	for _, percent := range warnPercents() {
		marks = append(marks, duration/100*time.Duration(percent)+duration%100*time.Duration(percent)/100)
	}
	return append(marks, duration)
}

// timeUsed warns that a share of the time limit is used up. Mark is its index in timeMarks.
func (l *limits) timeUsed(mark int) {
	percent := warnPercents()[mark]
	Notice{Limit: "seconds", Percent: percent}.notice(l.o.Managed.Notify)
	l.log.Warn(fmt.Sprintf("%d %% of the time limit is used", percent), "used", l.timeMarks()[mark], "limit",
		time.Duration(l.duration.Load()))
}

// Quota grants the pages that a crawl may fetch.
type Quota interface {
	// Grant returns how many pages of the generation may be counted in all, math.MaxInt64 if there is no limit. Used is
	// how many were counted so far. If the answer is not greater than used, nothing is left, and the crawl pauses. It
	// is called from one goroutine at a time, each time that most of what was granted is used.
	Grant(ctx context.Context, used int64) (total int64, err error)
}

// quota keeps the frontier's page limit at what is granted, or at the limit of the settings if that is lower. A nil
// quota limits nothing.
type quota struct {
	*run
	grants Quota

	askAt atomic.Int64 // pages in use from which more are asked for; written under mu
	mu    sync.Mutex
	total int64 // guarded by mu; pages that are granted
	over  bool  // guarded by mu; nothing was left
}

// pagesUsed is called when the number of pages in use has changed. One of the workers asks for more before none are
// left; the others go on meanwhile.
func (q *quota) pagesUsed(ctx context.Context, used int64) {
	if q == nil || used < q.askAt.Load() || !q.mu.TryLock() {
		return
	}
	defer q.mu.Unlock()
	if used >= q.askAt.Load() && !q.limitReachedLocked() {
		q.grantLocked(ctx)
	}
}

// extend is called when all pages are used. It says whether there are more now; if nothing is left but the limit of the
// settings is not reached, it has set the ending.
func (q *quota) extend(ctx context.Context) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || q.limitReachedLocked() {
		return false
	}
	return q.frontier.PagesUsed() < q.total || q.askLocked(ctx)
}

// limitReachedLocked says whether the limit of the settings is used up, which no grant extends.
func (q *quota) limitReachedLocked() bool {
	pages := q.limits.pages.Load()
	return pages > 0 && q.frontier.PagesUsed() >= pages
}

// isUsedUp says whether the quota ended the run.
func (q *quota) isUsedUp() bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// refresh asks for pages when the run begins, and again when what may be granted has changed. If nothing is granted,
// the run does not end here: a worker that needs a page ends it (see extend).
func (q *quota) refresh(ctx context.Context) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grantLocked(ctx)
}

// setLimit sets the frontier's limit anew after the limit of the settings has changed.
func (q *quota) setLimit() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setLimitLocked()
}

// askLocked asks for more pages and says whether there are any; if not, it sets the ending.
func (q *quota) askLocked(ctx context.Context) bool {
	if !q.grantLocked(ctx) {
		return false
	}
	if q.over = q.total <= q.frontier.PagesUsed(); q.over {
		q.endings.set(ending{paused: ErrQuota})
	}
	return !q.over
}

// grantLocked asks for more pages and sets the frontier's limit. It says whether there was an answer; without one the
// run pauses when what it has is used.
func (q *quota) grantLocked(ctx context.Context) bool {
	used := q.frontier.PagesUsed()
	total, err := q.grants.Grant(ctx, used)
	if err != nil {
		if ctx.Err() == nil {
			q.log.Error("cannot ask for more pages of the quota", "error", err)
			q.over = used >= q.total
			if q.over {
				q.endings.set(ending{paused: ErrQuota})
			}
		}
		return false
	}
	q.total = total
	q.askAt.Store(total - max(0, total-used)/4)
	q.setLimitLocked()
	return true
}

func (q *quota) setLimitLocked() {
	most := q.total
	if pages := q.limits.pages.Load(); pages > 0 {
		most = min(most, pages)
	}
	if most == 0 {
		most = -1 // for the frontier, 0 is no limit
	}
	q.frontier.SetMaxURLs(most)
}

// pagesLeft is how many pages may still be fetched, and whether that is limited.
func (r *run) pagesLeft() (pages int64, limited bool) {
	most := r.limits.pages.Load()
	return most - r.frontier.PagesUsed(), most > 0
}

// hasRoom reports whether a crawl with a page limit has use for pages that it does not know yet. Sitemaps can list
// pages without end, so they are read only while there is room: others stay in the queue, pending, for later or for a
// run with a higher limit.
//
// There is room until sitemaps have brought as many pages as the limit allows, because what they list is fetched before
// links. From then on there is room while fewer pages are queued than may still be fetched.
func (r *run) hasRoom() bool {
	left, limited := r.pagesLeft()
	switch {
	case !limited:
		return true
	case left <= 0:
		return false
	}
	return r.listed.Load() < r.limits.pages.Load() || r.frontier.Stats().Open < left
}

// addListed adds pages that a sitemap lists.
func (r *run) addListed(ctx context.Context, links []frontier.Link) error {
	added, err := r.addLinks(ctx, links)
	if added < len(links) {
		r.relisted.Store(true)
	}
	r.listed.Add(int64(added))
	if added > 0 && !r.hasRoom() {
		r.holdSitemaps()
	}
	return err
}

// holdSitemaps keeps sitemaps in the queue until releaseSitemaps finds room.
func (r *run) holdSitemaps() {
	r.holding.Lock()
	defer r.holding.Unlock()
	r.held = true
	r.frontier.HoldSitemaps(true)
}

// releaseSitemaps is called now and then. It lets sitemaps be read again if there is room for twice as many pages as
// are queued: a sitemap whose reading was ended is read from its beginning, which must not happen for every page that
// ends without a request.
func (r *run) releaseSitemaps() {
	r.holding.Lock()
	defer r.holding.Unlock()
	if !r.held {
		return
	}
	left, limited := r.pagesLeft()
	if !limited || left > 0 && (r.listed.Load() < r.limits.pages.Load() || 2*r.frontier.Stats().Open < left) {
		r.held = false
		r.frontier.HoldSitemaps(false)
	}
}
