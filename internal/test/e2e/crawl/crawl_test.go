package crawl

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A crawl of many hosts that link to each other finds exactly what is there: no page missing, none extra, none fetched
// twice, nothing that robots.txt forbids.
func TestCrawlFindsExactlyTheExpectedSet(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Seed: 1, Hosts: 20, Pages: 200, CrossHost: 0.3,
		Sitemaps: &testweb.Sitemaps{Orphans: 2}, Faults: testweb.OnAll(
			testweb.Disallow{Count: 3}, testweb.StatusPages{Where: testweb.Where{Count: 2}},
			testweb.RedirectChain{Length: 3}, testweb.NoFollow{},
		)})
	dir := filepath.Join(t.TempDir(), "data")
	first := web.StartURLs()[0]
	got := e2e.Run(t, "crawl", "--start-url", first, "--scope", "any", "--profile", "own-site", "--resolve",
		web.Resolve(),
		"--data-dir", dir)
	if got.Code != 0 {
		t.Fatalf("exit status %d, want 0", got.Code)
	}
	lines := e2e.ReadLines(t, dir)
	e2e.FoundExactly(t, web, testweb.Crawl{Starts: []string{first}, Scope: "any"}, lines)
	e2e.AskedOnce(t, web)
	e2e.WellBehaved(t, web, 150, 512)

	rep := e2e.ReadReport(t, dir)
	if rep.Status != "complete" || !rep.Success || rep.URLs != len(lines) || len(rep.Errors) > 0 {
		t.Errorf("the report says %q, success %v, %d URLs, errors %q; sitemap.jsonl has %d lines", rep.Status,
			rep.Success, rep.URLs, rep.Errors, len(lines))
	}
}

// Whatever a server does, each URL is reported once and as what it is.
func TestCrawlCopesWithWhatServersDo(t *testing.T) {
	t.Parallel()
	one := testweb.Where{Count: 1}
	const hangs = "pages that hang"
	tests := []struct {
		name   string
		faults []testweb.Fault
	}{
		{"redirects", []testweb.Fault{testweb.RedirectChain{Length: 12}, testweb.RedirectLoop{Length: 3}}},
		{"contents", []testweb.Fault{testweb.WrongType{}, testweb.Files{}, testweb.Charsets{}, testweb.Encodings{},
			testweb.Malformed{}, testweb.LinkZoo{}}},
		{"index", []testweb.Fault{testweb.NoIndex{Count: 2}, testweb.Canonical{}, testweb.NoFollow{},
			testweb.Hreflang{}}},
		{"traps", []testweb.Fault{testweb.CalendarTrap{}, testweb.SessionTrap{}, testweb.PathTrap{},
			testweb.LongURL{}}},
		{"sizes", []testweb.Fault{testweb.Huge{Where: one}, testweb.GzipBomb{Where: one}}},
		{"broken", []testweb.Fault{testweb.Reset{Where: one}, testweb.Truncate{Where: one}}},
		{hangs, []testweb.Fault{testweb.Hang{Where: one}}},
		{"statuses", []testweb.Fault{testweb.StatusPages{Where: one}, testweb.StatusPages{Where: one, Status: 403},
			testweb.StatusPages{Where: one, Status: 500}}},
		{"connections", []testweb.Fault{testweb.StaleConns{}}},
		{"without keep-alive", []testweb.Fault{testweb.NoKeepAlive{}}},
	}
	var faults []testweb.HostFault
	for i, tt := range tests {
		faults = append(faults, testweb.On(testweb.HostSet(strconv.Itoa(i)), tt.faults...)...)
	}
	web := e2e.Serve(t, testweb.Config{Seed: 2, Hosts: len(tests), Pages: 30, Faults: faults})
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			first := web.StartURLs()[i]
			// Only a page that hangs may run into the time-out, however busy the machine is.
			c := testweb.Crawl{Starts: []string{first}, Timeout: time.Minute, MaxRetries: 1}
			if tt.name == hangs {
				c.Timeout, c.MaxRetries = 20*time.Second, 0
			}
			got := e2e.Run(t, "crawl", "--start-url", first, "--profile", "own-site", "--resolve", web.Resolve(),
				"--data-dir", dir,
				"--timeout", c.Timeout.String(), "--max-retries", strconv.Itoa(c.MaxRetries), "--max-host-backoff-secs",
				"1")
			if got.Code != 0 {
				t.Errorf("exit status %d, want 0", got.Code)
			}
			e2e.FoundExactly(t, web, c, e2e.ReadLines(t, dir))
			if h := web.HostStats(i); h.Baits.Count+h.Disallowed.Count+h.BeforeRobots.Count > 0 {
				t.Errorf("asked for baits %v, against robots.txt %v, before robots.txt %v", h.Baits, h.Disallowed,
					h.BeforeRobots)
			}
		})
	}
}
