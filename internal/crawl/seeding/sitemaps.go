// Package seeding finds URLs to crawl beside links: it requests and reads the sitemaps of hosts, and asks public
// indexes which URLs a domain has: certificate transparency logs for host names, Common Crawl for pages.
//
// An index hands over what it finds in small batches while it is read. What is handed over is within the domain and in
// canonical form, and may come twice.
//
// The indexes are public services and often busy. One thing is asked at a time, with pauses between requests. The pause
// is longer after each refusal, at least as long as Retry-After says, and after a few tries the index is given up. Then
// there is a warning, and the URLs that were handed over before are kept.
package seeding

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// Options are the settings and the parts by which sitemaps are requested and read.
type Options struct {
	Settings *config.Settings
	Scope    *scope.Scope
	Hasher   weburl.Hasher
	Store    *state.Store
	Frontier *frontier.Frontier
	// Add adds pages to the frontier.
	Add func(ctx context.Context, links []frontier.Link) error
	// HasRoom reports whether the limits of the crawl leave room for pages that it does not know yet.
	HasRoom func() bool
	// Warn adds a line to the report's warnings.
	Warn func(format string, args ...any)
	// IsOpen reports whether a partition is open here; nil means that all are.
	IsOpen func(partition uint8) bool
	// Requested is how many sitemaps were requested in earlier runs.
	Requested int
	// Generation is the generation of the crawl.
	Generation uint32
	Limits     Limits
	// Again means that the sitemaps of robots.txt are requested again: the rules became wider, and may allow more of
	// them.
	Again bool
}

// Limits bound the sitemaps that are read. Zero means the default.
type Limits struct {
	Depth    int // index files and redirects that may lead to a sitemap; default 5
	Children int // sitemaps that one index may name; default 50,000, as the protocol allows no more
	PerHost  int // sitemaps of one host; default 100,000
	Foreign  int // sitemaps of one host that is not in scope; default 1,000
	Total    int // sitemaps of the crawl; default 1,000,000
	// Bytes is how much text of sitemaps a run reads beside 16 KiB for each URL of the crawl; default 16 GiB. It ends
	// sitemaps that list nothing for the crawl, which no limit of pages does.
	Bytes int64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Depth: cmp.Or(l.Depth, 5), Children: cmp.Or(l.Children, 50_000), PerHost: cmp.Or(l.PerHost, 100_000),
		Foreign: cmp.Or(l.Foreign, 1000), Total: cmp.Or(l.Total, 1_000_000), Bytes: cmp.Or(l.Bytes, 16<<30),
	}
}

// Sitemaps requests sitemaps. A sitemap is a link of the frontier, so the store knows what was requested, what is still
// to be read and which hosts vouch for it. In memory there are only the sitemaps that are being read, and how many were
// requested of each host.
type Sitemaps struct {
	o       Options
	enabled bool
	since   time.Time
	params  *weburl.Params

	// mu is held while sitemaps are requested and while the reading of one ends. So a voucher comes either before the
	// end or after it. In the first case the end puts the sitemap back into the queue, if it needs the voucher. In the
	// second case the voucher finds what the end has recorded.
	mu      lock
	reading map[weburl.Key]*Reading      // guarded by mu; those leased
	hosts   map[weburl.HostID]*hostCount // guarded by mu; of sitemaps requested
	total   int                          // guarded by mu; sitemaps requested in all runs of the crawl
	warned  bool                         // guarded by mu; a warning said that total reached its limit
	text    textLimit
	// guarded by mu; a warning said that a sitemap has all the vouchers that it may have
	crowded bool
	// guarded by mu; sitemaps of which a warning said that they are larger than the protocol allows
	large map[weburl.Key]bool
	// guarded by mu; sitemaps that were first read in a usual place, and that robots.txt names now, until they are read
	named map[weburl.Key]bool
}

// lock is a mutex that is held while the store records. In a crawl of several machines that takes as long as the engine
// is away. It is a channel because of tests that run in testing/synctest: their clock stands still while a goroutine
// waits for a sync.Mutex.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// hostCount is how many sitemaps of a host were requested in all runs of the crawl.
type hostCount struct {
	n      int
	warned bool // a warning said that n reached its limit
}

