package frontier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A small web for partitions: every host is a partition of its own, and a page links to pages of its own host and of
// others. The first pages of a host are sitemaps too, with the same URLs. A page that does not exist is linked to, and
// skipped.
const (
	partHosts = 5
	partPages = 12 // of each host
	partMaps  = 3  // of them, those that are sitemaps too
)

func partURL(host, page int) weburl.URL {
	return mustURL(fmt.Sprintf("http://h%d.example/%d", host, page))
}

// partLink is a link to a page or sitemap. What is kept with the queued URL follows from the URL.
func partLink(host, page int, sitemap bool) Link {
	l := Link{URL: partURL(host, page), Sitemap: sitemap, Depth: 1, Source: uint8(host), Hops: uint8(page % 3),
		Repeats: uint8(page * 20)}
	if sitemap {
		l.Vouchers = []weburl.HostID{weburl.HostID(page + 1)}
	}
	return l
}

// partLinks are the links of a page or sitemap: two of its host, two of other hosts, a sitemap of each, and one to
// skip.
func partLinks(host, page int) []Link {
	var links []Link
	for _, n := range []int{page*2 + 1, page*2 + 2} {
		if n < partPages {
			links = append(links, partLink(host, n, false))
		}
	}
	for _, h := range []int{(host + 1) % partHosts, (host + 2) % partHosts} {
		links = append(links, partLink(h, page, false), partLink(h, page%partMaps, true), partLink(h, partPages, false))
	}
	return links
}

// partitionStore notes in which visit URLs are finished, and what records add. While a partition is drained, two
// goroutines commit.
type partitionStore struct {
	*memStore
	mu       sync.Mutex // held by Commit; the test reads when nothing commits
	finishes map[weburl.Key][]uint32
	vouchers map[weburl.Key]int
	kept     kept
	names    names
	t        *testing.T
}

func (s *partitionStore) Commit(recs ...Record) (Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range recs {
		s.kept.count(recs[i].Skips, recs[i].Evidence)
		s.names.record(s.t, &recs[i], 0)
		for _, v := range recs[i].Vouchers {
			s.vouchers[v.Key]++
		}
		if f := recs[i].Finish; f != nil {
			s.finishes[f.Key] = append(s.finishes[f.Key], f.Visit)
		}
	}
	return s.memStore.Commit(recs...)
}

// partitionDriver opens and closes partitions of a frontier at random while it crawls, and knows what must come of it.
type partitionDriver struct {
	t      *testing.T
	r      *rand.Rand
	f      *Frontier
	store  *partitionStore
	delay  time.Duration
	hosts  map[uint8]int // partition → host
	closed map[uint8]bool

	leases  []*Lease
	lost    map[*Lease]bool // of partitions that were closed
	last    map[string]time.Time
	mailbox map[uint8][]Link // links that were sent and not received yet
	batch   uint64
	visits  map[weburl.Key]uint32 // how often a URL was queued; 0 for not
	keys    map[weburl.Key]Link
	kept    kept  // what records must have kept
	names   names // likewise
}

// Partitions are opened, drained, closed and opened again at random while leases are out, links are passed between
// them, and URLs are visited again: the frontier is never drained early, nothing is lost, nothing is finished twice,
// counters are right, and pace is held.
func TestPartitions(t *testing.T) {
	seed := testSeed(t)
	for i := range uint64(rounds()) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("in round %d", i)
				}
			}()
			runPartitions(t, rand.New(rand.NewPCG(seed, i)))
		})
		if t.Failed() {
			return
		}
	}
}

