package frontier

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/internal/memory"
	"github.com/mapwright/mapwright/frontier/pace"
)

// A window gives back what went in, in order, whatever is cut off its end.
func TestWindow(t *testing.T) {
	seed := testSeed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var a memory.Arena
	var w window
	var model []entry
	seq := uint64(1 << 40)
	for range 20_000 {
		switch n := r.IntN(100); {
		case n < 55:
			seq += r.Uint64N(3)
			e := entry{
				path: bytes.Repeat([]byte{'a' + byte(r.IntN(26))}, 1+r.IntN(1+r.IntN(300))),
				queued: queued{origin: origin(r.UintN(4)),
					depth: uint16(r.IntN(1 << 16)), source: uint8(r.UintN(256)), hops: uint8(r.UintN(256)),
					position: Position(seq), index: r.Uint32()},
			}
			if r.IntN(10) == 0 {
				e.origin |= originPort | origin(r.UintN(1<<16))<<16
			}
			if r.IntN(3) == 0 {
				e.repeats = uint8(r.UintN(256))
			}
			if r.IntN(3) == 0 {
				e.visit, e.before = 2+r.Uint32N(math.MaxUint32-1), Summary{
					Outcome: uint8(r.UintN(256)), Status: uint16(r.UintN(1 << 16)), Counted: r.IntN(2) == 0,
					Bytes: r.Uint64() >> r.UintN(64),
				}
			}
			if r.IntN(1000) == 0 {
				e.path = bytes.Repeat([]byte{'x'}, MaxURL)
			}
			w.push(&a, &e)
			model = append(model, e)
		case n < 99:
			if len(model) == 0 {
				continue
			}
			var e entry
			size := w.peek(&a, &e)
			if fmt.Sprint(e) != fmt.Sprint(model[0]) {
				t.Fatalf("got %v, want %v", e, model[0])
			}
			w.drop(&a, size)
			model = model[1:]
		default:
			keep := r.IntN(len(model) + 2)
			freed, first := w.cut(&a, uint32(keep), 7)
			if want := max(0, len(model)-keep); int(freed) != want {
				t.Fatalf("cut freed %d, want %d", freed, want)
			}
			if freed > 0 {
				if want := (Cursor{7, model[keep].index, model[keep].position}); first != want {
					t.Fatalf("cut at %v, want %v", first, want)
				}
				model = model[:keep]
			}
		}
		if int(w.n) != len(model) || (w.n == 0) != (w.head == 0) || (w.n == 0) != (w.tail == 0) {
			t.Fatalf("%+v with %d entries", w, len(model))
		}
	}
	w.cut(&a, 0, 0)
	if a.Bytes() != 0 || w.chunks != 0 {
		t.Errorf("%d bytes in %d chunks are left", a.Bytes(), w.chunks)
	}
}

// Room for 1,000 URLs, 2,000 hosts that rest with their windows and retries, and
// one that is ready: it is served at once, and again and again.
func TestRestingHostsGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxInMemory: 1000, Shards: 2}, store)
		rest := func() {
			l := next(t, f)
			startLease(t, l)
			done(t, l, Result{Class: pace.ClassUnavailable, RetryAfter: time.Hour, Finish: &Finish{}})
		}
		for i := range 2000 {
			for j := range 3 {
				add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i, j))...)
			}
		}
		start := time.Now()
		for range 2000 {
			rest()
		}
		for i := range 5000 {
			add(t, f, seeds(fmt.Sprintf("http://ready.example/%d", i))...)
		}
		for range 5000 {
			l := next(t, f)
			if !strings.HasPrefix(l.URL().String(), "http://ready") {
				t.Fatal(l.URL().String())
			}
			done(t, l, ok())
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("took %v", got)
		}
		if st := f.Stats(); st.Peak > 1000 {
			t.Errorf("%+v", st)
		}
		// The resting ones come back with all they had.
		n := 0
		if err := crawl(t, f, 1, 0, func(l *Lease) Result { n++; return ok() }); !errors.Is(err, ErrDrained) ||
			n != 6000 {
			t.Errorf("%d pages: %v", n, err)
		}
		checkEmpty(t, f, store)
	})
}

// A URL of better priority is leased first, even though a worse window is loaded,
// there is no room for more, and it lies before what was read from the store.
func TestBetterPriorityComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxInMemory: 20}, store)
		var links []Link
		for i := range 200 {
			links = append(links, Link{URL: mustURL(fmt.Sprintf("http://a.example/deep%d", i)), Depth: 3})
		}
		add(t, f, links...)
		for range 100 { // by now windows have been loaded from the store
			done(t, next(t, f), ok())
		}
		add(t, f, Link{URL: mustURL("http://a.example/sitemap"), Priority: SitemapPriority(1)},
			Link{URL: mustURL("http://a.example/start")},
			Link{URL: mustURL("http://a.example/shallow"), Depth: 1},
			Link{URL: mustURL("http://a.example/low"), Priority: SitemapPriority(0)})
		for _, want := range []string{"start", "sitemap", "low", "shallow", "deep100"} {
			l := next(t, f)
			if l.URL().String() != "http://a.example/"+want {
				t.Errorf("got %s, want %s", l.URL().String(), want)
			}
			done(t, l, ok())
		}
		n := 0
		crawl(t, f, 1, 0, func(l *Lease) Result { n++; return ok() })
		if n != 99 {
			t.Errorf("%d pages were left, want 99", n)
		}
		checkEmpty(t, f, store)
	})
}

