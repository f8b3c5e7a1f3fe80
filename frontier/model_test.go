package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// testSeed is FRONTIER_SEED, to repeat a failure, or drawn at random.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("FRONTIER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("FRONTIER_SEED=%d", seed)
	return seed
}

// The model is a frontier of maps and slices that looks at everything all the
// time. It says what each host's next lease is for, and when.
type model struct {
	t     *testing.T
	o     Options
	now   func() time.Time
	urls  map[string]*modelURL // by nameOf
	order int
	hosts map[string]*modelHost
	open  int // depth
	used  int64
	held  int // source tokens
	round int // calls of AskRobotsAgain
}

type modelURL struct {
	link     Link // as it was queued, in its last visit
	url      string
	host     *modelHost
	origin   string
	priority uint8
	sitemap  bool
	depth    int // as the gate counts it: 0 of a sitemap
	order    int
	state    modelState
	attempts int
	at       time.Time
	waited   int // order of going back
	ticket   bool
}

type modelState int

const (
	modelQueued modelState = iota
	modelLeased
	modelWaiting
	modelFinished
)

type modelHost struct {
	name       string
	pace       pace.Pace
	last       time.Time
	notBefore  time.Time
	inflight   int
	unstarted  int
	wire       int
	robots     map[string]time.Time
	crawl      map[string]time.Duration
	least      time.Duration // that a lease for the robots.txt of others gave it, until its own is known
	robotsOut  bool
	blocked    bool
	abandoned  bool
	failures   int
	tickets    int64
	pageLeases int
	lastPage   bool // the last lease of a URL that was not a retry was a page
	asks       modelAsks
}

func (m *model) hostOf(name string) *modelHost {
	h := m.hosts[name]
	if h == nil {
		h = &modelHost{name: name, robots: map[string]time.Time{}, crawl: map[string]time.Duration{},
			asks: modelAsks{provisional: map[string]bool{}}}
		m.hosts[name] = h
	}
	return h
}

// nameOf tells a page and a sitemap with the same URL apart.
func nameOf(u weburl.URL, sitemap bool) string {
	if sitemap {
		return "sitemap " + u.String()
	}
	return u.String()
}

// urlOf is the URL of a lease that is not of a robots.txt.
func (m *model) urlOf(l *Lease) *modelURL { return m.urls[nameOf(l.URL(), l.Kind() == KindSitemap)] }

// add is what the frontier must do with a link that was found: it reports whether the link is new and recorded.
func (m *model) add(l Link) bool {
	name := nameOf(l.URL, l.Sitemap)
	if m.urls[name] != nil {
		return false
	}
	if m.o.Admit != nil {
		m.o.Admit(&l, nil)
	}
	if l.Skip > 0 {
		return false
	}
	l.settlePriority()
	u := l.URL
	h := m.hostOf(u.Host())
	m.order++
	added := &modelURL{link: l, url: u.String(), host: h, origin: u.Origin(), priority: l.Priority, sitemap: l.Sitemap,
		depth: int(l.Depth), order: m.order}
	if l.Sitemap {
		added.depth = 0
	}
	if l.Finish != nil {
		added.state = modelFinished
	}
	m.urls[name] = added
	return true
}

// openLevel is the gate.
func (m *model) openLevel() {
	if !m.o.LevelByLevel {
		m.open = 1000
		return
	}
	least := 1000
	if m.held > 0 {
		least = 0
	}
	for _, u := range m.urls {
		if u.state == modelLeased || u.state != modelFinished && m.runnable(u) {
			least = min(least, u.depth)
		}
	}
	for _, h := range m.hosts {
		if h.robotsOut || h.asks.asking > 0 {
			least = 0
		}
	}
	if least != 1000 {
		m.open = max(m.open, least)
	}
}

func (m *model) limited(h *modelHost) bool {
	return m.o.MaxURLsPerHost > 0 && h.tickets >= m.o.MaxURLsPerHost
}

// runnable reports whether a URL may still be leased in this run.
func (m *model) runnable(u *modelURL) bool {
	if u.sitemap && m.o.SkipSitemaps {
		return false
	}
	return !u.host.blocked && !u.host.abandoned && (u.sitemap || !m.limited(u.host) || u.state == modelWaiting &&
		u.ticket)
}

// pick is what a host would lease at a time: a URL that goes first, and whether a
// robots.txt is needed before.
func (m *model) pick(h *modelHost, at time.Time) (u *modelURL, robots bool) {
	return m.pickWith(h, at, m.o.MaxURLs > 0 && m.used >= m.o.MaxURLs)
}

