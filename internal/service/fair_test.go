package service

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/slot"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Fifty crawls of one account run at once. One of them has enough hosts to use every worker alone; each of the others
// has one host, which takes two requests at a time. Every other one gets at least half of its fair share of the pages,
// which is one in a hundred: in turns it gets what it can use, 2 of 150 workers. A plain queue would serve leases in
// the order in which they come: of 150 leases of the huge crawl and 98 of the others, 2 are its own, which is less than
// half of its share. In a bubble each request takes exactly the latency of the web, so the shares do not depend on the
// machine.
func TestFiftyCrawlsOneHuge(t *testing.T) {
	t.Parallel()
	long.Test(t)
	const crawls, hosts, pages, workers, latency, long = 50, 49 + 80, 80, 150, 100 * time.Millisecond, 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Hosts: hosts, Pages: pages, PageSize: 500, Links: 10})
		ts := openService(t, Options{Base: base, Fetcher: client, MaxCrawls: crawls, MaxWorkers: workers})
		web.SetLatency(latency)
		settings := raw("seeding_strategy", `["none"]`, "max_inflight_per_host", "2")
		starts := web.StartURLs()
		for i := range crawls {
			sub := Submission{StartURLs: starts[i : i+1], Settings: settings, Name: fmt.Sprint(i)}
			if i == crawls-1 {
				sub.StartURLs = starts[i:]
			}
			if _, err := ts.Crawls.Submit(t.Context(), ts.admin, sub, ""); err != nil {
				t.Fatal(err)
			}
		}
		ts.run()
		counts := func() (of [crawls]int, all int) {
			for host := range starts {
				n := web.HostStats(host).Pages
				of[min(host, crawls-1)] += n
				all += n
			}
			return of, all
		}
		running := func() bool {
			of, _ := counts()
			for _, n := range of {
				if n < 10 { // its host is asked for two pages at a time by then
					return false
				}
			}
			return true
		}
		for !running() {
			time.Sleep(latency)
		}
		before, allBefore := counts()
		time.Sleep(long)
		after, all := counts()
		all -= allBefore
		if most := int(long/latency) * workers; all < most/2 || all > most+workers {
			t.Errorf("%d pages in %s; the workers can fetch %d", all, long, most)
		}
		for i := range crawls {
			if n := after[i] - before[i]; 2*n < all/crawls {
				t.Errorf("crawl %d got %d of %d pages; its share is %d", i, n, all, all/crawls)
			}
		}
		ts.end()
	})
}

// addCaller makes an account and returns a caller of it.
func (ts *testService) addCaller(name string) *Caller {
	ts.t.Helper()
	account, err := ts.Accounts.Create(ts.t.Context(), ts.admin, Account{Name: name})
	if err != nil {
		ts.t.Fatal(err)
	}
	return &Caller{Account: account, System: "test", Scopes: []Scope{ScopeWrite}}
}

// started are the crawls of the service that have started, by the names that the test gave them.
func (ts *testService) started(names map[string]string) (list []string) {
	ts.t.Helper()
	events, err := ts.Events.Since(ts.t.Context(), EventFilter{})
	if err != nil {
		ts.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == CrawlStarted {
			list = append(list, names[e.Crawl])
		}
	}
	return list
}