func runPartitions(t *testing.T, r *rand.Rand) {
	d := &partitionDriver{
		t: t, r: r, store: &partitionStore{memStore: newMemStore(), finishes: map[weburl.Key][]uint32{},
			vouchers: map[weburl.Key]int{}, names: names{}, t: t}, names: names{}, delay: oneOf(r, 0, time.Second),
		hosts: map[uint8]int{}, closed: map[uint8]bool{}, lost: map[*Lease]bool{}, last: map[string]time.Time{},
		mailbox: map[uint8][]Link{}, visits: map[weburl.Key]uint32{}, keys: map[weburl.Key]Link{},
	}
	o := Options{
		Seed: r.Uint64(), Shards: 1 + r.IntN(3), IgnoreRobots: r.IntN(2) == 0, MaxInMemory: oneOf(r, 3, 200),
		MaxHosts:     oneOf(r, 2, 100),
		Pace:         pace.Config{MinDelay: d.delay, MaxDelay: d.delay, MaxInflight: 1 + r.IntN(2)},
		LevelByLevel: r.IntN(3) == 0, FilterCapacity: 1, HotSetBytes: 1, MaxRetries: 1,
		Admit: d.admit, Names: testNames,
	}
	d.f = newTest(t, o, d.store)
	d.f.NameLinks()
	for h := range partHosts {
		d.hosts[d.f.hasher.HostID(partURL(h, 0).Host()).Partition()] = h
		for p := range partPages {
			d.keys[d.f.hasher.Key(partURL(h, p))] = partLink(h, p, false)
			if p < partMaps {
				d.keys[SitemapKey(d.f.hasher, partURL(h, p))] = partLink(h, p, true)
			}
		}
	}
	if len(d.hosts) != partHosts {
		t.Fatal("two hosts share a partition")
	}
	add(t, d.f, partLink(0, 0, false))
	for range 250 {
		d.step()
		if t.Failed() {
			t.Log(dump(d.f))
			return
		}
	}
	d.finish()
}

// admit skips the page that every host is said to have and has not. It is called for each link once that is new, in the
// partition that records it.
func (d *partitionDriver) admit(l *Link, e []Evidence) []Evidence {
	added := Evidence{Partition: l.Key.Host.Partition(), Kind: 2}
	d.kept.count(nil, []Evidence{added})
	if l.URL.Path() == fmt.Sprintf("/%d", partPages) {
		l.Skip = 2
		d.kept.count([]Skip{{Reason: l.Skip, Count: 1}}, nil)
	}
	return append(e, added)
}

func (d *partitionDriver) step() {
	switch n := d.r.IntN(100); {
	case n < 40:
		d.next()
	case n < 70:
		d.end()
	case n < 76:
		time.Sleep(time.Duration(d.r.IntN(3000)) * time.Millisecond)
	case n < 80:
		d.close()
	case n < 84:
		d.drain()
	case n < 92:
		d.open()
	case n < 95:
		d.revisit()
	default:
		d.deliver()
	}
	synctest.Wait()
	d.check()
}

// partition is one at random that is open, or closed.
func (d *partitionDriver) partition(closed bool) (uint8, bool) {
	var list []uint8
	for _, p := range slices.Sorted(maps.Keys(d.hosts)) {
		if d.closed[p] == closed {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return 0, false
	}
	return oneOf(d.r, list...), true
}

// close closes a partition, whatever is out of it.
func (d *partitionDriver) close() {
	p, ok := d.partition(false)
	if !ok {
		return
	}
	d.f.ClosePartition(p)
	d.closed[p] = true
	for _, l := range d.leases {
		if d.partitionOf(l) == p {
			d.lost[l] = true
		}
	}
}

// drain closes a partition in good order: what is out of it ends first.
func (d *partitionDriver) drain() {
	p, ok := d.partition(false)
	if !ok {
		return
	}
	var closed Closed
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed, err = d.f.DrainPartition(d.t.Context(), p)
	}()
	synctest.Wait()
	out := func() []*Lease {
		return slices.DeleteFunc(slices.Clone(d.leases), func(l *Lease) bool {
			return d.partitionOf(l) != p ||
				d.lost[l]
		})
	}
	for list := out(); len(list) > 0; list = out() {
		select {
		case <-done:
			d.t.Fatalf("partition %d is drained with %d leases out", p, len(list))
		default:
		}
		d.endLease(oneOf(d.r, list...))
		synctest.Wait()
	}
	<-done
	if err != nil {
		d.t.Fatal(err)
	}
	for _, h := range closed.Hosts {
		if !h.At.After(closed.At) || h.Host.Partition() != p {
			d.t.Errorf("closed at %v with %+v", closed.At, h)
		}
	}
	d.f.ClosePartition(p)
	d.closed[p] = true
}

