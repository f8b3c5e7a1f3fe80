// Package storetest checks that a [frontier.Store] does what its documentation says. Every implementation calls [Run]
// in a test.
package storetest

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Seed is the hash seed of all keys that the tests commit.
const Seed = 42

// Run runs all tests. Open makes an empty store, which it closes itself when its test ends.
func Run(t *testing.T, open func(t *testing.T) frontier.Store) {
	for _, c := range []struct {
		name string
		test func(*checker)
	}{
		{"positions grow", testPositions}, {"links are known once they are committed", testSeen},
		{"the queue of a host is in order", testOrder},
		{"finished links leave the queue", testFinish}, {"a later visit is queued again", testVisits},
		{"a cursor cuts the queue", testCursor},
		{"the last fact of a host counts", testHost}, {"partitions are listed apart", testPartitions},
		{"random records", testRandom},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(&checker{T: t, store: open(t), hasher: weburl.NewHasher(Seed)})
		})
	}
}

// checker commits to one store and asks it.
type checker struct {
	*testing.T
	store  frontier.Store
	hasher weburl.Hasher
}

// link is a link of a page.
func (c *checker) link(host, path string, priority uint8) frontier.Link {
	c.Helper()
	l, err := frontier.ParseLink("https://" + host + path)
	if err != nil {
		c.Fatal(err)
	}
	l.Key, l.Priority, l.Source, l.Discovered = c.hasher.Key(l.URL), priority, 1,
		time.UnixMilli(1_700_000_000_000).UTC()
	return l
}

func (c *checker) commit(recs ...frontier.Record) frontier.Position {
	c.Helper()
	if err := c.store.Ready(c.Context()); err != nil {
		c.Fatal(err)
	}
	at, err := c.store.Commit(recs...)
	if err != nil {
		c.Fatal(err)
	}
	return at
}

// finish is the end of a link's visit.
func finish(l *frontier.Link) *frontier.Finish {
	return &frontier.Finish{Key: l.Key, Visit: max(1, l.Visit), Sitemap: l.Sitemap, Attempts: 1, Counted: true,
		Status: 200, CheckedAt: l.Discovered}
}

// pending reads the queue of a host after a cursor, n links at a time.
func (c *checker) pending(host weburl.HostID, at frontier.Cursor, n int) []frontier.Link {
	c.Helper()
	var all []frontier.Link
	for {
		links, next, err := c.store.Pending(c.Context(), host, at, n)
		if err != nil {
			c.Fatal(err)
		}
		if len(links) > n {
			c.Fatalf("Pending returned %d links, asked for %d", len(links), n)
		}
		for _, l := range links {
			if l.Key.Host != host || l.At.Compare(at) <= 0 || l.At.Priority != l.Priority {
				c.Fatalf("Pending returned %s at %v, after %v", l.URL, l.At, at)
			}
			at = l.At
		}
		all = append(all, links...)
		if len(links) == n {
			at = next
		} else if at.Priority == math.MaxUint8 {
			return all
		} else { // it may have stopped at the end of this priority
			at = frontier.Cursor{Priority: at.Priority + 1}
		}
	}
}

// wantPending compares the queue of a host with what it should be, for several numbers of links at a time.
func (c *checker) wantPending(host weburl.HostID, want ...frontier.Link) {
	c.Helper()
	for _, n := range []int{1, 2, 7, 1000} {
		got := c.pending(host, frontier.Cursor{}, n)
		if !slices.EqualFunc(got, want, isSame) {
			c.Fatalf("%d at a time: pending are %v, want %v", n, urls(got), urls(want))
		}
	}
}

// isSame compares what a queue keeps of a link.
func isSame(a, b frontier.Link) bool { return reflect.DeepEqual(queued(a), queued(b)) }

func queued(l frontier.Link) frontier.Link {
	return frontier.Link{
		Key: l.Key, URL: l.URL, Depth: l.Depth, Priority: l.Priority, Sitemap: l.Sitemap, Source: l.Source,
		Hops: l.Hops, Repeats: l.Repeats, Visit: max(1, l.Visit), Before: l.Before,
	}
}

func urls(links []frontier.Link) (list []string) {
	for _, l := range links {
		list = append(list, fmt.Sprintf("%s (visit %d)", l.URL, max(1, l.Visit)))
	}
	return list
}