// MaxVouchers is how many hosts can vouch for one sitemap. Each costs an entry in the store for the sitemap and all
// those under it, and may cost another reading.
const MaxVouchers = 1000

// maxHostCounts bounds the hosts of which the number of sitemaps is in memory. The store has all.
const maxHostCounts = 1 << 16

// Sources of sitemaps, as numbers in the store. Append, never reorder.
const (
	Named   uint8 = iota // by a robots.txt, an index or a redirect
	Guessed              // one of the usual places: there is no warning if nothing is there
)

// New makes what requests sitemaps, if the settings name them as a source of URLs.
func New(o Options) *Sitemaps {
	o.Limits = o.Limits.withDefaults()
	s := &Sitemaps{
		mu: make(lock, 1),
		o:  o, reading: map[weburl.Key]*Reading{}, hosts: map[weburl.HostID]*hostCount{},
		large:   map[weburl.Key]bool{},
		named:   map[weburl.Key]bool{},
		enabled: o.Settings.Seeds("sitemap"), total: o.Requested,
	}
	s.params = o.Settings.Params()
	if o.Settings.Since != "" {
		s.since, _ = config.ParseDate(o.Settings.Since) // checked when the settings were loaded
	}
	return s
}

// Wants reports whether the sitemaps of an origin are to be requested, if its robots.txt is known.
func (s *Sitemaps) Wants(fact *frontier.OriginFact) bool {
	u, err := weburl.Parse(fact.Origin + "/")
	if err != nil || !s.enabled || fact.SitemapsRequested && fact.SitemapsGeneration == s.o.Generation && !s.o.Again {
		return false
	}
	return s.o.Scope.IsStart(u.Host()) || s.o.Settings.Scope != "any" && s.o.Scope.Check(u) != scope.OutOfScope
}

// FromRobots requests the sitemaps of an origin whose robots.txt is known now: those that it names, or for a start's
// origin the usual places. It reports whether they were requested now and need not be again; the caller stores that.
func (s *Sitemaps) FromRobots(ctx context.Context, fact *frontier.OriginFact, a *robotscache.Answer) (requested bool,
	err error) {
	origin := fact.Origin
	if a.Silent || !s.Wants(fact) {
		return false, nil
	}
	u := weburl.MustCanonical(origin + "/")
	names, source := a.Sitemaps, Named
	if len(names) == 0 {
		if !s.o.Scope.IsStart(u.Host()) {
			return false, nil // a start URL may lead there later
		}
		names, source = []string{"/sitemap.xml", "/sitemap_index.xml"}, Guessed
	}
	var links []frontier.Link
	for _, text := range names {
		target, err := u.Resolve(text)
		switch {
		case err != nil:
			s.o.Warn("sitemap named by robots.txt of %s: %q: %v", origin, text, err)
		case scope.ExceedsLimit(target):
			s.o.Warn("sitemap %.200s: its URL is too long", target)
		case source == Guessed && !a.Match(target).Allowed:
		default:
			links = append(links, frontier.Link{URL: target, Sitemap: true, Source: source,
				Vouchers: []weburl.HostID{fact.Host}, Discovered: time.Now()})
		}
	}
	for part := range slices.Chunk(links, Batch) {
		if err := s.requestSitemaps(ctx, part); err != nil {
			return false, fmt.Errorf("request sitemaps of %s: %w", origin, err)
		}
	}
	return !a.Unknown, nil // if robots.txt could not be fetched, it may name others later
}

// Revisit queues the known sitemaps of some hosts, from first to last, that are due in this generation or by these
// rules, except those that have or had such a visit. So it may be called again after a kill. In a recrawl those are due
// that the robots.txt of their own host has named, or that are in a usual place. By the time of the visit that
// robots.txt says whether it names them still. What names the others is read first, and then queues them; see
// vouchLocked.
func (s *Sitemaps) Revisit(ctx context.Context, first, last weburl.HostID) error {
	_, err := s.requeue(ctx, first, last, func(m *state.Sitemap, hosts []weburl.HostID) ([]weburl.HostID, bool) {
		if m.Finish.Generation < s.o.Generation {
			return nil, m.Link.Depth == 0 && isVouchedBy(m, m.Link.Key.Host)
		}
		return hosts, len(hosts) > 0 && s.isOutdated(m.Finish)
	})
	return err
}

