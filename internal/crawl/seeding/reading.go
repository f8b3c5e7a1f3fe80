package seeding

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/sitemap"
)

// A Reading is one reading of a sitemap, by the worker that has leased it.
type Reading struct {
	s       *Sitemaps
	link    frontier.Link
	history *scope.History // as the reading began
	skips   scope.Skips    // entries that were not followed

	vouched  map[weburl.HostID]bool // hosts whose robots.txt names it, or an index over it
	vouchers []weburl.HostID        // the same hosts, for the sitemaps that it names
	earlier  bool                   // its own host has vouched for it, perhaps in an earlier generation alone
	late     []weburl.HostID        // guarded by the mu of s; hosts that vouch for it since the reading began
	facts    sitemapFacts
	before   []uint64 // what the visit before recorded of entries that were not followed

	entries  []frontier.Link // to be added
	children []frontier.Link // to be requested
	bytes    int             // of the URLs of both
	read     int             // entries that were read, sitemaps that it names among them
	named    int             // sitemaps that it names
	warnings int             // about sitemaps that it names
	waits    func() func()   // of Read; nil outside of it

	host   string // of the last entry that is not below the sitemap's directory
	hostID weburl.HostID
}

// Begin registers a lease of a sitemap, so that vouchers that come from now on are noted in it. End follows.
func (s *Sitemaps) Begin(l frontier.Link) *Reading {
	m := &Reading{s: s, link: l, history: s.o.Scope.History(), vouched: map[weburl.HostID]bool{},
		facts: sitemapFacts{left: map[weburl.HostID]bool{}}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading[l.Key] = m
	return m
}

// End forgets the lease.
func (m *Reading) End() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	delete(m.s.reading, m.link.Key)
}

// LoadVouchers reads who vouches for the sitemap, and what was left out of it before.
func (m *Reading) LoadVouchers(ctx context.Context) error {
	list, err := m.s.o.Store.ReadSitemaps(ctx, []weburl.Key{m.link.Key})
	if err != nil {
		return err
	}
	_, hosts := list[0].Vouched()
	m.vouchedBy(hosts...)
	m.earlier = isVouchedBy(&list[0], m.link.Key.Host)
	if f := list[0].Finish; f != nil {
		m.before = readSitemapFacts(f.Facts).leftOut
	}
	return nil
}

func (m *Reading) vouchedBy(hosts ...weburl.HostID) {
	for _, h := range hosts {
		m.vouched[h] = true
	}
	m.vouchers = slices.Collect(maps.Keys(m.vouched))
}

// Believe makes the voucher of the sitemap's host count though it is of an earlier generation, because its robots.txt
// cannot be had.
func (m *Reading) Believe() {
	if m.earlier {
		m.vouchedBy(m.link.Key.Host)
	}
}

// Link is the sitemap.
func (m *Reading) Link() *frontier.Link { return &m.link }

// IsGuessed reports whether the sitemap is at one of the usual places and nothing names it.
func (m *Reading) IsGuessed() bool {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return m.link.Source == Guessed && !m.s.named[m.link.Key]
}

// IsVouched reports whether the robots.txt of the sitemap's own host names it.
func (m *Reading) IsVouched() bool { return m.vouched[m.link.Key.Host] }

// IsNamed reports whether anything names the sitemap. In a recrawl that may have ended. If something names it later in
// the same generation, the sitemap may be read.
func (m *Reading) IsNamed() bool {
	m.facts.more = len(m.vouched) == 0
	return !m.facts.more
}

// LeaveOut notes that the sitemap is not read, because its own host does not vouch for it. If it does later, the
// sitemap may be read.
func (m *Reading) LeaveOut() { m.facts.leaveOut(m.link.Key.Host) }

// Redirect takes the target of a redirect in place of the sitemap.
func (m *Reading) Redirect(ctx context.Context, target weburl.URL) error {
	return errors.Join(m.addChild(ctx, target, true), m.addRead(ctx))
}

// Unmentioned is how many sitemaps the sitemap names that were not read, beyond those that a warning names.
func (m *Reading) Unmentioned() int { return max(0, m.warnings-maxChildWarnings) }

// IsCut reports whether entries or sitemaps that it names were left out because of a setting.
func (m *Reading) IsCut() bool { return m.warnings > 0 || m.skips[scope.OlderThan] > 0 }

