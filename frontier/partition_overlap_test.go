package frontier

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// blockingStore lets a test decide when a call of the store goes on.
type blockingStore struct {
	*memStore
	seen, pending, keys chan struct{} // nil, or what the call waits for
	links, sent         []Link        // of all records
	finished            int
}

func (s *blockingStore) Commit(recs ...Record) (Position, error) {
	for i := range recs {
		s.links = append(s.links, recs[i].Links...)
		s.sent = append(s.sent, recs[i].Sent...)
		if recs[i].Finish != nil {
			s.finished++
		}
	}
	return s.memStore.Commit(recs...)
}

func pass(gate chan struct{}) {
	if gate != nil {
		<-gate
	}
}

func (s *blockingStore) Seen(ctx context.Context, keys []weburl.Key, out []bool) error {
	pass(s.seen)
	return s.memStore.Seen(ctx, keys, out)
}

func (s *blockingStore) Pending(ctx context.Context, h weburl.HostID, after Cursor, n int) ([]Link, Cursor, error) {
	pass(s.pending)
	return s.memStore.Pending(ctx, h, after, n)
}

func (s *blockingStore) Keys(ctx context.Context, first, last uint8) iter.Seq2[weburl.Key, error] {
	pass(s.keys)
	return s.memStore.Keys(ctx, first, last)
}

// urlsOf are the texts of links, in order.
func urlsOf(links []Link) []string {
	var urls []string
	for _, l := range links {
		urls = append(urls, l.URL.String())
	}
	slices.Sort(urls)
	return urls
}

// knownToFilter makes the filter of an open partition know a URL that is new, so that it is looked up in the store.
func knownToFilter(f *Frontier, url string) {
	k := f.hasher.Key(mustURL(url))
	s := f.shards.of(k.Host)
	s.lock()
	defer s.unlock()
	s.known.filters.Add(k)
}

// A partition that closes, or opens, while the links of a page are being looked up in the store: what is recorded is
// right at the moment of recording.
func TestPartitionChangesWhileLinksAreLookedUp(t *testing.T) {
	const page, other, third = "http://a.example/", "http://b.example/1", "http://c.example/1"
	for _, tc := range []struct {
		name   string
		before func(*Frontier, func(string) uint8) // before the page is done
		while  func(*testing.T, *Frontier, func(string) uint8)
		err    error
		links  []string // recorded with the page
		sent   []string
	}{
		{"the page's closes", nil, func(_ *testing.T, f *Frontier, p func(string) uint8) { f.ClosePartition(p(page)) },
			ErrPartitionClosed, nil, nil},
		{"a link's closes", nil, func(_ *testing.T, f *Frontier, p func(string) uint8) { f.ClosePartition(p(other)) },
			nil, []string{third}, []string{other}},
		{"a link's opens", func(f *Frontier, p func(string) uint8) { f.ClosePartition(p(other)) },
			func(t *testing.T, f *Frontier, p func(string) uint8) {
				if err := f.OpenPartition(t.Context(), p(other), Opening{}); err != nil {
					t.Error(err)
				}
			}, nil, []string{other, third}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &blockingStore{memStore: newMemStore()}
				f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, store)
				partition := func(url string) uint8 { return f.hasher.HostID(mustURL(url).Host()).Partition() }
				add(t, f, seeds(page, "http://b.example/", "http://c.example/")...)
				var l *Lease
				for l == nil || l.URL().String() != page {
					l = next(t, f)
				}
				startLease(t, l)
				knownToFilter(f, other)
				knownToFilter(f, third)
				if tc.before != nil {
					tc.before(f, partition)
				}
				store.links, store.seen = nil, make(chan struct{})
				done := make(chan error)
				go func() {
					_, err := l.Done(ok(Link{URL: mustURL(other), Depth: 1}, Link{URL: mustURL(third), Depth: 1}))
					done <- err
				}()
				synctest.Wait()
				tc.while(t, f, partition)
				close(store.seen)
				if err := <-done; !errors.Is(err, tc.err) {
					t.Errorf("done: %v, want %v", err, tc.err)
				}
				if got := urlsOf(store.links); !slices.Equal(got, tc.links) {
					t.Errorf("recorded %q, want %q", got, tc.links)
				}
				if got := urlsOf(store.sent); !slices.Equal(got, tc.sent) {
					t.Errorf("sent %q, want %q", got, tc.sent)
				}
				if finished := store.finished == 1; finished != (tc.err == nil) {
					t.Errorf("%d finishes were recorded", store.finished)
				}
				synctest.Wait()
				checkInvariants(t, f)
			})
		})
	}
}

