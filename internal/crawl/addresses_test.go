package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// fewAddresses resolves the first hosts of a web to one address, and each of the others to an address of its own.
type fewAddresses struct{ shared int }

func (r fewAddresses) of(host string) netip.Addr {
	var i int
	if _, err := fmt.Sscanf(host, "h%d.test", &i); err != nil || i < r.shared {
		return netip.MustParseAddr("8.8.8.8")
	}
	return netip.AddrFrom4([4]byte{9, 9, byte(i >> 8), byte(i)})
}

func (r fewAddresses) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return []netip.Addr{r.of(host)}, nil
}

// addressClock sees the requests to each address.
type addressClock struct {
	fetch.Fetcher
	names fewAddresses

	mu     sync.Mutex
	under  map[netip.Addr]int         // guarded by mu; requests under way
	most   map[netip.Addr]int         // guarded by mu
	starts map[netip.Addr][]time.Time // guarded by mu
}

func newAddressClock(names fewAddresses) *addressClock {
	return &addressClock{names: names, under: map[netip.Addr]int{}, most: map[netip.Addr]int{},
		starts: map[netip.Addr][]time.Time{}}
}

// of returns the same clock over another fetcher.
func (c *addressClock) of(f fetch.Fetcher) fetch.Fetcher { return &overFetcher{f, c} }

type overFetcher struct {
	fetch.Fetcher
	clock *addressClock
}

type clockedWire struct {
	fetch.Wire
	clock   *addressClock
	addr    netip.Addr
	started bool
}

func (f *overFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	w := &clockedWire{Wire: r.Wire, clock: f.clock, addr: f.clock.names.of(r.URL.Host())}
	r.Wire = w
	res, err := f.Fetcher.Do(ctx, r)
	if w.started {
		f.clock.mu.Lock()
		f.clock.under[w.addr]--
		f.clock.mu.Unlock()
	}
	return res, err
}

func (w *clockedWire) Start() error {
	err := w.Wire.Start()
	if err == nil {
		c := w.clock
		c.mu.Lock()
		defer c.mu.Unlock()
		w.started = true
		c.under[w.addr]++
		c.most[w.addr] = max(c.most[w.addr], c.under[w.addr])
		c.starts[w.addr] = append(c.starts[w.addr], time.Now())
	}
	return err
}

// check compares what the shared address got with its limits, and returns the time from the first start to the last.
// Breaks are times at which a new process began.
func (c *addressClock) check(t *testing.T, breaks ...time.Time) time.Duration {
	t.Helper()
	shared := c.names.of("h0.test")
	starts := c.starts[shared]
	for i, at := range starts[1:] {
		gap := at.Sub(starts[i])
		isBreak := slices.ContainsFunc(breaks, func(b time.Time) bool { return !b.Before(starts[i]) && !b.After(at) })
		if gap < 100*time.Millisecond && !isBreak {
			t.Errorf("request %d of %d started %v after the one before it", i+1, len(starts), gap)
		}
	}
	if c.most[shared] > 8 {
		t.Errorf("%d requests to one address were under way at once", c.most[shared])
	}
	t.Logf("%d requests to the shared address in %v, %d at once", len(starts), starts[len(starts)-1].Sub(starts[0]),
		c.most[shared])
	return starts[len(starts)-1].Sub(starts[0])
}

// addressWeb is a web of which the first hosts have one address.
func addressWeb(t *testing.T, shared, others, pages int, faults ...testweb.HostFault) (*memoryWeb, *addressClock) {
	web := newMemoryWeb(t, testweb.Config{Seed: 11, Hosts: shared + others, Pages: pages, PageSize: 500, Links: 4,
		Sitemaps: &testweb.Sitemaps{}, Faults: faults})
	names := fewAddresses{shared}
	web.names = names
	return web, newAddressClock(names)
}

// politeByAddress are the default settings, but for the size of things.
func politeByAddress() *config.Settings {
	s := config.Defaults(config.Polite)
	s.MaxWorkers, s.BloomCapacity, s.Scope = 64, 100_000, "host"
	return s
}

// With the default settings, 500 hosts of one address together get at most 8 requests at once and 10 a second, for
// robots.txt and pages, and everything is found. Hosts of other addresses are as fast as without them.
func TestPaceOfAnAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const shared, others = 500, 3
		slow := testweb.On("0-249", testweb.Slow{Delay: 2 * time.Second})
		web, clock := addressWeb(t, shared, others, 1, slow...)
		dir := newDir(t)
		s := politeByAddress()
		s.SeedingStrategy = []string{"none"}
		o := web.options(s, dir, web.StartURLs()...)
		o.Fetcher = clock.of(o.Fetcher)
		began := time.Now()
		if _, err := runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		foundExactly(t, web.Server, testweb.Crawl{Starts: web.StartURLs(), Scope: "host"}, readLines(t, dir))
		wellBehaved(t, web.Server)
		if took := clock.check(t); took > 4*time.Minute {
			t.Errorf("1,000 requests at up to ten a second took %v", took)
		}
		if most := clock.most[clock.names.of("h0.test")]; most != 8 {
			t.Errorf("%d requests were under way at once, though some took 2 s", most)
		}
		for i := shared; i < shared+others; i++ {
			if took := web.HostStats(i).Last.Sub(began); took > 4*time.Second {
				t.Errorf("%s, with an address of its own, took %v", web.HostName(i), took)
			}
		}
	})
}

