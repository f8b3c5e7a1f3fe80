package frontier

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A Frontier decides which URL may be fetched next.
type Frontier struct {
	o      Options
	store  Store
	hasher urlnorm.Hasher

	mu      sync.Mutex
	changed chan struct{}         // closed and replaced whenever something changed; guarded by mu
	hosts   map[HostID]*naiveHost // guarded by mu
	stats   Stats                 // guarded by mu
	closed  bool                  // guarded by mu
}

type naiveHost struct {
	id        HostID
	name      string
	pace      Pace
	queue     []naiveURL
	sitemaps  []naiveURL
	robots    map[string]time.Time // origin → known until
	lastStart time.Time
	inflight  int
	unstarted int
}

type naiveURL struct {
	link    Link
	attempt int
	at      time.Time
	ticket  bool
	tag     any
}

// New returns a frontier over a store.
func New(o Options, s Store) (*Frontier, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("frontier options: %w", err)
	}
	f := &Frontier{o: o, store: s, hasher: urlnorm.NewHasher(o.Seed), changed: make(chan struct{}), hosts: map[HostID]*naiveHost{}}
	f.stats.Tickets = o.URLsUsed
	return f, nil
}

func (f *Frontier) wakeLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Add records links, if they are new, and queues them. It returns how many were
// new.
func (f *Frontier) Add(ctx context.Context, links []Link) (int, error) {
	if err := f.store.Ready(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commitLocked(ctx, Record{}, links)
}

func (f *Frontier) commitLocked(ctx context.Context, rec Record, links []Link) (int, error) {
	keys, seen := make([]Key, 1), make([]bool, 1)
	here := map[Key]bool{}
	for _, l := range links {
		u, ok := urlnorm.FromCanonical(l.URL)
		if !ok {
			return 0, fmt.Errorf("link %q is not canonical", l.URL)
		}
		l.Key = f.hasher.Key(u)
		l.settlePriority()
		keys[0] = l.Key
		if err := f.store.Seen(ctx, keys, seen); err != nil {
			return 0, err
		}
		if seen[0] || here[l.Key] {
			continue
		}
		here[l.Key] = true
		if f.o.Admit != nil {
			f.o.Admit(&l)
		}
		rec.Links = append(rec.Links, l)
	}
	if _, err := f.store.Commit(rec); err != nil {
		return 0, err
	}
	for _, l := range rec.Links {
		f.stats.Added++
		if l.Verdict == nil {
			h := f.hostLocked(l)
			h.queue = append(h.queue, naiveURL{link: l})
			f.stats.Pending++
		}
	}
	f.wakeLocked()
	return len(rec.Links), nil
}

func (f *Frontier) hostLocked(l Link) *naiveHost {
	h := f.hosts[l.Key.Host]
	if h == nil {
		u, _ := urlnorm.FromCanonical(l.URL)
		h = &naiveHost{id: l.Key.Host, name: u.Host(), robots: map[string]time.Time{}}
		f.hosts[h.id] = h
	}
	return h
}

// AddSitemap queues a sitemap to be fetched at its host's pace, before the
// host's pages. It is not recorded: a crawl that resumes adds it again. The tag
// comes back with the lease.
func (f *Frontier) AddSitemap(url string, tag any) error {
	u, ok := urlnorm.FromCanonical(url)
	if !ok {
		return fmt.Errorf("sitemap %q is not canonical", url)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := Link{URL: url, Key: f.hasher.Key(u)}
	h := f.hostLocked(l)
	h.sitemaps = append(h.sitemaps, naiveURL{link: l, tag: tag})
	f.wakeLocked()
	return nil
}

// Source returns a token: while it is held the frontier is not drained, and
// under LevelByLevel no deeper level is opened. Release may be called twice.
func (f *Frontier) Source() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Sources++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stats.Sources--
		f.wakeLocked()
	})
}

// Resume takes in what earlier runs left pending. It is called once, before
// anything else.
func (f *Frontier) Resume(ctx context.Context, backlogs iter.Seq2[Backlog, error]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for b, err := range backlogs {
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		for _, level := range b.Levels {
			links, _, err := f.store.Pending(ctx, b.Fact.Host, level.After, level.Links)
			if err != nil {
				return fmt.Errorf("resume host %s: %w", b.Fact.Name, err)
			}
			for _, l := range links {
				if l.Priority == level.After.Priority {
					h := f.hostLocked(l)
					h.queue = append(h.queue, naiveURL{link: l})
					f.stats.Pending++
				}
			}
		}
	}
	f.wakeLocked()
	return nil
}

// Next waits for a URL that may be fetched now. It returns ErrDrained, ErrLimit,
// ErrClosed, the context's error, or the store's.
func (f *Frontier) Next(ctx context.Context) (*Lease, error) {
	for {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, ErrClosed
		}
		l, wait, err := f.takeLocked()
		changed := f.changed
		f.mu.Unlock()
		if l != nil || err != nil {
			return l, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (f *Frontier) takeLocked() (*Lease, time.Duration, error) {
	now, wait := time.Now(), time.Hour
	work := f.stats.Leased+f.stats.Sources > 0
	pages, tickets := false, false
	for _, h := range f.hosts {
		if h.pace.Blocked() || len(h.queue)+len(h.sitemaps) == 0 {
			continue
		}
		work = true
		pages = pages || len(h.queue) > 0
		at := h.pace.NextStart(&f.o.Pace, h.lastStart, 0)
		if h.inflight >= h.pace.Limit(&f.o.Pace) || h.unstarted > 0 {
			continue
		}
		if d := at.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		l := &Lease{f: f, h: h, leased: now}
		switch {
		case len(h.sitemaps) > 0:
			l.kind, l.url = KindSitemap, h.sitemaps[0]
			h.sitemaps = h.sitemaps[1:]
		default:
			best := -1
			for i, q := range h.queue {
				tickets = tickets || q.ticket
				if d := q.at.Sub(now); d > 0 {
					wait = min(wait, d)
				} else if (q.ticket || f.o.MaxURLs == 0 || f.stats.Tickets < f.o.MaxURLs) &&
					(best < 0 || q.link.Priority < h.queue[best].link.Priority) {
					best = i
				}
			}
			if best < 0 {
				continue
			}
			u, _ := urlnorm.FromCanonical(h.queue[best].link.URL)
			l.origin = u.Origin()
			if until, ok := h.robots[l.origin]; !f.o.IgnoreRobots && (!ok || now.After(until)) {
				l.kind = KindRobots
				break
			}
			l.url = h.queue[best]
			h.queue = append(h.queue[:best:best], h.queue[best+1:]...)
			if !l.url.ticket {
				l.url.ticket = true
				f.stats.Tickets++
			} else {
				l.spent = true
			}
			if _, err := f.store.Commit(Record{Leased: []Key{l.url.link.Key}}); err != nil {
				return nil, 0, err
			}
		}
		h.inflight++
		h.unstarted++
		f.stats.Leased++
		return l, 0, nil
	}
	if !work {
		return nil, 0, ErrDrained
	}
	if pages && !tickets && f.stats.Leased == 0 && f.o.MaxURLs > 0 && f.stats.Tickets >= f.o.MaxURLs {
		return nil, 0, ErrLimit
	}
	return nil, wait, nil
}

// Stats returns the figures of this moment.
func (f *Frontier) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Checkpoint commits what need not be committed all the time: cursors, below
// which the store may throw queue entries away, and what was learned about hosts.
func (f *Frontier) Checkpoint(context.Context) error { return nil }

// Close ends all waiting in Next and stops the frontier's goroutines.
func (f *Frontier) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wakeLocked()
	return nil
}
