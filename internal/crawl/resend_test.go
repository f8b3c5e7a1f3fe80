package crawl

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A page that resets its connection, whether it is a kept one or not, is asked for as often as max-retries says and at
// the pace of its host.
func TestResettingPageIsAskedAtThePace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = 5 * time.Second
		web := newMemoryWeb(t, testweb.Config{Seed: 3, Pages: 6, PageSize: 500, Links: 3, Log: true,
			Faults: testweb.OnAll(testweb.Reset{Where: testweb.Where{Count: 2}}, testweb.CrawlDelay{Delay: delay})})
		s := polite(web.Server)
		s.SeedingStrategy = []string{"none"}
		_, lines := web.crawlAll(s, web.StartURLs()...)
		sends := map[string]int{}
		log := web.Log()
		for i, r := range log {
			sends[r.URL]++
			if i > 1 && r.Start.Sub(log[i-1].Start) < delay {
				t.Errorf("%s came %v after %s, want at least %v", r.URL, r.Start.Sub(log[i-1].Start), log[i-1].URL,
					delay)
			}
		}
		broken := 0
		for url, l := range lines {
			want := 1
			if l.Outcome == "read_error" {
				broken++
				want = 1 + s.MaxRetries
			}
			if sends[url] != want || l.Attempts != want {
				t.Errorf("%s (%s) was asked for %d times and has %d attempts, want %d", url, l.Outcome, sends[url],
					l.Attempts, want)
			}
		}
		if broken != 2 {
			t.Errorf("%d pages failed, want 2", broken)
		}
	})
}

// A host that closes kept connections now and then when a request arrives is crawled completely, and has not failed.
func TestStaleConnectionsAreNoFailures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Seed: 4, Pages: 60, PageSize: 500, Links: 6, Log: true,
			Faults: testweb.OnAll(testweb.StaleConns{})})
		rep, lines := web.crawlAll(polite(web.Server), web.StartURLs()...)
		foundExactly(t, web.Server, testweb.Crawl{}, lines)
		again := 0
		for url, l := range lines {
			if l.Attempts > 2 {
				t.Errorf("%s took %d attempts, want at most 2", url, l.Attempts)
			}
			again += l.Attempts - 1
		}
		if again == 0 || len(rep.BlockedHosts) > 0 || rep.Outcomes["ok"] != 60 {
			t.Errorf("%d attempts failed, want some; outcomes %v", again, rep.Outcomes)
		}
		if took := time.Duration(rep.CrawlSeconds * float64(time.Second)); took > time.Minute {
			t.Errorf("the crawl took %v of its clock, want no backoff", took)
		}
	})
}
