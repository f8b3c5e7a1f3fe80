package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// finishStore counts how often each URL is finished, and keeps the names of URLs, which must be of open partitions.
// Records of several shards come at once.
type finishStore struct {
	*memStore
	t        *testing.T
	f        *Frontier // nil until it is made
	mu       sync.Mutex
	finishes map[weburl.Key]int
	names    names
}

// Ready lets partitions change between the look at the links of a page and its record.
func (s *finishStore) Ready(ctx context.Context) error {
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	return s.memStore.Ready(ctx)
}

func (s *finishStore) Commit(recs ...Record) (Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range recs {
		if f := recs[i].Finish; f != nil {
			s.finishes[f.Key]++
		}
		s.names.record(s.t, &recs[i], 0)
		for _, n := range recs[i].Named {
			if !s.f.parts.of(n.Key.Host).takesLinks() {
				s.t.Errorf("%+v is named, and its partition is closed", n)
			}
		}
	}
	return s.memStore.Commit(recs...)
}

// Partitions are closed, drained and opened while many workers lease and end pages and sitemaps whose links belong to
// several shards: all of them are finished once, everything that they link to is named, and nothing is left behind.
func TestPartitionsWhileWorkersCrawl(t *testing.T) {
	seed := testSeed(t)
	for i := range uint64(rounds() / 4) {
		synctest.Test(t, func(t *testing.T) {
			crawlPartitions(t, rand.New(rand.NewPCG(seed, i)))
		})
		if t.Failed() {
			t.Logf("in round %d", i)
			return
		}
	}
}

