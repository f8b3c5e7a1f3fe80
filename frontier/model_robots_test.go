package frontier

import (
	"fmt"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// modelAsks is what the model knows of the redirects of robots.txt.
type modelAsks struct {
	away      *modelWait       // an origin of the host waits
	questions []*modelQuestion // for the host
	asking    int              // leases of questions that are out
	// origins whose answer counts until the next round, and the round in which the lease of an origin began that is out
	provisional map[string]bool
	round       int
}

type modelWait struct {
	host   *modelHost
	origin string
	until  time.Time // zero for ever
	over   bool
}

type modelQuestion struct {
	url            string
	hops, attempts int
	waits          []*modelWait
}

// question is the first question of a host that an origin waits for.
func (h *modelHost) question() *modelQuestion {
	for _, q := range h.asks.questions {
		if q.waits = slices.DeleteFunc(q.waits, func(w *modelWait) bool { return w.over }); len(q.waits) > 0 &&
			!h.robotsOut {
			return q
		}
	}
	return nil
}

// late reports whether the host waits for another one, and at what time that
// leads to a lease.
func (m *model) late(h *modelHost, at time.Time) (time.Time, bool) {
	if h.asks.away == nil || h.robotsOut {
		return time.Time{}, false
	}
	pending := 0
	for _, u := range m.urls {
		if u.host == h && (u.state == modelQueued || u.state == modelWaiting) {
			pending++
		}
	}
	if pending == 0 || h.asks.away.until.IsZero() {
		return time.Time{}, false
	}
	if h.asks.away.until.After(at) {
		at = h.asks.away.until
	}
	return at, true
}

// endWait ends the wait of an origin.
func (w *modelWait) end() {
	w.over = true
	if w.host.asks.away == w {
		w.host.asks.away = nil
	}
}

// checkRobots holds a robots lease that is not an origin's first request against
// the model. It reports false for a first one.
func (d *driver) checkRobots(l *Lease, h *modelHost, now time.Time) bool {
	task := l.Robots()
	switch {
	case task.Late:
		at, ok := d.m.late(h, now)
		if !ok || at.After(now) || h.asks.away.origin != task.Origins[0] || h.question() != nil {
			d.t.Fatalf("%s is late at %v, want it at %v, %v", l.URL(), now, at, ok)
		}
		h.asks.away.end()
		h.robotsOut, h.asks.round = true, d.m.round
	case l.ask != nil:
		q := h.question()
		if q == nil {
			d.t.Fatalf("%s was leased, and no host waits for it", l.URL())
		}
		var origins []string
		for _, w := range q.waits {
			origins = append(origins, w.origin)
		}
		if l.URL().String() != q.url || task.Hops != q.hops || l.Attempt() != q.attempts+1 ||
			!slices.Equal(origins, task.Origins) {
			d.t.Fatalf("leased %s #%d for %v, want %s #%d for %v", l.URL(), l.Attempt(), task.Origins, q.url,
				q.attempts+1, origins)
		}
		h.asks.questions = slices.DeleteFunc(h.asks.questions, func(o *modelQuestion) bool { return o == q })
		h.asks.asking++
		d.asked[l] = q
	default:
		return false
	}
	h.inflight++
	h.unstarted++
	return true
}

// askAgain has both forget provisional answers.
func (d *driver) askAgain() {
	d.f.AskRobotsAgain()
	d.m.round++
	for _, h := range d.m.hosts {
		for origin := range h.asks.provisional {
			h.robots[origin] = time.Time{}
		}
		clear(h.asks.provisional)
	}
}

// redirect is where a robots.txt leads.
func (d *driver) redirect() weburl.URL {
	return mustURL(fmt.Sprintf("http://h%d.example/%s", d.r.IntN(7), oneOf(d.r, "robots.txt", "r")))
}

// endedRobots lets the model know how a robots lease ended.
func (d *driver) endedRobots(l *Lease, h *modelHost, r Result, ch pace.Change, abandoned bool) {
	m, now := d.m, time.Now()
	q := d.asked[l]
	if q == nil {
		h.robotsOut = false
	} else {
		h.asks.asking--
		delete(d.asked, l)
	}
	at := now.Add(r.Delay)
	if abandoned {
		at = now.Add(pace.Backoff(l.Attempt(), m.o.Pace.MaxBackoff))
	}
	failed := ch.Meaning == pace.MeaningRefused || ch.Meaning == pace.MeaningFailed || r.Class == pace.ClassDropped
	switch {
	case !r.RobotsUntil.IsZero() && q != nil:
		for _, w := range q.waits {
			w.end()
		}
		h.least = max(h.least, r.CrawlDelay)
		h.pace, _ = h.pace.WithCrawlDelay(&m.o.Pace, max(h.pace.CrawlDelay(), r.CrawlDelay))
	case !r.RobotsUntil.IsZero():
		origin := l.URL().Origin()
		h.robots[origin], h.crawl[origin] = r.RobotsUntil, r.CrawlDelay
		delete(h.asks.provisional, origin)
		if r.RobotsProvisional && h.asks.round < m.round {
			h.robots[origin] = time.Time{}
		} else if r.RobotsProvisional {
			h.asks.provisional[origin] = true
		}
		h.least = 0
		h.setCrawl(m)
	case r.RobotsAt != weburl.URL{} || failed:
		next := &modelQuestion{url: l.URL().String(), attempts: int(l.attempts) + 1}
		if q == nil {
			h.asks.away = &modelWait{host: h, origin: l.URL().Origin()}
			next.waits = []*modelWait{h.asks.away}
		} else {
			next.waits, next.hops = q.waits, q.hops
		}
		if r.RobotsAt != (weburl.URL{}) {
			next.url, next.hops, next.attempts = r.RobotsAt.String(), next.hops+1, 0
		}
		m.ask(mustParse(d.t, next.url), next)
	default:
		if at.After(h.notBefore) {
			h.notBefore = at
		}
		if q != nil {
			if abandoned {
				q.attempts++
			}
			h.queue(q)
		}
	}
}

// ask queues a question at the host of its URL.
func (m *model) ask(u weburl.URL, q *modelQuestion) {
	h := m.hostOf(u.Host())
	q.waits = slices.DeleteFunc(slices.Clone(q.waits), func(w *modelWait) bool { return w.over })
	for _, w := range q.waits {
		switch {
		case w.host == h:
			w.until = time.Time{}
		case w.until.IsZero():
			w.until = m.now().Add(robotsPatience)
		}
	}
	if len(q.waits) > 0 {
		h.queue(q)
	}
}

func (h *modelHost) queue(q *modelQuestion) {
	h.asks.questions = slices.DeleteFunc(h.asks.questions, func(o *modelQuestion) bool {
		return !slices.ContainsFunc(o.waits, func(w *modelWait) bool { return !w.over })
	})
	for _, o := range h.asks.questions {
		if o.url == q.url && o.hops == q.hops && o.attempts == q.attempts {
			o.waits = append(slices.Clone(o.waits), q.waits...)
			return
		}
	}
	h.asks.questions = append(h.asks.questions, q)
}

// refuse ends the waits for hosts that get no more requests.
func (m *model) refuse() {
	for _, h := range m.hosts {
		if !h.blocked && !h.abandoned {
			continue
		}
		for _, q := range h.asks.questions {
			for _, w := range q.waits {
				if w.host == h {
					w.end()
				} else {
					w.until = m.now()
				}
			}
		}
		h.asks.questions = nil
	}
}