// Finish ends the lease by the given function and records the reading. If a host has vouched for the sitemap since the
// reading began, and another reading would therefore bring more, the sitemap goes back to the queue instead. The counts
// of entries that were not followed are those of the last reading.
func (m *Reading) Finish(r frontier.Result, done func(frontier.Result) (frontier.Disposition,
	error)) (frontier.Disposition, error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if r.Finish != nil && m.facts.concernsAny(m.late) {
		r.Finish = nil
	}
	if r.Finish != nil {
		m.facts.leftOut = m.history.AppendLeftOut(nil, &m.skips)
		r.Finish.Facts = m.facts.bytes()
		again := m.link.Visit > 1 && page.Outcome(m.link.Before.Outcome) != page.Crashed
		r.Skips = m.history.Change(nil, m.link.Key.Host.Partition(), m.before, m.facts.leftOut, again)
	}
	d, err := done(r)
	if err == nil && d == frontier.Finished {
		delete(m.s.named, m.link.Key)
	}
	return d, err
}

// covers applies the location rule of sitemaps.org: a sitemap may list URLs of its own directory and below, and URLs of
// hosts whose robots.txt names it. The host of any other URL is noted, in case it vouches later.
func (m *Reading) covers(h weburl.Hasher, target weburl.URL) bool {
	if strings.HasPrefix(target.String(), scope.Directory(m.link.URL)) {
		return true
	}
	if name := target.Host(); name != m.host {
		m.host, m.hostID = strings.Clone(name), h.HostID(name) // otherwise the name keeps the whole URL in memory
	}
	if m.vouched[m.hostID] {
		return true
	}
	m.facts.leaveOut(m.hostID)
	return false
}

// ErrNotAdded means that entries of a sitemap could not be recorded, which is no fault of the sitemap's.
var ErrNotAdded = errors.New("entries of a sitemap were not added")

// Batch is how many entries of a sitemap are added at once: enough to be cheap, few enough that fetching starts early.
// If their URLs are long, they are fewer: a sitemap may come slowly, and what was read of it waits in memory.
const (
	Batch      = 256
	batchBytes = 32 << 10
)

// errTooManyChildren ends the reading of an index.
var errTooManyChildren = errors.New("it names too many sitemaps")

// ErrNoRoom ends the reading of a sitemap with more entries than the protocol allows, because the limits of the crawl
// leave no room for further pages. The sitemap is still to be read: when there is room, or in a run with other limits.
var ErrNoRoom = errors.New("the limits of the crawl leave no room for the entries of a sitemap")

// ErrNotSitemap means that something else stands where a sitemap was expected, such as a web page.
var ErrNotSitemap = sitemap.ErrNotSitemap

// checkSize is called with each entry. It warns of a sitemap that is larger than the protocol allows, and ends its
// reading if there is no room for what it lists. Other sitemaps are read to their end.
func (m *Reading) checkSize() error {
	m.read++
	over := m.read - sitemap.MaxURLs
	if over <= 0 {
		return nil
	}
	if over == 1 {
		m.s.warnLarge(&m.link)
	}
	if over%Batch == 1 && !m.s.o.HasRoom() {
		return ErrNoRoom
	}
	return nil
}

// ErrTooMuchText ends the reading of sitemaps that are much larger than what they bring.
var ErrTooMuchText = errors.New("read no further, like all other sitemaps: those of this crawl are too large for the " +
	"URLs that it has")

// A textLimit bounds how much text of sitemaps a run reads.
type textLimit struct {
	read atomic.Int64 // bytes
	most atomic.Int64 // of read; as it was when it was last reached
	over atomic.Bool  // no more is read
}

// textPerURL is how much of sitemaps may be read for each URL of the crawl: an entry with forty translations has
// 10 KiB.
const textPerURL = 16 << 10

// countText counts bytes that were read. The error is ErrTooMuchText if there are too many.
func (m *Reading) countText(ctx context.Context, bytes int) error {
	o, t := &m.s.o, &m.s.text
	read := t.read.Add(int64(bytes))
	if read <= max(o.Limits.Bytes, t.most.Load()) {
		return nil
	}
	if t.over.Load() {
		return ErrTooMuchText
	}
	defer m.waits()()
	if err := o.Store.Flush(ctx); err != nil { // it counts the URLs that it has applied
		return fmt.Errorf("%w: %w", ErrNotAdded, err)
	}
	counters := o.Store.Counters()
	most := o.Limits.Bytes + textPerURL*int64(counters.Discovered)
	t.most.Store(most)
	if read <= most {
		return nil
	}
	t.over.Store(true)
	return ErrTooMuchText
}

// IsOver reports whether no further sitemaps are read in this run.
func (s *Sitemaps) IsOver() bool { return s.text.over.Load() }

// warnLarge says, once in a run, that a sitemap is larger than the protocol allows.
func (s *Sitemaps) warnLarge(l *frontier.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.large[l.Key] {
		s.large[l.Key] = true
		s.o.Warn("sitemap %s has more than %d entries, the most that the protocol allows; "+
			"it is read on while the limits of the crawl leave room", l.URL, sitemap.MaxURLs)
	}
}

