package frontier

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// notices collects what a frontier says.
type notices struct {
	mu  sync.Mutex
	all []Notice // guarded by mu
}

func (n *notices) observe(notice Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, notice)
}

// take returns the hosts that are away since the last call, and until when, and the number of warnings about a long
// Retry-After.
func (n *notices) take() (hosts []string, until []time.Time, warnings int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, notice := range n.all {
		if notice.Kind == NoticeAway {
			hosts, until = append(hosts, notice.Host), append(until, notice.At)
		}
		if notice.Change.Has(pace.EffectRetryAfterLong) {
			warnings++
		}
	}
	n.all = nil
	return hosts, until, warnings
}

// awayWeb answers for two hosts, of which away.example wants to be left alone.
type awayWeb struct {
	refuse   func(n int) time.Duration // Retry-After of its nth answer; nil if it answers
	delay    time.Duration             // its Crawl-delay
	requests int                       // for its pages
	others   int                       // for pages of others
	last     time.Time                 // request to away.example
}

// crawl runs a frontier to its end.
func (w *awayWeb) crawl(t *testing.T, f *Frontier) {
	t.Helper()
	for {
		l, err := f.Next(t.Context())
		if errors.Is(err, ErrDrained) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		startLease(t, l)
		away := l.URL().Host() == "away.example"
		if away {
			w.last = time.Now()
		}
		switch {
		case l.Kind() == KindRobots:
			answer := Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(1e6 * time.Hour)}
			if away {
				answer.CrawlDelay = w.delay
			}
			done(t, l, answer)
		case !away:
			w.others++
			done(t, l, ok())
		case w.refuse == nil:
			w.requests++
			done(t, l, ok())
		default:
			w.requests++
			done(t, l, Result{Class: pace.ClassUnavailable, RetryAfter: w.refuse(w.requests), Finish: &Finish{}})
		}
	}
}

// A host that asks for more patience than a run has, by one Retry-After, by Retry-Afters in a row or by a Crawl-delay,
// holds no run: its URLs stay pending, and all others are fetched. Nor does it hold one that continues after a kill,
// one that a user asks for before that time, or another crawl of the account, and none of them asks it for anything. A
// run after that time fetches the rest.
func TestAway(t *testing.T) {
	const patience = pace.MostPatience
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for name, tc := range map[string]struct {
		refuse   func(n int) time.Duration
		delay    time.Duration
		requests int           // in the first run
		waits    time.Duration // from the last of them
	}{
		"a week":          {always(7 * patience), 0, 1, 7 * patience},
		"a year":          {always(365 * patience), 0, 1, pace.KeepLearned},
		"no end":          {always(1 << 62), 0, 1, pace.KeepLearned},
		"a day and more":  {always(patience + time.Second), 0, 1, patience + time.Second},
		"again and again": {always(patience / 3), 0, 4, patience / 3},
		"longer each time": {func(n int) time.Duration { return time.Duration(n) * patience / 3 }, 0, 2,
			patience * 2 / 3},
		"crawl delay": {nil, 2 * patience, 0, 2 * patience},
	} {
		story := func(t *testing.T) {
			registry, web := pace.NewRegistry(), &awayWeb{refuse: tc.refuse, delay: tc.delay}
			var hasher weburl.Hasher
			next := func(store *memStore, run, continues uint64) *notices {
				t.Helper()
				web.requests, web.others = 0, 0
				said := &notices{}
				f := newTest(t, Options{Pace: fast(1), Observe: said.observe, MaxRetries: 100, Run: run,
					Continues: continues, IgnoreRobots: tc.delay == 0, Registry: registry, Account: "a"}, store)
				if hasher = f.hasher; run == 1 {
					add(t, f, seeds("http://away.example/1", "http://away.example/2", "http://b.example/1",
						"http://b.example/2")...)
				} else if err := f.Resume(t.Context(), store.Backlogs(t.Context(), 0, 255)); err != nil {
					t.Fatal(err)
				}
				web.crawl(t, f)
				if err := f.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
				return said
			}
			store := newMemStore()
			hosts, until, warnings := next(store, 1, 0).take()
			if web.requests != tc.requests || web.others != 2 || !slices.Equal(hosts, []string{"away.example"}) {
				t.Fatalf("%d requests, want %d; %d of others, want 2; away %q", web.requests, tc.requests, web.others,
					hosts)
			}
			end := web.last.Add(tc.waits)
			if !until[0].Equal(end) {
				t.Errorf("away until %v, want %v", until[0], end)
			}
			if tc.requests == 1 && warnings != 0 {
				t.Errorf("%d warnings that the run waits", warnings)
			}
			fact, _, err := store.Host(t.Context(), hasher.HostID("away.example"))
			if err != nil || !fact.Blocked || !fact.Away || fact.Denied {
				t.Errorf("stored %+v, error %v", fact, err)
			}
			for run, what := range map[string]func() *notices{
				"continues after a kill": func() *notices { return next(store, 2, 1) },
				"begins before its time": func() *notices { return next(store, 3, 3) },
				"of another crawl":       func() *notices { return next(newMemStore(), 1, 0) },
			} {
				if tc.delay > 0 && run == "of another crawl" {
					continue // it asks for robots.txt itself
				}
				hosts, _, warnings := what().take()
				if web.requests != 0 || !slices.Equal(hosts, []string{"away.example"}) ||
					tc.requests == 1 && warnings != 0 {
					t.Errorf("a run that %s: %d requests, away %q, %d warnings", run, web.requests, hosts, warnings)
				}
			}
			if tc.delay > 0 {
				return
			}
			time.Sleep(time.Until(end))
			web.refuse = nil
			hosts, _, _ = next(store, 4, 4).take()
			if web.requests != 2 || len(hosts) > 0 {
				t.Errorf("a run after that time: %d requests, want 2; away %q", web.requests, hosts)
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, story) })
	}
}

