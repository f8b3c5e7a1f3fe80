package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A crawl that is stopped again and again, each time with another number of
// shards and other limits, and whose leases are partly lost with it, finds the
// same as one that is not: every URL is finished once.
func TestResume(t *testing.T) {
	seed := testSeed(t)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		const pages, hosts = 5000, 50
		store := &countingStore{memStore: newMemStore(), finished: map[weburl.Key]int{}}
		b := &blobs{new: map[string][]byte{}}
		runs := 0
		for drained := false; !drained; runs++ {
			o := Options{
				Pace: fast(4), Shards: 1 + r.IntN(5), MaxInMemory: 10 + r.IntN(1000), MaxHosts: 5 + r.IntN(100),
				FailureThreshold: Off,
				LevelByLevel:     runs%3 == 2,
			}
			f := newTest(t, o, store)
			if runs == 0 {
				add(t, f, seeds(treeURL(0, hosts))...)
			} else {
				if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
					t.Fatal(err)
				}
				if _, err := f.RestoreFilters(b.names(), b.read); err != nil {
					t.Fatal(err)
				}
				for k := range store.since(store.saved) {
					f.Remember([]weburl.Key{k})
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			lost := 0
			left := 1 + r.IntN(1000)
			var seen visited
			v := tree(pages, hosts, 4, &seen)
			for {
				l, err := f.Next(ctx)
				if errors.Is(err, ErrDrained) {
					drained = lost == 0
					break
				}
				if errors.Is(err, context.DeadlineExceeded) {
					break // what is left waits for the leases that are lost
				}
				if err != nil {
					t.Fatal(err)
				}
				if left--; left == 0 {
					break
				}
				if r.IntN(50) == 0 {
					lost++ // in flight when the run ends
					continue
				}
				startLease(t, l)
				if _, err := l.Done(visit(v).answer(l)); err != nil {
					t.Fatal(err)
				}
				if r.IntN(200) == 0 {
					synctest.Wait()
					checkInvariants(t, f)
					if err := f.Checkpoint(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if r.IntN(300) == 0 {
					store.saved = store.last
					b.old, b.new = b.new, map[string][]byte{}
					if err := f.SaveFilters(b); err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(b.new) == 0 {
				if err := f.SaveFilters(b); err != nil {
					t.Fatal(err)
				}
				store.saved = store.last
			}
			cancel()
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d runs", runs)
		if links, finished := store.Len(); links != finished {
			t.Errorf("%d of %d links are finished", finished, links)
		}
		if len(store.finished) != pages {
			t.Errorf("%d URLs were finished, want %d", len(store.finished), pages)
		}
		for k, n := range store.finished {
			if n != 1 {
				t.Errorf("%v was finished %d times", k, n)
			}
		}
	})
}

// countingStore counts how often each URL is finished, and knows which links are
// newer than a record.
type countingStore struct {
	*memStore
	finished map[weburl.Key]int
	saved    Position
	named    []weburl.Key
	named0   []Position
}

func (s *countingStore) Commit(recs ...Record) (Position, error) {
	seq, err := s.memStore.Commit(recs...)
	for _, r := range recs {
		if r.Finish != nil {
			s.finished[r.Finish.Key]++
		}
		for _, l := range r.Links {
			s.named, s.named0 = append(s.named, l.Key), append(s.named0, seq)
		}
	}
	return seq, err
}

func (s *countingStore) since(seq Position) map[weburl.Key]bool {
	keys := map[weburl.Key]bool{}
	for i, k := range s.named {
		if s.named0[i] > seq {
			keys[k] = true
		}
	}
	return keys
}

// After a resume a host's first request waits one delay, also if the host becomes known only
// then: the earlier run may have asked just before it ended.
func TestResumeWaitsADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: pace.Config{MinDelay: time.Minute, MaxDelay: time.Minute}, IgnoreRobots: true}
		f := newTest(t, o, store)
		add(t, f, seeds("http://a.example/", "http://a.example/2", "http://b.example/")...)
		startLease(t, next(t, f))
		f.Close()

		f = newTest(t, o, store)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		add(t, f, seeds("http://new.example/")...)
		start := time.Now()
		for range 3 {
			startLease(t, next(t, f))
			if got := time.Since(start); got != time.Minute {
				t.Errorf("first lease after %v", got)
			}
		}
		startLease(t, next(t, f))
		if got := time.Since(start); got != 2*time.Minute {
			t.Errorf("second lease after %v", got)
		}
	})
}

// Checkpoints let the store throw away what is finished, and never more.
func TestCheckpointCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, MaxInMemory: 100}, store)
		queued := func() (n int) {
			if err := f.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			for b := range store.Backlogs(t.Context(), 0, 255) {
				for _, l := range b.Levels {
					n += l.Links
				}
			}
			return n
		}
		for i := range 1000 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		if n := queued(); n != 1000 {
			t.Errorf("%d are queued in the store, want 1000", n)
		}
		first := next(t, f)
		for range 500 {
			done(t, next(t, f), ok())
		}
		if n := queued(); n != 1000 {
			t.Errorf("%d are queued in the store with the first in flight, want 1000", n)
		}
		done(t, first, ok())
		if n := queued(); n != 499 {
			t.Errorf("%d are queued in the store after 501 pages, want 499", n)
		}
		l := next(t, f)
		done(t, l, Result{Class: pace.ClassServerError, Finish: &Finish{}})
		time.Sleep(time.Hour) // its host backs off, but then the retry comes first
		if l = next(t, f); l.Attempt() != 2 {
			t.Errorf("attempt %d", l.Attempt())
		}
		for range 100 {
			done(t, next(t, f), ok())
		}
		if n := queued(); n != 499 {
			t.Errorf("%d are queued in the store with a retry out, want 499", n)
		}
		done(t, l, ok())
		if n := queued(); n != 398 {
			t.Errorf("%d are queued in the store, want 398", n)
		}
		add(t, f, Link{URL: mustURL("http://a.example/deep"), Depth: 2})
		for range 398 {
			done(t, next(t, f), ok())
		}
		if n := queued(); n != 1 {
			t.Errorf("%d are queued in the store, want 1", n)
		}
		add(t, f, seeds("http://a.example/late")...)
		done(t, next(t, f), ok())
		done(t, next(t, f), ok())
		if n := queued(); n != 0 {
			t.Errorf("%d are queued in the store at the end", n)
		}
	})
}

// Level by level, a resumed crawl goes on with the least depth that any host has
// left, whichever host comes first.
func TestResumeLevelByLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: fast(1), IgnoreRobots: true, LevelByLevel: true}
		f := newTest(t, o, store)
		for i := range 100 {
			add(t, f, Link{URL: mustURL(fmt.Sprintf("http://h%d.example/", i)), Depth: uint16(1 + i*37%100)})
		}
		f.Close()

		f = newTest(t, o, store)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		for d := range 100 {
			l := next(t, f)
			if int(l.Link().Depth) != d+1 {
				t.Fatalf("depth %d, want %d", l.Link().Depth, d+1)
			}
			done(t, l, ok())
		}
	})
}