// Read adds the entries of one sitemap in small batches, and counts those that do not belong to the crawl. It calls
// waits before it waits for the frontier, and goOn after.
func (m *Reading) Read(ctx context.Context, body io.Reader, waits func() (goOn func())) error {
	m.waits = waits
	at, now := m.link.URL, time.Now()
	count := func(bytes int) error { return m.countText(ctx, bytes) }
	_, err := sitemap.Read(body, count, func(e *sitemap.Entry) error {
		if err := ctx.Err(); err != nil {
			return err // Add does not see entries that are left out
		}
		if err := m.checkSize(); err != nil {
			return err
		}
		target, err := at.Resolve(e.Loc)
		if err != nil {
			m.skips.Add(scope.NotHTTP)
			return nil
		}
		if e.Kind == sitemap.Child {
			if m.named == m.s.o.Limits.Children {
				return fmt.Errorf("%w: more than %d; the rest is not read", errTooManyChildren,
					m.named)
			}
			m.named++
		}
		if !m.s.since.IsZero() && !e.LastMod.IsZero() && e.LastMod.Before(m.s.since) {
			m.skips.Add(scope.OlderThan)
			return nil
		}
		if e.Kind == sitemap.Child {
			if e.Cut {
				m.warnChild(target, tooLong)
				return nil
			}
			return m.addChild(ctx, target, false)
		}
		target = m.s.params.Trim(target)
		if !m.covers(m.s.o.Hasher, target) {
			m.skips.Add(scope.CrossSiteSeed)
			return nil
		}
		why := m.s.o.Scope.Check(target)
		if e.Cut {
			why = scope.TooLong
		}
		if why != scope.InScope {
			m.skips.Add(why)
			return nil
		}
		m.entries = append(m.entries, frontier.Link{
			URL: target, Priority: entryPriority(e, now), Source: page.SourceSitemap, Parent: at, Discovered: now,
			LastMod: e.LastMod,
		})
		if m.bytes += len(target.String()); len(m.entries) == Batch || m.bytes >= batchBytes {
			now = time.Now()
			return m.addRead(ctx)
		}
		return nil
	})
	return errors.Join(err, m.addRead(ctx))
}

// addRead adds the entries and requests the sitemaps that were read so far.
func (m *Reading) addRead(ctx context.Context) error {
	if m.waits != nil {
		defer m.waits()()
	}
	err := m.s.o.Add(ctx, m.entries)
	if err == nil && len(m.children) > 0 {
		err = m.s.requestSitemaps(ctx, m.children)
	}
	clear(m.entries) // otherwise the URLs stay in memory
	clear(m.children)
	m.entries, m.children, m.bytes = m.entries[:0], m.children[:0], 0
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrNotAdded, err)
	}
	return err
}

// addChild takes a sitemap that an index names, or the target of a redirect.
func (m *Reading) addChild(ctx context.Context, u weburl.URL, redirect bool) error {
	m.facts.leads = true
	if why := m.refuseChild(u, redirect); why != "" {
		m.warnChild(u, why)
		return nil
	}
	m.children = append(m.children, frontier.Link{
		URL: u, Sitemap: true, Depth: m.link.Depth + 1, Source: Named, Parent: m.link.URL,
		Vouchers: m.vouchers, Discovered: time.Now(),
	})
	if m.bytes += len(u.String()); len(m.children) == Batch || m.bytes >= batchBytes {
		return m.addRead(ctx)
	}
	return nil
}

// warnChild says why a sitemap is not read.
func (m *Reading) warnChild(u weburl.URL, why string) {
	if m.warnings++; m.warnings <= maxChildWarnings {
		m.s.o.Warn("sitemap %.200s was not read: %s", u, why)
	}
}

// tooLong is why a sitemap is not read.
const tooLong = "its URL is too long"

// maxChildWarnings is how many sitemaps that an index names and that are not read have a warning of their own.
const maxChildWarnings = 10

// refuseChild says why a sitemap that this one names or redirects to is not read, or "". A sitemap with a voucher may
// name sitemaps of its own host, and may redirect to another host of its domain, as from example.com to
// www.example.com.
func (m *Reading) refuseChild(u weburl.URL, redirect bool) string {
	from := m.link.URL.Host()
	near := u.Host() == from || redirect && weburl.RegistrableDomain(u.Host()) == weburl.RegistrableDomain(from)
	switch most := m.s.o.Limits.Depth; {
	case scope.ExceedsLimit(u):
		return tooLong
	case int(m.link.Depth) >= most:
		return fmt.Sprintf("more than %d index files and redirects lead to it", most)
	case m.s.inScope(u) || near && len(m.vouched) > 0:
		return ""
	}
	return fmt.Sprintf("its host is not in scope, and no robots.txt in scope names it or an index of the same host; "+
		"%s names it", m.link.URL)
}