// A backoff after failures is not a host's wish: it is as long as Config.MaxBackoff allows.
func TestLongBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &notices{}
		o := Options{Pace: fast(1), IgnoreRobots: true, FailureThreshold: Off, Observe: said.observe}
		o.Pace.MaxFailures, o.Pace.MaxBackoff = 30, 100*pace.MostPatience
		f := newTest(t, o, newMemStore())
		for i := range 20 {
			add(t, f, seeds(fmt.Sprintf("http://a.example/%d", i))...)
		}
		start, failed := time.Now(), 0
		err := crawl(t, f, 1, 0, func(*Lease) Result {
			if failed++; failed > 20 {
				return ok()
			}
			return Result{Class: pace.ClassServerError, Finish: &Finish{}, Final: true}
		})
		hosts, _, _ := said.take()
		if took := time.Since(start); took < 2*pace.MostPatience || len(hosts) > 0 || !errors.Is(err, ErrDrained) {
			t.Errorf("after %v, away %q: %v", took, hosts, err)
		}
	})
}

// A crawl is told of a long rest that another crawl of the account was asked for, before or while both ask the host.
func TestRestOfAnotherCrawlIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := pace.NewRegistry()
		crawls, said := [3]*Frontier{}, [3]*notices{{}, {}, {}}
		begin := func(i int) {
			crawls[i] = newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Registry: registry, Account: "a",
				Observe: said[i].observe}, newMemStore())
			add(t, crawls[i], seeds("http://a.example/1", "http://a.example/2")...)
		}
		begin(0)
		l := next(t, crawls[0])
		begin(1)
		synctest.Wait()
		startLease(t, l)
		done(t, l, Result{Class: pace.ClassThrottled, RetryAfter: 5 * time.Hour, Finish: &Finish{}})
		begin(2)
		start := time.Now()
		for i, f := range crawls {
			done(t, next(t, f), ok())
			if _, _, warnings := said[i].take(); warnings != 1 {
				t.Errorf("crawl %d: %d warnings, want 1", i, warnings)
			}
		}
		if took := time.Since(start); took < 5*time.Hour {
			t.Errorf("the host was asked after %v", took)
		}
	})
}
