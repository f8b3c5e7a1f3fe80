package state

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

const modelSeed = 42 // hash seed of stores that are compared with a model

// A model is a store made of maps. Its records are a function of its seed and
// of how many there were before, so that two processes can make the same.
type model struct {
	rng    *rand.Rand
	hasher weburl.Hasher
	n      int // records made

	links    map[weburl.Key]frontier.Link
	order    map[weburl.HostID][]frontier.Link // as they were named
	finishes map[weburl.Key]*frontier.Finish
	held     map[weburl.Key]*frontier.Finish // the last one that did not keep earlier facts
	named    map[weburl.Key][2]NamedIn       // linked, listed
	changes  map[changeID]Change
	hosts    map[weburl.HostID]frontier.HostFact
	origins  map[string]frontier.OriginFact
	facts    map[string][]byte
	vouchers map[weburl.Key]map[weburl.HostID]uint32 // visit, by sitemap and host
	counters Counters
	skips    map[uint8]*[numSkipReasons]uint64 // by partition
	open     []weburl.Key                      // named, or queued again, and not finished
	done     []weburl.Key                      // named and finished, at least once
	visit    map[weburl.Key]uint32             // the one that is queued, from 2 on
}

// A changeID is what the store keeps one change for.
type changeID struct {
	key        weburl.Key
	generation uint32
}

func newModel(seed uint64) *model {
	return &model{
		rng: rand.New(rand.NewPCG(seed, seed)), hasher: weburl.NewHasher(modelSeed),
		links: map[weburl.Key]frontier.Link{}, order: map[weburl.HostID][]frontier.Link{},
		finishes: map[weburl.Key]*frontier.Finish{},
		held:     map[weburl.Key]*frontier.Finish{}, named: map[weburl.Key][2]NamedIn{},
		changes: map[changeID]Change{},
		hosts:   map[weburl.HostID]frontier.HostFact{}, origins: map[string]frontier.OriginFact{},
		facts: map[string][]byte{}, vouchers: map[weburl.Key]map[weburl.HostID]uint32{},
		visit: map[weburl.Key]uint32{},
		skips: map[uint8]*[numSkipReasons]uint64{},
	}
}

// record makes the next record and applies it to the model. Its number is a
// run fact.
func (m *model) record() frontier.Record {
	m.n++
	var r frontier.Record
	now := time.UnixMilli(1_700_000_000_000 + int64(m.n)).UTC()
	parent := weburl.URL{}
	if len(m.open) > 0 && m.rng.IntN(3) > 0 {
		i := m.rng.IntN(len(m.open))
		k := m.open[i]
		m.open = slices.Delete(m.open, i, i+1)
		parent = m.links[k].URL
		r.Finish = &frontier.Finish{
			Key: k, Outcome: uint8(m.rng.IntN(20)), Counted: m.rng.IntN(2) > 0, Status: uint16(m.rng.IntN(6) * 100),
			Attempts: 1, CheckedAt: now,
			Bytes: m.rng.Uint64N(1e6), Facts: m.blob(300),
		}
		r.Finish.Sitemap = m.links[k].Sitemap
		r.Finish.Visit, r.Finish.Generation = max(1, m.visit[k]), max(1, m.visit[k])-1
		if r.Finish.Visit > 1 {
			m.later(r.Finish, now)
		}
		if m.rng.IntN(5) == 0 {
			r.Finish.RedirectTo = "https://elsewhere.example/"
		}
		r.Returned = append(r.Returned, k)
	}
	for range m.rng.IntN(6) {
		r.Links = append(r.Links, m.link(parent, now))
	}
	if m.rng.IntN(4) == 0 {
		r.Visits = m.revisits(r.Finish)
	}
	if f := r.Finish; f != nil && m.rng.IntN(4) == 0 { // as Result.Again does
		r.Visits = append(r.Visits, m.nextVisit(f))
	}
	for range m.rng.IntN(3) {
		if len(m.done) > 0 {
			n := frontier.Named{Key: m.done[m.rng.IntN(len(m.done))], Linked: m.rng.IntN(2) == 0,
				Generation: uint32(m.n)}
			if n.Listed = m.rng.IntN(2) == 0; n.Listed {
				n.LastMod = now
			}
			r.Named = append(r.Named, n)
		}
	}
	for _, l := range r.Links {
		if l.Sitemap && m.rng.IntN(2) == 0 {
			r.Vouchers = append(r.Vouchers, frontier.Voucher{Key: l.Key, Host: weburl.HostID(m.rng.Uint64()),
				Visit: m.rng.Uint32()})
		}
	}
	if m.rng.IntN(8) == 0 {
		h := m.rng.IntN(12)
		name := fmt.Sprintf("h%d.example", h)
		r.Hosts = append(r.Hosts, frontier.HostFact{Host: m.hasher.HostID(name), Name: name, Pages: m.rng.Int64N(9),
			Learned: pace.Learned{Delay: time.Duration(m.rng.IntN(1e4)) * time.Millisecond, LastSuccess: now}})
	}
	if m.rng.IntN(8) == 0 {
		host := fmt.Sprintf("h%d.example", m.rng.IntN(12))
		r.Origins = append(r.Origins, frontier.OriginFact{Host: m.hasher.HostID(host), Origin: "https://" + host,
			Fetched: now, Body: m.blob(200)})
	}
	if m.rng.IntN(8) == 0 {
		n := m.rng.IntN(4)
		f := frontier.CrawlFact{Partition: uint8(n * 50), Name: fmt.Sprintf("fact%d", n)}
		if m.rng.IntN(2) > 0 {
			f.Value = append([]byte{}, m.blob(100)...)
		}
		r.Facts = append(r.Facts, f)
	}
	for range m.rng.IntN(3) {
		r.Skips = append(r.Skips, frontier.Skip{Partition: uint8(m.rng.IntN(4) * 50),
			Reason: uint8(m.rng.IntN(numSkipReasons)), Count: m.rng.Uint64N(1000)})
	}
	r.Facts = append(r.Facts, frontier.CrawlFact{Name: "n", Value: []byte(strconv.Itoa(m.n))})
	m.apply(&r)
	return r
}

