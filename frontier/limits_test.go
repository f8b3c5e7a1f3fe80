package frontier

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// With 512 workers the number of pages is exact, whatever fails, is retried,
// panics, or turns out not to need a request.
func TestTicketsAreExact(t *testing.T) {
	for _, limit := range []int64{1, 50, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemStore()
				f := newTest(t, Options{Pace: fast(20), MaxURLs: limit, Shards: 3, FailureThreshold: Off}, store)
				for i := range 3000 {
					add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i%100, i))...)
				}
				var mu sync.Mutex
				started := map[string]bool{}
				var wg sync.WaitGroup
				for range 512 {
					wg.Go(func() {
						for {
							l, err := f.Next(t.Context())
							if err != nil {
								if !errors.Is(err, ErrLimit) {
									t.Errorf("crawl ended with %v", err)
								}
								return
							}
							work(f, l, func() {
								mu.Lock()
								defer mu.Unlock()
								started[l.URL().String()] = true
							})
						}
					})
				}
				wg.Wait()
				if int64(len(started)) != limit {
					t.Errorf("%d pages were started, want %d", len(started), limit)
				}
				if st := f.Stats(); st.Tickets != limit || st.Leased != 0 || st.Pending != 3000-st.Finished {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// work does what workers do with a lease, depending on its URL: some URLs need
// no request, some fail at first, on some the worker panics.
func work(f *Frontier, l *Lease, started func()) {
	defer func() { recover() }()
	defer l.Abandon()
	if l.Kind() == KindRobots {
		l.Done(Result{RobotsUntil: time.Now().Add(time.Hour)})
		return
	}
	k := l.Link().Key.Lo % 8
	if k == 0 {
		time.Sleep(time.Millisecond)
		l.Done(Result{Finish: &Finish{}})
		return
	}
	if l.Start() != nil {
		l.Done(Result{})
		return
	}
	started()
	time.Sleep(10 * time.Millisecond)
	switch {
	case k == 1 && l.Attempt() == 1:
		panic("a bug in the worker")
	case k == 2 && l.Attempt() < 4:
		l.Done(Result{Class: pace.ClassServerError, Finish: &Finish{}})
	case k == 3 && l.Attempt() == 1:
		l.Done(Result{Class: pace.ClassThrottled, Finish: &Finish{}})
	default:
		l.Done(ok())
	}
}

func TestLimitOrDrained(t *testing.T) {
	tests := []struct {
		name  string
		urls  int
		limit int64
		used  int64
		links bool
		want  error
	}{
		{"more pending than tickets", 11, 10, 0, false, ErrLimit},
		{"just as many", 10, 10, 0, false, ErrDrained},
		{"the last page brings more", 10, 10, 0, true, ErrLimit},
		{"earlier runs used them up", 1, 10, 10, false, ErrLimit},
		{"earlier runs used some", 3, 10, 7, false, ErrDrained},
		{"nothing at all", 0, 10, 10, false, ErrDrained},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTest(t, Options{Pace: fast(3), IgnoreRobots: true, MaxURLs: tt.limit, URLsUsed: tt.used},
					newMemStore())
				for i := range tt.urls {
					add(t, f, seeds(fmt.Sprintf("http://h%d.example/", i))...)
				}
				var n atomic.Int64
				err := crawl(t, f, 5, time.Second, func(l *Lease) Result {
					if n.Add(1) == int64(tt.urls) && tt.links {
						return ok(Link{URL: mustURL("http://more.example/"), Depth: 1})
					}
					return ok()
				})
				if !errors.Is(err, tt.want) {
					t.Errorf("crawl ended with %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// A limit is not reached as long as a sitemap may still show that nothing is
// left; but it is as soon as something is.
func TestLimitAndSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(3), IgnoreRobots: true, MaxURLs: 1}, newMemStore())
		release := f.Source()
		add(t, f, seeds("http://a.example/1")...)
		l := next(t, f)
		startLease(t, l)
		done(t, l, ok())
		end := make(chan error)
		go func() {
			_, err := f.Next(t.Context())
			end <- err
		}()
		synctest.Wait()
		select {
		case err := <-end:
			t.Fatalf("ended with %v while a source was open", err)
		default:
		}
		add(t, f, seeds("http://a.example/2")...)
		if err := <-end; !errors.Is(err, ErrLimit) {
			t.Error(err)
		}
		release()
	})
}

func TestHostLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: fast(4), IgnoreRobots: true, MaxURLsPerHost: 5}
		f := newTest(t, o, store)
		count := map[string]int{}
		var mu sync.Mutex
		v := func(l *Lease) Result {
			mu.Lock()
			defer mu.Unlock()
			count[l.URL().Origin()]++
			if l.Attempt() == 1 && l.Link().Key.Lo%2 == 0 {
				count[l.URL().Origin()]--
				return Result{Class: pace.ClassServerError, Finish: &Finish{}}
			}
			return ok()
		}
		for i := range 20 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i), fmt.Sprintf("http://b.example/%d", i%4))...)
		}
		if err := crawl(t, f, 8, time.Second, v); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		if count["http://a.example"] != 5 || count["http://b.example"] != 4 {
			t.Errorf("pages: %v", count)
		}
		if st := f.Stats(); st.Pending != 15 || st.Held != 15 {
			t.Errorf("%+v", st)
		}
		f.Close()

		// The next run goes on where this one ended.
		f = newTest(t, o, store)
		if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
			t.Fatal(err)
		}
		add(t, f, seeds("http://b.example/5", "http://b.example/6")...)
		if err := crawl(t, f, 8, time.Second, v); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		if count["http://a.example"] != 5 || count["http://b.example"] != 5 {
			t.Errorf("pages after a resume: %v", count)
		}
	})
}

// Drained is exact: not while a page is out, a retry waits, a source is open, a
// sitemap is queued; and at once when the last of them ends.
func TestDrainedIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(3), IgnoreRobots: true}, newMemStore())
		var ended atomic.Int64
		waitAll := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := ended.Load(); got != want {
				t.Fatalf("%d of 10 have ended, want %d", got, want)
			}
		}
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Fatal(err)
		}
		release := f.Source()
		add(t, f, seeds("http://a.example/")...)
		page := next(t, f)
		for range 10 {
			go func() {
				if _, err := f.Next(t.Context()); errors.Is(err, ErrDrained) {
					ended.Add(1)
				}
			}()
		}
		waitAll(0)
		release()
		release() // does nothing
		waitAll(0)
		add(t, f, Link{URL: mustURL("http://a.example/sitemap.xml"), Sitemap: true})
		waitAll(0) // one of the ten has the sitemap now
		startLease(t, page)
		done(t, page, ok())
		waitAll(0)
		if st := f.Stats(); st.Leased != 1 || st.Idle != 9 {
			t.Fatalf("%+v", st)
		}
		f.shards.of(page.key.Host).leases.out[0].Done(ok())
		waitAll(9)
	})
}

// The lease of a worker that panics is released: the slot, the permit, the ticket.
func TestPanicPaysBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxURLs: 1, MaxInMemory: 1}, store)
		add(t, f, seeds("http://a.example/")...)
		for i := range 3 {
			l := next(t, f)
			if l.Attempt() != i+1 {
				t.Errorf("attempt %d, want %d", l.Attempt(), i+1)
			}
			func() {
				defer func() { recover() }()
				defer l.Abandon()
				if i > 0 {
					startLease(t, l)
				}
				panic("a bug in the worker")
			}()
			if _, err := l.Done(ok()); !errors.Is(err, ErrDone) {
				t.Errorf("Done after Abandon: %v", err)
			}
			if st := f.Stats(); st.Leased != 0 || st.InMemory != 1 || st.Waiting != 1 ||
				st.Tickets != int64(min(i, 1)) {
				t.Errorf("%+v", st)
			}
		}
		l := next(t, f)
		startLease(t, l)
		done(t, l, ok())
		l.Abandon() // as workers defer it: does nothing
		if _, err := l.Done(ok()); !errors.Is(err, ErrDone) {
			t.Errorf("second Done: %v", err)
		}
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		checkEmpty(t, f, store)
	})
}

// The page limit can be raised and lowered while calls of Next wait for a ticket: it is exact each time.
func TestPageLimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(20), MaxURLs: 3}, newMemStore())
		for i := range 40 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i%10, i))...)
		}
		for _, step := range []struct{ limit, want int64 }{{3, 3}, {10, 10}, {7, 10}, {-1, 10}, {12, 12}, {0, 0}} {
			f.SetMaxURLs(step.limit)
			for {
				l, err := f.Next(t.Context())
				if err != nil {
					if step.limit != 0 != errors.Is(err, ErrLimit) {
						t.Errorf("limit %d: %v", step.limit, err)
					}
					break
				}
				work(f, l, func() {})
			}
			if got := f.PagesUsed(); step.limit != 0 && got != step.want {
				t.Errorf("limit %d: %d pages were fetched, want %d", step.limit, got, step.want)
			}
		}
		if got := f.Stats().Finished; got != 40 {
			t.Errorf("without a limit %d pages were finished, want 40", got)
		}
	})
}