// RevisitUnasked queues the sitemaps for which only hosts vouch that have no answer in this generation: their
// robots.txt was not asked for, as nothing of them was visited, or cannot be had. Their vouchers count on. It returns
// how many it queued. Call it when the crawl is drained. HasAnswered reports whether an origin has an answer.
func (s *Sitemaps) RevisitUnasked(ctx context.Context, hasAnswered func(*frontier.OriginFact) bool) (n int,
	err error) {
	if s.o.Generation == 0 {
		return 0, nil
	}
	var failed error
	answers := map[weburl.HostID]bool{}
	n, err = s.requeue(ctx, 0, math.MaxUint64, func(m *state.Sitemap, hosts []weburl.HostID) ([]weburl.HostID, bool) {
		return s.unasked(m, hosts, func(h weburl.HostID) bool {
			has, known := answers[h]
			if !known {
				origins, err := s.o.Store.OriginsOf(ctx, h, h, hasAnswered)
				has, failed = len(origins) > 0, cmp.Or(failed, err)
				answers[h] = has
			}
			return has
		})
	})
	return n, cmp.Or(failed, err)
}

// unasked returns the vouchers of another visit of a sitemap, if it is due because hosts vouch for it that have no
// answer. Hosts vouch for it already. That its own host vouches is said by robots.txt when it is leased.
func (s *Sitemaps) unasked(m *state.Sitemap, hosts []weburl.HostID,
	hasAnswered func(weburl.HostID) bool) (vouchers []weburl.HostID, due bool) {
	own, isRead := m.Link.Key.Host, m.Finish.Generation >= s.o.Generation
	if !isRead {
		hosts = nil
	}
	var more []weburl.HostID
	for _, v := range m.Vouchers {
		if v.Host != state.Renewed && v.Host != own && m.Link.Depth == 0 && !slices.Contains(hosts, v.Host) &&
			!hasAnswered(v.Host) {
			more = append(more, v.Host)
		}
	}
	if isRead {
		return append(hosts, more...), readSitemapFacts(m.Finish.Facts).concernsAny(more)
	}
	return more, len(more) > 0 || isVouchedBy(m, own) && !hasAnswered(own)
}

// requeue queues another visit of those known sitemaps of some hosts that are due, and returns how many. Due is asked
// about sitemaps that were read and have no visit in the queue, with the hosts that vouched for the last one. It
// returns those that vouch for the next.
func (s *Sitemaps) requeue(ctx context.Context, first, last weburl.HostID,
	due func(m *state.Sitemap, hosts []weburl.HostID) (vouchers []weburl.HostID, due bool)) (n int, err error) {
	if !s.enabled {
		return 0, nil
	}
	if err := s.o.Store.Flush(ctx); err != nil {
		return 0, err
	}
	var keys []weburl.Key
	look := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		list, err := s.o.Store.ReadSitemaps(ctx, keys)
		if err != nil {
			return err
		}
		var again []frontier.Link
		for i := range list {
			m := &list[i]
			f := m.Finish
			queued, hosts := m.Vouched()
			if f == nil || page.Outcome(f.Outcome) == page.Crashed || queued > max(1, f.Visit) || s.isLeftOut(m) {
				continue
			}
			if vouchers, is := due(m, hosts); is {
				again = append(again, s.nextVisit(m, keys[i], vouchers...))
			}
		}
		n, keys = n+len(again), keys[:0]
		return s.o.Frontier.Revisit(ctx, again)
	}
	for m, err := range s.o.Store.SitemapsOf(ctx, first, last) {
		if err != nil {
			return n, err
		}
		if keys = append(keys, m.Link.Key); len(keys) == Batch {
			if err := look(); err != nil {
				return n, err
			}
		}
	}
	return n, look()
}

// isVouchedBy reports whether a host has vouched for a sitemap, in this generation or before.
func isVouchedBy(m *state.Sitemap, host weburl.HostID) bool {
	return slices.ContainsFunc(m.Vouchers, func(v frontier.Voucher) bool { return v.Host == host })
}