func testPositions(c *checker) {
	a, b, d := c.link("a.test", "/1", 0), c.link("a.test", "/2", 0), c.link("a.test", "/3", 0)
	first, both := []frontier.Link{a}, []frontier.Link{b, d}
	p := c.commit(frontier.Record{Links: first})
	q := c.commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: "fact", Value: []byte("1")}}},
		frontier.Record{Links: both})
	if q < p+2 {
		c.Errorf("the position after two more records is %d, before it was %d", q, p)
	}
	if first[0].At.Position != p || both[0].At.Position != q || both[1].At.Position != q ||
		both[0].At.Compare(both[1].At) >= 0 {
		c.Errorf("the links are at %v, %v and %v, the records at %d and %d", first[0].At, both[0].At, both[1].At, p, q)
	}
}

func testSeen(c *checker) {
	queued, ended, other := c.link("a.test", "/1", 0), c.link("a.test", "/2", 0), c.link("a.test", "/3", 0)
	ended.Finish = finish(&ended)
	c.commit(frontier.Record{Links: []frontier.Link{queued, ended}})
	keys := []weburl.Key{queued.Key, ended.Key, other.Key}
	slices.SortFunc(keys, weburl.Key.Compare)
	seen := []bool{true, true, true}
	if err := c.store.Seen(c.Context(), keys, seen); err != nil {
		c.Fatal(err)
	}
	for i, k := range keys {
		if want := k != other.Key; seen[i] != want {
			c.Errorf("key %v: seen is %v, want %v", k, seen[i], want)
		}
	}
	c.wantPending(queued.Key.Host, queued)
}

func testOrder(c *checker) {
	late, first, second := c.link("a.test", "/late", frontier.PriorityDepth), c.link("a.test", "/1", 0),
		c.link("a.test", "/2", 0)
	deep := c.link("a.test", "/deep", math.MaxUint8)
	deep.Depth, deep.Hops, deep.Repeats = 400, 3, 7
	sitemap := c.link("a.test", "/sitemap.xml", frontier.PrioritySitemap)
	sitemap.Sitemap, sitemap.Key = true, frontier.SitemapKey(c.hasher, sitemap.URL)
	c.commit(frontier.Record{Links: []frontier.Link{deep, late, first}},
		frontier.Record{Links: []frontier.Link{sitemap, second}})
	c.wantPending(first.Key.Host, first, second, sitemap, late, deep)
	c.wantPending(c.hasher.HostID("other.test"))
}

func testFinish(c *checker) {
	a, b := c.link("a.test", "/1", 0), c.link("a.test", "/2", 0)
	found := c.link("a.test", "/3", frontier.PriorityDepth)
	c.commit(frontier.Record{Links: []frontier.Link{a, b}, Leased: []weburl.Key{a.Key}})
	c.commit(frontier.Record{Finish: finish(&a), Links: []frontier.Link{found}})
	c.wantPending(a.Key.Host, b, found)
	c.commit(frontier.Record{Leased: []weburl.Key{b.Key}}, frontier.Record{Returned: []weburl.Key{b.Key}})
	c.wantPending(a.Key.Host, b, found)
}

func testVisits(c *checker) {
	a := c.link("a.test", "/", 0)
	c.commit(frontier.Record{Links: []frontier.Link{a}})
	ended := finish(&a)
	c.commit(frontier.Record{Finish: ended})
	c.wantPending(a.Key.Host)
	again := queued(a)
	again.Visit, again.Before = 2, ended.Summary()
	c.commit(frontier.Record{Visits: []frontier.Link{again}})
	c.wantPending(a.Key.Host, again)
	second := finish(&again)
	second.Before = again.Before
	c.commit(frontier.Record{Finish: second})
	c.wantPending(a.Key.Host)
}

func testCursor(c *checker) {
	a, b, d := c.link("a.test", "/1", 0), c.link("a.test", "/2", 0), c.link("a.test", "/3", frontier.PriorityDepth)
	links := []frontier.Link{a, b, d}
	c.commit(frontier.Record{Links: links})
	c.commit(frontier.Record{Finish: finish(&a)})
	c.commit(frontier.Record{Cursors: []frontier.HostCursor{{Host: a.Key.Host, Low: links[0].At}}})
	c.wantPending(a.Key.Host, b, d)
	if got := c.pending(a.Key.Host, links[1].At, 10); !slices.EqualFunc(got, []frontier.Link{d}, isSame) {
		c.Errorf("after the second link, pending are %v", urls(got))
	}
	if all := collect(c, c.store.Backlogs(c.Context(), 0, math.MaxUint8)); len(all) != 1 || all[0].Low != links[0].At {
		c.Errorf("the backlogs are %+v, want one with the cursor %v", all, links[0].At)
	}
}

