package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

const (
	webHosts = 5
	webPages = 10 // of each host; the first ones are sitemaps too
	webMaps  = 2
)

func webLink(host, page int, sitemap bool) frontier.Link {
	return frontier.Link{URL: mustURL(fmt.Sprintf("http://h%d.example/%d", host, page)), Sitemap: sitemap, Depth: 1,
		Repeats: uint8(page)}
}

// webLinks are the links of a page: two of its host, and a page and a sitemap of the next host.
func webLinks(host, page int) []frontier.Link {
	next := (host + 1) % webHosts
	links := []frontier.Link{webLink(next, page, false), webLink(next, page%webMaps, true)}
	for _, n := range []int{page*2 + 1, page*2 + 2} {
		if n < webPages {
			links = append(links, webLink(host, n, false))
		}
	}
	return links
}

// sentStore keeps the links that are sent to closed partitions.
type sentStore struct {
	*Store
	sent []frontier.Link
}

func (s *sentStore) Commit(recs ...frontier.Record) (frontier.Position, error) {
	for i := range recs {
		s.sent = append(s.sent, recs[i].Sent...)
	}
	return s.Store.Commit(recs...)
}

// partitionCrawl crawls the small web with a frontier over a store, and opens and closes partitions meanwhile.
type partitionCrawl struct {
	t      *testing.T
	r      *rand.Rand
	store  *sentStore
	f      *frontier.Frontier
	parts  []uint8
	closed map[uint8]bool
	leases []*frontier.Lease
	batch  uint64
}

// A frontier over a store on disk opens, drains and closes partitions while leases are out, and the process is killed
// in between: every page and sitemap is finished once, and the counters say so.
func TestPartitionsOfACrawl(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &partitionCrawl{t: t, r: rand.New(rand.NewPCG(seed, 0)),
		store: &sentStore{Store: open(t, t.TempDir()+"/store", still())}}
	c.begin()
	for h := range webHosts {
		c.parts = append(c.parts, c.store.Hasher().HostID(fmt.Sprintf("h%d.example", h)).Partition())
	}
	if _, err := c.f.Add(t.Context(), []frontier.Link{webLink(0, 0, false)}); err != nil {
		t.Fatal(err)
	}
	for kill := range 4 {
		for range 60 {
			c.step()
		}
		if kill < 3 {
			c.kill()
		}
	}
	c.finish()
	counters := c.store.Counters()
	if want := uint64(webHosts * webPages); counters.Discovered != want || counters.Finished != want ||
		counters.Pending() != 0 {
		t.Errorf("%d pages found, %d finished, %d pending, want %d", counters.Discovered, counters.Finished,
			counters.Pending(), want)
	}
	if want := uint64(webHosts * webMaps); counters.Sitemaps != want || counters.SitemapsRead != want ||
		counters.PendingSitemaps() != 0 {
		t.Errorf("%d sitemaps found, %d read, %d pending, want %d", counters.Sitemaps, counters.SitemapsRead,
			counters.PendingSitemaps(), want)
	}
}

// begin makes a frontier that knows what the store has, with all partitions open.
func (c *partitionCrawl) begin() {
	ctx := c.t.Context()
	o := frontier.Options{Seed: c.store.Seed(), Shards: 3, IgnoreRobots: true, Pace: pace.Config{MaxInflight: 4},
		MaxInMemory: 20}
	f, err := frontier.New(o, c.store)
	if err == nil {
		err = f.Resume(ctx, c.store.Backlogs(ctx, 0, 255))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for k, err := range c.store.Keys(ctx, 0, 255) {
		if err != nil {
			c.t.Fatal(err)
		}
		f.Remember([]weburl.Key{k})
	}
	c.f, c.closed, c.leases = f, map[uint8]bool{}, nil
	c.t.Cleanup(func() { f.Close() })
}

// kill begins the next run with what a kill leaves of the store, leases and open partitions included.
func (c *partitionCrawl) kill() {
	c.f.Close()
	s := crash(c.t, c.store.Store)
	c.t.Cleanup(func() { s.Close() })
	c.store.Store = s
	c.begin()
}

func (c *partitionCrawl) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *partitionCrawl) step() {
	ctx := c.t.Context()
	p := c.parts[c.r.IntN(len(c.parts))]
	switch n := c.r.IntN(20); {
	case n < 8:
		c.next()
	case n < 15:
		c.end()
	case n < 17 && c.closed[p]:
		c.open(p)
	case n < 17:
		var said frontier.Closed
		if !slices.ContainsFunc(c.leases, func(l *frontier.Lease) bool { return l.Link().Key.Host.Partition() == p }) {
			var err error
			said, err = c.f.DrainPartition(ctx, p)
			c.must(err)
		}
		c.f.ClosePartition(p)
		c.must(c.store.ClosePartition(ctx, p, said))
		c.closed[p] = true
	case n < 18:
		c.must(c.f.Checkpoint(ctx))
	default:
		c.deliver()
	}
}