// pickWith is pick with or without tickets left.
func (m *model) pickWith(h *modelHost, at time.Time, noTicket bool) (u *modelURL, robots bool) {
	var best *modelURL
	for _, c := range m.urls {
		if c.host != h || !m.runnable(c) || c.depth > m.open || noTicket && !c.ticket {
			continue
		}
		switch {
		case c.state == modelWaiting && !c.at.After(at):
			if best == nil || best.state == modelQueued || cmp.Or(c.at.Compare(best.at),
				cmp.Compare(c.waited, best.waited)) < 0 {
				best = c
			}
		case c.state == modelQueued:
			if best == nil || best.state == modelQueued && h.goesFirst(c, best) {
				best = c
			}
		}
	}
	if best == nil || h.robotsOut || h.asks.away != nil {
		return nil, false
	}
	if !m.o.IgnoreRobots && !h.robots[best.origin].After(at) {
		return best, true
	}
	return best, false
}

// goesFirst reports whether a queued URL is leased before another of the same host.
func (h *modelHost) goesFirst(u, v *modelURL) bool {
	if u.sitemap == v.sitemap {
		return cmp.Or(cmp.Compare(u.priority, v.priority), cmp.Compare(u.order, v.order)) < 0
	}
	page := u
	if u.sitemap {
		page = v
	}
	pageFirst := page.priority == PriorityStart || !h.lastPage
	return pageFirst == (page == u)
}

// describe is what the model knows of a host, for failing tests.
func (m *model) describe(h *modelHost) string {
	text := fmt.Sprintf("options %+v\nused %d open %d host %+v\n", m.o, m.used, m.open, *h)
	for _, u := range m.urls {
		if u.host == h && u.state != modelFinished {
			text += fmt.Sprintf("%s state %d attempts %d at %v ticket %v\n", u.url, u.state, u.attempts, u.at, u.ticket)
		}
	}
	return text
}

// earliest is when a host may be leased, and false if it waits for something
// other than time.
func (m *model) earliest(h *modelHost) (time.Time, bool) {
	c := &m.o.Pace
	if h.blocked || h.abandoned || h.inflight >= h.pace.Limit(c) || h.unstarted > 0 && h.pace.Delay(c) > 0 {
		return time.Time{}, false
	}
	at := m.now()
	for _, t := range []time.Time{h.pace.NextStart(c, h.last, 0), h.notBefore} {
		if t.After(at) {
			at = t
		}
	}
	if u, _ := m.pick(h, at); u != nil || h.question() != nil {
		return at, true
	}
	if at, ok := m.late(h, at); ok {
		return at, true
	}
	found := false
	var first time.Time
	for _, u := range m.urls { // only retries are left, later
		if u.host == h && u.state == modelWaiting && u.at.After(at) && (!found || u.at.Before(first)) {
			if v, _ := m.pick(h, u.at); v != nil {
				first, found = u.at, true
			}
		}
	}
	return first, found
}

// expect is what Next should do: return at a time, or return an error, or wait
// for ever.
func (m *model) expect() (at time.Time, err error) {
	leased, waiting, urls := 0, 0, 0
	for _, h := range m.hosts {
		leased += h.inflight
	}
	for _, u := range m.urls {
		if u.state != modelFinished && (m.runnable(u) || u.state == modelLeased) {
			urls++
			if u.state == modelWaiting && u.ticket {
				waiting++
			}
		}
	}
	if leased+urls+m.held == 0 {
		return at, ErrDrained
	}
	if m.o.MaxURLs > 0 && m.used >= m.o.MaxURLs && leased+waiting == 0 && urls > 0 {
		return at, ErrLimit
	}
	found := false
	for _, h := range m.hosts {
		if t, ok := m.earliest(h); ok && (!found || t.Before(at)) {
			at, found = t, true
		}
	}
	if !found {
		return at, context.DeadlineExceeded
	}
	return at, nil
}

func TestModel(t *testing.T) {
	seed := testSeed(t)
	for i := range uint64(rounds()) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("in round %d", i)
				}
			}()
			runModel(t, rand.New(rand.NewPCG(seed, i)))
		})
		if t.Failed() {
			return
		}
	}
}