// sitemapFacts are stored of a sitemap that was read. They tell whether a later voucher would change the result of the
// reading.
type sitemapFacts struct {
	leads bool                   // it names other sitemaps, to which the voucher must be passed on
	more  bool                   // entries of more hosts were left out than are listed
	left  map[weburl.HostID]bool // hosts whose entries were left out, because they do not vouch
	// leftOut says how many entries were not followed, by reason, and in which edition of the rules; package scope
	// makes it.
	leftOut []uint64
}

// edition returns the edition of the rules by which the sitemap was read.
func (f *sitemapFacts) edition() uint64 {
	if len(f.leftOut) == 0 {
		return 0
	}
	return f.leftOut[0]
}

// maxLeft is how many hosts are listed.
const maxLeft = 1000

func (f *sitemapFacts) leaveOut(h weburl.HostID) {
	if !f.left[h] && len(f.left) == maxLeft {
		f.more = true
		return
	}
	f.left[h] = true
}

// concernsAny reports whether reading the sitemap again would bring more, if these hosts vouched for it.
func (f *sitemapFacts) concernsAny(hosts []weburl.HostID) bool {
	if len(hosts) > 0 && (f.leads || f.more) {
		return true
	}
	return slices.ContainsFunc(hosts, func(h weburl.HostID) bool { return f.left[h] })
}

// Flags in the stored form of sitemapFacts.
const (
	sitemapLeads   = 1
	sitemapMore    = 2
	sitemapLeftOut = 4
)

// bytes is the stored form: flags, then the hosts in order, 8 bytes each. With the flag sitemapLeftOut, the numbers of
// leftOut follow and then how many they are, 8 bytes each too.
func (f *sitemapFacts) bytes() []byte {
	var flags byte
	if f.leads {
		flags |= sitemapLeads
	}
	if f.more {
		flags |= sitemapMore
	}
	if len(f.leftOut) > 0 {
		flags |= sitemapLeftOut
	}
	b := []byte{flags}
	for _, h := range slices.Sorted(maps.Keys(f.left)) {
		b = binary.BigEndian.AppendUint64(b, uint64(h))
	}
	if len(f.leftOut) > 0 {
		for _, n := range f.leftOut {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		b = binary.BigEndian.AppendUint64(b, uint64(len(f.leftOut)))
	}
	return b
}

// readSitemapFacts is the inverse of bytes. A sitemap that made the crawler panic has no such facts; then the result
// says that a voucher changes nothing.
func readSitemapFacts(b []byte) *sitemapFacts {
	f := &sitemapFacts{left: map[weburl.HostID]bool{}}
	if len(b)%8 != 1 {
		return f
	}
	f.leads, f.more = b[0]&sitemapLeads != 0, b[0]&sitemapMore != 0
	numbered := b[0]&sitemapLeftOut != 0
	b = b[1:]
	if numbered && len(b) > 0 {
		n := binary.BigEndian.Uint64(b[len(b)-8:])
		b = b[:len(b)-8]
		if n <= uint64(len(b)/8) {
			first := len(b) - 8*int(n)
			for list := b[first:]; len(list) > 0; list = list[8:] {
				f.leftOut = append(f.leftOut, binary.BigEndian.Uint64(list))
			}
			b = b[:first]
		}
	}
	for ; len(b) > 0; b = b[8:] {
		f.left[weburl.HostID(binary.BigEndian.Uint64(b))] = true
	}
	return f
}

// What counts as new and as old for entryPriority.
const (
	freshEntry = 7 * 24 * time.Hour
	staleEntry = 365 * 24 * time.Hour
)

// entryPriority orders the entries of a sitemap by the weight that the sitemap gives them. An entry that has changed
// lately comes one step earlier, and one that has not changed for long comes one step later.
func entryPriority(e *sitemap.Entry, now time.Time) uint8 {
	weight := e.Priority
	if weight < 0 {
		weight = 0.5
	}
	p, lowest := frontier.SitemapPriority(weight), frontier.SitemapPriority(0)
	if e.LastMod.IsZero() {
		return p
	}
	switch age := now.Sub(e.LastMod); {
	case age < freshEntry:
		return max(p-1, frontier.PriorityStart+1)
	case age > staleEntry:
		return min(p+1, lowest)
	}
	return p
}
