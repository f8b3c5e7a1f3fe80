package frontier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// No page of an origin is leased before its robots.txt is known, and there is one
// such lease per origin at a time.
func TestRobotsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(4)}, store)
		origins := []string{"http://a.example", "https://a.example", "https://a.example:8443", "http://b.example",
			"http://a.example."}
		for i := range 20 {
			for _, o := range origins {
				add(t, f, seeds(fmt.Sprintf("%s/%d", o, i))...)
			}
		}
		var mu sync.Mutex
		known, asking := map[string]bool{}, map[string]bool{}
		pages := 0
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					l, err := f.Next(t.Context())
					if err != nil {
						if !errors.Is(err, ErrDrained) {
							t.Error(err)
						}
						return
					}
					startLease(t, l)
					mu.Lock()
					if l.Kind() == KindRobots {
						if known[l.URL().Origin()] || asking[l.URL().Origin()] {
							t.Errorf("robots.txt of %s a second time", l.URL().Origin())
						}
						if want := l.URL().Origin() + "/robots.txt"; l.URL().String() != want {
							t.Errorf("%s, want %s", l.URL().String(), want)
						}
						asking[l.URL().Origin()] = true
					} else {
						pages++
						if !known[l.URL().Origin()] {
							t.Errorf("%s before its robots.txt", l.URL().String())
						}
					}
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					if l.Kind() == KindRobots {
						known[l.URL().Origin()] = true
					}
					mu.Unlock()
					if _, err := l.Done(visit(func(*Lease) Result { return ok() }).answer(l)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(known) != len(origins) || pages != 100 {
			t.Errorf("%d origins, %d pages", len(known), pages)
		}
		checkEmpty(t, f, store)
	})
}

func TestRobotsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: pace.Config{MinDelay: time.Minute, MaxDelay: time.Minute}}, newMemStore())
		for i := range 5 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		var kinds []Kind
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				break
			}
			kinds = append(kinds, l.Kind())
			startLease(t, l)
			if l.Kind() == KindRobots {
				done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(150 * time.Second)})
			} else {
				done(t, l, ok())
			}
		}
		if fmt.Sprint(kinds) != "[robots page page robots page page robots page]" {
			t.Errorf("leases: %v", kinds)
		}
	})
}

// What a provisional answer said is asked again in the next round, also if its lease began in the one before. Then the
// new answer counts.
func TestProvisionalRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1)}, newMemStore())
		for i := range 4 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i), fmt.Sprintf("http://b.example/%d", i))...)
		}
		kinds := map[string]string{}
		began := time.Now()
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				break
			}
			host := l.URL().Host()
			kinds[host] += l.Kind().String()[:1]
			startLease(t, l)
			if l.Kind() != KindRobots {
				done(t, l, ok())
				if host == "a.example" && kinds[host] == "rrpp" {
					f.AskRobotsAgain()
				}
				continue
			}
			if host == "a.example" && kinds[host] == "r" {
				f.AskRobotsAgain()
			}
			r := Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour),
				RobotsProvisional: host == "a.example"}
			if host == "a.example" && kinds[host] == "rr" {
				r.CrawlDelay = time.Minute
			}
			done(t, l, r)
		}
		if kinds["a.example"] != "rrpprpp" || kinds["b.example"] != "rpppp" {
			t.Errorf("leases: %v", kinds)
		}
		if took := time.Since(began).Truncate(time.Minute); took != 3*time.Minute {
			t.Errorf("the delay of the answer in between counts for %v", took)
		}
	})
}

// Crawl-delay spaces requests, and of several origins of a host the longest does.
func TestCrawlDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(2)}, newMemStore())
		add(t, f, seeds("http://a.example/1", "https://a.example/2", "http://a.example/3")...)
		start := time.Now()
		var at []int
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				break
			}
			at = append(at, int(time.Since(start).Seconds()))
			startLease(t, l)
			switch {
			case l.Kind() == KindPage:
				done(t, l, ok())
			case l.URL().Origin() == "http://a.example":
				done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour),
					CrawlDelay: 10 * time.Second})
			default:
				done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour),
					CrawlDelay: 3 * time.Second})
			}
		}
		if fmt.Sprint(at) != "[0 10 20 30 40]" {
			t.Errorf("leases at %v", at)
		}
	})
}

// At most MaxRobots robots leases are out; a host that waits for its turn with
// them is not forgotten, and no other host waits with it.
func TestRobotsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: fast(1), MaxRobots: 3, Shards: 2}, store)
		for i := range 30 {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/", i))...)
		}
		start := time.Now()
		var most int64
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for {
					l, err := f.Next(t.Context())
					if err != nil {
						return
					}
					startLease(t, l)
					if l.Kind() == KindRobots {
						mu.Lock()
						most = max(most, f.Stats().Robots)
						mu.Unlock()
						time.Sleep(time.Second)
						l.Done(Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour)})
						continue
					}
					l.Done(ok())
				}
			})
		}
		wg.Wait()
		if most != 3 {
			t.Errorf("%d robots leases at once, want 3", most)
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("30 robots.txt, 3 at a time and 1s each, took %v", got)
		}
		checkEmpty(t, f, store)
	})
}

