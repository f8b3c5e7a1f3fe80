package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// Level by level, nothing of a depth is leased before all above it is finished,
// over all hosts, whatever is retried or blocked on the way, and however little
// fits in memory.
func TestLevelByLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		o := Options{Pace: fast(3), LevelByLevel: true, MaxInMemory: 50, MaxHosts: 10, Shards: 3, FailureThreshold: Off}
		f := newTest(t, o, store)
		add(t, f, seeds(treeURL(0, 40))...)
		add(t, f, Link{URL: mustURL("http://h0.example/sitemap.xml"), Sitemap: true})
		var seen visited
		var mu sync.Mutex
		finished, found, deepest := map[uint16]int{}, map[uint16]int{0: 1}, uint16(0)
		v := tree(4000, 40, 5, &seen)
		err := crawl(t, f, 32, time.Millisecond, func(l *Lease) Result {
			mu.Lock()
			defer mu.Unlock()
			if l.Kind() == KindSitemap {
				return Result{Class: pace.ClassOK, Finish: &Finish{}}
			}
			d := l.Link().Depth
			deepest = max(deepest, d)
			if d < deepest {
				t.Errorf("%s of depth %d after one of depth %d", l.URL().String(), d, deepest)
			}
			if d > 0 && finished[d-1] != found[d-1] {
				t.Errorf("depth %d was opened with %d of %d finished above", d, finished[d-1], found[d-1])
			}
			if l.Attempt() == 1 && l.Link().Key.Lo%10 == 0 {
				return Result{Class: pace.ClassServerError, Finish: &Finish{}}
			}
			finished[d]++
			r := v(l)
			found[d+1] += len(r.Links) - 1
			return r
		})
		if !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		seen.check(t, 4000)
		checkEmpty(t, f, store)
	})
}

// A source that is open holds the next level closed, and a blocked host does not.
func TestWhatHoldsTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, LevelByLevel: true, MaxRetries: Off}, newMemStore())
		release := f.Source()
		add(t, f, seeds("http://a.example/")...)
		for i := range 30 {
			add(t, f, seeds(fmt.Sprintf("http://down.example/%d", i))...)
		}
		add(t, f, Link{URL: mustURL("http://a.example/deep"), Depth: 1})
		end := make(chan error)
		var seen visited
		go func() {
			end <- crawl(t, f, 4, 0, func(l *Lease) Result {
				if l.URL().Origin() == "http://down.example" {
					return Result{Class: pace.ClassNetwork, Finish: &Finish{}}
				}
				seen.add(l.URL().String())
				return ok()
			})
		}()
		time.Sleep(10 * time.Hour)
		seen.mu.Lock()
		if len(seen.urls) != 1 {
			t.Errorf("leased with a source open: %v", seen.urls)
		}
		seen.mu.Unlock()
		add(t, f, seeds("http://a.example/late")...)
		synctest.Wait()
		release()
		if err := <-end; !errors.Is(err, ErrDrained) {
			t.Error(err)
		}
		seen.check(t, 3)
	})
}

// A URL that is found at a smaller depth after it was queued is leased with that
// one, so that no depth depends on which page was faster.
func TestDepthIsTheLeast(t *testing.T) {
	type edge struct {
		to       string
		redirect bool
	}
	// Both ways lead to /t, and from there on; the shorter way is by redirects.
	site := map[string][]edge{
		"/":  {{"/a", false}, {"/r", false}},
		"/a": {{"/b", false}, {"/t", false}},
		"/b": {{"/u", false}},
		"/r": {{"/s", true}},
		"/s": {{"/t", true}},
		"/t": {{"/u", false}},
		"/u": {{"/v", false}},
	}
	want := map[string]uint16{"/": 0, "/a": 1, "/r": 1, "/s": 1, "/t": 1, "/b": 2, "/u": 2, "/v": 3}
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			f := newTest(t, Options{Pace: fast(8), IgnoreRobots: true, LevelByLevel: true}, newMemStore())
			add(t, f, seeds("http://a.example/")...)
			var mu sync.Mutex
			got := map[string]uint16{}
			crawl(t, f, 8, 0, func(l *Lease) Result {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
				path := l.URL().String()[len("http://a.example"):]
				mu.Lock()
				got[path] = l.Link().Depth
				mu.Unlock()
				var links []Link
				for _, e := range site[path] {
					d := l.Link().Depth
					if !e.redirect {
						d++
					}
					links = append(links, Link{URL: mustURL("http://a.example" + e.to), Depth: d})
				}
				return ok(links...)
			})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("depths %v, want %v", got, want)
			}
		})
	}
}
