package frontier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// constant is a profile with the same delay after each start.
func constant(delay time.Duration, inflight int) pace.Config {
	return pace.Config{MinDelay: delay, MaxDelay: delay, MaxInflight: inflight, MinInflight: 1}.WithDefaults()
}

// A sharedWeb sees all requests of several crawls. It knows how many pages each crawl has left on each host, and by
// that what every start and every lease must obey.
type sharedWeb struct {
	t        testing.TB
	profiles []pace.Config

	mu    sync.Mutex
	hosts map[string]*sharedWebHost
}

type sharedWebHost struct {
	left     map[int]int // pages by crawl
	served   map[int]int // likewise, started
	inflight int
	last     time.Time
	starts   int
	gap      time.Duration // the shortest
	most     int           // in flight
	unfair   int           // the largest difference in served pages between two crawls that had some left
}

func (w *sharedWeb) at(host string) *sharedWebHost {
	if w.hosts[host] == nil {
		w.hosts[host] = &sharedWebHost{left: map[int]int{}, served: map[int]int{}, gap: time.Hour}
	}
	return w.hosts[host]
}

// demands is what the crawls demand that have pages left.
func (w *sharedWeb) demands(h *sharedWebHost) (gap time.Duration, limit int) {
	limit = 1 << 20
	for i, left := range h.left {
		if left > 0 {
			gap, limit = max(gap, w.profiles[i].MaxDelay), min(limit, w.profiles[i].MaxInflight)
		}
	}
	return gap, limit
}

func (w *sharedWeb) lease(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.at(host)
	h.inflight++
	h.most = max(h.most, h.inflight)
	if _, limit := w.demands(h); h.inflight > limit {
		w.t.Errorf("%s: %d in flight, at most %d are allowed", host, h.inflight, limit)
	}
}

func (w *sharedWeb) start(crawl int, host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.at(host)
	gap, _ := w.demands(h)
	if h.starts > 0 {
		since := time.Since(h.last)
		h.gap = min(h.gap, since)
		if since < gap {
			w.t.Errorf("%s: a start of crawl %d %v after the last one, want %v", host, crawl, since, gap)
		}
	}
	h.last = time.Now()
	h.starts++
	h.served[crawl]++
	for i, left := range h.left {
		if left > 0 && h.left[crawl] > 0 {
			h.unfair = max(h.unfair, h.served[crawl]-h.served[i])
		}
	}
}

func (w *sharedWeb) end(crawl int, host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.at(host)
	h.inflight--
	h.left[crawl]--
}

// crawl runs the workers of one crawl until it is drained.
func (w *sharedWeb) crawl(crawl int, f *Frontier, workers int, took time.Duration) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				l, err := f.Next(w.t.Context())
				if err != nil {
					if !errors.Is(err, ErrDrained) {
						w.t.Error(err)
					}
					return
				}
				_, host := originOf(l.URL())
				w.lease(host)
				time.Sleep(5 * time.Millisecond) // connect
				startLease(w.t, l)
				w.start(crawl, host)
				time.Sleep(took)
				w.end(crawl, host)
				done(w.t, l, ok())
			}
		})
	}
	wg.Wait()
}