func testHost(c *checker) {
	host := c.hasher.HostID("a.test")
	if _, ok, err := c.store.Host(c.Context(), host); ok || err != nil {
		c.Errorf("a host that is not known: %v, %v", ok, err)
	}
	fact := frontier.HostFact{Host: host, Name: "a.test", Pages: 3, Learned: pace.Learned{Delay: time.Second}}
	c.commit(frontier.Record{Hosts: []frontier.HostFact{fact}})
	fact.Learned.Delay, fact.Blocked, fact.Run = 2*time.Second, true, 1
	c.commit(frontier.Record{Hosts: []frontier.HostFact{fact}})
	if got, ok, err := c.store.Host(c.Context(), host); !ok || err != nil || !reflect.DeepEqual(got, fact) {
		c.Errorf("the host is %+v, %v, %v, want %+v", got, ok, err, fact)
	}
}

func testPartitions(c *checker) {
	store := c.store
	keys := map[uint8][]weburl.Key{}
	names := map[uint8][]string{}
	for i := range 40 {
		name := fmt.Sprintf("host%d-%d.test", i, i)
		a, b := c.link(name, "/", 0), c.link(name, "/deeper", frontier.PriorityDepth)
		p := a.Key.Host.Partition()
		keys[p], names[p] = append(keys[p], a.Key, b.Key), append(names[p], name)
		c.commit(frontier.Record{Links: []frontier.Link{a, b}})
	}
	for first := range 256 {
		last := min(first+first%3, 255)
		var wantKeys []weburl.Key
		var wantNames []string
		for p := first; p <= last; p++ {
			wantKeys, wantNames = append(wantKeys, keys[uint8(p)]...), append(wantNames, names[uint8(p)]...)
		}
		var gotNames []string
		for _, b := range collect(c, store.Backlogs(c.Context(), uint8(first), uint8(last))) {
			gotNames = append(gotNames, b.Fact.Name)
			if len(b.Levels) != 2 || b.Levels[0].Links < 1 || b.Levels[1].Links < 1 ||
				b.Fact.Host != c.hasher.HostID(b.Fact.Name) {
				c.Errorf("partition %d: the backlog of a host with two links is %+v", first, b)
			}
		}
		slices.Sort(gotNames)
		slices.Sort(wantNames)
		gotKeys := collect(c, store.Keys(c.Context(), uint8(first), uint8(last)))
		slices.SortFunc(gotKeys, weburl.Key.Compare)
		slices.SortFunc(wantKeys, weburl.Key.Compare)
		if !slices.Equal(gotNames, wantNames) || !slices.Equal(gotKeys, wantKeys) {
			c.Fatalf("partitions %d to %d: hosts %v with %d keys, want %v with %d", first, last, gotNames, len(gotKeys),
				wantNames, len(wantKeys))
		}
	}
}

// testRandom compares the store with a [frontier.MemStore] that gets the same records.
func testRandom(c *checker) {
	random := rand.New(rand.NewPCG(1, 2))
	memory := &checker{T: c.T, store: frontier.NewMemStore(), hasher: c.hasher}
	var open, ended []frontier.Link
	for n := range 400 {
		var r frontier.Record
		if len(open) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(open))
			r.Finish = finish(&open[i])
			r.Finish.Before = open[i].Before
			ended = append(ended, open[i])
			open = slices.Delete(open, i, i+1)
		}
		for i := range random.IntN(4) {
			l := c.link(fmt.Sprintf("h%d.test", random.IntN(5)), fmt.Sprintf("/%d/%d", n, i),
				frontier.PriorityDepth+uint8(random.IntN(3)))
			r.Links, open = append(r.Links, l), append(open, l)
		}
		if len(ended) > 0 && r.Finish == nil && random.IntN(3) == 0 {
			l := queued(ended[0])
			l.Visit, l.Before = max(1, l.Visit)+1, finish(&ended[0]).Summary()
			r.Visits, open, ended = append(r.Visits, l), append(open, l), ended[1:]
		}
		same := r
		same.Links, same.Visits = slices.Clone(r.Links), slices.Clone(r.Visits)
		c.commit(r)
		memory.commit(same)
	}
	for i := range 5 {
		host := c.hasher.HostID(fmt.Sprintf("h%d.test", i))
		c.wantPending(host, memory.pending(host, frontier.Cursor{}, 100)...)
	}
}

func collect[T any](c *checker, list iter.Seq2[T, error]) (all []T) {
	c.Helper()
	for v, err := range list {
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}
