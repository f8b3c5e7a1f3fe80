package crawl

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// faultCase is the faults of a host of one kind.
type faultCase struct {
	name   string
	faults []testweb.Fault
}

// faultCases has at least one case for every kind of fault that the synthetic web knows.
func faultCases() []faultCase {
	one, all := testweb.Where{Count: 1}, testweb.Where{All: true}
	return []faultCase{
		{"over_rate", []testweb.Fault{testweb.OverRate{PerSecond: 20, Burst: 10}}},
		{"over_concurrency", []testweb.Fault{testweb.OverConcurrency{Max: 2}}},
		{"refuse_first", []testweb.Fault{testweb.RefuseFirst{}}},
		{"refuse_bursts", []testweb.Fault{testweb.RefuseBursts{Every: 6, Length: 1}}},
		{"refuse_all", []testweb.Fault{testweb.RefuseAll{}}},
		{"slow", []testweb.Fault{testweb.Slow{Delay: 50 * time.Millisecond, Jitter: 50 * time.Millisecond}}},
		{"capacity", []testweb.Fault{testweb.Capacity{Workers: 2, Service: 20 * time.Millisecond}}},
		{"hang", []testweb.Fault{testweb.Hang{Where: one}}},
		{"hang/not too long", []testweb.Fault{testweb.Hang{Where: one, For: 300 * time.Millisecond}}},
		{"hang/everywhere", []testweb.Fault{testweb.Hang{Where: all}}},
		{"drip", []testweb.Fault{testweb.Drip{Where: one, Interval: 100 * time.Millisecond}}},
		{"reset", []testweb.Fault{testweb.Reset{Where: one}}},
		{"reset/in the body", []testweb.Fault{testweb.Reset{Where: one, After: 500}}},
		{"reset/everywhere", []testweb.Fault{testweb.Reset{Where: all}}},
		{"truncate", []testweb.Fault{testweb.Truncate{Where: one}}},
		{"truncate/chunked", []testweb.Fault{testweb.Truncate{Where: one, Chunked: true}}},
		{"huge", []testweb.Fault{testweb.Huge{Where: one}}},
		{"gzip_bomb", []testweb.Fault{testweb.GzipBomb{Where: one}}},
		{"status", []testweb.Fault{
			testweb.StatusPages{Where: testweb.Where{Count: 5}}, testweb.StatusPages{Status: 410},
			testweb.StatusPages{Status: 403},
			testweb.StatusPages{Status: 451}, testweb.StatusPages{Status: 500},
		}},
		{"status/429", []testweb.Fault{testweb.StatusPages{Status: 429}}},
		{"status/503", []testweb.Fault{testweb.StatusPages{Status: 503}}},
		{"status/403 with Retry-After", []testweb.Fault{testweb.StatusPages{Status: 403, RetryAfter: time.Second}}},
		{"status/everywhere", []testweb.Fault{testweb.StatusPages{Where: all, Status: 500}}},
		{"stale_conns", []testweb.Fault{testweb.StaleConns{Every: 2}}},
		{"no_keepalive", []testweb.Fault{testweb.NoKeepAlive{}}},
		{"redirect_chain", []testweb.Fault{testweb.RedirectChain{Length: 12}}},
		{"redirect_loop", []testweb.Fault{testweb.RedirectLoop{Length: 3}}},
		{"redirect_loop/itself", []testweb.Fault{testweb.RedirectLoop{Length: 1}}},
		{"moved", []testweb.Fault{testweb.Moved{To: 0}}},
		{"calendar_trap", []testweb.Fault{testweb.CalendarTrap{}}},
		{"session_trap", []testweb.Fault{testweb.SessionTrap{}}},
		{"parameter_trap", []testweb.Fault{testweb.ParameterTrap{Parameters: 4}}},
		{"path_trap", []testweb.Fault{testweb.PathTrap{}}},
		{"long_url", []testweb.Fault{testweb.LongURL{}}},
		{"wrong_type", []testweb.Fault{testweb.WrongType{}}},
		{"files", []testweb.Fault{testweb.Files{}}},
		{"charsets", []testweb.Fault{testweb.Charsets{}}},
		{"encodings", []testweb.Fault{testweb.Encodings{}}},
		{"malformed", []testweb.Fault{testweb.Malformed{}}},
		{"link_zoo", []testweb.Fault{testweb.LinkZoo{}}},
		{"noindex", []testweb.Fault{testweb.NoIndex{}}},
		{"canonical", []testweb.Fault{testweb.Canonical{Count: 2}}},
		{"nofollow", []testweb.Fault{testweb.NoFollow{Count: 2}}},
		{"hreflang", []testweb.Fault{testweb.Hreflang{}}},
		{"crawl_delay", []testweb.Fault{testweb.CrawlDelay{Delay: 50 * time.Millisecond}}},
		{"disallow", []testweb.Fault{testweb.Disallow{}}},
		{"disallow/for us", []testweb.Fault{testweb.Disallow{Agent: "mapwright"}}},
		{"robots", []testweb.Fault{testweb.Robots{}}},
		{"robots/500", []testweb.Fault{testweb.Robots{Status: 500}, testweb.Disallow{}}},
		{"robots/429", []testweb.Fault{testweb.Robots{Status: 429, RetryAfter: time.Second}, testweb.Disallow{}}},
		{"robots/hangs", []testweb.Fault{testweb.Robots{Hang: true}, testweb.Disallow{}}},
		{"robots/redirected", []testweb.Fault{testweb.Robots{Redirects: 5}, testweb.Disallow{}}},
		{"robots/large", []testweb.Fault{testweb.Robots{Size: 400 << 10}, testweb.Disallow{}}},
		{"robots/too large", []testweb.Fault{testweb.Robots{Size: 600 << 10}, testweb.Disallow{}}},
		{"validators", []testweb.Fault{testweb.Validators{Mode: "gzip_suffix"}}},
		{"down", []testweb.Fault{testweb.Down{Generations: []int{0}}}},
		{"down/refuses", []testweb.Fault{testweb.Down{Generations: []int{0}, Refuse: true}}},
	}
}