// Crawls with different profiles, some of them on the same hosts: the longest delay and the smallest limit of those
// that have work on a host hold over all of them, all drain, in turns, and no call is woken for nothing more than a few
// times.
func TestSharedPace(t *testing.T) {
	profiles := []pace.Config{
		constant(300*time.Millisecond, 2), constant(0, 8), constant(time.Second, 1), constant(0, 3),
		constant(200*time.Millisecond, 4),
	}
	for i, crawls := range []int{2, 10, 50, 2, 10, 50} {
		accounts := i >= 3 // each crawl is of another one
		t.Run(fmt.Sprint(crawls, accounts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages, workers = 40, 24
				registry := pace.NewRegistry()
				web := &sharedWeb{t: t, hosts: map[string]*sharedWebHost{}}
				var all []*Frontier
				var stores []*memStore
				for i := range crawls {
					p := profiles[i%len(profiles)]
					web.profiles = append(web.profiles, p)
					store := newMemStore()
					o := Options{Seed: uint64(i), Pace: p, IgnoreRobots: true, Registry: registry, Shards: 1 + i%3}
					if accounts {
						o.Account = fmt.Sprint(i)
					}
					f := newTest(t, o, store)
					var urls []string
					hosts := []string{"all.example", fmt.Sprintf("pair%d.example", i/2),
						fmt.Sprintf("own%d.example", i)}
					if i%5 == 1 || i%5 == 3 {
						hosts = append(hosts, "fast.example") // no crawl that asks it has a delay
					}
					for _, host := range hosts {
						for j := range pages {
							urls = append(urls, fmt.Sprintf("http://%s/%d", host, j))
						}
						web.at(host).left[i] = pages
					}
					add(t, f, seeds(urls...)...)
					all, stores = append(all, f), append(stores, store)
				}
				synctest.Wait() // the loaders have asked about all hosts
				var wg sync.WaitGroup
				for i, f := range all {
					wg.Go(func() { web.crawl(i, f, workers, time.Duration(20+i)*time.Millisecond) })
				}
				wg.Wait()
				wakeups, starts := int64(0), 0
				for i, f := range all {
					checkInvariants(t, f)
					checkEmpty(t, f, stores[i])
					if v := f.Stats().Violations; v != 0 {
						t.Errorf("crawl %d: %d violations of in-flight limits", i, v)
					}
					wakeups += f.waiting.Wakeups()
				}
				for name, h := range web.hosts {
					starts += h.starts
					if h.unfair > 2 {
						t.Errorf("%s: a crawl was served %d times more than another one that waited", name, h.unfair)
					}
				}
				h := web.at("all.example")
				t.Logf("all.example: shortest gap %v, at most %d in flight, unfair by %d; %d starts, %d calls woken",
					h.gap, h.most, h.unfair, starts, wakeups)
				if wakeups > int64(4*starts+crawls*workers) {
					t.Errorf("%d calls were woken for %d requests", wakeups, starts)
				}
				if f := web.at("fast.example"); crawls > 2 && f.most != 3 {
					t.Errorf("fast.example had at most %d in flight, want 3", f.most)
				}
			})
		})
	}
}

// sharedPair returns two crawls of one registry, each with pages of the same host.
func sharedPair(t *testing.T, a, b Options, pages int) (*Frontier, *Frontier) {
	t.Helper()
	registry := pace.NewRegistry()
	var both [2]*Frontier
	for i, o := range []Options{a, b} {
		o.Seed, o.IgnoreRobots, o.Registry = uint64(i), true, registry
		both[i] = newTest(t, o, newMemStore())
		for j := range pages {
			add(t, both[i], seeds(fmt.Sprintf("http://a.example/%d", j))...)
		}
	}
	synctest.Wait()
	return both[0], both[1]
}

// wasServedAfter checks when a crawl was served. It may have waited for the turn of the other one, which calls Next
// later.
func wasServedAfter(t *testing.T, begin time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(begin); got < want || got > want+10*time.Millisecond {
		t.Errorf("the crawl was served after %v, want %v", got, want)
	}
}

// leasesOf calls Next until the context ends, and returns the leases as they come.
func leasesOf(ctx context.Context, f *Frontier) <-chan *Lease {
	out := make(chan *Lease, 100)
	go func() {
		defer close(out)
		for {
			l, err := f.Next(ctx)
			if err != nil {
				return
			}
			out <- l
		}
	}()
	return out
}

// A closed crawl demands nothing any more, and its requests keep their slots until they end.
func TestCloseFreesOtherCrawls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := sharedPair(t, Options{Pace: fast(1)}, Options{Pace: fast(3)}, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := next(t, a)
		startLease(t, l)
		got := leasesOf(ctx, b)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%d leases while another crawl, which allows one request, has it", len(got))
		}
		a.Close()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%d leases while the request of a closed crawl is out, which allowed one", len(got))
		}
		l.Abandon()
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("%d leases after the last request of the closed crawl, want 3", len(got))
		}
		if n := a.o.Registry.Len(); n != 1 {
			t.Errorf("the registry has %d hosts, want 1", n)
		}
		for range 3 {
			done(t, <-got, Result{})
		}
	})
}

// A crawl that has its turn and no worker does not hold up the others for more than a moment, once.
func TestTurnIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := sharedPair(t, Options{Pace: fast(1)}, Options{Pace: fast(1)}, 20)
		begin := time.Now()
		for range 20 {
			l := next(t, b)
			startLease(t, l)
			done(t, l, ok())
		}
		if got := time.Since(begin); got > 10*time.Millisecond {
			t.Errorf("20 pages took %v beside a crawl that does nothing", got)
		}
	})
}

