package crawl

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// refusingFetcher refuses the start of the first requests for every URL.
type refusingFetcher struct {
	fetch.Fetcher
	times int // for each URL

	mu      sync.Mutex
	refused map[string]int // guarded by mu; by URL
}

func (f *refusingFetcher) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	r.Wire = refusingWire{r.Wire, f, r.URL}
	return f.Fetcher.Do(ctx, r)
}

type refusingWire struct {
	fetch.Wire
	f   *refusingFetcher
	url weburl.URL
}

func (w refusingWire) Start() error {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.f.refused[w.url.String()] < w.f.times {
		w.f.refused[w.url.String()]++
		return errors.New("refused for the test")
	}
	return w.Wire.Start()
}

// A request whose start is refused is not sent, and its URL is asked for later as if nothing had been: robots.txt,
// sitemaps and pages are requested once, no page has used an attempt, and no host has failed or rested.
func TestRefusedStartsCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = 2 * time.Second
		web := newMemoryWeb(t, testweb.Config{
			Seed: 5, Hosts: 2, Pages: 20, PageSize: 500, Links: 5, CrossHost: 0.3, Log: true,
			Faults: testweb.OnAll(testweb.CrawlDelay{Delay: delay}),
		})
		s := polite(web.Server)
		dir := newDir(t)
		o := web.options(s, dir, web.StartURLs()...)
		refusing := &refusingFetcher{Fetcher: o.Fetcher, times: 1 + s.MaxRetries, refused: map[string]int{}}
		o.Fetcher = refusing
		rep, err := runAlone(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		lines := readLines(t, dir)
		foundExactly(t, web.Server, testweb.Crawl{}, lines)
		for url, l := range lines {
			if l.Attempts != 1 {
				t.Errorf("%s has %d attempts, want 1", url, l.Attempts)
			}
		}
		sends, last := map[string]int{}, map[string]time.Time{}
		for _, r := range web.Log() {
			sends[r.URL]++
			host := mustURL(t, r.URL).Host()
			if before := last[host]; !before.IsZero() && r.Start.Sub(before) < delay {
				t.Errorf("%s came %v after the request before it, want at least %v", r.URL, r.Start.Sub(before), delay)
			}
			last[host] = r.Start
		}
		for url, n := range sends {
			if n != 1 || refusing.refused[url] != refusing.times {
				t.Errorf("%s was sent %d times after %d refusals, want once after %d", url, n, refusing.refused[url],
					refusing.times)
			}
		}
		if len(sends) != len(refusing.refused) || len(sends) <= len(lines) {
			t.Errorf("%d URLs were sent and %d refused, want the same and more than the %d pages", len(sends),
				len(refusing.refused), len(lines))
		}
		if len(rep.BlockedHosts) > 0 || len(rep.Outcomes) != 1 {
			t.Errorf("blocked hosts %v, outcomes %v; want every page ok", rep.BlockedHosts, rep.Outcomes)
		}
		wellBehaved(t, web.Server)
	})
}
