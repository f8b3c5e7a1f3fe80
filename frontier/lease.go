package frontier

import (
	"context"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Lease is the right to make one fetch now, and the duty to say how it ended:
// it holds one of the host's slots, and for a page its room in memory and its
// page ticket. Its methods may be called from any goroutine, one at a time.
type Lease struct {
	f      *Frontier
	h      *naiveHost
	kind   Kind
	url    naiveURL
	origin string
	leased time.Time
	start  time.Time
	spent  bool
	ended  bool
}

// Kind is what to fetch.
func (l *Lease) Kind() Kind { return l.kind }

// Link is the URL to fetch; for a robots lease, that of the robots.txt.
func (l *Lease) Link() Link {
	if l.kind == KindRobots {
		return Link{URL: l.origin + "/robots.txt"}
	}
	return l.url.link
}

// Origin is "scheme://host[:port]" of the URL.
func (l *Lease) Origin() string {
	if l.kind == KindSitemap {
		u, _ := urlnorm.FromCanonical(l.url.link.URL)
		return u.Origin()
	}
	return l.origin
}

// Attempt counts the leases of this URL that were used, this one included: 1 for
// the first.
func (l *Lease) Attempt() int { return l.url.attempt + 1 }

// Tag is what AddSitemap was given.
func (l *Lease) Tag() any { return l.url.tag }

// Started is called when the first byte of the request goes on the wire: the
// host's pace counts from here, and the page counts towards limits.
func (l *Lease) Started() {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.start.IsZero() {
		l.h.unstarted--
	}
	l.start = time.Now()
	l.h.lastStart = l.start
	l.spent = true
	l.f.wakeLocked()
}

// Resent is called when the transport sends the request a second time by itself:
// the host's pace counts from there.
func (l *Lease) Resent() { l.Started() }

// Done says how the fetch ended, exactly once. If it returns an error, nothing
// was recorded and the URL is pending.
func (l *Lease) Done(r Result) (Disposition, error) {
	f, h := l.f, l.h
	if err := f.store.Ready(context.Background()); err != nil {
		l.Abandon()
		return Returned, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.ended {
		return Returned, ErrDone
	}
	l.ended = true
	defer f.wakeLocked()
	now := time.Now()
	if l.start.IsZero() {
		h.unstarted--
	}
	f.stats.Leased--
	e := Event{Class: r.Class, Start: l.start, Now: now, RetryAfter: r.RetryAfter, Latency: r.Latency, Lag: r.Lag, URL: l.url.link.Key.Lo, Inflight: h.inflight}
	h.inflight--
	ch := Change{}
	if !l.start.IsZero() {
		h.pace, ch = h.pace.Apply(&f.o.Pace, e)
	}
	if l.kind == KindRobots {
		if !r.RobotsUntil.IsZero() {
			h.robots[l.origin] = r.RobotsUntil
			h.pace, _ = h.pace.WithCrawlDelay(&f.o.Pace, r.CrawlDelay)
		}
		return Finished, nil
	}
	l.url.at = now.Add(r.Delay)
	retry := !r.Final && (ch.Verdict == VerdictRefused || ch.Verdict == VerdictFailed) && l.url.attempt < f.o.MaxRetries
	if retry {
		l.url.attempt++
		l.url.at = h.pace.RetryAt(&f.o.Pace, e, l.url.attempt)
	}
	if l.kind == KindSitemap {
		if retry {
			h.sitemaps = append(h.sitemaps, l.url)
			return Retrying, nil
		}
		_, err := f.commitLocked(context.Background(), Record{}, r.Links)
		return Finished, err
	}
	if retry || r.Finish == nil || r.Class == ClassOurs {
		if !l.spent {
			l.url.ticket = false
			f.stats.Tickets--
		}
		h.queue = append(h.queue, l.url)
		_, err := f.store.Commit(Record{Returned: []Key{l.url.link.Key}})
		if retry {
			return Retrying, err
		}
		return Returned, err
	}
	if !l.spent {
		f.stats.Tickets--
	}
	_, err := f.commitLocked(context.Background(), Record{Finish: &Finish{
		Key: l.url.link.Key, At: l.url.link.At, Attempts: l.url.attempt + 1, Counted: l.spent, Payload: r.Finish,
	}}, r.Links)
	if err != nil {
		h.queue = append(h.queue, l.url)
		return Returned, err
	}
	f.stats.Pending--
	f.stats.Finished++
	return Finished, nil
}

// Abandon pays the lease back if Done was never reached. Workers defer it, so
// that a panic costs an attempt and nothing else.
func (l *Lease) Abandon() {
	f, h := l.f, l.h
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if l.start.IsZero() {
		h.unstarted--
	}
	f.stats.Leased--
	h.inflight--
	switch l.kind {
	case KindPage:
		l.url.attempt++
		h.queue = append(h.queue, l.url)
	case KindSitemap:
		h.sitemaps = append(h.sitemaps, l.url)
	}
	f.wakeLocked()
}