// isOutdated reports whether a sitemap was last read by narrower rules than those of now, which left something out.
func (s *Sitemaps) isOutdated(f *frontier.Finish) bool {
	history, facts := s.o.Scope.History(), readSitemapFacts(f.Facts)
	switch {
	case facts.edition() >= history.Widened():
		return false
	case facts.leads, page.Outcome(f.Outcome) == page.Excluded:
		return true
	}
	counted := s.o.Store.Counters()
	return history.IsOutdated(facts.leftOut, &counted)
}

// isLeftOut reports whether a sitemap is on a host that does not belong to the crawl any more, and only that host has
// named it.
func (s *Sitemaps) isLeftOut(m *state.Sitemap) bool {
	return !s.inScope(m.Link.URL) && !slices.ContainsFunc(m.Vouchers, func(v frontier.Voucher) bool {
		return v.Host != m.Link.Key.Host && v.Host != state.Renewed
	})
}

// nextVisit is the link of another visit of a sitemap that was read, for which these hosts vouch. In a recrawl earlier
// vouchers do not count: what names the sitemap is read again. The vouchers tell that the visit is queued.
func (s *Sitemaps) nextVisit(m *state.Sitemap, key weburl.Key, vouchers ...weburl.HostID) frontier.Link {
	if s.o.Generation > 0 {
		vouchers = append(slices.Clip(vouchers), state.Renewed)
	}
	return frontier.Link{
		Key: key, URL: m.Link.URL, Sitemap: true, Depth: m.Link.Depth, Source: m.Link.Source,
		Visit: max(1, m.Finish.Visit) + 1, Before: m.Finish.Summary(), Vouchers: vouchers,
	}
}

// requestSitemaps queues those sitemaps that are new, as far as the limits allow, and records the vouchers of the
// others. Links with the same URL must have the same vouchers.
func (s *Sitemaps) requestSitemaps(ctx context.Context, links []frontier.Link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	links = distinctSitemaps(s.o.Hasher, links)
	seen := make([]bool, len(links))
	if err := s.o.Store.Seen(ctx, keysOf(links), seen); err != nil {
		return err
	}
	var fresh, known []frontier.Link
	for i := range links {
		if seen[i] && (s.o.IsOpen == nil || s.o.IsOpen(links[i].Key.Host.Partition())) {
			known = append(known, links[i])
			continue
		}
		ok, err := s.countSitemapLocked(ctx, &links[i])
		if err != nil {
			return err
		}
		if ok {
			fresh = append(fresh, links[i])
		}
	}
	if err := s.vouchLocked(ctx, known); err != nil {
		return err
	}
	_, err := s.o.Frontier.Add(ctx, fresh)
	return err
}

// Receive requests the sitemaps among links that another machine sent, with their vouchers.
func (s *Sitemaps) Receive(ctx context.Context, links []frontier.Link) error {
	var sitemaps []frontier.Link
	for i := range links {
		if links[i].Sitemap && len(links[i].Vouchers) > 0 {
			sitemaps = append(sitemaps, links[i])
		}
	}
	if len(sitemaps) == 0 {
		return nil
	}
	return s.requestSitemaps(ctx, sitemaps)
}

// distinctSitemaps returns the links with their keys, in their order, each once.
func distinctSitemaps(h weburl.Hasher, links []frontier.Link) []frontier.Link {
	seen := make(map[weburl.Key]bool, len(links))
	list := make([]frontier.Link, 0, len(links))
	for _, l := range links {
		if l.Key = frontier.SitemapKey(h, l.URL); !seen[l.Key] {
			seen[l.Key] = true
			list = append(list, l)
		}
	}
	return list
}

func keysOf(links []frontier.Link) []weburl.Key {
	keys := make([]weburl.Key, len(links))
	for i := range links {
		keys[i] = links[i].Key
	}
	return keys
}