// One permit is enough to crawl everything.
func TestOnePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(2), MaxInMemory: 1, MaxHosts: 1, Shards: 1, FailureThreshold: Off}, store)
		add(t, f, seeds(treeURL(0, 20))...)
		var seen visited
		v := tree(500, 20, 3, &seen)
		err := crawl(t, f, 8, time.Millisecond, func(l *Lease) Result {
			if l.Link().Key.Lo%3 == 0 && l.Attempt() == 1 {
				return Result{Class: pace.ClassServerError, Finish: &Finish{}}
			}
			return v(l)
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		seen.check(t, 500)
		checkEmpty(t, f, store)
		if st := f.Stats(); st.Peak != 1 || st.Active > 1 {
			t.Errorf("%+v", st)
		}
	})
}

// With 10 active hosts at a time and 1,000 to crawl, all are served, none much later
// than its turn.
func TestParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: pace.Config{MinDelay: 10 * time.Second, MaxDelay: 10 * time.Second,
			MaxInflight: 1}, MaxHosts: 10, Shards: 2}, store)
		const hosts, pages = 1000, 5
		for i := range hosts * pages {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i%hosts, i))...)
		}
		if st := f.Stats(); st.Active != 10 || st.Parked != hosts-10 {
			t.Errorf("%+v", st)
		}
		var seen visited
		last := map[string]time.Time{}
		start := time.Now()
		err := crawl(t, f, 64, 0, func(l *Lease) Result {
			seen.add(l.URL().String())
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if before, ok := last[l.URL().Origin()]; ok && time.Since(before) < 10*time.Second {
				t.Errorf("%s after %v", l.URL().Origin(), time.Since(before))
			}
			last[l.URL().Origin()] = time.Now()
			if st := f.Stats(); st.Active > 10 {
				t.Errorf("%d hosts are active", st.Active)
			}
			return ok()
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		// Five pages and a robots.txt each, ten seconds apart; a worker's fetch takes
		// no time, so parked hosts lose little.
		if got := time.Since(start); got > 80*time.Second {
			t.Errorf("took %v", got)
		}
		seen.check(t, hosts*pages)
		checkEmpty(t, f, store)
		if err := f.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A parked host keeps its row of failures, and so is blocked in the end.
func TestParkedHostsAreBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxHosts: 2, Shards: 1, MaxRetries: Off,
			FailureThreshold: Off}, newMemStore())
		for i := range 50 * 20 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i%50, i))...)
		}
		n := map[string]int{}
		err := crawl(t, f, 1, 0, func(l *Lease) Result {
			n[l.URL().Origin()]++
			return Result{Class: pace.ClassNetwork, Finish: &Finish{}}
		})
		if !errors.Is(err, ErrDrained) || len(n) != 50 {
			t.Errorf("%d hosts: %v", len(n), err)
		}
		for h, n := range n {
			if n != 10 {
				t.Errorf("%s was asked %d times", h, n)
			}
		}
		if st := f.Stats(); st.Hosts["blocked"] != 50 || st.Held != 500 {
			t.Errorf("%+v", st)
		}
	})
}

// Hosts without work are forgotten when others need their places.
func TestIdleHostsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, MaxHosts: 10, Shards: 1}, store)
		for i := range 1000 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/", i))...)
			l := next(t, f)
			startLease(t, l)
			done(t, l, ok())
			time.Sleep(10 * time.Second)
		}
		if err := f.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		s := f.shards.all[0]
		if n := s.hosts.len(); n > 18 || len(s.hosts.byID) != n || s.hosts.domains.records.Len() > 18 {
			t.Errorf("%d hosts, %d in the table, %d domains", n, len(s.hosts.byID), s.hosts.domains.records.Len())
		}
		if err := f.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		for b := range store.Backlogs(t.Context(), 0, 255) {
			t.Errorf("the store still has a queue for %s: %+v", b.Fact.Name, b)
		}
	})
}

// A URL held in memory costs at most 120 bytes, with everything that its host
// needs; what makes it known forever after is not counted.
func TestMemoryPerURL(t *testing.T) {
	f := newTest(t, Options{IgnoreRobots: true, HotSetBytes: 1,
		Pace: pace.Config{MinDelay: time.Hour, MaxDelay: time.Hour}}, &nullStore{})
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) - f.Stats().FilterBytes
	}
	before := heap()
	const hosts, pages = 500, 400
	for i := range hosts {
		links := make([]Link, pages)
		for j := range links {
			links[j].URL = mustURL(fmt.Sprintf("https://www.host-%d.example/articles/%d/title-of-number-%d.html", i,
				j%7, j))
		}
		add(t, f, links...)
	}
	if per := (heap() - before) / (hosts * pages); per > 120 {
		t.Errorf("%d bytes per URL", per)
	} else {
		t.Logf("%d bytes per URL", per)
	}
	if st := f.Stats(); st.InMemory != hosts*pages {
		t.Errorf("%+v", st)
	}
}