// A robots lease that comes back without an answer is tried again.
func TestRobotsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: fast(1)}, newMemStore())
		add(t, f, seeds("http://a.example/")...)
		start := time.Now()
		if d := done(t, next(t, f), Result{Class: pace.ClassOurs, Delay: 5 * time.Second}); d != Returned {
			t.Error(d)
		}
		l := next(t, f)
		if got := time.Since(start); got != 5*time.Second || l.Kind() != KindRobots {
			t.Errorf("%v after %v", l.Kind(), got)
		}
		l.Abandon()
		l = next(t, f)
		if l.Kind() != KindRobots {
			t.Error(l.Kind())
		}
		done(t, l, Result{RobotsUntil: time.Now().Add(time.Hour)})
		if l := next(t, f); l.Kind() != KindPage {
			t.Error(l.Kind())
		}
	})
}

func TestSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		profile := pace.Config{MinDelay: time.Second, MaxDelay: time.Second, MaxInflight: 1}
		f := newTest(t, Options{Pace: profile, IgnoreRobots: true}, store)
		add(t, f, seeds("http://a.example/")...)
		for i := range 2 {
			add(t, f, Link{URL: mustURL(fmt.Sprintf("http://a.example/sitemap%d.xml", i)), Sitemap: true})
		}
		start := time.Now()
		var log []string
		for {
			l, err := f.Next(t.Context())
			if err != nil {
				break
			}
			log = append(log, fmt.Sprintf("%d:%v#%d", int(time.Since(start).Seconds()),
				strings.TrimPrefix(l.URL().String(), "http://a.example/"), l.Attempt()))
			startLease(t, l)
			switch {
			case l.URL() == mustURL("http://a.example/sitemap0.xml") && l.Attempt() == 1:
				done(t, l, Result{Class: pace.ClassServerError, Finish: &Finish{}})
			case l.Kind() == KindSitemap:
				done(t, l, Result{Class: pace.ClassOK, Finish: &Finish{},
					Links: []Link{{URL: mustURL("http://a.example/of/" + l.URL().Path()[1:]),
						Priority: SitemapPriority(0.5)}}})
			default:
				done(t, l, ok())
			}
		}
		// The start page goes first. The failure backs the host off for 2s; then the retry
		// follows, and pages and sitemaps take turns at the host's pace.
		want := "[0:#1 1:sitemap0.xml#1 3:sitemap0.xml#2 4:of/sitemap0.xml#1 5:sitemap1.xml#1 6:of/sitemap1.xml#1]"
		if fmt.Sprint(log) != want {
			t.Errorf("leases:\n%v\nwant\n%v", log, want)
		}
		checkEmpty(t, f, store)
	})
}

// A sitemap that robots.txt names is added before the lease for robots.txt ends, and is not asked for before the
// Crawl-delay is known.
func TestSitemapsWaitForCrawlDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		f := newTest(t, Options{Pace: pace.Config{MinDelay: time.Second, MaxDelay: time.Second, MaxInflight: 2}}, store)
		add(t, f, seeds("http://a.example/")...)
		robots := next(t, f)
		startLease(t, robots)
		start := time.Now()
		add(t, f, Link{URL: mustURL("http://a.example/sitemap.xml"), Sitemap: true})
		var ended sync.WaitGroup
		ended.Go(func() {
			time.Sleep(3 * time.Second)
			done(t, robots, Result{RobotsUntil: time.Now().Add(time.Hour), CrawlDelay: 10 * time.Second})
		})
		for i, want := range []Kind{KindPage, KindSitemap} {
			l := next(t, f)
			if got, at := time.Since(start), time.Duration(i+1)*10*time.Second; l.Kind() != want || got != at {
				t.Errorf("a %v after %v, want a %v after %v", l.Kind(), got, want, at)
			}
			ended.Wait()
			startLease(t, l)
			done(t, l, ok())
		}
	})
}

// A sitemap that takes long to read does not keep the first pages of a host waiting, of which nothing else is known.
func TestPagesBesideASitemap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTest(t, Options{Pace: pace.OwnSite(), IgnoreRobots: true}, newMemStore())
		add(t, f, Link{URL: mustURL("http://a.example/sitemap.xml"), Sitemap: true})
		sitemap := next(t, f)
		startLease(t, sitemap)
		add(t, f, seeds("http://a.example/1", "http://a.example/2")...)
		page := next(t, f)
		startLease(t, page)
		if got := f.Stats(); sitemap.Kind() != KindSitemap || page.Kind() != KindPage || got.Violations != 0 {
			t.Errorf("a %v and a %v, %d violations", sitemap.Kind(), page.Kind(), got.Violations)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l, err := f.Next(ctx); err == nil {
			t.Errorf("%s is a third at once", l.URL().String())
		}
		done(t, page, ok())
		done(t, sitemap, Result{Class: pace.ClassOK})
		done(t, next(t, f), ok())
	})
}
