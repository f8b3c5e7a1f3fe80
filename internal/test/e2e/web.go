package e2e

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Serve starts a synthetic web that lasts as long as the test.
func Serve(t testing.TB, cfg testweb.Config) *testweb.Server {
	t.Helper()
	web, err := testweb.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := web.Close(); err != nil {
			t.Error(err)
		}
	})
	return web
}

// Pages is how many requests for pages the web has had.
func Pages(web *testweb.Server) int {
	n := 0
	for _, h := range web.Stats().Hosts {
		n += h.Pages
	}
	return n
}

// Repeats is how many pages the web has answered more than once.
func Repeats(web *testweb.Server) int {
	n := 0
	for _, h := range web.Stats().Hosts {
		n += h.Duplicates.Count
	}
	return n
}

// WellBehaved checks the web's statistics: whatever a crawl may be told, it never asks for what robots.txt
// forbids or for a page before robots.txt, never takes for a link what is none, and keeps its bounds.
func WellBehaved(t *testing.T, web *testweb.Server, perHost, overall int) {
	t.Helper()
	stats := web.Stats()
	if stats.MostInFlight > int64(overall) {
		t.Errorf("%d requests were in flight at once, want at most %d", stats.MostInFlight, overall)
	}
	if stats.UnknownHosts > 0 {
		t.Errorf("%d requests for hosts that are not there", stats.UnknownHosts)
	}
	for name, h := range stats.Hosts {
		if h.MostInFlight > perHost {
			t.Errorf("%s: %d requests were in flight at once, want at most %d", name, h.MostInFlight, perHost)
		}
		for what, m := range map[string]testweb.Samples{
			"forbidden by robots.txt": h.Disallowed, "asked for before robots.txt": h.BeforeRobots,
			"no link to follow": h.Baits, "never named": h.Unknown, "too early after a refusal": h.Early,
		} {
			if m.Count > 0 {
				t.Errorf("%s: %d requests were %s, such as %q", name, m.Count, what, m.URIs)
			}
		}
	}
}

// AskedOnce wants no page to have been asked for again once it was had, and robots.txt once.
func AskedOnce(t *testing.T, web *testweb.Server) {
	t.Helper()
	for name, h := range web.Stats().Hosts {
		if h.Duplicates.Count > 0 {
			t.Errorf("%s: %d pages were fetched again, such as %q", name, h.Duplicates.Count, h.Duplicates.URIs)
		}
		if h.Robots > 1 {
			t.Errorf("%s: robots.txt was fetched %d times", name, h.Robots)
		}
	}
}

// Expected is what a correct crawl reports, by URL.
func Expected(t *testing.T, web *testweb.Server, c testweb.Crawl) map[string]testweb.Expectation {
	t.Helper()
	list, err := web.Expected(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]testweb.Expectation{}
	for e := range list {
		all[e.URL] = e
	}
	return all
}

// FoundExactly holds a crawl's sitemap.jsonl against what the web says a correct crawl finds.
func FoundExactly(t *testing.T, web *testweb.Server, c testweb.Crawl, lines map[string]Line) {
	t.Helper()
	list, err := web.Expected(c)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]testweb.Result, len(lines))
	for url, l := range lines {
		got[url] = testweb.Result{Outcome: l.Outcome, Status: l.StatusCode}
	}
	if err := testweb.Compare(list, web.Traps(), got); err != nil {
		t.Error(err)
	}
	if err := indexedRightly(Expected(t, web, c), lines); err != nil {
		t.Error(err)
	}
}

// indexedRightly holds title, target and indexability against what the web knows of its pages.
func indexedRightly(want map[string]testweb.Expectation, lines map[string]Line) error {
	for url, e := range want {
		l, ok := lines[url]
		if !ok || l.Outcome != e.Outcomes[0] {
			continue // that is another fault, and named elsewhere
		}
		if l.Indexable != e.Indexable && l.Outcome == testweb.OutcomeOK {
			return fmt.Errorf("%s: indexable %v (%s), want %v", url, l.Indexable, l.IndexableReason, e.Indexable)
		}
		if e.Title != "" && l.Title != e.Title {
			return fmt.Errorf("%s: title %q, want %q", url, l.Title, e.Title)
		}
		if e.Location != "" && l.RedirectTo != e.Location {
			return fmt.Errorf("%s: redirects to %q, want %q", url, l.RedirectTo, e.Location)
		}
	}
	return nil
}

// Crawled is the data directory of a complete crawl of a few pages.
func Crawled(t *testing.T, flags ...string) string {
	t.Helper()
	web := Serve(t, testweb.Config{Pages: 5, Links: 2})
	dir := filepath.Join(t.TempDir(), "data")
	Succeeded(t, Run(t, append([]string{"crawl", "--start-url", web.StartURLs()[0], "--profile", "own-site",
		"--resolve", web.Resolve(), "--data-dir", dir}, flags...)...))
	return dir
}

// Clients are the connections of a server.
type Clients struct {
	mu      sync.Mutex
	changed *sync.Cond      // uses mu; nil before the first connection
	open    map[string]bool // guarded by mu; by the address of the client
	met     map[string]bool // guarded by mu; those that were open once
}

// Note is for http.Server.ConnState.
func (c *Clients) Note(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	switch at := conn.RemoteAddr().String(); s {
	case http.StateNew:
		c.open[at], c.met[at] = true, true
	case http.StateClosed:
		delete(c.open, at)
	}
	c.changed.Broadcast()
}

func (c *Clients) initLocked() {
	if c.changed == nil {
		c.changed, c.open, c.met = sync.NewCond(&c.mu), map[string]bool{}, map[string]bool{}
	}
}

// Gone waits until the server at an address has seen the end of all clients, which have been killed: what they sent
// last may come to the server after their end. Connections are accepted in order, so when the server has met a further
// client it has met all.
func (c *Clients) Gone(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	last := conn.LocalAddr().String()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	for !c.met[last] || len(c.open) > 0 {
		c.changed.Wait()
	}
}