func (d *partitionDriver) open() {
	p, ok := d.partition(true)
	if !ok {
		return
	}
	if err := d.f.OpenPartition(d.t.Context(), p, Opening{NewRun: d.r.IntN(2) == 0}); err != nil {
		d.t.Fatal(err)
	}
	d.closed[p] = false
	name := partURL(d.hosts[p], 0).Host()
	d.last[name] = time.Now() // one full delay after an opening
}

// deliver has a partition receive what was sent to it.
func (d *partitionDriver) deliver() {
	d.collect()
	for _, p := range slices.Sorted(maps.Keys(d.mailbox)) {
		d.batch++
		n, err := d.f.Receive(d.t.Context(), d.mailbox[p], Mark{Partition: p, Session: [16]byte{1}, Batch: d.batch})
		if d.closed[p] {
			if !errors.Is(err, ErrPartitionClosed) || n != 0 {
				d.t.Errorf("received %d links of a closed partition: %v", n, err)
			}
			continue
		}
		if err != nil {
			d.t.Fatal(err)
		}
		delete(d.mailbox, p)
	}
}

func (d *partitionDriver) collect() {
	for _, l := range d.store.TakeSent() {
		p := l.Key.Host.Partition()
		d.mailbox[p] = append(d.mailbox[p], l)
	}
}

// revisit queues URLs of open partitions again that are finished.
func (d *partitionDriver) revisit() {
	var links []Link
	for k, link := range d.keys {
		done := d.store.finishes[k]
		if n := uint32(len(done)); n > 0 && n < 3 && d.visits[k] <= n && !d.closed[k.Host.Partition()] &&
			d.r.IntN(4) == 0 {
			d.visits[k] = n + 1
			link.Visit, link.Before = n+1, Summary{Outcome: 1}
			links = append(links, link)
		}
	}
	if err := d.f.Revisit(d.t.Context(), links); err != nil {
		d.t.Fatal(err)
	}
}

func (d *partitionDriver) partitionOf(l *Lease) uint8 {
	return d.f.hasher.HostID(l.URL().Host()).Partition()
}

func (d *partitionDriver) next() {
	if len(d.leases) >= 6 {
		return
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Hour)
	defer cancel()
	l, err := d.f.Next(ctx)
	switch {
	case errors.Is(err, ErrDrained):
		d.checkDrained()
	case errors.Is(err, context.DeadlineExceeded):
		// What is left waits for leases that are out.
		if len(d.leases) == 0 {
			d.t.Errorf("nothing was leased for ten hours\n%s", dump(d.f))
		}
	case err != nil:
		d.t.Fatal(err)
	default:
		if d.closed[d.partitionOf(l)] {
			d.t.Errorf("%s was leased, and its partition is closed", l.URL())
		}
		if l.Kind() != KindRobots {
			d.checkLink(l)
		}
		d.leases = append(d.leases, l)
	}
}

// checkLink wants a lease to have what was queued of its URL.
func (d *partitionDriver) checkLink(l *Lease) {
	got, want := l.Link(), d.keys[l.key]
	want.Visit = uint32(len(d.store.finishes[l.key])) + 1
	if want.Visit > 1 {
		want.Before.Outcome = 1
	}
	if got.URL != want.URL || got.Sitemap != want.Sitemap || got.Source != want.Source || got.Hops != want.Hops ||
		got.Repeats != want.Repeats ||
		got.Visit != want.Visit || got.Before.Outcome != want.Before.Outcome {
		d.t.Errorf("leased %+v, want %+v", got, want)
	}
}

// checkDrained wants nothing to be left in partitions that are open, and nothing to be out of them.
func (d *partitionDriver) checkDrained() {
	for _, l := range d.leases {
		if !d.lost[l] {
			d.t.Errorf("drained with %s out", l.URL())
		}
	}
	for p, h := range d.hosts {
		if d.closed[p] {
			continue
		}
		links, _, err := d.store.Pending(d.t.Context(), d.f.hasher.HostID(partURL(h, 0).Host()), Cursor{}, 1)
		if err != nil || len(links) > 0 {
			d.t.Errorf("drained with %v pending, %v", links, err)
		}
	}
}

func (d *partitionDriver) end() {
	if len(d.leases) > 0 {
		d.endLease(oneOf(d.r, d.leases...))
	}
}