func TestFaultCasesAreAllThereIs(t *testing.T) {
	for _, kind := range testweb.Kinds() {
		if !slices.ContainsFunc(faultCases(), func(c faultCase) bool { return c.name == kind }) {
			t.Errorf("no crawl meets %s", kind)
		}
	}
}

// webOfFaults gives each case a host of its own. Host 0 has no fault: it is where one that moved went.
func webOfFaults(cases []faultCase) testweb.Config {
	cfg := testweb.Config{Seed: 3, Hosts: len(cases) + 1, Pages: 10, PageSize: 2000, Links: 6}
	for i, c := range cases {
		cfg.Faults = append(cfg.Faults, testweb.On(testweb.HostSet(strconv.Itoa(i+1)), c.faults...)...)
	}
	return cfg
}

// Whatever one host does, its crawl ends by itself and reports every URL as what it is.
func TestEachFaultAlone(t *testing.T) {
	long.Test(t)
	inBubble(t, func(t *testing.T) {
		cases := faultCases()
		web := newMemoryWeb(t, webOfFaults(cases))
		dirs := make([]datadir.Dir, len(cases))
		// A crawl takes memory and files, so not all run at once.
		var crawls errgroup.Group
		crawls.SetLimit(16)
		for i := range cases {
			dirs[i] = newDir(t)
			s := quick(web.Server)
			s.MaxRetries = 1
			o := web.options(s, dirs[i], web.StartURLs()[i+1])
			crawls.Go(func() error {
				_, err := runAlone(t.Context(), o)
				return err
			})
		}
		if err := crawls.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			want := testweb.Crawl{Starts: web.StartURLs()[i+1 : i+2], Timeout: quickTimeout, MaxRetries: 1}
			if !foundExactly(t, web.Server, want, readLines(t, dirs[i])) {
				t.Errorf("with the fault %s", c.name)
			}
		}
		wellBehaved(t, web.Server)
	})
}

// All of it at once: one crawl over hosts with every kind of fault.
func TestAllFaultsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, webOfFaults(faultCases()))
		s := quick(web.Server)
		s.MaxRetries = 1
		rep, lines := web.crawlAll(s, web.StartURLs()...)
		foundExactly(t, web.Server, testweb.Crawl{Timeout: quickTimeout, MaxRetries: 1}, lines)
		wellBehaved(t, web.Server)
		if rep.Status != page.Complete || !rep.Success || rep.URLs != int64(len(lines)) {
			t.Errorf("the report says %s, success %v and %d URLs, and there are %d", rep.Status, rep.Success, rep.URLs,
				len(lines))
		}
	})
}

// Hosts that answer nothing, of which many URLs are known: they are blocked, their URLs stay on record, and the others
// do not suffer.
func TestFailingHostsAreBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := testweb.Where{All: true}
		cfg := testweb.Config{Seed: 4, Hosts: 8, Pages: 24, PageSize: 2000, Links: 12, CrossHost: 0.6,
			Faults: slices.Concat(
				testweb.On("1", testweb.Truncate{Where: all}), testweb.On("2", testweb.Reset{Where: all}),
				testweb.On("3", testweb.StatusPages{Where: all, Status: 500}),
			)}
		web := newMemoryWeb(t, cfg)
		s := quick(web.Server)
		s.MaxRetries, s.MaxHostFailures = 0, 4
		_, lines := web.crawlAll(s, web.StartURLs()...)
		foundExactly(t, web.Server, testweb.Crawl{Timeout: quickTimeout}, lines)
		wellBehaved(t, web.Server)
		blocked := map[string]int{}
		for _, l := range lines {
			if l.Outcome == testweb.OutcomeHostBlocked {
				blocked[mustURL(t, l.URL).Host()]++
			}
		}
		for i := range cfg.Hosts {
			name := web.HostName(i)
			if failing := i >= 1 && i <= 3; failing != (blocked[name] > 0) {
				t.Errorf("%s has %d blocked URLs", name, blocked[name])
			}
		}
	})
}
