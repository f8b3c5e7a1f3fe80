package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// manner is what some hosts of the politeness test are like, and what they ask for.
type manner struct {
	name   string
	faults []testweb.Fault
	delay  time.Duration // Crawl-delay
}

func manners() []manner {
	one := testweb.Where{Count: 1}
	crawlDelay := func(name string, d time.Duration, more ...testweb.Fault) manner {
		return manner{name: name, faults: append(more, testweb.CrawlDelay{Delay: d}), delay: d}
	}
	return []manner{
		{name: "plain"},
		crawlDelay("crawl-delay 150 ms", 150*time.Millisecond),
		crawlDelay("crawl-delay 400 ms", 400*time.Millisecond),
		crawlDelay("crawl-delay with rules", 100*time.Millisecond, testweb.Disallow{}),
		{name: "over rate", faults: []testweb.Fault{testweb.OverRate{PerSecond: 8, Burst: 2}}},
		{name: "over rate, Retry-After", faults: []testweb.Fault{testweb.OverRate{PerSecond: 8,
			Answer: testweb.Answer{RetryAfter: time.Second}}}},
		{name: "over concurrency", faults: []testweb.Fault{testweb.OverConcurrency{Max: 1,
			Answer: testweb.Answer{RetryAfter: 2 * time.Second}}, testweb.Slow{Delay: 30 * time.Millisecond}}},
		{name: "refuses at first",
			faults: []testweb.Fault{testweb.RefuseFirst{Answer: testweb.Answer{RetryAfter: time.Second, Date: true}}}},
		{name: "bursts of 503", faults: []testweb.Fault{testweb.RefuseBursts{}}},
		{name: "bursts of 503, Retry-After", faults: []testweb.Fault{testweb.RefuseBursts{Every: 15, Length: 2,
			Answer: testweb.Answer{Status: 503, RetryAfter: 2 * time.Second, Date: true}}}},
		{name: "slow", faults: []testweb.Fault{testweb.Slow{Delay: 150 * time.Millisecond,
			Jitter: 100 * time.Millisecond}}},
		{name: "one at a time", faults: []testweb.Fault{testweb.Capacity{Workers: 1, Service: 30 * time.Millisecond}}},
		{name: "broken", faults: []testweb.Fault{testweb.Truncate{Where: one}, testweb.Hang{Where: one}}},
		{name: "statuses", faults: []testweb.Fault{testweb.StatusPages{}, testweb.StatusPages{Status: 500},
			testweb.StatusPages{Status: 403}}},
		{name: "redirects", faults: []testweb.Fault{testweb.RedirectChain{Length: 4}, testweb.RedirectLoop{}}},
		{name: "no keep-alive", faults: []testweb.Fault{testweb.NoKeepAlive{}}},
		{name: "stale connections", faults: []testweb.Fault{testweb.StaleConns{}, testweb.Reset{Where: one}}},
		{name: "robots.txt refused", faults: []testweb.Fault{testweb.Robots{Status: 429, RetryAfter: time.Second}}},
		{name: "robots.txt elsewhere", faults: []testweb.Fault{testweb.Robots{Redirects: 3}}},
		{name: "robots.txt broken", faults: []testweb.Fault{testweb.Robots{Status: 500}}},
	}
}

// ofManner names the hosts that have a manner.
func ofManner(i, hosts, manners int) testweb.HostSet {
	var list []string
	for h := i; h < hosts; h += manners {
		list = append(list, strconv.Itoa(h))
	}
	return testweb.HostSet(strings.Join(list, ","))
}

const (
	politeHosts    = 200
	politeRequests = 8000
	politeMinDelay = 60 * time.Millisecond
	politeInflight = 2
)