// What was being read for a host when its partition was closed is not given to the host that has its memory then.
func TestPartitionClosesWhileAWindowIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blockingStore{memStore: newMemStore()}
		o := Options{Pace: fast(1), IgnoreRobots: true, Shards: 1}
		f := newTest(t, o, store)
		add(t, f, seeds("http://a.example/1", "http://a.example/2", "http://b.example/1", "http://b.example/2")...)
		f.Close()

		f = newTest(t, o, store)
		store.pending = make(chan struct{})
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait() // both hosts are being loaded
		a, b := f.hasher.HostID("a.example").Partition(), f.hasher.HostID("b.example").Partition()
		for _, p := range []uint8{a, b} {
			f.ClosePartition(p)
		}
		for _, p := range []uint8{b, a} { // so that each has what was the other's
			if err := f.OpenPartition(t.Context(), p, Opening{}); err != nil {
				t.Fatal(err)
			}
		}
		close(store.pending)
		synctest.Wait()
		checkInvariants(t, f)
		var seen visited
		crawl(t, f, 1, 0, func(l *Lease) Result {
			seen.add(l.URL().String())
			return ok()
		})
		seen.check(t, 4)
		checkInvariants(t, f)
	})
}

// A partition that is being opened keeps the frontier from being drained, and then knows what is recorded of it.
func TestOpenPartitionKnowsItsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blockingStore{memStore: newMemStore()}
		o := Options{Pace: pace.Config{MinDelay: time.Minute, MaxDelay: time.Minute}, IgnoreRobots: true}
		f := newTest(t, o, store)
		add(t, f, seeds("http://a.example/1", "http://a.example/2", "http://a.example/3")...)
		done(t, next(t, f), ok())
		f.Close()

		o.Closed = true
		f = newTest(t, o, store)
		if n := add(t, f, seeds("http://a.example/1", "http://a.example/new")...); n != 0 {
			t.Errorf("%d links of a closed partition were recorded", n)
		}
		if got := urlsOf(store.TakeSent()); !slices.Equal(got, []string{"http://a.example/1", "http://a.example/new"}) {
			t.Errorf("sent %q", got)
		}
		store.keys = make(chan struct{})
		p := f.hasher.HostID("a.example").Partition()
		opened := make(chan error)
		start := time.Now()
		go func() {
			opened <- f.OpenPartition(t.Context(), p, Opening{At: start.Add(-30 * time.Second),
				NotBefore: start.Add(40 * time.Second)})
		}()
		synctest.Wait()
		got := make(chan *Lease)
		go func() { got <- next(t, f) }()
		synctest.Wait()
		close(store.keys)
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		l := <-got
		if took := time.Since(start); l.URL().String() != "http://a.example/2" || took != 40*time.Second {
			t.Errorf("%s after %v", l.URL(), took)
		}
		if n := add(t, f, seeds("http://a.example/1", "http://a.example/new")...); n != 1 {
			t.Errorf("%d links are new, want 1", n)
		}
	})
}

// A blocked host stays blocked when its partition is opened again, unless a user asked for another run.
func TestOpenPartitionKeepsBlocks(t *testing.T) {
	for _, newRun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemStore()
			o := Options{Pace: pace.Config{MaxInflight: 1, MaxFailures: 1}, IgnoreRobots: true, MaxRetries: Off}
			f := newTest(t, o, store)
			add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
			done(t, next(t, f), Result{Class: pace.ClassNetwork, Finish: &Finish{}})
			p := f.hasher.HostID("a.example").Partition()
			if _, err := f.DrainPartition(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			f.ClosePartition(p)
			if err := f.OpenPartition(t.Context(), p, Opening{NewRun: newRun}); err != nil {
				t.Fatal(err)
			}
			if st := f.Stats(); (st.Hosts["blocked"] == 1) == newRun || st.Pending != 1 {
				t.Errorf("new run %v: %d hosts are blocked, %d URLs pending", newRun, st.Hosts["blocked"], st.Pending)
			}
			checkInvariants(t, f)
		})
	}
}