// One crawl runs at a time. The accounts take turns, however old the crawls of one of them are, and however many it
// has. The positions say so before. A restart keeps whose turn it is, and so does the deletion of crawls that ended.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		crawls   int
		settings []string
	}{"one slot": {1, nil}, "safe": {4, []string{"safe", "true"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				web, base, client := startWebInBubble(t, testweb.Config{Hosts: 2, Pages: 3})
				o := Options{Dir: t.TempDir(), SlotDir: t.TempDir() + "/slot", Base: base, Fetcher: client,
					MaxCrawls: c.crawls}
				web.SetLatency(10 * time.Millisecond) // so that no two crawls start at the same time
				ts := openService(t, o)
				other := ts.addCaller("other")
				names, settings := map[string]string{}, append(c.settings, "seeding_strategy", `["none"]`)
				submit := func(as *Caller, name string) string {
					id := ts.submit(as, web.StartURLs()[0], settings...).ID
					names[id] = name
					time.Sleep(time.Millisecond) // the next one is younger
					return id
				}
				first := submit(ts.admin, "a1")
				var all []string
				for _, name := range []string{"a2", "a3", "a4"} {
					all = append(all, submit(ts.admin, name))
				}
				all = append(all, submit(other, "b1"), submit(other, "b2"))
				web.Hold(1)
				ts.run()
				ts.awaitState(first, Running)
				ts.Crawls.dispatch.wake()
				synctest.Wait()
				queue, err := ts.Crawls.Queue(t.Context(), ts.admin, CrawlFilter{Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				want := []string{"b1", "a2", "b2", "a3", "a4"}
				for i, crawl := range queue.Items {
					if names[crawl.ID] != want[i] || crawl.Waiting.Position != i+1 {
						t.Errorf("crawl %d of the queue is %s with %+v, want %s", i+1, names[crawl.ID], crawl.Waiting,
							want[i])
					}
				}
				web.Release()
				for _, id := range append(all, first) {
					ts.awaitState(id, Complete)
				}
				if got := ts.started(names); !slices.Equal(got, append([]string{"a1"}, want...)) {
					t.Errorf("started %v, want a1 and then %v", got, want)
				}

				ts.end()
				ts = openService(t, o)
				all = []string{submit(ts.admin, "a5"), submit(ts.admin, "a6"), submit(other, "b3")}
				ts.run()
				for _, id := range all {
					ts.awaitState(id, Complete)
				}
				want = []string{"b3", "a5", "a6"}
				if got := ts.started(names)[6:]; !slices.Equal(got, want) {
					t.Errorf("after a restart %v started, want %v", got, want)
				}
				for id, name := range names {
					if name[0] == 'a' {
						ts.do(id, CommandDelete)
						awaitGone(ts, id)
					}
				}
				before := len(ts.started(names))
				web.Hold(1)
				all = []string{submit(other, "b4"), submit(ts.admin, "a7"), submit(ts.addCaller("third"), "c1")}
				web.Release()
				for _, id := range all {
					ts.awaitState(id, Complete)
				}
				want = []string{"b4", "c1", "a7"}
				if got := ts.started(names)[before:]; !slices.Equal(got, want) {
					t.Errorf("after the deletion %v started, want %v", got, want)
				}
				ts.end()
			})
		})
	}
}

// The slot of safe crawls is for the first safe crawl that may start. One whose account is disabled while it waits for
// another process does not keep it, and a younger crawl of its account does not take the place that the plan allows.
func TestSafeSlotGoesToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		web, base, client := startWebInBubble(t, testweb.Config{Hosts: 1, Pages: 3})
		dir := t.TempDir() + "/slot"
		ts := openService(t, Options{SlotDir: dir, Base: base, Fetcher: client, MaxCrawls: 4})
		ts.setPlan(Plan{MaxCrawls: 1})
		other := ts.addCaller("other")
		held, err := (&slot.Queue{Dir: dir}).Acquire(t.Context(), slot.Info{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ts.run()
		disabled := true
		first := ts.submit(other, web.StartURLs()[0], "safe", "true")
		time.Sleep(2 * stepEvery)
		if _, err := ts.Accounts.Edit(t.Context(), ts.admin, other.Account.ID,
			AccountEdit{Disabled: &disabled}); err != nil {
			t.Fatal(err)
		}
		safe := ts.submit(ts.admin, web.StartURLs()[0], "safe", "true")
		time.Sleep(time.Millisecond)
		polite := ts.submit(ts.admin, web.StartURLs()[0], "seeding_strategy", `["none"]`)
		time.Sleep(2 * stepEvery)
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
		ts.awaitState(safe.ID, Complete)
		ts.awaitState(polite.ID, Complete)
		got := ts.started(map[string]string{first.ID: "disabled", safe.ID: "safe", polite.ID: "polite"})
		if !slices.Equal(got, []string{"safe", "polite"}) {
			t.Errorf("started %v", got)
		}
		ts.end()
	})
}