func (d *partitionDriver) endLease(l *Lease) {
	d.leases = slices.DeleteFunc(d.leases, func(o *Lease) bool { return o == l })
	lost := d.lost[l]
	delete(d.lost, l)
	if d.r.IntN(5) > 0 {
		d.start(l, lost)
	}
	if d.r.IntN(12) == 0 {
		l.Abandon()
		return
	}
	r := Result{Class: pace.ClassOK}
	if l.Kind() == KindRobots {
		r.RobotsUntil = time.Now().Add(time.Hour)
	} else {
		r.Finish = &Finish{Outcome: 1}
		var host, page int
		if _, err := fmt.Sscanf(l.URL().String(), "http://h%d.example/%d", &host, &page); err != nil {
			d.t.Fatal(err)
		}
		r.Links = partLinks(host, page)
		r.Skips = []Skip{{Reason: 1, Count: uint64(page + 1)}}
		r.Again = l.Kind() == KindPage && d.visits[l.key] < 3 && d.r.IntN(4) == 0
	}
	switch _, err := l.Done(r); {
	case lost && !errors.Is(err, ErrPartitionClosed):
		d.t.Errorf("%s was done after its partition was closed: %v", l.URL(), err)
	case !lost && err != nil:
		d.t.Fatal(err)
	case !lost:
		d.kept.count(r.Skips, nil)
		if r.Again {
			d.visits[l.key] = uint32(len(d.store.finishes[l.key])) + 1
		}
		for _, found := range r.Links {
			if !found.Sitemap && found.URL.Path() != fmt.Sprintf("/%d", partPages) {
				d.names.add(d.f.hasher.Key(found.URL), testNames(found.Source), l.key)
			}
		}
	}
}

func (d *partitionDriver) start(l *Lease, lost bool) {
	err := l.Start()
	if lost {
		if !errors.Is(err, ErrPartitionClosed) {
			d.t.Errorf("%s was started after its partition was closed: %v", l.URL(), err)
		}
		return
	}
	if err != nil {
		d.t.Fatal(err)
	}
	host := l.URL().Host()
	if gap := time.Since(d.last[host]); gap < d.delay {
		d.t.Errorf("%s was started %v after the request or opening before it, want %v", l.URL(), gap, d.delay)
	}
	d.last[host] = time.Now()
}

// check counts what is in open partitions anew.
func (d *partitionDriver) check() {
	checkInvariants(d.t, d.f)
	for k, visits := range d.store.finishes {
		for i, v := range visits {
			if v != uint32(i)+1 {
				d.t.Errorf("%s was finished in visits %v", d.keys[k].URL, visits)
			}
		}
	}
	parts := int64(0)
	for p := range d.f.parts.list {
		parts += d.f.parts.list[p].live
		if d.closed[uint8(p)] && d.f.parts.list[p].live != 0 {
			d.t.Errorf("partition %d is closed, and %d of it are live", p, d.f.parts.list[p].live)
		}
	}
	if live := d.f.live.Load(); live != parts {
		d.t.Errorf("%d are live, %d by partition", live, parts)
	}
}

// finish opens everything, delivers everything, and crawls until nothing is left.
func (d *partitionDriver) finish() {
	for !d.t.Failed() {
		for _, ok := d.partition(true); ok; _, ok = d.partition(true) {
			d.open()
		}
		for len(d.leases) > 0 {
			d.end()
		}
		d.deliver()
		if d.f.live.Load() == 0 {
			break
		}
		d.next()
		synctest.Wait()
		d.check()
	}
	for k, link := range d.keys {
		want := max(1, d.visits[k])
		if got := uint32(len(d.store.finishes[k])); got != want {
			d.t.Errorf("%s was finished %d times, want %d", link.URL, got, want)
		}
		if got := d.store.vouchers[k]; link.Sitemap && got != int(want) || !link.Sitemap && got != 0 {
			d.t.Errorf("%s was vouched for %d times, want once for each of %d visits of a sitemap", link.URL, got, want)
		}
	}
	if d.store.kept != d.kept {
		d.t.Errorf("records have %+v, want %+v", d.store.kept, d.kept)
	}
	d.store.names.want(d.t, d.names)
	if st := d.f.Stats(); st.Pending+st.Sitemaps != 0 || st.Violations != 0 || st.InMemory != 0 {
		d.t.Errorf("%+v", st)
	}
}