// countSitemapLocked counts a new sitemap, unless a limit is reached. It warns once for each host whose limit is.
func (s *Sitemaps) countSitemapLocked(ctx context.Context, l *frontier.Link) (bool, error) {
	most, why := s.o.Limits.PerHost, ""
	switch inScope := s.inScope(l.URL); {
	case !inScope && !s.o.Scope.Permits(l.URL):
		most, why = 0, " (--only-hosts)"
	case !inScope:
		most, why = s.o.Limits.Foreign, ", which is not in scope"
	}
	host, err := s.hostCountLocked(ctx, l.Key.Host, most)
	if err != nil {
		return false, err
	}
	if host.n >= most {
		if !host.warned {
			host.warned = true
			s.o.Warn("sitemap %s and all further ones of %s are not read: the limit is %d for this host%s", l.URL,
				l.URL.Host(), most, why)
		}
		return false, nil
	}
	if all := s.o.Limits.Total; s.total >= all {
		if !s.warned {
			s.warned = true
			s.o.Warn("sitemap %s and all further ones are not read: the limit is %d for the crawl", l.URL, all)
		}
		return false, nil
	}
	host.n++
	s.total++
	return true, nil
}

// hostCountLocked returns how many sitemaps of a host were requested. The store counts up to most. It is asked once for
// each host, and counts only what it has applied. Therefore everything is applied before the counts in memory are
// dropped.
func (s *Sitemaps) hostCountLocked(ctx context.Context, id weburl.HostID, most int) (*hostCount, error) {
	if c := s.hosts[id]; c != nil {
		return c, nil
	}
	if len(s.hosts) == maxHostCounts {
		if err := s.o.Store.Flush(ctx); err != nil {
			return nil, err
		}
		clear(s.hosts)
	}
	n, err := s.o.Store.CountSitemaps(ctx, id, most)
	if err != nil {
		return nil, err
	}
	c := &hostCount{n: n}
	s.hosts[id] = c
	return c, nil
}

// inScope reports whether a sitemap is on a host of the crawl.
func (s *Sitemaps) inScope(u weburl.URL) bool {
	return s.o.Scope.IsStart(u.Host()) || s.o.Scope.Contains(u)
}

// vouchLocked records vouchers of sitemaps that are known. A sitemap is queued again if it was not read in this
// generation, or without the entries of a host that vouches for it now.
func (s *Sitemaps) vouchLocked(ctx context.Context, links []frontier.Link) error {
	links = slices.DeleteFunc(links, func(l frontier.Link) bool { return len(l.Vouchers) == 0 })
	if len(links) == 0 {
		return nil
	}
	list, err := s.o.Store.ReadSitemaps(ctx, keysOf(links))
	if err != nil {
		return err
	}
	var rec frontier.Record
	var again []frontier.Link
	for i := range list {
		m, key := &list[i], links[i].Key
		if m.Link.Source == Guessed && links[i].Source != Guessed {
			s.named[key] = true
		}
		visit, hosts := m.Vouched()
		f := m.Finish
		isRead := f != nil && max(1, f.Visit) >= visit && page.Outcome(f.Outcome) != page.Crashed
		due := isRead && f.Generation < s.o.Generation
		if due {
			hosts = nil
		}
		missing := without(links[i].Vouchers, hosts)
		if room := max(0, MaxVouchers-len(hosts)); len(missing) > room {
			missing = missing[:room]
			if !s.crowded {
				s.crowded = true
				s.o.Warn("sitemap %s: the robots.txt of more than %d hosts lead to it; what it lists of the others "+
					"is left out", m.Link.URL, MaxVouchers)
			}
		}
		// In the second case its host names it, and did not belong to the crawl when it was read.
		if due || isRead && slices.Contains(links[i].Vouchers, key.Host) && s.isOutdated(f) ||
			isRead && readSitemapFacts(f.Facts).concernsAny(missing) {
			again = append(again, s.nextVisit(m, key, append(hosts, missing...)...))
			continue
		}
		if reading := s.reading[key]; reading != nil {
			reading.late = append(reading.late, missing...)
		}
		for _, host := range missing {
			rec.Vouchers = append(rec.Vouchers, frontier.Voucher{Key: key, Host: host, Visit: visit})
		}
	}
	if len(rec.Vouchers) > 0 {
		if _, err := s.o.Store.Commit(rec); err != nil {
			return err
		}
	}
	return s.o.Frontier.Revisit(ctx, again)
}

// without returns the hosts that are not among others.
func without(hosts, others []weburl.HostID) []weburl.HostID {
	have := make(map[weburl.HostID]bool, len(others))
	for _, h := range others {
		have[h] = true
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(h weburl.HostID) bool { return have[h] })
}