// later fills in what a visit after the first says.
func (m *model) later(f *frontier.Finish, now time.Time) {
	last := m.finishes[f.Key]
	f.Before = last.Summary()
	if f.KeepFacts = m.rng.IntN(2) == 0; f.KeepFacts {
		f.Outcome, f.Status, f.Bytes, f.Counted = last.Outcome, last.Status, last.Bytes, m.rng.IntN(2) > 0
		if f.NotModified = m.rng.IntN(2) == 0; f.NotModified {
			f.Facts = nil
		} else {
			f.Failures = last.Failures + 1
		}
	}
	f.Generation = last.Generation + uint32(m.rng.IntN(2))
	f.Change, f.Changes, f.ChangedAt = uint8(m.rng.IntN(6)), last.Changes, last.ChangedAt
	if f.Generation > 0 && m.rng.IntN(2) == 0 {
		f.Changes, f.ChangedAt, f.Differences = f.Changes+1, now, m.blob(40)
	}
}

// nextVisit is the visit after a finish.
func (m *model) nextVisit(f *frontier.Finish) frontier.Link {
	l := m.links[f.Key]
	m.visit[f.Key] = max(1, f.Visit) + 1
	return frontier.Link{Key: f.Key, URL: l.URL, Depth: l.Depth, Priority: l.Priority, Source: l.Source,
		Sitemap: l.Sitemap, Visit: m.visit[f.Key], Before: f.Summary()}
}

// revisits are some links that are finished, to be visited once more; none that is just being finished.
func (m *model) revisits(finish *frontier.Finish) []frontier.Link {
	var links []frontier.Link
	for range min(3, len(m.done)) {
		k := m.done[m.rng.IntN(len(m.done))]
		f := m.finishes[k]
		if m.visit[k] > f.Visit || finish != nil && finish.Key == k {
			continue // it is queued, or will be finished now
		}
		links = append(links, m.nextVisit(f))
	}
	return links
}

func (m *model) blob(limit int) []byte {
	b := make([]byte, m.rng.IntN(limit))
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	return record.Cloned(b)
}