// By the log of two hundred hosts with every kind of fault, and across abrupt ends and resumes: no host ever has more
// in flight than its limit, gets two requests closer together than the delay and its Crawl-delay, or gets a request
// before its Retry-After is over.
func TestPoliteByTheLog(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		all := manners()
		cfg := testweb.Config{Seed: 6, Hosts: politeHosts, Pages: 2000, PageSize: 800, Links: 12, CrossHost: 0.2,
			Log: true}
		for i, m := range all {
			cfg.Faults = append(cfg.Faults, testweb.On(ofManner(i, politeHosts, len(all)), m.faults...)...)
		}
		web := newMemoryWeb(t, cfg)
		s := config.Defaults(config.Polite)
		s.MinDelayMS, s.MaxDelayMS = int(politeMinDelay/time.Millisecond), 2*int(politeMinDelay/time.Millisecond)
		s.PerIP = false // all hosts of the web have one address
		s.MaxInflightPerHost, s.MaxWorkers, s.BloomCapacity = politeInflight, 256, 1_000_000
		s.Timeout, s.MaxHostBackoffSecs = quickTimeout, 2

		dir := newDir(t)
		o := web.options(s, dir, web.StartURLs()...)
		o.Log = testLog(t, slog.LevelError)
		wires := &wireClock{Fetcher: o.Fetcher, least: map[string]time.Duration{}, last: map[string]time.Time{}}
		for i := range politeHosts {
			wires.least[web.HostName(i)] = max(politeMinDelay, all[i%len(all)].delay)
		}
		o.Fetcher = wires
		const runs = 4
		for run := range runs {
			untilRequests(t, web, politeRequests*int64(run+1)/runs, o)
			plan, err := datadir.ReadPlan(dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Plan, o.Starts = plan, nil
		}

		for _, short := range wires.short {
			t.Error(short)
		}
		byHost := map[string][]testweb.Request{}
		for _, r := range web.Log() {
			host := mustURL(t, r.URL).Host()
			byHost[host] = append(byHost[host], r)
		}
		for i := range politeHosts {
			m, h, log := all[i%len(all)], web.HostStats(i), byHost[web.HostName(i)]
			if h.MostInFlight > politeInflight {
				t.Errorf("%s: %d in flight, want at most %d", m.name, h.MostInFlight, politeInflight)
			}
			if len(log) < 2 {
				t.Errorf("%s: %d requests to %s, want at least 2", m.name, len(log), web.HostName(i))
			}
			checkGaps(t, m, log)
			checkRests(t, m, log, h.Refusals)
		}
	})
}

// checkGaps wants two requests of a host to be as far apart as the delay and its Crawl-delay.
func checkGaps(t *testing.T, m manner, log []testweb.Request) {
	t.Helper()
	for i := 1; i < len(log); i++ {
		a, b := log[i-1], log[i]
		least := politeMinDelay
		if !strings.HasSuffix(b.URL, "/robots.txt") { // which says what the Crawl-delay is
			least = max(least, m.delay)
		}
		if gap := b.Start.Sub(a.Start); gap < least {
			t.Errorf("%s: %s came %v after %s, want at least %v", m.name, b.URL, gap, a.URL, least)
		}
	}
}

// checkRests wants no request to begin between a refusal and the end of its Retry-After.
func checkRests(t *testing.T, m manner, log []testweb.Request, refusals []testweb.Refusal) {
	t.Helper()
	for _, ref := range refusals {
		for _, r := range log {
			if r.Start.After(ref.At) && r.Start.Before(ref.Until) {
				t.Errorf("%s: %s came %v after a refusal, %v before Retry-After was over", m.name, r.URL,
					r.Start.Sub(ref.At), ref.Until.Sub(r.Start))
			}
		}
	}
}

// untilRequests crawls until the web has had so many requests, and then leaves at once.
func untilRequests(t *testing.T, web *memoryWeb, requests int64, o Options) {
	t.Helper()
	ctx, leave := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var watch sync.WaitGroup
	watch.Go(func() {
		for range tick.C {
			if ctx.Err() != nil || web.Stats().Requests >= requests {
				leave(enough)
				return
			}
		}
	})
	_, err := runAlone(ctx, o)
	leave(nil)
	watch.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the crawl ended with %v after %d requests", err, web.Stats().Requests)
	}
}

// wireClock sees when requests go out. Each is noted before the frontier hears of it, and the next is leased only
// after; so no noise of the machine can make a gap shorter here, and none is allowed to be.
type wireClock struct {
	fetch.Fetcher
	least map[string]time.Duration // by host

	mu    sync.Mutex
	last  map[string]time.Time // guarded by mu; by host
	short []string             // guarded by mu
}

// wire stands between a request and its lease.
type wire struct {
	fetch.Wire
	clock *wireClock
	url   weburl.URL
}

func (c *wireClock) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if r.Wire == nil {
		return nil, fmt.Errorf("%s is asked for outside of any lease", r.URL)
	}
	r.Wire = wire{r.Wire, c, r.URL}
	return c.Fetcher.Do(ctx, r)
}

func (w wire) Start() error {
	now, host := time.Now(), w.url.Host()
	c := w.clock
	c.mu.Lock()
	least := c.least[host]
	if w.url.Path() == "/robots.txt" {
		least = min(least, politeMinDelay) // it is what says more
	}
	if last := c.last[host]; !last.IsZero() && now.Sub(last) < least {
		c.short = append(c.short, fmt.Sprintf("%s went out %v after the request before it, want at least %v", w.url,
			now.Sub(last), least))
	}
	c.last[host] = now
	c.mu.Unlock()
	return w.Wire.Start()
}
