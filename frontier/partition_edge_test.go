package frontier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// savedBlobs are what one checkpoint saves, and what the one before saved.
type savedBlobs struct{ saved, before map[string][]byte }

func (w *savedBlobs) next() *savedBlobs {
	return &savedBlobs{saved: map[string][]byte{}, before: w.saved}
}

func (w *savedBlobs) Put(name string, _ uint32, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	w.saved[name] = b.Bytes()
	return err
}

func (w *savedBlobs) Keep(name string) bool {
	b, ok := w.before[name]
	if ok {
		w.saved[name] = b
	}
	return ok
}

// reopen is a new frontier with the filters of a checkpoint, or if there are none with all keys of the store.
func (w *savedBlobs) reopen(t *testing.T, o Options, store Store) *Frontier {
	t.Helper()
	f := newTest(t, o, store)
	var names []string
	for name := range w.saved {
		names = append(names, name)
	}
	if len(names) > 0 {
		_, err := f.RestoreFilters(names,
			func(name string, fn func(io.Reader) error) error { return fn(bytes.NewReader(w.saved[name])) })
		if err != nil {
			t.Fatal(err)
		}
	} else {
		for k := range store.Keys(t.Context(), 0, 255) {
			f.Remember([]weburl.Key{k})
		}
	}
	if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
		t.Fatal(err)
	}
	return f
}

// A checkpoint while a partition is closed, or after it was opened again, makes no known URL new.
func TestFiltersOfAPartitionThatWasClosed(t *testing.T) {
	const urls = 30_000 // several layers of the filter
	for _, reopened := range []bool{false, true} {
		store := newMemStore()
		o := Options{Pace: fast(1), IgnoreRobots: true, Shards: 2, FilterCapacity: 1, HotSetBytes: 1}
		f := newTest(t, o, store)
		var links []Link
		for i := range urls {
			links = append(links, Link{URL: mustURL(fmt.Sprintf("http://a.example/%d", i))})
		}
		add(t, f, links...)
		w := (&savedBlobs{}).next()
		if err := f.SaveFilters(w); err != nil {
			t.Fatal(err)
		}
		p := f.hasher.HostID("a.example").Partition()
		f.ClosePartition(p)
		if reopened {
			if err := f.OpenPartition(t.Context(), p, Opening{}); err != nil {
				t.Fatal(err)
			}
		}
		w = w.next()
		if err := f.SaveFilters(w); err != nil {
			t.Fatal(err)
		}
		f.Close()
		f = w.reopen(t, o, store)
		if n := add(t, f, links...); n != 0 {
			t.Errorf("opened again %v: %d known links were recorded again", reopened, n)
		}
		f.Close()
	}
}

// betweenHosts calls a function between two hosts of a backlog.
type betweenHosts struct {
	*memStore
	fn func()
}

func (s *betweenHosts) Backlogs(ctx context.Context, first, last uint8) iter.Seq2[Backlog, error] {
	return func(yield func(Backlog, error) bool) {
		n := 0
		for b, err := range s.memStore.Backlogs(ctx, first, last) {
			if n++; n == 2 && s.fn != nil {
				s.fn()
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// A partition that is closed while it is being opened is closed.
func TestPartitionIsClosedWhileItIsOpened(t *testing.T) {
	store := &betweenHosts{memStore: newMemStore()}
	f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Shards: 1}, store)
	links := seeds("http://a.example/1", "http://b.a.example/1", "http://c.a.example/1")
	add(t, f, links...)
	p := f.hasher.HostID("a.example").Partition()
	f.ClosePartition(p)
	store.fn = func() { f.ClosePartition(p) }
	if err := f.OpenPartition(t.Context(), p, Opening{}); !errors.Is(err, ErrPartitionClosed) {
		t.Errorf("opened: %v", err)
	}
	if st := f.Stats(); st.Pending != 0 || f.parts.list[p].state != partitionClosed || f.parts.notOpen.Load() != 1 {
		t.Errorf("%d URLs pending, state %d, %d partitions not open", st.Pending, f.parts.list[p].state,
			f.parts.notOpen.Load())
	}
	store.fn = nil
	if err := f.OpenPartition(t.Context(), p, Opening{}); err != nil {
		t.Fatal(err)
	}
	if n := add(t, f, links...); n != 0 || f.Stats().Pending != 3 {
		t.Errorf("%d known links were recorded again, %d pending", n, f.Stats().Pending)
	}
}

// A partition that is closed while it is being drained is not waited for.
func TestPartitionIsClosedWhileItIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true}, newMemStore())
		add(t, f, seeds("http://a.example/1")...)
		p := f.hasher.HostID("a.example").Partition()
		l := next(t, f)
		drained := make(chan error)
		go func() {
			_, err := f.DrainPartition(t.Context(), p)
			drained <- err
		}()
		synctest.Wait()
		f.ClosePartition(p)
		if err := <-drained; !errors.Is(err, ErrPartitionClosed) {
			t.Errorf("drained: %v", err)
		}
		l.Abandon()
	})
}

// A new run tries the hosts of a domain again that was given up before the partition was closed.
func TestOpenPartitionOfAnAbandonedDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Pace: fast(1), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: 2}
		o.Pace.MaxFailures = 255
		f := newTest(t, o, newMemStore())
		for i := range 6 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		for range 2 {
			done(t, next(t, f), Result{Class: pace.ClassNetwork, Finish: &Finish{}, Final: true})
		}
		if _, err := f.Next(t.Context()); err != ErrDrained {
			t.Fatal(err)
		}
		p := f.hasher.HostID("a.example").Partition()
		for _, newRun := range []bool{false, true} {
			f.ClosePartition(p)
			if err := f.OpenPartition(t.Context(), p, Opening{NewRun: newRun}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			_, err := f.Next(ctx)
			cancel()
			if (err == nil) != newRun {
				t.Errorf("new run %v: %v", newRun, err)
			}
		}
	})
}

// Failures that come after a domain was given up, of leases that were out, do not count for the next run, whether or
// not they were saved at a checkpoint.
func TestFoldBeyondTheThreshold(t *testing.T) {
	for _, saved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &evidenceStore{memStore: newMemStore()}
			o := Options{Pace: fast(8), IgnoreRobots: true, MaxRetries: Off, FailureThreshold: 3}
			o.Pace.MaxFailures = 255
			f := newTest(t, o, store)
			for i := range 20 {
				add(t, f, seeds(fmt.Sprintf("http://h%d.a.example/", i))...)
			}
			var leases []*Lease
			for range 5 {
				leases = append(leases, next(t, f))
			}
			fail := func(l *Lease) { done(t, l, Result{Class: pace.ClassNetwork, Finish: &Finish{}, Final: true}) }
			for _, l := range leases {
				fail(l)
			}
			var blob blobWriter
			if saved {
				if err := f.SaveFolds(&blob, 1); err != nil {
					t.Fatal(err)
				}
			}
			f.Close()
			f = newTest(t, o, store)
			if saved {
				if _, err := f.RestoreFolds(&blob); err != nil {
					t.Fatal(err)
				}
			}
			for i, e := range store.evidence {
				f.Fold(store.at[i], e)
			}
			f.FoldRun(true)
			if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
				t.Fatal(err)
			}
			tried := 0
			for l, err := f.Next(t.Context()); err == nil; l, err = f.Next(t.Context()) {
				tried++
				fail(l)
			}
			if tried != 3 {
				t.Errorf("saved %v: the next run tried %d URLs, want 3", saved, tried)
			}
		})
	}
}