// A lease that was given out before a crawl with a longer delay joined must not start too soon.
func TestStricterCrawlJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := pace.NewRegistry()
		b := newTest(t, Options{Seed: 1, Pace: fast(3), IgnoreRobots: true, Registry: registry}, newMemStore())
		add(t, b, seeds("http://a.example/1", "http://a.example/2", "http://a.example/3")...)
		l1, l2 := next(t, b), next(t, b)
		a := newTest(t, Options{Seed: 2, Pace: constant(time.Second, 3), IgnoreRobots: true, Registry: registry},
			newMemStore())
		add(t, a, seeds("http://a.example/1")...)
		synctest.Wait()
		startLease(t, l1)
		if err := l2.Start(); !errors.Is(err, ErrTooSoon) {
			t.Errorf("second start: %v, want %v", err, ErrTooSoon)
		}
		if d := done(t, l2, Result{}); d != Returned {
			t.Errorf("the refused lease is %v", d)
		}
		begin := time.Now()
		l := next(t, a)
		wasServedAfter(t, begin, time.Second)
		startLease(t, l)
		done(t, l1, ok())
		done(t, l, ok())
		begin = time.Now()
		l = next(t, b) // the gap after the last start of the stricter crawl holds, though it is drained
		if got := time.Since(begin); got != time.Second || l.Attempt() != 1 {
			t.Errorf("the other crawl was served after %v, attempt %d; want 1s, 1", got, l.Attempt())
		}
		startLease(t, l)
		done(t, l, ok())
		begin = time.Now()
		done(t, next(t, b), ok())
		if got := time.Since(begin); got != 0 {
			t.Errorf("the last page waited %v", got)
		}
	})
}

// A host has one pace for all crawls, also if one of them knows it by its name with a dot at the end.
func TestDotAtTheEndIsTheSameHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := sharedPair(t, Options{Pace: fast(1)}, Options{Pace: fast(1)}, 0)
		add(t, a, seeds("http://a.example/")...)
		add(t, b, seeds("http://a.example./")...)
		synctest.Wait()
		l := next(t, a)
		startLease(t, l)
		begin := time.Now()
		done(t, l, Result{Class: pace.ClassThrottled, RetryAfter: time.Minute, Finish: &Finish{}})
		l = next(t, b)
		wasServedAfter(t, begin, time.Minute)
		done(t, l, Result{})
	})
}

// What a host says to one crawl holds for all: a rest, a learned delay, a backoff. But a block is the crawl's own.
func TestFactsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := sharedPair(t, Options{Pace: fast(1)}, Options{Pace: fast(1)}, 6)
		l := next(t, a)
		startLease(t, l)
		begin := time.Now()
		done(t, l, Result{Class: pace.ClassThrottled, RetryAfter: time.Minute, Finish: &Finish{}})
		l = next(t, b)
		wasServedAfter(t, begin, time.Minute)
		startLease(t, l)
		begin = time.Now()
		done(t, l, ok())
		l = next(t, b)
		wasServedAfter(t, begin, time.Second) // the learned delay
		done(t, l, Result{})
	})
	synctest.Test(t, func(t *testing.T) {
		broken := fast(1)
		broken.MaxFailures = 2
		a, b := sharedPair(t, Options{Pace: broken, MaxRetries: Off}, Options{Pace: fast(1)}, 4)
		fail := Result{Class: pace.ClassNetwork, Finish: &Finish{}}
		l := next(t, a)
		startLease(t, l)
		begin := time.Now()
		done(t, l, fail)
		l = next(t, b)
		wasServedAfter(t, begin, 2*time.Second) // the backoff
		done(t, l, Result{})
		l = next(t, a)
		startLease(t, l)
		done(t, l, fail)
		if _, err := a.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Errorf("the host is not blocked: %v", err)
		}
		for range 4 {
			l = next(t, b)
			startLease(t, l)
			done(t, l, ok())
		}
		if _, err := b.Next(t.Context()); !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
	})
}

// A closed partition demands nothing any more; a request of it that is out keeps its slot until it ends.
func TestClosedPartitionFreesOtherCrawls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := sharedPair(t, Options{Pace: fast(1)}, Options{Pace: fast(3)}, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := next(t, a)
		startLease(t, l)
		got := leasesOf(ctx, b)
		a.ClosePartition(l.key.Host.Partition())
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%d leases while a request of the closed partition is out", len(got))
		}
		if _, err := l.Done(ok()); !errors.Is(err, ErrPartitionClosed) {
			t.Errorf("done: %v, want %v", err, ErrPartitionClosed)
		}
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("%d leases after the last request of the closed partition, want 3", len(got))
		}
		for range 3 {
			done(t, <-got, Result{})
		}
	})
}

// A host that backs off says so, and not that another crawl asks it, if no other one does.
func TestReasonWithoutOtherCrawls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Registry: pace.NewRegistry()}, newMemStore())
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		synctest.Wait()
		l := next(t, f)
		startLease(t, l)
		done(t, l, Result{Class: pace.ClassNetwork, Finish: &Finish{}})
		if st := f.Stats(); st.Hosts["backoff"] != 1 || st.Hosts["other crawl"] != 0 {
			t.Errorf("why hosts wait: %v, want one that backs off", st.Hosts)
		}
	})
}