func (m *model) link(parent weburl.URL, now time.Time) frontier.Link {
	host := fmt.Sprintf("h%d.example", m.rng.IntN(12))
	url := fmt.Sprintf("https://%s/%d/%x", host, m.n, m.rng.Uint64())
	l := frontier.Link{
		Key: m.hasher.KeyOf(m.hasher.HostID(host), []byte(url)), URL: mustURL(url), Parent: parent,
		Depth: uint16(m.rng.IntN(400)), Priority: uint8(m.rng.IntN(3)), Source: uint8(m.rng.IntN(6)), Discovered: now,
	}
	if m.rng.IntN(4) == 0 {
		l.LastMod = now.Add(-time.Hour)
		l.Hops = uint8(m.rng.IntN(10))
		l.Repeats = 20 * l.Hops
	}
	if m.rng.IntN(6) == 0 {
		l.Sitemap, l.Priority, l.Key = true, frontier.PrioritySitemap, frontier.SitemapKey(m.hasher, l.URL)
	}
	if m.rng.IntN(6) == 0 {
		l.Finish = &frontier.Finish{Sitemap: l.Sitemap, Outcome: uint8(m.rng.IntN(20)), CheckedAt: now,
			Facts: m.blob(50)}
	}
	return l
}

// setLink takes what the store keeps of a link but for its place in the queue.
func (m *model) setLink(l frontier.Link) {
	l.Repeats = 0 // only the queue has it
	m.links[l.Key] = l
}

func (m *model) apply(r *frontier.Record) {
	for _, l := range r.Links {
		if f := l.Finish; f != nil {
			l.Finish = nil
			f.Key = l.Key
			m.setLink(l)
			m.finishes[l.Key], m.held[l.Key] = f, f
			m.counters.found(l.Sitemap, l.Check)
			m.counters.finished(f)
			continue
		}
		m.setLink(l)
		m.order[l.Key.Host] = append(m.order[l.Key.Host], l)
		m.open = append(m.open, l.Key)
		m.counters.found(l.Sitemap, l.Check)
	}
	if r.Finish != nil {
		m.finish(r.Finish)
	}
	for _, l := range r.Visits {
		m.order[l.Key.Host] = append(m.order[l.Key.Host], l)
		m.open = append(m.open, l.Key)
		m.counters.queuedAgain(l.Sitemap)
	}
	for _, n := range r.Named {
		in := m.named[n.Key]
		if n.Linked {
			in[0] = NamedIn{Named: true, Generation: n.Generation}
		}
		if n.Listed {
			in[1] = NamedIn{true, n.Generation, n.LastMod}
		}
		m.named[n.Key] = in
	}
	for _, v := range r.Vouchers {
		if m.vouchers[v.Key] == nil {
			m.vouchers[v.Key] = map[weburl.HostID]uint32{}
		}
		m.vouchers[v.Key][v.Host] = v.Visit
	}
	for _, s := range r.Skips {
		m.counters.Skips[s.Reason] += s.Count
		if m.skips[s.Partition] == nil {
			m.skips[s.Partition] = new([numSkipReasons]uint64)
		}
		m.skips[s.Partition][s.Reason] += s.Count
	}
	for _, f := range r.Hosts {
		m.hosts[f.Host] = f
	}
	for _, f := range r.Origins {
		m.origins[f.Origin] = f
	}
	for _, f := range r.Facts {
		if f.Value == nil {
			delete(m.facts, f.Name)
		} else {
			m.facts[f.Name] = f.Value
		}
	}
}

func (m *model) finish(f *frontier.Finish) {
	if m.finishes[f.Key] == nil {
		m.done = append(m.done, f.Key)
	}
	m.finishes[f.Key] = f
	if !f.KeepFacts {
		m.held[f.Key] = f
	}
	if len(f.Differences) > 0 {
		m.changes[changeID{f.Key, f.Generation}] = Change{f.Key, f.Generation, f.Change, f.Differences}
	}
	m.counters.finished(f)
}

// page is what the store should say of a URL.
func (m *model) page(k weburl.Key) Page {
	p := Page{Link: m.links[k], Linked: m.named[k][0], Listed: m.named[k][1]}
	if last := m.finishes[k]; last != nil {
		f := *last
		if f.KeepFacts {
			p.VisitFacts, f.Facts = f.Facts, m.held[k].Facts
		}
		p.Finish, p.FactsGeneration, p.FactsAt = &f, m.held[k].Generation, m.held[k].CheckedAt
	}
	return p
}

