package crawl

import (
	"fmt"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// limits words the ends that limits put to a crawl, and warns when they come near. Safety caps come first, then what the user
// asked for.
type limits struct {
	pages    int           // 0 is none
	asked    int           // pages that the user asked for
	duration time.Duration // 0 is none
	safe     bool

	mu     sync.Mutex
	warned map[string]bool // guarded by mu
}

func newLimits(r *run) *limits {
	s := r.settings
	return &limits{pages: s.PageCap(), asked: s.MaxURLs, duration: s.Duration, safe: s.Profile == config.Safe, warned: map[string]bool{}}
}

// pagesReached ends the run at the page limit.
func (l *limits) pagesReached(r *run) {
	if l.safe && l.pages == config.SafePages {
		asked := int64(l.asked)
		if l.asked == 0 || l.asked == config.SafePages {
			asked = r.found()
		}
		text := fmt.Sprintf("Safety limit: Maximum %d pages per crawl (requested: %d)", config.SafePages, asked)
		if r.endWith(ending{status: Partial, success: true, reason: text, errors: []string{text}}) {
			r.log.Warn(text, "start_url", r.starts[0].URL.String())
		}
		return
	}
	text := fmt.Sprintf("Reached max_urls limit of %d, stopping crawl", l.pages)
	if r.endWith(ending{status: Partial, success: true, reason: text}) {
		r.log.Info(text)
	}
}

// timeReached ends the run at the time limit, and says whether it shall stop at once.
func (l *limits) timeReached(r *run, elapsed time.Duration) (atOnce bool) {
	if l.safe && l.duration == config.SafeDuration {
		text := fmt.Sprintf("Safety limit: Crawl timeout exceeded (%dms)", config.SafeDuration.Milliseconds())
		if r.endWith(ending{status: Partial, success: false, reason: text, errors: []string{text}}) {
			r.log.Warn(text, "start_url", r.starts[0].URL.String())
		}
		return true
	}
	text := fmt.Sprintf("Reached duration limit of %ss (elapsed: %ss), stopping crawl", seconds(l.duration), seconds(elapsed.Truncate(time.Second)))
	if r.endWith(ending{status: Partial, success: true, reason: text}) {
		r.log.Info(text)
	}
	return false
}

// seconds writes a duration as a number of seconds, whole where it is whole.
func seconds(d time.Duration) string { return fmt.Sprintf("%g", d.Seconds()) }

// use is how much of each limit is used up. Rate is pages per second at present.
func (l *limits) use(pages int64, elapsed time.Duration, rate float64) []LimitUse {
	var all []LimitUse
	if l.pages > 0 {
		u := LimitUse{Name: "pages", Used: float64(pages), Limit: float64(l.pages)}
		if rate > 0 {
			u.Left = max(0, u.Limit-u.Used) / rate
		}
		all = append(all, u)
	}
	if l.duration > 0 {
		all = append(all, LimitUse{Name: "seconds", Used: elapsed.Seconds(), Limit: l.duration.Seconds(), Left: max(0, l.duration-elapsed).Seconds()})
	}
	return all
}

// near warns once at 80 % and once at 95 % of a limit.
func (l *limits) near(r *run, pages int64, elapsed time.Duration) {
	l.check(r, "pages", float64(pages), float64(l.pages))
	l.check(r, "time", elapsed.Seconds(), l.duration.Seconds())
}

func (l *limits) check(r *run, what string, used, limit float64) {
	if limit == 0 {
		return
	}
	for _, percent := range []int{95, 80} {
		if used < limit*float64(percent)/100 {
			continue
		}
		key := fmt.Sprint(what, percent)
		l.mu.Lock()
		first := !l.warned[key]
		l.warned[key] = true
		if percent == 95 {
			l.warned[fmt.Sprint(what, 80)] = true // the nearer one says it all
		}
		l.mu.Unlock()
		if first {
			r.log.Warn(fmt.Sprintf("%d %% of the limit on %s is used", percent, what), "used", used, "limit", limit)
		}
		return
	}
}