func (c *partitionCrawl) open(p uint8) {
	_, _, err := c.store.OpenPartition(c.t.Context(), p)
	c.must(err)
	c.must(c.f.OpenPartition(c.t.Context(), p, frontier.Opening{}))
	c.closed[p] = false
}

// next leases something, if there is anything. While leases are out, nothing may be left but them: then Next waits for
// their ends, and is given up after a moment. At most four leases are out, as many as one host may have.
func (c *partitionCrawl) next() {
	if len(c.leases) > 3 {
		return
	}
	ctx := c.t.Context()
	if len(c.leases) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
	}
	l, err := c.f.Next(ctx)
	if err == nil {
		c.leases = append(c.leases, l)
	} else if !errors.Is(err, frontier.ErrDrained) && !errors.Is(err, context.DeadlineExceeded) {
		c.t.Fatal(err)
	}
}

// end ends one of the leases, which may be of a partition that was closed.
func (c *partitionCrawl) end() {
	if len(c.leases) == 0 {
		return
	}
	i := c.r.IntN(len(c.leases))
	l := c.leases[i]
	c.leases = slices.Delete(c.leases, i, i+1)
	if err := l.Start(); err != nil && !errors.Is(err, frontier.ErrPartitionClosed) {
		c.t.Fatal(err)
	}
	var host, page int
	_, err := fmt.Sscanf(l.URL().String(), "http://h%d.example/%d", &host, &page)
	c.must(err)
	if l.Link().Repeats != uint8(page) {
		c.t.Errorf("%s has %d repeats", l.URL(), l.Link().Repeats)
	}
	_, err = l.Done(frontier.Result{Class: pace.ClassOK, Finish: &frontier.Finish{Outcome: 1},
		Links: webLinks(host, page)})
	if err != nil && !errors.Is(err, frontier.ErrPartitionClosed) {
		c.t.Fatal(err)
	}
}

// deliver has open partitions receive what was sent to them.
func (c *partitionCrawl) deliver() {
	sent := c.store.sent
	c.store.sent = nil
	for _, l := range sent {
		p := l.Key.Host.Partition()
		if c.closed[p] {
			c.store.sent = append(c.store.sent, l)
			continue
		}
		c.batch++
		_, err := c.f.Receive(c.t.Context(), []frontier.Link{l},
			frontier.Mark{Partition: p, Session: [16]byte{1}, Batch: c.batch})
		c.must(err)
		if got, err := c.store.received(c.t.Context(), p, [16]byte{1}); err != nil || got != c.batch {
			c.t.Fatalf("partition %d received batch %d, %v, want %d", p, got, err, c.batch)
		}
	}
}

// finish opens everything and crawls what is left.
func (c *partitionCrawl) finish() {
	for p, closed := range c.closed {
		if closed {
			c.open(p)
		}
	}
	for {
		c.deliver()
		for len(c.leases) > 0 {
			c.end()
		}
		l, err := c.f.Next(c.t.Context())
		if errors.Is(err, frontier.ErrDrained) && len(c.store.sent) == 0 {
			break
		}
		if err == nil {
			c.leases = append(c.leases, l)
		} else if !errors.Is(err, frontier.ErrDrained) {
			c.t.Fatal(err)
		}
	}
	c.must(c.store.Flush(c.t.Context()))
}
