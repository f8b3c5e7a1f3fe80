package frontier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// fullFilter is a filter whose first layer takes about the given part of all keys for known.
func fullFilter(errs float64) *dedup.Filter {
	fl := dedup.NewFilter(0, errs/0.115) // a layer has 0.115 of the rate asked for
	for i := uint64(1); fl.Layers() < 2; i++ {
		fl.Add(weburl.Key{Hi: i * 0x9e3779b97f4a7c15, Lo: i * 0xbf58476d1ce4e5b9})
	}
	return fl
}

func hostOfURL(t *testing.T, url string) string {
	t.Helper()
	u, err := weburl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host()
}

// A filter that errs half of the time, or always, loses no URL and lets none in
// twice.
func TestFalsePositivesLoseNothing(t *testing.T) {
	for _, errs := range []float64{0.5, 0.99} {
		t.Run(fmt.Sprint(errs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 20_000
				store := newMemStore()
				f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, HotSetBytes: 1, Shards: 2, MaxVerify: 7},
					store)
				made := map[uint8]bool{}
				for n := range pages {
					key := f.hasher.HostID(hostOfURL(t, treeURL(n, 10)))
					s, p := f.shards.of(key), key.Partition()
					if !made[p] {
						made[p] = true
						s.known.filters.Replace(p, fullFilter(errs))
					}
				}
				add(t, f, seeds(treeURL(0, 10))...)
				var seen visited
				if err := crawl(t, f, 32, 0, tree(pages, 10, 10, &seen)); !errors.Is(err, ErrDrained) {
					t.Error(err)
				}
				seen.check(t, pages)
				checkEmpty(t, f, store)
				if rate := float64(f.Stats().Erred) / pages; rate < 0.45 {
					t.Errorf("the filter erred for %.2f of the new links only", rate)
				}
			})
		})
	}
}

// slowStore takes its time to look keys up, so that others come in between, and
// notes how many are looked up at once.
type slowStore struct {
	*memStore
	keys, most atomic.Int64
	mu         sync.Mutex
	recorded   map[weburl.Key]int
}

func (s *slowStore) Seen(ctx context.Context, keys []weburl.Key, out []bool) error {
	n := s.keys.Add(int64(len(keys)))
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	err := s.memStore.Seen(ctx, keys, out)
	time.Sleep(time.Second)
	s.keys.Add(-int64(len(keys)))
	return err
}

func (s *slowStore) Commit(recs ...Record) (Position, error) {
	s.mu.Lock()
	for _, r := range recs {
		for _, l := range r.Links {
			s.recorded[l.Key]++
		}
	}
	s.mu.Unlock()
	return s.memStore.Commit(recs...)
}

// Many pages name the same links at once: each link is in one record, and has
// been counted by one of them.
func TestLinksAreRecordedOnce(t *testing.T) {
	for _, fp := range []float64{1e-9, 0.9999} {
		t.Run(fmt.Sprint(fp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{memStore: newMemStore(), recorded: map[weburl.Key]int{}}
				o := Options{Pace: fast(8), FilterFPRate: fp, FilterCapacity: 1, HotSetBytes: 1, Shards: 4,
					MaxVerify: 50}
				f := newTest(t, o, store)
				for i := range 40_000 { // fill the filter
					k := f.hasher.Key(mustParse(t, fmt.Sprintf("http://x%d.example/", i)))
					f.Remember([]weburl.Key{k})
				}
				var wg sync.WaitGroup
				var added atomic.Int64
				for g := range 20 {
					wg.Go(func() {
						var links []Link
						for i := range 300 {
							links = append(links, Link{URL: mustURL(treeURL((i*7+g*13)%300, 30))})
						}
						time.Sleep(time.Duration(g) * 100 * time.Millisecond)
						n, err := f.Add(t.Context(), links)
						if err != nil {
							t.Error(err)
						}
						added.Add(int64(n))
					})
				}
				wg.Wait()
				if added.Load() != 300 || len(store.recorded) != 300 {
					t.Errorf("%d links were added, %d recorded", added.Load(), len(store.recorded))
				}
				for k, n := range store.recorded {
					if n != 1 {
						t.Errorf("%v was recorded %d times", k, n)
					}
				}
				if most := store.most.Load(); most > 50 {
					t.Errorf("%d keys were looked up at once", most)
				}
				for _, s := range f.shards.all {
					if len(s.known.doubts) != 0 {
						t.Errorf("%d doubts are left", len(s.known.doubts))
					}
				}
				checkInvariants(t, f)
			})
		})
	}
}

// failingStore fails to look keys up, or to commit.
type failingStore struct {
	*memStore
	seen, commit error
}

func (s *failingStore) Seen(ctx context.Context, keys []weburl.Key, out []bool) error {
	if s.seen != nil {
		return s.seen
	}
	return s.memStore.Seen(ctx, keys, out)
}

func (s *failingStore) Commit(recs ...Record) (Position, error) {
	if s.commit != nil {
		return 0, s.commit
	}
	return s.memStore.Commit(recs...)
}

