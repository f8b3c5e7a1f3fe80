package frontier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// lateStore does something after a queue has been read and before the answer
// arrives.
type lateStore struct {
	*memStore
	once sync.Once
	late func()
}

func (s *lateStore) Pending(ctx context.Context, host weburl.HostID, after Cursor, n int) ([]Link, Cursor, error) {
	links, next, err := s.memStore.Pending(ctx, host, after, n)
	if s.late != nil {
		s.once.Do(s.late)
	}
	return links, next, err
}

// A link that is found while the queue it belongs to is being read stays in it,
// though the read has not seen it.
func TestLinkFoundWhileItsQueueIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateStore{memStore: newMemStore()}
		o := Options{Pace: fast(2), IgnoreRobots: true, FailureThreshold: Off}
		f := newTest(t, o, store)
		for i := range 5 {
			add(t, f, seeds(fmt.Sprintf("http://a.test/%d", i))...)
		}
		l := next(t, f)
		startLease(t, l)
		done(t, l, ok()) // so that the backlog counts one too many
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}

		f = newTest(t, o, store)
		store.late = func() { add(t, f, seeds("http://a.test/late")...) }
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		var seen visited
		err := crawl(t, f, 1, time.Millisecond, func(l *Lease) Result {
			seen.add(l.Link().URL.String())
			return ok()
		})
		if !errors.Is(err, ErrDrained) {
			t.Fatal(err)
		}
		if len(seen.urls) != 5 || seen.urls["http://a.test/late"] != 1 {
			t.Errorf("leased %v, want the four that were left and the late one", seen.urls)
		}
		if st := f.Stats(); st.Pending != 0 || st.OnDisk != 0 {
			t.Errorf("%d pending and %d on disk at the end", st.Pending, st.OnDisk)
		}
	})
}

// slowReads is a store that takes some time for each read of a queue.
type slowReads struct {
	*memStore
	takes time.Duration
	reads atomic.Int64
}

func (s *slowReads) Pending(ctx context.Context, host weburl.HostID, after Cursor, n int) ([]Link, Cursor, error) {
	s.reads.Add(1)
	time.Sleep(s.takes)
	return s.memStore.Pending(ctx, host, after, n)
}

// Hosts take turns also if their URLs must be read and there are many more hosts than may be active: what was read for a
// host is not thrown away for hosts that have waited less, however long a round takes.
func TestReadsAreNotThrownAway(t *testing.T) {
	for name, links := range map[string]int{"known hosts": 0, "new hosts all the time": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hosts = 3000
				store := &slowReads{memStore: newMemStore(), takes: 20 * time.Millisecond}
				f := newTest(t, Options{Pace: fast(2), IgnoreRobots: true, FailureThreshold: Off, MaxHosts: 64}, store)
				made := 0
				host := func() string {
					made++
					return fmt.Sprintf("http://h%d.test/", made)
				}
				for made < hosts/10 || links == 0 && made < hosts {
					add(t, f, seeds(host())...)
				}
				var seen visited
				var mu sync.Mutex
				began := time.Now()
				err := crawl(t, f, 8, time.Millisecond, func(l *Lease) Result {
					seen.add(l.Link().URL.String())
					mu.Lock()
					defer mu.Unlock()
					r := ok()
					for range links {
						if made < hosts {
							add(t, f, seeds(host())...)
						}
					}
					return r
				})
				if !errors.Is(err, ErrDrained) || len(seen.urls) != hosts {
					t.Fatalf("%d hosts, %v", len(seen.urls), err)
				}
				if n, took := store.reads.Load(), time.Since(began); n > hosts*11/10 || took > 30*time.Second {
					t.Errorf("%d reads for %d hosts in %s", n, hosts, took)
				}
			})
		})
	}
}
