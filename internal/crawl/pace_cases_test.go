package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// polite are the default settings, but for the size of things.
func polite(web *testweb.Server) *config.Settings {
	s := config.Defaults(config.Polite)
	s.Resolve = resolveTo(web)
	s.MaxWorkers, s.BloomCapacity = 32, 100_000
	s.PerIP = false // all hosts of the web have one address
	return s
}

// A host that refuses what comes more than two at once or faster than two a second, which is slower than the profile's
// pace, is crawled to its end with the default settings: every page is found, and hardly anything is refused once the
// pace is learned.
func TestStrictHostIsCrawledToTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Seed: 7, Pages: 400, PageSize: 1000, Links: 6, Log: true,
			Faults: testweb.OnAll(testweb.OverConcurrency{Max: 2}, testweb.OverRate{PerSecond: 2, Burst: 3})})
		_, lines := web.crawlAll(polite(web.Server), web.StartURLs()...)
		foundExactly(t, web.Server, testweb.Crawl{}, lines)
		wellBehaved(t, web.Server)

		// A refusal teaches a delay, and the first probe of a shorter one that is refused makes it last.
		log, refused, learned := web.Log(), 0, 0
		for i, r := range log {
			if r.Status != http.StatusTooManyRequests {
				continue
			}
			if refused++; refused == 2 {
				learned = i
			}
		}
		after := refused - min(refused, 2)
		t.Logf("%d requests, %d refused, %d of them among the %d after the pace was learned", len(log), refused, after,
			len(log)-learned)
		if refused == 0 || after*100 >= len(log)-learned {
			t.Errorf("%d of %d requests were refused after the pace was learned, want some before and under 1 %% then",
				after, len(log)-learned)
		}
	})
}

// A host that answers 429 three times is asked again after 1, 2 and 4 seconds.
func TestRetriesAfterOneTwoAndFourSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, testweb.Config{Seed: 8, Pages: 1, PageSize: 500, Links: 1, Log: true,
			Faults: testweb.OnAll(testweb.RefuseFirst{Count: 3})})
		s := polite(web.Server)
		s.SeedingStrategy = []string{"none"}
		_, lines := web.crawlAll(s, web.StartURLs()...)
		if l := lines[web.StartURLs()[0]]; l.Outcome != testweb.OutcomeOK || l.Attempts != 4 {
			t.Errorf("%s after %d attempts, want ok after 4", l.Outcome, l.Attempts)
		}
		var gaps []time.Duration
		var last time.Time
		for _, r := range web.Log() {
			if r.URL == web.StartURLs()[0] {
				if !last.IsZero() {
					gaps = append(gaps, r.Start.Sub(last))
				}
				last = r.Start
			}
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("the attempts are %v apart, want %v", gaps, want)
		}
	})
}

// A host that copes, ten at a time and no delay: ten are kept busy.
func TestTenInFlightAreKeptBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const service, pages = 50 * time.Millisecond, 400
		web := newMemoryWeb(t, testweb.Config{Seed: 9, Pages: pages, PageSize: 500, Links: 12,
			Faults: testweb.OnAll(testweb.Slow{Delay: service})})
		s := polite(web.Server)
		s.MaxInflightPerHost, s.MinDelayMS, s.MaxDelayMS = 10, 0, 0
		web.crawlAll(s, web.StartURLs()...)
		h := web.HostStats(0)
		if h.MostInFlight != 10 {
			t.Errorf("%d were in flight at most, want 10", h.MostInFlight)
		}
		busy := float64(pages) * float64(service) / float64(h.Last.Sub(h.First)+service)
		t.Logf("%.2f busy on average", busy)
		if busy < 9 { // robots.txt, the sitemaps and the first page go out alone
			t.Errorf("%.2f were busy on average, want nearly 10", busy)
		}
	})
}

// crawlRate is how many pages a second a crawl of a one-host web makes in the second half of its requests.
func crawlRate(t *testing.T, cfg testweb.Config, settings func(*testweb.Server) *config.Settings) float64 {
	t.Helper()
	web := newMemoryWeb(t, cfg)
	web.crawlAll(settings(web.Server), web.StartURLs()...)
	log := web.Log()
	half := log[len(log)/2:]
	return float64(len(half)) / half[len(half)-1].Start.Sub(half[0].Start).Seconds()
}