// If Done fails, the lease is released and its URL is pending.
func TestDoneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("disk is broken")
		store := &failingStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, FilterFPRate: 0.9999, FilterCapacity: 1}, store)
		for i := range 40_000 {
			f.Remember([]weburl.Key{f.hasher.Key(mustParse(t, fmt.Sprintf("http://a.example/known%d", i)))})
		}
		add(t, f, seeds("http://a.example/")...)
		var links []Link
		for i := range 20 {
			links = append(links, Link{URL: mustURL(fmt.Sprintf("http://a.example/%d", i)), Depth: 1})
		}
		l := next(t, f)
		startLease(t, l)
		store.seen = broken
		if d, err := l.Done(ok(links...)); d != Returned || !errors.Is(err, broken) {
			t.Fatalf("%v, %v", d, err)
		}
		store.seen = nil
		if st := f.Stats(); st.Pending != 1 || st.Leased != 0 || len(f.shards.all[0].known.doubts) != 0 {
			t.Errorf("%+v", st)
		}
		checkInvariants(t, f)
		l = next(t, f)
		if l.URL().String() != "http://a.example/" {
			t.Error(l.URL().String())
		}
		if d, err := l.Done(ok(Link{})); d != Returned || err == nil || err.Error() != "link without a url" {
			t.Errorf("%v, %v", d, err)
		}
		l = next(t, f)
		store.commit = broken
		if d, err := l.Done(ok(links...)); d != Returned || !errors.Is(err, broken) {
			t.Fatalf("%v, %v", d, err)
		}
		checkInvariants(t, f)
		if _, err := f.Next(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Next after the store failed: %v", err)
		}
		if _, err := f.Add(t.Context(), links); !errors.Is(err, broken) {
			t.Errorf("Add after the store failed: %v", err)
		}
	})
}

func TestAdmitFinishesLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		var asked atomic.Int64
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Admit: func(l *Link, e []Evidence) []Evidence {
			asked.Add(1)
			if l.Source == 7 {
				l.Finish = &Finish{}
			}
			return e
		}}, store)
		n := add(t, f, Link{URL: mustURL("http://a.example/1")}, Link{URL: mustURL("http://a.example/2"), Source: 7},
			Link{URL: mustURL("http://a.example/1")},
			Link{URL: mustURL("http://a.example/3"), Finish: &Finish{}})
		if n != 3 || asked.Load() != 3 {
			t.Errorf("added %d, asked for %d", n, asked.Load())
		}
		if st := f.Stats(); st.Pending != 1 || st.Finished != 2 {
			t.Errorf("%+v", st)
		}
		done(t, next(t, f), ok(Link{URL: mustURL("http://b.example/4"), Source: 7, Depth: 1},
			Link{URL: mustURL("http://a.example/2"), Depth: 1}))
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		if asked.Load() != 4 {
			t.Errorf("asked for %d", asked.Load())
		}
		checkEmpty(t, f, store)
	})
}

// blobs keep what SaveFilters writes.
type blobs struct {
	old, new map[string][]byte
	puts     int
}

func (b *blobs) Put(name string, _ uint32, write func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return err
	}
	b.puts++
	b.new[name] = buf.Bytes()
	return nil
}

func (b *blobs) Keep(name string) bool {
	v, ok := b.old[name]
	if ok {
		b.new[name] = v
	}
	return ok
}

func (b *blobs) names() (names []string) {
	for name := range b.new {
		if !dedup.IsPack(name) {
			panic(name)
		}
		names = append(names, name)
	}
	return names
}

func (b *blobs) read(name string, fn func(io.Reader) error) error {
	v, ok := b.new[name]
	if !ok {
		return fmt.Errorf("no blob %s", name)
	}
	return fn(bytes.NewReader(v))
}

// Filters come back as they were, with any number of shards; full layers are
// written once; whatever is missing or broken is noticed.
func TestFiltersAreKept(t *testing.T) {
	o := Options{Seed: 5, Shards: 1, FilterCapacity: 1}
	f := newTest(t, o, newMemStore())
	var keys []weburl.Key
	more := func(n int) {
		for range n {
			i := len(keys)
			k := f.hasher.Key(mustParse(t, fmt.Sprintf("http://h%d.example/%d", i%3, i)))
			keys = append(keys, k)
		}
		f.Remember(keys[len(keys)-n:])
	}
	b := &blobs{new: map[string][]byte{}}
	for i, n := range []int{10, 100_000, 10, 100_000, 0} {
		more(n)
		b.old, b.new, b.puts = b.new, map[string][]byte{}, 0
		if err := f.SaveFilters(b); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 2, 1, 2, 1}[i]; b.puts != want {
			t.Errorf("save %d wrote %d blobs, want %d", i, b.puts, want)
		}
	}
	for shards := range 3 {
		o.Shards = shards + 1
		g := newTest(t, o, newMemStore())
		if _, err := g.RestoreFilters(b.names(), b.read); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if !g.shards.of(k.Host).known.filters.Has(k) {
				t.Fatalf("%v was forgotten", k)
			}
		}
		if got, want := g.Stats(), f.Stats(); got.FilterKeys != want.FilterKeys || got.FilterBytes != want.FilterBytes {
			t.Errorf("%d keys in %d bytes, want %d in %d", got.FilterKeys, got.FilterBytes, want.FilterKeys,
				want.FilterBytes)
		}
		again := &blobs{old: b.new, new: map[string][]byte{}}
		if err := g.SaveFilters(again); err != nil || again.puts != 1 || len(again.new) != len(b.new) {
			t.Errorf("saving what was restored wrote %d blobs: %v", again.puts, err)
		}
	}

	for name := range b.new {
		without := &blobs{new: map[string][]byte{}}
		broken := &blobs{new: map[string][]byte{}}
		for n, v := range b.new {
			if n != name {
				without.new[n] = v
			}
			broken.new[n] = bytes.Clone(v)
		}
		broken.new[name][len(broken.new[name])/2] ^= 1
		for what, b := range map[string]*blobs{"missing": without, "broken": broken} {
			g := newTest(t, o, newMemStore())
			if _, err := g.RestoreFilters(b.names(), b.read); err == nil {
				t.Errorf("%s %s went unnoticed", name, what)
			}
			if g.Stats().FilterKeys != 0 {
				t.Errorf("%s %s left something behind", name, what)
			}
		}
	}
	o.Seed++
	if _, err := newTest(t, o, newMemStore()).RestoreFilters(b.names(), b.read); err == nil {
		t.Error("a filter of another seed was taken")
	}
}

