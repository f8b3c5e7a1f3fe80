package testweb

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// crawlBubble crawls a web naively inside a synctest bubble, holds the result against
// the expectation and the server's statistics against the client's, and hands both on.
func crawlBubble(t *testing.T, cfg Config, workers int, check func(*testing.T, *Server, *naive)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := StartOn(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		n := newNaive(s, workers)
		defer n.close()
		n.crawl(s.StartURLs())
		want, err := s.Expected(Crawl{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Compare(want, s.Traps(), n.results); err != nil {
			t.Error(err)
		}
		for e := range want {
			if got := n.titles[e.URL]; e.Title != "" && got != e.Title {
				t.Errorf("%s: title %q, want %q", e.URL, got, e.Title)
			}
		}
		synctest.Wait() // for the ends of requests the client gave up
		checkStats(t, s, n)
		if check != nil {
			check(t, s, n)
		}
	})
}

// checkStats compares the server's statistics with the client's.
func checkStats(t *testing.T, s *Server, n *naive) {
	t.Helper()
	total := 0
	for i := range s.hosts {
		name, b := s.HostName(i), s.HostStats(i)
		c := n.host(name)
		total += c.requests
		if b.Requests != c.requests {
			t.Errorf("%s: %d requests, client made %d", name, b.Requests, c.requests)
		}
		if b.Requests != b.Pages+b.Robots+b.Sitemaps {
			t.Errorf("%s: %d requests, but %d pages, %d robots, %d sitemaps", name, b.Requests, b.Pages, b.Robots,
				b.Sitemaps)
		}
		if b.MostInFlight > c.most+c.lost || b.MostInFlight == 0 && c.most > 0 {
			t.Errorf("%s: most in flight %d, client had %d and gave up %d", name, b.MostInFlight, c.most, c.lost)
		}
		if !maps.Equal(b.Status, c.status) {
			t.Errorf("%s: statuses %v, client saw %v", name, b.Status, c.status)
		}
		for what, m := range map[string]Samples{
			"duplicates": b.Duplicates, "disallowed": b.Disallowed, "before robots": b.BeforeRobots,
			"baits": b.Baits, "unknown": b.Unknown, "early": b.Early,
		} {
			if m.Count != 0 {
				t.Errorf("%s: %s: %d %q, want none", name, what, m.Count, m.URIs)
			}
		}
	}
	if b := s.Stats(); b.Requests != int64(total) || b.UnknownHosts != 0 {
		t.Errorf("%d requests, %d for unknown hosts; client made %d", b.Requests, b.UnknownHosts, total)
	}
}

// TestFaults crawls a host with each fault, as it is by default and with parameters,
// and one without beside it.
func TestFaults(t *testing.T) {
	type check = func(*testing.T, HostStats, *naive)
	status := func(code, count int) check {
		return func(t *testing.T, b HostStats, _ *naive) {
			t.Helper()
			if b.Status[code] != count {
				t.Errorf("%d answers with %d, want %d", b.Status[code], code, count)
			}
		}
	}
	refused := func(code, count int, least time.Duration) check {
		return func(t *testing.T, b HostStats, n *naive) {
			t.Helper()
			status(code, count)(t, b, n)
			if b.Refused != count || len(b.Refusals) != count {
				t.Errorf("%d refusals, %d kept, want %d", b.Refused, len(b.Refusals), count)
			}
			for _, r := range b.Refusals {
				if r.Status != code || !r.Next.IsZero() && r.Next.Sub(r.At) < least {
					t.Errorf("refusal %+v: want status %d, next no sooner than %v", r, code, least)
				}
			}
		}
	}
	// each expects so many answers for every URL that is known of the host: all of
	// them fail alike, so that only the other host's links make any known.
	each := func(code, times int) func(*testing.T, HostStats, *naive) {
		return func(t *testing.T, b HostStats, n *naive) {
			t.Helper()
			known := 0
			for u := range n.results {
				if strings.HasPrefix(u, "http://h0.test/") {
					known++
				}
			}
			if known < 2 || b.Status[code] != known*times {
				t.Errorf("%d answers with %d, want %d for each of %d URLs", b.Status[code], code, times, known)
			}
		}
	}
	trap := func(t *testing.T, b HostStats, _ *naive) {
		t.Helper()
		if b.Traps.Count != 30 {
			t.Errorf("%d requests in the trap, want the client's 30", b.Traps.Count)
		}
	}
	const pages = 12
	for _, tt := range []struct {
		name  string
		fault Fault
		check check
	}{
		{"over rate", OverRate{PerSecond: 2, Answer: Answer{RetryAfter: time.Second}},
			refused(429, pages-1, time.Second)},
		{"over rate in bursts", OverRate{PerSecond: 2, Burst: 4, Answer: Answer{RetryAfter: time.Second}}, nil},
		{"over concurrency alone", OverConcurrency{Max: 1}, refused(429, 0, 0)},
		{"refuse first", RefuseFirst{Answer: Answer{RetryAfter: time.Second}}, refused(429, pages, time.Second)},
		{"refuse first by date", RefuseFirst{Answer: Answer{RetryAfter: time.Second, Date: true}},
			refused(429, pages, time.Second)},
		{"refuse first thrice", RefuseFirst{Count: 3, Answer: Answer{Status: 503, RetryAfter: 1500 * time.Millisecond}},
			refused(503, 3*pages, 2*time.Second)},
		{"refuse first with 403", RefuseFirst{Answer: Answer{Status: 403, RetryAfter: time.Minute}},
			refused(403, pages, time.Minute)},
		{"refuse too often", RefuseFirst{Count: 4}, each(429, 4)},
		{"bursts", RefuseBursts{Every: 5}, refused(503, 3*5, 0)},
		{"bursts with rest", RefuseBursts{Every: 4, Length: 1, Answer: Answer{RetryAfter: 3 * time.Second}},
			refused(503, 3, 3*time.Second)},
		{"refuse all", RefuseAll{}, each(429, 4)},
		{"forbid all", RefuseAll{Answer: Answer{Status: 403}}, each(403, 1)},
		{"slow", Slow{}, nil},
		{"capacity", Capacity{}, nil},
		{"hang", Hang{}, status(0, 4)},
		{"hang a while", Hang{For: 19 * time.Second}, status(200, pages+2)},
		{"hang all", Hang{Where: Where{All: true}}, each(0, 4)},
		{"drip", Drip{Size: 400}, status(200, pages+1+4)},
		{"drip in time", Drip{Interval: 10 * time.Millisecond}, status(200, pages+2)},
		{"reset", Reset{Where: Where{Count: 2}}, nil},
		{"reset inside", Reset{After: 500}, status(200, pages+1+4)},
		{"reset all", Reset{Where: Where{All: true}}, nil},
		{"truncate", Truncate{}, status(200, pages+1+4)},
		{"truncate chunked", Truncate{Chunked: true}, status(200, pages+1+4)},
		{"huge", Huge{}, func(t *testing.T, b HostStats, _ *naive) {
			if b.Aborted != 1 || b.Sent > 12<<20 {
				t.Errorf("%d aborted, %d bytes sent", b.Aborted, b.Sent)
			}
		}},
		{"not so huge", Huge{Size: 1 << 20}, status(200, pages+2)},
		{"bomb", GzipBomb{}, func(t *testing.T, b HostStats, _ *naive) {
			if b.Aborted != 1 || b.Sent > 1<<20 {
				t.Errorf("%d aborted, %d bytes sent", b.Aborted, b.Sent)
			}
		}},
		{"small bomb", GzipBomb{Size: 3 << 20}, status(200, pages+2)},
		{"broken links", StatusPages{Where: Where{Count: 3}}, status(404, 1+3)},
		{"forbidden", StatusPages{Status: 403}, status(403, 1)},
		{"forbidden for now", StatusPages{Status: 403, RetryAfter: time.Second}, refused(403, 4, time.Second)},
		{"failing", StatusPages{Status: 500, Where: Where{Count: 2}}, status(500, 8)},
		{"failing all", StatusPages{Status: 500, Where: Where{All: true}}, each(500, 4)},
		{"stale connections", StaleConns{}, status(0, 2)},
		{"no keep-alive", NoKeepAlive{}, func(t *testing.T, b HostStats, _ *naive) {
			if b.Connections != b.Requests {
				t.Errorf("%d connections for %d requests", b.Connections, b.Requests)
			}
		}},
		{"redirect chain", RedirectChain{Count: 2, Length: 5}, status(308, 2)},
		{"redirect loop", RedirectLoop{}, status(302, 1)},
		{"redirect to itself", RedirectLoop{Length: 1}, status(301, 1)},
		{"moved", Moved{To: 1}, each(301, 1)},
		{"calendar", CalendarTrap{}, trap},
		{"session", SessionTrap{}, trap},
		{"parameters", ParameterTrap{}, trap},
		{"path", PathTrap{}, trap},
		{"long URL", LongURL{}, nil},
		{"wrong type", WrongType{}, status(200, pages+5)},
		{"files", Files{}, status(200, pages+5)},
		{"charsets", Charsets{}, status(200, pages+1+16)},
		{"encodings", Encodings{}, status(200, pages+1+8)},
		{"malformed", Malformed{}, status(200, pages+1+13)},
		{"zoo", LinkZoo{}, status(200, pages+1+16)},
		{"noindex", NoIndex{}, status(200, pages+1+4)},
		{"canonical", Canonical{Count: 3}, status(200, pages+1+3)},
		{"nofollow", NoFollow{}, status(200, pages+1+1)},
		{"hreflang", Hreflang{}, status(200, pages+1+3)},
		{"crawl delay", CrawlDelay{Delay: 2500 * time.Millisecond}, func(t *testing.T, b HostStats, _ *naive) {
			if b.LeastPageGap != 2500*time.Millisecond {
				t.Errorf("least gap between pages %v, want 2.5s", b.LeastPageGap)
			}
		}},
		{"disallow", Disallow{}, status(200, pages+1+3)},
		{"disallow others", Disallow{Agent: "mapwright"}, status(200, pages+1+3)},
		{"no robots", Robots{}, status(404, 2)},
		{"failing robots", Robots{Status: 500}, status(500, 1)},
		{"refused robots", Robots{Status: 429, RetryAfter: time.Second}, nil},
		{"hanging robots", Robots{Hang: true}, status(0, 1)},
		{"huge robots", Robots{Size: 600 << 10}, status(200, pages+2)},
		{"big robots", Robots{Size: 100 << 10}, status(200, pages+1)},
		{"redirected robots", Robots{Redirects: 5}, status(302, 5)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Hosts: 2, Pages: pages, PageSize: 2000, Links: 6, CrossHost: 0.3, Faults: On("0", tt.fault)}
			crawlBubble(t, cfg, 1, func(t *testing.T, s *Server, n *naive) {
				if tt.check != nil {
					tt.check(t, s.HostStats(0), n)
				}
				if b := s.HostStats(1); b.Status[200] != pages+1 {
					t.Errorf("the other host answered %v", b.Status)
				}
			})
		})
	}
}