// pending is what Pending should return of a host.
func (m *model) pending(h weburl.HostID) []frontier.Link {
	var links []frontier.Link
	for _, l := range m.order[h] {
		if f := m.finishes[l.Key]; f == nil || f.Visit < l.Visit {
			links = append(links, frontier.Link{Key: l.Key, URL: l.URL, Depth: l.Depth, Priority: l.Priority,
				Source: l.Source, Hops: l.Hops, Repeats: l.Repeats, Sitemap: l.Sitemap, Visit: l.Visit,
				Before: l.Before})
		}
	}
	slices.SortStableFunc(links, func(a, b frontier.Link) int { return cmp.Compare(a.Priority, b.Priority) })
	return links
}

// modelAfter returns the model after as many records as the store says it has.
func modelAfter(t *testing.T, s *Store, seed uint64) *model {
	t.Helper()
	m := newModel(seed)
	n, err := strconv.Atoi(cmp.Or(string(s.Facts()["n"]), "0"))
	if err != nil {
		t.Fatal(err)
	}
	for m.n < n {
		m.record()
	}
	return m
}

// check compares everything that a store says with the model.
func (m *model) check(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	m.checkPages(t, s)
	m.checkSitemaps(t, s)
	m.checkChanges(t, s)
	if got := s.Counters(); got != m.counters {
		t.Errorf("counters\n got %v\nwant %v", got, m.counters)
	}
	m.checkPartitions(t, s)
	if got := s.Facts(); !maps.EqualFunc(got, m.facts, bytes.Equal) {
		t.Errorf("run facts\n got %q\nwant %q", got, m.facts)
	}
	backlog := map[weburl.HostID]int{}
	for b, err := range s.Backlogs(ctx, 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range b.Levels {
			backlog[b.Fact.Host] += q.Links
		}
	}
	for h := range m.order {
		want := m.pending(h)
		if got := drain(t, s, h, 20+m.n%50); !reflect.DeepEqual(got, want) {
			t.Errorf("pending of host %x: got %d, want %d links", uint64(h), len(got), len(want))
		}
		if backlog[h] < len(want) {
			t.Errorf("backlog of host %x: %d, want at least %d", uint64(h), backlog[h], len(want))
		}
	}
	for h, want := range m.hosts {
		if got, ok, err := s.Host(ctx, h); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("host fact\n got %v, %v, %v\nwant %v", got, ok, err, want)
		}
	}
	for origin, want := range m.origins {
		if got, ok, err := s.Origin(ctx, want.Host, origin); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("origin fact\n got %v, %v, %v\nwant %v", got, ok, err, want)
		}
	}
}

// checkPartitions counts the pages of each partition anew.
func (m *model) checkPartitions(t *testing.T, s *Store) {
	t.Helper()
	var want [record.Partitions]Counters
	for k, l := range m.links {
		c := &want[k.Host.Partition()]
		c.found(l.Sitemap, l.Check)
		f := m.finishes[k]
		if f == nil {
			continue
		}
		if l.Sitemap {
			c.SitemapsRead++
			if m.visit[k] > f.Visit {
				c.SitemapVisits++
			}
			continue
		}
		c.Finished++
		c.count(f.Summary(), 1)
		if m.visit[k] > f.Visit {
			c.Visits++
		}
	}
	for p, skips := range m.skips {
		want[p].Skips = *skips
	}
	for p := range want {
		got := s.PartitionCounters(uint8(p))
		got.Generation, got.Counted = 0, 0 // of which the pages do not tell
		if got != want[p] {
			t.Errorf("counters of partition %d\n got %v\nwant %v", p, got, want[p])
		}
	}
}