// Admit can leave a link out, as often as it is found, and its evidence and that of a
// page are in one record with the page's finish.
func TestAdmitSkipsLinksAndGivesEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &evidenceStore{memStore: newMemStore()}
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Admit: func(l *Link, e []Evidence) []Evidence {
			if l.Source == 7 {
				l.Skip = 3
			}
			return append(e, Evidence{Kind: 9, Subject: uint64(l.Source)})
		}}, store)
		add(t, f, Link{URL: mustURL("http://a.example/1"), Repeats: 250})
		for i := range 2 {
			l := next(t, f)
			if want := uint8(250 * (1 - i)); l.Link().Repeats != want {
				t.Errorf("lease %d has %d repeats, want %d", i, l.Link().Repeats, want)
			}
			r := ok(Link{URL: mustURL("http://a.example/skipped"), Source: 7, Depth: 1},
				Link{URL: mustURL("http://a.example/2"), Depth: 1})
			r.Evidence = []Evidence{{Kind: 8, Words: []uint64{1, 2}}}
			store.evidence, store.skips = nil, nil
			done(t, l, r)
			want := []Evidence{{Kind: 8, Words: []uint64{1, 2}}, {Kind: 9, Subject: 7}, {Kind: 9}}
			if i == 1 {
				want = want[:2] // the second link is known by now
			}
			if !reflect.DeepEqual(store.evidence, want) {
				t.Errorf("lease %d: evidence %v, want %v", i, store.evidence, want)
			}
		}
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		if p := f.hasher.HostID("a.example").Partition(); !slices.Equal(store.skips,
			[]Skip{{Partition: p, Reason: 3, Count: 1}}) {
			t.Errorf("skips of the last page: %v", store.skips)
		}
		if st := f.Stats(); st.Finished != 2 {
			t.Errorf("%d URLs are finished, want 2", st.Finished)
		}
		checkEmpty(t, f, store.memStore)
	})
}

// Links of a page are recorded and sent with all that their origin says, and only those that are new or of a closed
// partition are.
func TestFoundAreRecordedAsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordedStore{Store: newMemStore()}
		f := newTest(t, Options{Shards: 3, IgnoreRobots: true, Pace: fast(1)}, store)
		start, other := partURL(0, 0), partURL(1, 1)
		add(t, f, Link{URL: start})
		f.ClosePartition(f.hasher.HostID(other.Host()).Partition())
		l := next(t, f)
		store.links = nil
		r := Result{Class: pace.ClassOK, Finish: &Finish{}, Origin: Origin{
			Parent: start, Depth: 7, Source: 4, Repeats: 9, At: time.Now().Add(-time.Minute),
		}}
		for _, u := range []weburl.URL{partURL(0, 1), start, other, partURL(0, 1), partURL(2, 3), other} {
			r.Found = append(r.Found, Found{URL: u})
		}
		r.Found[0].Key = f.hasher.Key(r.Found[0].URL)
		want := foundLinks(&r)
		for i := range want {
			want[i].Key, want[i].Priority = f.hasher.Key(want[i].URL), PriorityDepth+7
		}
		done(t, l, r)
		if got := []Link{want[0], want[4]}; !reflect.DeepEqual(store.links, got) {
			t.Errorf("recorded %+v, want %+v", store.links, got)
		}
		if got := []Link{want[2]}; !reflect.DeepEqual(store.sent, got) {
			t.Errorf("sent %+v, want %+v", store.sent, got)
		}
	})
}

// recordedStore keeps the links that records name and send.
type recordedStore struct {
	Store
	links, sent []Link
}

func (s *recordedStore) Commit(recs ...Record) (Position, error) {
	for i := range recs {
		s.links = append(s.links, recs[i].Links...)
		s.sent = append(s.sent, recs[i].Sent...)
	}
	return s.Store.Commit(recs...)
}