func crawlPartitions(t *testing.T, r *rand.Rand) {
	store := &finishStore{memStore: newMemStore(), t: t, finishes: map[weburl.Key]int{}, names: names{}}
	f := newTest(t, Options{
		Seed: r.Uint64(), Shards: 1 + r.IntN(4), IgnoreRobots: r.IntN(2) == 0, MaxInMemory: oneOf(r, 8, 500),
		MaxHosts: oneOf(r, 2, 100),
		Pace:     pace.Config{MaxInflight: 4}, FilterCapacity: 1, HotSetBytes: 1, MaxVerify: 1 + r.IntN(8),
		MaxRetries:   1,
		LevelByLevel: r.IntN(3) == 0, Names: testNames,
	}, store)
	store.f = f
	f.NameLinks()
	add(t, f, partLink(0, 0, false))
	var workers sync.WaitGroup
	var over atomic.Bool // else the frontier may be drained because partitions are closed
	for range 8 {
		worker := rand.New(rand.NewPCG(r.Uint64(), 0))
		workers.Go(func() {
			for {
				l, err := f.Next(t.Context())
				switch {
				case err == nil:
					crawlLease(t, l, worker)
				case !errors.Is(err, ErrDrained):
					t.Errorf("Next: %v", err)
					return
				case over.Load():
					return
				default:
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	c := &partitionChanger{t: t, r: r, f: f, store: store, closed: map[uint8]bool{}}
	for h := range partHosts {
		c.partitions = append(c.partitions, f.hasher.HostID(partURL(h, 0).Host()).Partition())
	}
	for range 150 {
		c.change()
	}
	c.finish()
	checkInvariants(t, f)
	over.Store(true)
	workers.Wait()
	want := names{}
	for h := range partHosts {
		for p := range partPages {
			for _, l := range pageLinks(h, p) {
				if !l.Sitemap {
					want.add(f.hasher.Key(l.URL), testNames(l.Source), f.hasher.Key(partURL(h, p)))
				}
			}
			keys := []weburl.Key{f.hasher.Key(partURL(h, p))}
			if p < partMaps {
				keys = append(keys, SitemapKey(f.hasher, partURL(h, p)))
			}
			for _, k := range keys {
				if n := store.finishes[k]; n != 1 {
					t.Errorf("%s was finished %d times\n%s", partURL(h, p), n, dump(f))
				}
			}
		}
	}
	store.names.want(t, want)
	if st := f.Stats(); st.Pending+st.Sitemaps+st.InMemory+st.Violations != 0 {
		t.Errorf("%+v", st)
	}
}

// pageLinks are partLinks without the one to skip. Pages name the same URLs in different ways.
func pageLinks(host, page int) []Link {
	links := slices.DeleteFunc(partLinks(host, page), func(l Link) bool {
		return l.URL.Path() == fmt.Sprintf("/%d",
			partPages)
	})
	for i := range links {
		links[i].Source = uint8(host + page)
	}
	return links
}

// crawlLease starts and ends a lease, at some time or other.
func crawlLease(t *testing.T, l *Lease, r *rand.Rand) {
	wait := func() { time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) }
	wait()
	if err := l.Start(); err != nil && !errors.Is(err, ErrPartitionClosed) {
		t.Errorf("start %s: %v", l.URL(), err)
	}
	wait()
	if r.IntN(20) == 0 {
		l.Abandon()
		return
	}
	result := Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour)}
	if l.Kind() != KindRobots {
		var host, page int
		if _, err := fmt.Sscanf(l.URL().String(), "http://h%d.example/%d", &host, &page); err != nil {
			t.Error(err)
		}
		result.Finish = &Finish{}
		result.Links = pageLinks(host, page)
	}
	if _, err := l.Done(result); err != nil && !errors.Is(err, ErrPartitionClosed) {
		t.Errorf("done %s: %v", l.URL(), err)
	}
}

// partitionChanger opens and closes partitions, and delivers links.
type partitionChanger struct {
	t          *testing.T
	r          *rand.Rand
	f          *Frontier
	store      *finishStore
	partitions []uint8
	closed     map[uint8]bool
	mailbox    []Link
	batch      uint64
}

func (c *partitionChanger) change() {
	p := oneOf(c.r, c.partitions...)
	switch n := c.r.IntN(10); {
	case n < 3 && c.closed[p]:
		c.open(p)
	case n < 3:
		c.f.ClosePartition(p)
		c.closed[p] = true
	case n < 5 && !c.closed[p]:
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(c.r.IntN(5))*time.Millisecond)
		if _, err := c.f.DrainPartition(ctx, p); err == nil {
			c.f.ClosePartition(p)
			c.closed[p] = true
		} else if !errors.Is(err, context.DeadlineExceeded) {
			c.t.Error(err)
		}
		cancel()
	case n < 6:
		if err := c.f.Checkpoint(c.t.Context()); err != nil {
			c.t.Error(err)
		}
	case n < 8:
		c.deliver()
	default:
		time.Sleep(time.Duration(c.r.IntN(10)) * time.Millisecond)
	}
}

func (c *partitionChanger) open(p uint8) {
	if err := c.f.OpenPartition(c.t.Context(), p, Opening{}); err != nil {
		c.t.Error(err)
	}
	c.closed[p] = false
}

// deliver has open partitions receive what was sent to them.
func (c *partitionChanger) deliver() {
	c.mailbox = append(c.mailbox, c.store.TakeSent()...)
	var left []Link
	for _, l := range c.mailbox {
		p := l.Key.Host.Partition()
		if c.closed[p] {
			left = append(left, l)
			continue
		}
		c.batch++
		if _, err := c.f.Receive(c.t.Context(), []Link{l}, Mark{Partition: p, Batch: c.batch}); err != nil {
			c.t.Error(err)
		}
	}
	c.mailbox = left
}

// finish opens everything, and waits until nothing is left to crawl.
func (c *partitionChanger) finish() {
	for _, p := range c.partitions {
		if c.closed[p] {
			c.open(p)
		}
	}
	for range 1000 {
		c.deliver()
		time.Sleep(time.Second)
		synctest.Wait()
		if st := c.f.Stats(); st.Pending+st.Sitemaps+st.Leased == 0 {
			if c.deliver(); len(c.mailbox) == 0 && c.f.Stats().Pending == 0 {
				return
			}
		}
	}
	c.t.Errorf("the crawl does not end\n%s", dump(c.f))
}