func (m *model) checkPages(t *testing.T, s *Store) {
	t.Helper()
	want, sitemaps := m.keys(false), m.keys(true)
	var keys []weburl.Key
	for k, err := range s.Keys(context.Background(), 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	if all := slices.Concat(want, sitemaps); !slices.Equal(keys, all) {
		t.Errorf("keys: got %d, want %d", len(keys), len(all))
	}
	i := 0
	for p, err := range s.Pages(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) {
			t.Fatalf("more than %d pages", len(want))
		}
		if w := m.page(want[i]); !reflect.DeepEqual(p, w) {
			t.Fatalf("page %d of %d\n got %+v %+v\nwant %+v %+v", i, len(want), p, p.Finish, w, w.Finish)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d pages, want %d", i, len(want))
	}
	out := make([]bool, len(keys)+1)
	if err := s.Seen(context.Background(), append(keys, weburl.Key{Host: 1, Hi: 2, Lo: 3}), out); err != nil {
		t.Fatal(err)
	}
	if slices.Index(out, false) != len(keys) {
		t.Error("Seen does not know what it should, or more")
	}
}

// checkChanges compares what visits changed, and what is known before the next visit.
func (m *model) checkChanges(t *testing.T, s *Store) {
	t.Helper()
	since := uint32(1 + m.n%3)
	want := slices.DeleteFunc(slices.Collect(maps.Values(m.changes)),
		func(c Change) bool { return c.Generation < since })
	slices.SortFunc(want, func(a, b Change) int {
		return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	var got []Change
	for c, err := range s.Changes(context.Background(), since) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("changes since %d: got %d, want %d", since, len(got), len(want))
	}
	for _, k := range m.done[:min(len(m.done), 20)] {
		want := m.page(k)
		if want.Link.Sitemap {
			continue
		}
		if got, ok, err := s.Found(k); err != nil || ok == want.Link.URL.IsZero() ||
			!reflect.DeepEqual(got, want.Link) {
			t.Fatalf("how it was found\n got %+v, %v, %v\nwant %+v", got, ok, err, want.Link)
		}
		want.Link, want.Linked, want.Listed = frontier.Link{Key: k}, NamedIn{}, NamedIn{}
		if got, ok, err := s.Before(context.Background(), k, want.Finish.Visit+1); err != nil || !ok ||
			!reflect.DeepEqual(got, want) {
			t.Fatalf("before the next visit\n got %+v, %v, %v\nwant %+v", got, ok, err, want)
		}
	}
}

// keys are those of all pages or of all sitemaps, in order.
func (m *model) keys(sitemaps bool) []weburl.Key {
	var keys []weburl.Key
	for k, l := range m.links {
		if l.Sitemap == sitemaps {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, weburl.Key.Compare)
	return keys
}

func (m *model) checkSitemaps(t *testing.T, s *Store) {
	t.Helper()
	ofHost := map[weburl.HostID]int{}
	keys := m.keys(true)
	list, err := s.ReadSitemaps(context.Background(), append(keys, weburl.Key{Host: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if last := list[len(keys)]; !last.Link.URL.IsZero() || last.Finish != nil {
		t.Errorf("a sitemap that was never named: %+v", last)
	}
	for i, k := range keys {
		ofHost[k.Host]++
		got, want := list[i], m.page(k)
		if !reflect.DeepEqual(got.Page, want) {
			t.Fatalf("sitemap\n got %+v %+v\nwant %+v %+v", got.Link, got.Finish, want.Link, want.Finish)
		}
		vouchers := map[weburl.HostID]uint32{}
		for _, v := range got.Vouchers {
			vouchers[v.Host] = v.Visit
		}
		if len(got.Vouchers) != len(vouchers) || !maps.Equal(vouchers, m.vouchers[k]) {
			t.Fatalf("vouchers: got %v, want %v", got.Vouchers, m.vouchers[k])
		}
	}
	for h, want := range ofHost {
		if got, err := s.CountSitemaps(context.Background(), h, want+1); err != nil || got != want {
			t.Errorf("%d sitemaps of a host, %v, want %d", got, err, want)
		}
		if got, err := s.CountSitemaps(context.Background(), h, 1); err != nil || got != 1 {
			t.Errorf("%d sitemaps of a host when 1 is asked for, %v", got, err)
		}
	}
}

// drain reads the queue of a host in pieces of n.
func drain(t *testing.T, s *Store, h weburl.HostID, n int) []frontier.Link {
	t.Helper()
	var all []frontier.Link
	var at frontier.Cursor
	for {
		links, next, err := s.Pending(context.Background(), h, at, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			l.At = frontier.Cursor{}
			all = append(all, l)
		}
		if len(links) < n {
			return all
		}
		at = next
	}
}

// low returns a record that says how much of a host's queue is finished, or
// false if its queue is finished altogether.
func low(t *testing.T, s *Store, h weburl.HostID) (frontier.Record, bool) {
	t.Helper()
	links, at, err := s.Pending(context.Background(), h, frontier.Cursor{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(links) == 0 {
		return frontier.Record{}, false
	}
	if at.Index == 0 {
		at.Position, at.Index = at.Position-1, ^uint32(0)
	} else {
		at.Index--
	}
	return frontier.Record{Cursors: []frontier.HostCursor{{Host: h, Low: at}}}, true
}
