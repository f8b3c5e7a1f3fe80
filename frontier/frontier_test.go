package frontier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fast is a pace without delays.
func fast(inflight int) pace.Config {
	return pace.Config{MaxInflight: inflight, MinInflight: 1}.WithDefaults()
}

func newTest(t testing.TB, o Options, s Store) *Frontier {
	t.Helper()
	f, err := New(o, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// startLease begins the request of a lease, which must be allowed.
func startLease(t testing.TB, l *Lease) {
	t.Helper()
	if err := l.Start(); err != nil {
		t.Errorf("start %s: %v", l.URL(), err)
	}
}

func add(t testing.TB, f *Frontier, links ...Link) int {
	t.Helper()
	n, err := f.Add(context.Background(), links)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// seeds are links of depth 0.
func seeds(urls ...string) []Link {
	var links []Link
	for _, u := range urls {
		links = append(links, Link{URL: mustURL(u)})
	}
	return links
}

func next(t testing.TB, f *Frontier) *Lease {
	t.Helper()
	l, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func done(t testing.TB, l *Lease, r Result) Disposition {
	t.Helper()
	d, err := l.Done(r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustURL is the URL of a text that is known to be one.
func mustURL(text string) weburl.URL {
	u, err := weburl.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

func mustParse(t testing.TB, raw string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ok is the result of a page that answered, with links to the given URLs.
// foundLinks are what a result's Found are to be recorded as, but for keys and priorities.
func foundLinks(r *Result) []Link {
	var links []Link
	for _, f := range r.Found {
		o := r.Origin
		links = append(links, Link{URL: f.URL, Depth: o.Depth, Source: o.Source, Repeats: o.Repeats, Parent: o.Parent,
			Discovered: o.At})
	}
	return links
}

func ok(links ...Link) Result { return Result{Class: pace.ClassOK, Finish: &Finish{}, Links: links} }

// a visit is what a simulated server answers.
type visit func(l *Lease) Result

// answer makes v deal with pages only: every robots.txt allows all for a day.
func (v visit) answer(l *Lease) Result {
	if l.Kind() == KindRobots {
		return Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(24 * time.Hour)}
	}
	return v(l)
}

// crawl runs workers until Next returns an error, which it returns. Every fetch
// takes the given time.
func crawl(t testing.TB, f *Frontier, workers int, took time.Duration, v visit) error {
	t.Helper()
	var wg sync.WaitGroup
	var end atomic.Value
	for range workers {
		wg.Go(func() {
			for {
				l, err := f.Next(t.Context())
				if err != nil {
					end.Store(err)
					return
				}
				startLease(t, l)
				if took > 0 {
					time.Sleep(took)
				}
				if _, err := l.Done(v.answer(l)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	err, _ := end.Load().(error)
	if v := f.Stats().Violations; v != 0 {
		t.Errorf("%d violations of in-flight limits", v)
	}
	return err
}

// visited counts leases by URL.
type visited struct {
	mu   sync.Mutex
	urls map[string]int
}

func (v *visited) add(url string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.urls == nil {
		v.urls = map[string]int{}
	}
	v.urls[url]++
}

func (v *visited) check(t testing.TB, want int) {
	t.Helper()
	if len(v.urls) != want {
		t.Errorf("%d URLs were visited, want %d", len(v.urls), want)
	}
	for u, n := range v.urls {
		if n != 1 {
			t.Fatalf("%s was visited %d times", u, n)
		}
	}
}

// checkEmpty asserts that a drained frontier holds nothing.
func checkEmpty(t testing.TB, f *Frontier, s *memStore) {
	t.Helper()
	st := f.Stats()
	if st.Pending != 0 || st.InMemory != 0 || st.OnDisk != 0 || st.Leased != 0 || st.Waiting != 0 || st.Robots != 0 ||
		st.Idle != 0 {
		t.Errorf("drained, but %+v", st)
	}
	if links, finished := s.Len(); links != finished {
		t.Errorf("drained with %d of %d finished", finished, links)
	}
	if n := s.Inflight(); n != 0 {
		t.Errorf("drained with %d in flight as the store counts", n)
	}
	if n := f.live.Load() + f.urls.Load() + f.busy.Load(); n != 0 {
		t.Errorf("drained, but live %d, pages %d, busy %d", f.live.Load(), f.urls.Load(),
			f.busy.Load())
	}
}

func TestDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{}, store)
		if n := add(t, f, seeds("http://a.example/", "http://a.example/", "https://b.example/")...); n != 2 {
			t.Errorf("added %d, want 2", n)
		}
		var seen visited
		err := crawl(t, f, 3, 10*time.Millisecond, func(l *Lease) Result {
			seen.add(l.URL().String())
			return ok(Link{URL: mustURL("http://a.example/2"), Depth: 1},
				Link{URL: mustURL("http://c.example/"), Depth: 1})
		})
		if !errors.Is(err, ErrDrained) {
			t.Errorf("crawl ended with %v", err)
		}
		seen.check(t, 4)
		checkEmpty(t, f, store)
	})
}

// tree is a site of n pages that link to each other by index; hosts share them.
func tree(n, hosts, fan int, seen *visited) visit {
	return func(l *Lease) Result {
		seen.add(l.URL().String())
		i, err := strconv.Atoi(l.URL().String()[strings.LastIndexByte(l.URL().String(), '/')+1:])
		if err != nil {
			panic(err)
		}
		var links []Link
		for c := fan*i + 1; c <= fan*i+fan && c < n; c++ {
			links = append(links, Link{URL: mustURL(treeURL(c, hosts)), Depth: l.Link().Depth + 1})
		}
		return ok(append(links, Link{URL: mustURL(treeURL(0, hosts)), Depth: l.Link().Depth + 1})...)
	}
}

func treeURL(i, hosts int) string {
	return "http://h" + strconv.Itoa(i%hosts) + ".example/" + strconv.Itoa(i)
}

// With room for 1,000 URLs in memory and 200,000 to crawl, everything is found,
// the bound holds, and nothing waits for a timer.
func TestMemoryIsBounded(t *testing.T) {
	for _, hosts := range []int{1, 300} {
		t.Run(fmt.Sprintf("hosts=%d", hosts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pages := 200_000
				if hosts > 1 || raceEnabled {
					pages = 20_000
				}
				store := newMemStore()
				f := newTest(t, Options{Pace: fast(8), MaxInMemory: 1000, Shards: 2, FilterCapacity: pages}, store)
				add(t, f, seeds(treeURL(0, hosts))...)
				var seen visited
				start := time.Now()
				if err := crawl(t, f, 64, 0, tree(pages, hosts, 10, &seen)); !errors.Is(err, ErrDrained) {
					t.Errorf("crawl ended with %v", err)
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("something waited %v", d)
				}
				seen.check(t, pages)
				checkEmpty(t, f, store)
				st := f.Stats()
				if st.Peak > 1000 || st.Peak < 900 {
					t.Errorf("%d URLs were in memory, of 1000 allowed", st.Peak)
				}
				if st.GaveBack > 2*int64(pages) {
					t.Errorf("%d URLs were given back to be read again, of %d", st.GaveBack, pages)
				}
			})
		})
	}
}