// On a host that copes with everything, adapting comes near what the best fixed number in flight makes, which is the
// largest one here.
func TestAdaptingIsNearlyAsFastAsTheBestFixedSetting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const most = 32
		cfg := testweb.Config{Seed: 10, Pages: 1200, PageSize: 800, Links: 12, Log: true,
			Faults: testweb.OnAll(testweb.Slow{Delay: 50 * time.Millisecond})}
		fixed := crawlRate(t, cfg, func(web *testweb.Server) *config.Settings {
			s := polite(web)
			s.MaxWorkers, s.MaxInflightPerHost, s.MinDelayMS, s.MaxDelayMS = 2*most, most, 0, 0
			return s
		})
		adaptive := crawlRate(t, cfg, func(web *testweb.Server) *config.Settings {
			s := quick(web)
			s.MaxWorkers, s.MaxInflightPerHost = 2*most, most
			return s
		})
		t.Logf("adaptive %.0f pages/s, fixed %.0f pages/s: %.2f", adaptive, fixed, adaptive/fixed)
		if adaptive < 0.8*fixed {
			t.Errorf("adaptive makes %.0f pages/s, and a fixed number in flight %.0f", adaptive, fixed)
		}
	})
}

// On a host with a limit, adapting settles below it.
func TestAdaptingSettlesBelowALimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const service = 20 * time.Millisecond
		web := newMemoryWeb(t, testweb.Config{Seed: 11, Pages: 1100, PageSize: 800, Links: 12, Log: true,
			Faults: testweb.OnAll(testweb.OverConcurrency{Max: 8}, testweb.Slow{Delay: service})})
		_, lines := web.crawlAll(quick(web.Server), web.StartURLs()...)
		foundExactly(t, web.Server, testweb.Crawl{}, lines)
		log := web.Log()
		settled, refused := log[len(log)/3:], 0
		for _, r := range settled {
			if r.Status == 429 {
				refused++
			}
		}
		took := settled[len(settled)-1].Start.Sub(settled[0].Start)
		inflight := float64(len(settled)) * service.Seconds() / took.Seconds()
		t.Logf("%d of %d refused after settling, %.1f in flight on average", refused, len(settled), inflight)
		if refused*50 > len(settled) {
			t.Errorf("%d of %d requests were refused after settling, want under 2 %%", refused, len(settled))
		}
	})
}

// When a host's answers take much longer than they did, fewer are asked for at once.
func TestAdaptingBacksOffWhenLatencyClimbs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pages, turn, most = 1900, 1200, 32
		web := &climbingHost{pages: pages, turn: turn}
		s := small()
		s.MaxWorkers, s.MaxInflightPerHost, s.SeedingStrategy = 2*most, most, []string{"none"}
		o := Options{Settings: s, Fetcher: web, NoControl: true, Starts: starts(t, "http://a.test/0"), Dir: newDir(t),
			Version: "test", Log: testLog(t, slog.LevelWarn)}
		if _, err := runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		mean := func(from, to int) float64 {
			sum := 0
			for _, n := range web.samples[from:to] {
				sum += n
			}
			return float64(sum) / float64(to-from)
		}
		if len(web.samples) < pages {
			t.Fatalf("%d requests, want at least %d", len(web.samples), pages)
		}
		before, after := mean(turn-400, turn), mean(turn+400, pages-100)
		t.Logf("%.0f in flight before, %.0f after", before, after)
		if before < 10 || after > 0.9*before {
			t.Errorf("%.0f in flight while answers took 40 ms, %.0f when they took 120 ms", before, after)
		}
	})
}

// climbingHost is a host whose answers take three times as long after a number of requests. Each page names four
// others.
type climbingHost struct {
	pages, turn int

	mu       sync.Mutex
	inflight int   // guarded by mu
	samples  []int // guarded by mu; in flight at each request
}

func (h *climbingHost) Do(_ context.Context, r fetch.Request) (*fetch.Response, error) {
	if err := r.Wire.Start(); err != nil {
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "connect", Err: err}
	}
	h.mu.Lock()
	h.inflight++
	h.samples = append(h.samples, h.inflight)
	latency := 40 * time.Millisecond
	if len(h.samples) > h.turn {
		latency = 120 * time.Millisecond
	}
	h.mu.Unlock()
	time.Sleep(latency)
	h.mu.Lock()
	h.inflight--
	h.mu.Unlock()
	res := &fetch.Response{Status: http.StatusOK, Proto: "HTTP/1.1", ContentLength: -1, Charset: "utf-8"}
	res.Timings = fetch.Timings{Wait: latency, Total: latency}
	n, err := strconv.Atoi(r.URL.Path()[1:])
	if err != nil { // robots.txt
		res.Status = http.StatusNotFound
		return res, nil
	}
	var body strings.Builder
	for next := 4*n + 1; next <= min(4*n+4, h.pages); next++ {
		fmt.Fprintf(&body, `<a href="/%d">%s</a>`, next, someWords(next))
	}
	res.ContentType, res.Body = "text/html", []byte(body.String())
	return res, nil
}
