package frontier

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