func oneOf[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func runModel(t *testing.T, r *rand.Rand) {
	// A tight frontier may be late; it must still be right, and bring the crawl to
	// its end.
	tight := r.IntN(3) == 0
	delay := oneOf(r, 0, 0, time.Second, 700*time.Millisecond)
	o := Options{
		Seed: r.Uint64(), Shards: 1 + r.IntN(4), KeepTurn: 1 + r.IntN(3), MaxInMemory: 200, MaxHosts: 100,
		Pace: pace.Config{MinDelay: delay, MaxDelay: delay, MaxInflight: 1 + r.IntN(3), MaxFailures: 2 +
			r.IntN(5)}.WithDefaults(),
		LevelByLevel:     r.IntN(3) == 0,
		IgnoreRobots:     r.IntN(3) == 0,
		MaxRetries:       oneOf(r, Off, 0, 1),
		FailureThreshold: oneOf(r, Off, 3, 20),
		MaxURLs:          oneOf[int64](r, 0, 0, 20, 60),
		MaxURLsPerHost:   oneOf[int64](r, 0, 0, 0, 5),
		FilterCapacity:   1, HotSetBytes: 1,
	}
	if r.IntN(2) == 0 {
		o.Admit = admitSome
	}
	o.SkipSitemaps = r.IntN(4) == 0
	o.Names, o.Generation = testNames, uint32(r.IntN(2))
	if r.IntN(2) == 0 {
		o.Registry = pace.NewRegistry() // a crawl alone in it behaves as one without
	}
	if tight {
		o.MaxInMemory, o.MaxHosts, o.MaxRobots = 1+r.IntN(8), 1+r.IntN(4), 1+r.IntN(2)
	}
	store := &keptStore{memStore: newMemStore(), t: t, generation: o.Generation, names: names{}}
	f := newTest(t, o, store)
	f.NameLinks()
	o = o.withDefaults()
	m := &model{t: t, o: o, now: time.Now, urls: map[string]*modelURL{}, hosts: map[string]*modelHost{}}
	d := &driver{t: t, r: r, f: f, m: m, tight: tight, asked: map[*Lease]*modelQuestion{}, names: names{}}
	for range 300 {
		d.step()
		if t.Failed() {
			return
		}
	}
	d.finish(store)
}

// A driver does the same to a frontier and to a model.
type driver struct {
	t        *testing.T
	r        *rand.Rand
	f        *Frontier
	m        *model
	tight    bool
	leases   []*Lease
	releases []func()
	back     int
	asked    map[*Lease]*modelQuestion // of the leases that are out
	kept     kept                      // what records must have kept
	names    names                     // likewise
}

func (d *driver) step() {
	switch n := d.r.IntN(100); {
	case n < 12:
		d.add()
	case n < 55:
		if len(d.leases) < 5 {
			d.next()
		} else {
			d.end()
		}
	case n < 85:
		d.end()
	case n < 87:
		d.askAgain()
	case n < 91:
		time.Sleep(time.Duration(d.r.IntN(3000)) * time.Millisecond)
	case n < 93:
		d.releases = append(d.releases, d.f.Source())
		d.m.held++
	case n < 97:
		if len(d.releases) > 0 {
			d.releases[0]()
			d.releases = d.releases[1:]
			d.m.held--
		}
	default:
		if err := d.f.Checkpoint(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	d.m.openLevel()
	synctest.Wait()
	checkInvariants(d.t, d.f)
}

// link is one of few URLs on few hosts, each with two origins.
func (d *driver) link(depth int) Link {
	l := Link{
		URL:   mustURL(fmt.Sprintf("%s://h%d.example/%d", oneOf(d.r, "http", "https"), d.r.IntN(6), d.r.IntN(25))),
		Depth: uint16(depth),
	}
	l.Source, l.Hops, l.Repeats = uint8(d.r.IntN(4)), uint8(d.r.IntN(3)), oneOf[uint8](d.r, 0, 0, 1, 200)
	if l.Sitemap = d.r.IntN(8) == 0; l.Sitemap {
		return l
	}
	if depth == 0 {
		l.Priority = uint8(d.r.IntN(3))
	}
	return l
}

func (d *driver) add() {
	var links []Link
	for range d.r.IntN(8) {
		links = append(links, d.link(0))
	}
	want := d.found(links, weburl.Key{})
	if n, err := d.f.Add(d.t.Context(), links); n != want || err != nil {
		d.t.Fatalf("added %d, want %d: %v", n, want, err)
	}
}

func (d *driver) next() {
	at, want := d.m.expect()
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Hour)
	defer cancel()
	l, err := d.f.Next(ctx)
	now := time.Now()
	if err != nil || want != nil {
		if d.tight && errors.Is(err, context.DeadlineExceeded) && want == nil && len(d.leases) > 0 {
			return // memory or places of active hosts are held by the leases that are out
		}
		if !errors.Is(err, want) {
			d.t.Fatalf("Next: %v, want %v, %v from now\n%s", err, want, at.Sub(now), dump(d.f))
		}
		return
	}
	if now.Before(at) || now.After(at) && !d.tight {
		d.t.Fatalf("%s was leased at %v, want %v\n%s", l.URL().String(), now, at, dump(d.f))
	}
	d.check(l, now)
	d.leases = append(d.leases, l)
}

// check holds a lease against what the model has for its host, and notes it.
func (d *driver) check(l *Lease, now time.Time) {
	t, m := d.t, d.m
	h := m.hosts[mustParse(t, l.URL().String()).Host()]
	if d.tight && l.Kind() == KindRobots {
		d.forget(l, h)
	}
	if at, ok := m.earliest(h); !ok || at.After(now) {
		t.Fatalf("%s was leased at %v, earliest is %v, %v\n%+v\n%s", l.URL().String(), now, at, ok, m.describe(h),
			dump(d.f))
	}
	if l.Kind() == KindRobots && d.checkRobots(l, h, now) {
		return
	}
	u, robots := m.pick(h, now)
	if v, r := m.pickWith(h, now, true); m.o.MaxURLs > 0 && v != nil &&
		(r && l.Kind() == KindRobots && l.URL().Origin() == v.origin || l.Kind() == KindPage &&
			l.URL().String() == v.url) {
		// Tickets had run out, one came back, and another host may be told first.
		u, robots = v, r
	}
	if d.tight && u.sitemap && (l.Kind() == KindPage || robots && l.URL().Origin() != u.origin) {
		// A host without work may have been forgotten, and with it that it is a sitemap's turn.
		h.lastPage = false
		u, robots = m.pick(h, now)
	}
	h.inflight++
	h.unstarted++
	if robots {
		if l.Kind() != KindRobots || l.URL().Origin() != u.origin {
			t.Fatalf("leased %v %s, want the robots.txt of %s", l.Kind(), l.URL().String(), u.origin)
		}
		h.robotsOut, h.asks.round = true, m.round
		return
	}
	want := KindPage
	if u.sitemap {
		want = KindSitemap
	}
	if l.Kind() != want || l.URL().String() != u.url || l.Attempt() != u.attempts+1 {
		t.Fatalf("leased %v %s #%d, want %s #%d\n%s", l.Kind(), l.URL().String(), l.Attempt(), u.url, u.attempts+1,
			dump(d.f))
	}
	if got, want := l.Link(), u.link; got.Source != want.Source || got.Hops != want.Hops ||
		got.Repeats != want.Repeats || got.Sitemap != want.Sitemap || got.Visit != max(1, want.Visit) ||
		got.Before != want.Before {
		t.Fatalf("leased %+v, which was queued as %+v", got, want)
	}
	if u.state == modelQueued {
		h.lastPage = !u.sitemap
	}
	u.state = modelLeased
	if u.sitemap {
		return
	}
	if !u.ticket {
		m.used++
		h.tickets++
	}
	h.pageLeases++
}

// forget has the model forget what the frontier has forgotten: when few hosts may be active,
// a host without work is not remembered, and its robots.txt neither.
func (d *driver) forget(l *Lease, h *modelHost) {
	l.s.lock()
	defer l.s.unlock()
	for name := range h.robots {
		o, _ := originOf(mustParse(d.t, name))
		if l.s.origins.get(l.host, l.s.hosts.at(l.host), o).until == 0 {
			delete(h.robots, name)
			delete(h.crawl, name)
		}
	}
	h.least = min(h.least, l.s.schedule.pace(l.host, l.s.hosts.at(l.host)).CrawlDelay())
	h.setCrawl(d.m)
}

// setCrawl gives the host the longest delay that its origins ask for.
func (h *modelHost) setCrawl(m *model) {
	most := h.least
	for _, delay := range h.crawl {
		most = max(most, delay)
	}
	h.pace, _ = h.pace.WithCrawlDelay(&m.o.Pace, most)
}

// end starts and ends one of the leases in some way.
func (d *driver) end() {
	if len(d.leases) == 0 {
		return
	}
	i := d.r.IntN(len(d.leases))
	l := d.leases[i]
	h := d.m.hosts[mustParse(d.t, l.URL().String()).Host()]
	if l.started == 0 && d.r.IntN(4) > 0 {
		startLease(d.t, l)
		h.unstarted--
		h.wire++
		h.last = time.Now()
		if d.r.IntN(2) == 0 {
			return // later
		}
	}
	if l.started != 0 && d.r.IntN(6) == 0 {
		d.repeat(l, h)
	}
	if d.r.IntN(2) == 0 {
		if err := l.RecordInFlight(); err != nil {
			d.t.Fatal(err)
		}
	}
	d.leases = slices.Delete(d.leases, i, i+1)
	time.Sleep(time.Duration(d.r.IntN(3)*100) * time.Millisecond)
	if d.r.IntN(15) == 0 {
		l.Abandon()
		d.ended(l, h, Result{}, Returned, true)
		return
	}
	r := Result{Class: oneOf(d.r, pace.ClassOK, pace.ClassOK, pace.ClassOK, pace.ClassNone, pace.ClassForbidden,
		pace.ClassServerError, pace.ClassNetwork, pace.ClassThrottled, pace.ClassUnavailable, pace.ClassDropped,
		pace.ClassOurs)}
	if l.Kind() == KindRobots {
		if d.r.IntN(4) == 0 {
			r.RobotsAt = d.redirect()
		} else if d.r.IntN(5) > 0 {
			r.RobotsUntil = time.Now().Add(time.Duration(1+d.r.IntN(100)) * time.Second)
			r.CrawlDelay = oneOf(d.r, 0, 0, 0, 2*time.Second)
			r.RobotsProvisional = d.r.IntN(3) == 0
		}
	} else {
		if d.r.IntN(8) > 0 {
			r.Finish = &Finish{Outcome: uint8(d.r.IntN(3)), Status: 304, Bytes: d.r.Uint64N(1e6)}
		}
		r.Final = d.r.IntN(10) == 0
		for range d.r.IntN(5) {
			r.Links = append(r.Links, d.link(d.m.urlOf(l).depth+oneOf(d.r, 0, 1, 1, 1)))
		}
		like := d.link(d.m.urlOf(l).depth + 1)
		r.Origin = Origin{Depth: like.Depth, Source: like.Source, Repeats: like.Repeats}
		for range d.r.IntN(5) {
			r.Found = append(r.Found, Found{URL: d.link(1).URL})
		}
		r.Skips = []Skip{{Reason: 1, Count: uint64(1 + d.r.IntN(3))}}
		r.Evidence = []Evidence{{Partition: l.key.Host.Partition(), Kind: 1, Subject: l.key.Lo}}
		r.Again = d.r.IntN(5) == 0
		for range d.r.IntN(3) {
			r.Facts = append(r.Facts, CrawlFact{Name: "fact"})
		}
	}
	r.Delay = oneOf(d.r, 0, 0, time.Minute)
	if r.Class == pace.ClassThrottled {
		r.RetryAfter = oneOf(d.r, 0, 10*time.Second)
	}
	got, err := l.Done(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.ended(l, h, r, got, false)
}

// repeat sends the request of a lease again: that is allowed exactly when the host's
// pace would allow a new request.
func (d *driver) repeat(l *Lease, h *modelHost) {
	c, now := &d.m.o.Pace, time.Now()
	var want error
	if h.blocked || h.abandoned || h.unstarted > 0 && h.pace.Delay(c) > 0 ||
		h.pace.NextStart(c, h.last, 0).After(now) || h.notBefore.After(now) {
		want = ErrTooSoon
	}
	if err := l.Start(); err != want {
		d.t.Fatalf("repeat %s: %v, want %v", l.URL(), err, want)
	}
	if want == nil {
		h.last = now
	}
}

// ended lets the model know how a lease ended, and checks what became of it.
func (d *driver) ended(l *Lease, h *modelHost, r Result, got Disposition, abandoned bool) {
	m, c, now := d.m, &d.m.o.Pace, time.Now()
	start := time.Unix(0, l.started)
	spent := l.started != 0
	inflight := 1
	if spent {
		inflight = l.wire
		h.wire--
	} else {
		start = time.Unix(0, l.granted)
		h.unstarted--
	}
	h.inflight--
	e := pace.Event{Class: r.Class, Start: start, Now: now, RetryAfter: r.RetryAfter, URL: l.key.Lo, Inflight: inflight}
	if l.Kind() == KindRobots {
		e.URL = uint64(l.origin)<<8 | uint64(l.kind)
	}
	var ch pace.Change
	if r.Class != pace.ClassNone {
		h.pace, ch = h.pace.Apply(c, e)
		h.blocked = h.blocked || h.pace.Blocked()
	}
	defer m.refuse()
	if l.Kind() == KindRobots {
		d.endedRobots(l, h, r, ch, abandoned)
		return
	}
	u := m.urlOf(l)
	if u.sitemap {
		spent = false
	} else {
		h.pageLeases--
		spent = spent || u.ticket || r.Class != pace.ClassNone && r.Class != pace.ClassOurs
		if !spent {
			m.used--
			h.tickets--
		}
	}
	failed := ch.Meaning == pace.MeaningRefused || ch.Meaning == pace.MeaningFailed
	want := Finished
	switch {
	case abandoned || r.Finish == nil || r.Class == pace.ClassOurs:
		want = Returned
	case (failed || r.Class == pace.ClassDropped) && !r.Final && u.attempts < m.o.MaxRetries:
		want = Retrying
	}
	if got != want {
		d.t.Fatalf("%s: %v, want %v", l.URL().String(), got, want)
	}
	if want == Finished {
		u.state = modelFinished
		switch {
		case u.sitemap:
		case ch.Meaning == pace.MeaningAnswered && r.Class == pace.ClassOK:
			h.failures = 0
		case failed:
			if h.failures++; m.o.FailureThreshold != Off && h.failures >= m.o.FailureThreshold {
				h.abandoned = true
			}
		}
		d.kept.count(r.Skips, r.Evidence)
		d.kept.facts += len(r.Facts)
		d.found(append(foundLinks(&r), r.Links...), l.key)
		if r.Again {
			d.again(l, u, r.Finish, spent)
		}
		return
	}
	u.state, u.ticket, u.at = modelWaiting, spent, now.Add(r.Delay)
	if want == Retrying || abandoned {
		u.attempts++
	}
	if abandoned {
		u.at = now.Add(pace.Backoff(u.attempts, c.MaxBackoff))
	}
	if want == Retrying {
		if at := h.pace.RetryAt(c, e, u.attempts); at.After(u.at) {
			u.at = at
		}
	}
	d.back++
	u.waited = d.back
}

// again has the model queue another visit of a URL that was finished.
func (d *driver) again(l *Lease, u *modelURL, f *Finish, counted bool) {
	u.link = l.Link() // with the depth that it was leased with, which may be less than it was queued with
	u.link.Visit++
	u.link.Before = Summary{Outcome: f.Outcome, Status: f.Status, Bytes: f.Bytes, Counted: counted}
	u.link.settlePriority()
	u.priority = u.link.Priority
	if !u.sitemap {
		u.depth = int(u.link.Depth)
	}
	d.m.order++
	u.state, u.order, u.attempts, u.ticket = modelQueued, d.m.order, 0, false
	d.kept.visits++
}

// finish ends all that is open, and crawls until nothing is left.
func (d *driver) finish(store *keptStore) {
	for _, release := range d.releases {
		release()
		d.m.held--
	}
	d.m.openLevel()
	for len(d.leases) > 0 {
		d.end()
		d.m.openLevel()
	}
	for !d.t.Failed() {
		_, want := d.m.expect()
		if want != nil && !errors.Is(want, context.DeadlineExceeded) {
			if _, err := d.f.Next(d.t.Context()); !errors.Is(err, want) {
				d.t.Fatalf("Next: %v, want %v", err, want)
			}
			break
		}
		d.next()
		for len(d.leases) > 0 && !d.t.Failed() {
			d.end()
		}
		d.m.openLevel()
	}
	finished, pending := 0, int64(0)
	for _, u := range d.m.urls {
		if u.state == modelFinished || u.link.Visit > 1 {
			finished++
		}
		if u.state != modelFinished {
			pending++
		}
	}
	links, done := store.Len()
	if links != len(d.m.urls) || done != finished {
		d.t.Errorf("the store has %d links and %d finished, want %d and %d", links, done, len(d.m.urls), finished)
	}
	if n := store.Inflight(); n != 0 {
		d.t.Errorf("%d are in flight", n)
	}
	if store.kept != d.kept {
		d.t.Errorf("records have %+v, want %+v", store.kept, d.kept)
	}
	store.names.want(d.t, d.names)
	if st := d.f.Stats(); st.Violations != 0 || st.Tickets != d.m.used || st.Peak > int64(d.m.o.MaxInMemory) ||
		st.Pending+st.Sitemaps != pending {
		d.t.Errorf("%+v", st)
	}
}

// rounds is FRONTIER_ROUNDS, or as many as a quick test can have.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("FRONTIER_ROUNDS")); err == nil {
		return n
	}
	return 40
}