// The crawls of a process share the pace of an address, and take turns: a small crawl does not wait for all hosts of a
// large one. A crawl of an own site has no such limit.
func TestCrawlsShareAnAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const large, small, own = 60, 5, 5
		web, clock := addressWeb(t, large+small+own, 0, 2)
		shared := newShared(t, SharedOptions{})
		var running sync.WaitGroup
		run := func(s *config.Settings, clocked bool, urls []string) {
			dir := newDir(t)
			o := web.options(s, dir, urls...)
			if clocked {
				o.Fetcher = clock.of(o.Fetcher)
			}
			c, err := newTested(shared, o)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() {
				if _, err := c.Run(t.Context()); err != nil {
					t.Error(err)
					return
				}
				foundExactly(t, web.Server, testweb.Crawl{Starts: urls, Scope: "host"}, readLines(t, dir))
			})
		}
		urls := web.StartURLs()
		run(politeByAddress(), true, urls[:large])
		synctest.Wait()
		time.Sleep(5 * time.Second)
		began := time.Now()
		run(politeByAddress(), true, urls[large:large+small])
		ownSite := config.Defaults(config.OwnSite)
		ownSite.MaxWorkers, ownSite.BloomCapacity, ownSite.Scope = 8, 100_000, "host"
		run(ownSite, false, urls[large+small:])
		running.Wait()
		clock.check(t)
		for i := large; i < large+small; i++ {
			if took := web.HostStats(i).Last.Sub(began); took > 6*time.Second {
				t.Errorf("a host of the small crawl took %v, want 20 requests in turns with another crawl", took)
			}
		}
		for i := large + small; i < large+small+own; i++ {
			if took := web.HostStats(i).Last.Sub(began); took > 100*time.Millisecond {
				t.Errorf("a host of an own site took %v", took)
			}
		}
	})
}

// An account whose requests take long, in several crawls, does not hold up the crawl of another on the same address.
func TestSlowHostsOfAnotherAccount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const slow, crawls, quick = 30, 3, 3
		web, clock := addressWeb(t, slow+quick, 0, 2,
			testweb.On("0-29", testweb.Slow{Delay: 10 * time.Second})...)
		shared := newShared(t, SharedOptions{})
		var running sync.WaitGroup
		run := func(account string, urls []string) {
			o := web.options(politeByAddress(), newDir(t), urls...)
			o.Managed.Account, o.Fetcher = account, clock.of(o.Fetcher)
			c, err := newTested(shared, o)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() {
				if _, err := c.Run(t.Context()); err != nil {
					t.Error(err)
					return
				}
				foundExactly(t, web.Server, testweb.Crawl{Starts: urls, Scope: "host"}, readLines(t, o.Dir))
			})
		}
		urls := web.StartURLs()
		for urls := range slices.Chunk(urls[:slow], slow/crawls) {
			run("slow", urls)
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		began := time.Now()
		run("quick", urls[slow:])
		running.Wait()
		clock.check(t)
		for i := slow; i < slow+quick; i++ {
			if took := web.HostStats(i).Last.Sub(began); took > 6*time.Second {
				t.Errorf("%s took %v, want 12 requests in turns with the slow account", web.HostName(i), took)
			}
		}
	})
}

// A crawl that is killed and resumed keeps the pace of an address before and after. The new process knows nothing of
// the starts before it, so one request may follow them too soon.
func TestPaceOfAnAddressAfterKills(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const hosts, requests, runs = 30, 120, 3 // robots.txt, sitemap and two pages of each
		web, clock := addressWeb(t, hosts, 0, 2)
		dir := newDir(t)
		o := web.options(politeByAddress(), dir, web.StartURLs()...)
		o.Log, o.Fetcher = testLog(t, slog.LevelError), clock.of(o.Fetcher)
		var breaks []time.Time
		for run := range runs - 1 {
			untilRequests(t, web, requests*int64(run+1)/runs, o)
			breaks = append(breaks, time.Now())
			plan, err := datadir.ReadPlan(dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Plan, o.Starts = plan, nil
		}
		if _, err := runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		foundExactly(t, web.Server, testweb.Crawl{Starts: web.StartURLs(), Scope: "host"}, readLines(t, dir))
		clock.check(t, breaks...)
	})
}
