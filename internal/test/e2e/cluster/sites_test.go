//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster/replay"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A chain of pages leads from host to host, each in another partition, while machines come and go. The crawl does not
// end before the chain does.
func TestClusterIsNotEarly(t *testing.T) {
	t.Parallel()
	const hosts = 12
	chain := size(40, 600)
	var end gate // the page that is answered last
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			return false
		}
		if !end.pass(r.Context(), n) {
			return true
		}
		if n < chain {
			e2e.WritePage(w, letters(n), fmt.Sprintf("http://c%d.test/%d", (n+1)%hosts, n+1))
		} else {
			e2e.WritePage(w, letters(n))
		}
		return true
	})
	f, p := newFleet(t, nil, append(patient(), "--start-url", "http://c0.test/0", "--scope", "any", "--profile",
		"own-site", "--resolve", "*:80:"+s.Listener.Addr().String())...)
	end.open(-1)
	f.start(3)
	f.shares(f.machines[0], 3)
	answered := func(n int) { // up to page n, while the next one waits
		end.open(n)
		next := fmt.Sprintf("c%d.test/%d", (n+1)%hosts, n+1)
		f.machines[0].Until(fmt.Sprint(n, " pages are answered"),
			func() bool { return slices.Contains(s.Requests("c"), next) })
	}
	answered(chain / 4)
	f.machines[1].Signal(syscall.SIGTERM)
	f.machines[1].Wait()
	f.join(1)
	p.SetDelay(150 * time.Millisecond) // hand-overs take longer than pages, more than a second each
	answered(chain/4 + 10)
	p.SetDelay(0)
	end.open(chain)
	f.ends(0, "complete")
	if got := f.export(); len(got.lines) != chain+1 {
		t.Errorf("%d URLs are found, want %d", len(got.lines), chain+1)
	}
}

// A gate lets pages of a site pass up to a number, and others wait.
type gate struct {
	mu      sync.Mutex
	last    int           // guarded by mu
	changed chan struct{} // guarded by mu; closed when last has changed
}

// open sets the number.
func (g *gate) open(last int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != nil {
		close(g.changed)
	}
	g.last, g.changed = last, make(chan struct{})
}

// pass waits until a page may pass. It reports false if its client went away.
func (g *gate) pass(ctx context.Context, page int) bool {
	for {
		g.mu.Lock()
		last, changed := g.last, g.changed
		g.mu.Unlock()
		if page <= last {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// letters is a text of its own for each number, without digits: pages whose texts differ in numbers only are a trap.
func letters(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
}

// What hosts of different partitions have to do with each other is as on one machine: a start URL that redirects to
// another domain, a robots.txt that does, a sitemap on another host for which robots.txt vouches, and redirects in a
// circle.
func TestClusterAcrossPartitions(t *testing.T) {
	t.Parallel()
	answer := func(open <-chan struct{}, w http.ResponseWriter, r *http.Request) bool {
		to := func(url string) bool {
			http.Redirect(w, r, url, http.StatusMovedPermanently)
			return true
		}
		switch at := r.Host + r.URL.Path; at {
		case "start.test/":
			select {
			case <-open:
			case <-r.Context().Done():
				return true
			}
			return to("http://home.test/")
		case "home.test/":
			e2e.WritePage(w, at, "/in", "/private", "/round", "http://elsewhere.test/", "http://other.test/page")
		case "home.test/in", "home.test/listed", "other.test/page", "home.test/private", "elsewhere.test/":
			e2e.WritePage(w, at)
		case "home.test/round":
			return to("http://other.test/round")
		case "other.test/round":
			return to("http://third.test/round")
		case "third.test/round":
			return to("http://home.test/round")
		case "home.test/robots.txt":
			return to("http://rules.test/robots.txt")
		case "rules.test/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\nSitemap: http://maps.test/map.xml\n")
		case "maps.test/map.xml":
			e2e.WriteURLs(w, "http://home.test/listed", "http://elsewhere.test/listed")
		default:
			return false
		}
		return true
	}
	flags := func(s *e2e.MapSite, scope string) []string {
		return append(patient(), "--start-url", "http://start.test/", "--scope", scope, "--profile", "own-site",
			"--resolve", "*:80:"+s.Listener.Addr().String())
	}
	site := func(t *testing.T) (*e2e.MapSite, chan struct{}) {
		open := make(chan struct{})
		return e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool { return answer(open, w, r) }), open
	}
	for _, scope := range []string{"domain", "any"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			s, open := site(t)
			close(open)
			dir := filepath.Join(t.TempDir(), "alone")
			if got := e2e.Run(t, append([]string{"crawl", "--data-dir", dir}, flags(s, scope)...)...); got.Code != 0 {
				t.Fatalf("exit status %d", got.Code)
			}
			want := resultIn(t, dir)
			if len(want.lines) < 5 {
				t.Fatalf("only %d URLs are found by one machine", len(want.lines))
			}
			s, open = site(t)
			f, _ := newFleet(t, nil, flags(s, scope)...)
			f.start(3)
			f.shares(f.machines[0], 3)
			close(open)
			sameCounts(t, f.ends(0, "complete"), e2e.ReadReport(t, dir))
			got := f.export()
			got.same(t, &want)
			if n := len(s.Requests("home.test/private")); n > 0 {
				t.Errorf("a page that the redirected robots.txt forbids was fetched %d times", n)
			}
		})
	}
}

// A Crawl-delay of five seconds and a Retry-After hold when the machine that knew of them is killed.
func TestClusterPaceAcrossTakeovers(t *testing.T) {
	t.Parallel()
	const crawlDelay, rest = 5 * time.Second, 20 * time.Second
	cfg := testweb.Config{Seed: 1, Hosts: 6, Pages: 2, Links: 6, CrossHost: 0.5, Grace: time.Second}
	cfg.Faults = append(testweb.On("0-2", testweb.CrawlDelay{Delay: crawlDelay}),
		testweb.On("3-5", testweb.RefuseFirst{Answer: testweb.Answer{RetryAfter: rest}})...)
	web := e2e.Serve(t, cfg)
	f, _ := newFleet(t, web, tableCrawl(web, 0)...)
	f.start(2)
	f.shares(f.machines[0], 2)
	f.machines[0].Until("hosts have refused pages", func() bool {
		n := 0
		for _, h := range web.Stats().Hosts {
			n += h.Refused
		}
		return n >= 3
	})
	f.until(f.machines[0], "the engine knows that they have", func() bool { return f.resting(3) })
	for n := range 2 {
		f.machines[n].Kill()
	}
	for n := range 2 {
		f.join(n)
	}
	f.ends(0, "complete")
	for name, h := range web.Stats().Hosts {
		if h.Early.Count > 0 {
			t.Errorf("%s was asked before its Retry-After was over: %q", name, h.Early.URIs)
		}
		if h.Refused == 0 && h.LeastPageGap != testweb.NoGap && h.LeastPageGap < crawlDelay/2 {
			t.Errorf("%s has a Crawl-delay of %v, and was asked after %v", name, crawlDelay, h.LeastPageGap)
		}
	}
}

// resting reports whether the engine knows of a Retry-After of so many hosts of the web.
func (f *fleet) resting(hosts int) bool {
	f.t.Helper()
	must := func(err error) {
		if f.t.Helper(); err != nil {
			f.t.Fatal(err)
		}
	}
	ctx := f.t.Context()
	e, snap := f.engine()
	defer e.Close()
	s, err := replay.Open(ctx, e, snap, filepath.Join(f.t.TempDir(), "state"))
	must(err)
	defer s.Close()
	n := 0
	for i := range f.web.StartURLs() {
		fact, known, err := s.Host(ctx, s.Hasher().HostID(f.web.HostName(i)))
		must(err)
		if known && !fact.Learned.AskedUntil.IsZero() {
			n++
		}
	}
	return n >= hosts
}

// A host that ends every connection is given up, and is not asked again and again because machines are killed.
func TestClusterBlockedHost(t *testing.T) {
	t.Parallel()
	const host, failures = 1, 5
	cfg := tableWeb(30, size(12, 30))
	cfg.Faults = append(cfg.Faults, testweb.On("1", testweb.Down{Generations: []int{0}, Refuse: true})...)
	flags := []string{"--max-host-failures", strconv.Itoa(failures), "--max-host-backoff-secs", "1", "--max-retries",
		"1"}
	other := e2e.Serve(t, cfg)
	if got := e2e.Run(t, append(append([]string{"crawl", "--data-dir", filepath.Join(t.TempDir(), "alone")},
		tableCrawl(other, 0)...), flags...)...); got.Code != 0 {
		t.Fatalf("exit status %d", got.Code)
	}
	alone := other.HostStats(host).Requests
	web := serveSlowly(t, cfg)
	f, _ := newFleet(t, web, append(tableCrawl(web, 500*time.Millisecond), flags...)...)
	f.begin(2)
	f.machines[0].Until("the host is asked", func() bool { return web.HostStats(host).Requests >= 3 })
	before, kills := web.HostStats(host).Requests, size(3, 20)
	for n := range kills {
		at := e2e.Pages(web)
		if got := f.machines[n%2].Kill(); got.Code != -1 {
			break
		}
		f.join(n % 2)
		f.machines[n%2].UntilEnded(func() bool { return e2e.Pages(web) >= at+30 })
	}
	f.finish()
	f.ends(0, "complete")
	// A machine that is killed may have asked once without recording it, and its successor asks for robots.txt again.
	if asked := web.HostStats(host).Requests; asked > alone+5*kills {
		t.Errorf("the host that ends every connection was asked %d times, and %d times by one machine alone", asked,
			alone)
	} else {
		t.Logf("asked %d times, %d of them before the first kill; %d times by one machine alone", asked, before, alone)
	}
}

// Commands that look at a crawl work with machines and without, and do not show the password.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Hosts: 3, Pages: 40, CrossHost: 0.5})
	address := newDatabase(t).address
	got := e2e.Invocation{Args: []string{"status", "--cluster", address}}.Run(t)
	if got.Code != 2 || !strings.Contains(got.Stderr, "the cluster has no crawl") {
		t.Errorf("status of an empty database: %d, %s", got.Code, got.Stderr)
	}
	f := fleetAt(t, address, web, tableCrawl(web, 0)...)
	waits := f.invoke("join", "--data-dir", f.dir(9)).Start(t)
	waits.Until("the machine waits for a crawl", func() bool {
		return strings.Contains(waits.Err.String(),
			"waiting for a crawl")
	})
	waits.Signal(syscall.SIGTERM)
	if got := waits.Wait(); got.Code != 130 || !strings.Contains(got.Stderr, "interrupted while it waited") {
		t.Errorf("a machine that is stopped while it waits for a crawl ends with %d: %s", got.Code, got.Stderr)
	}
	web.SetLatency(slowAnswer)
	f.begin(2)
	// One of the two may be silent at this moment.
	e2e.Refused(t, f.invoke("wipe", "--yes").Run(t), " on crawl "+clusterCrawl, "--force")
	text := f.invoke("status").Run(t)
	for _, word := range []string{clusterCrawl, "running", "MACHINE", "PARTITIONS"} {
		if text.Code != 0 || !strings.Contains(text.Stdout, word) {
			t.Errorf("status ends with %d and does not say %q: %s", text.Code, word, text.Stdout)
		}
	}
	done := f.status().Done
	if lines := f.export().lines; len(lines) < max(1, done) {
		t.Errorf("an export while machines work has %d lines, and %d URLs were done before", len(lines), done)
	}
	e2e.Refused(t, e2e.Invocation{Args: append([]string{"crawl", "--cluster", address, "--name", clusterCrawl,
		"--data-dir",
		f.dir(5)}, f.settings...)}.Run(t), clusterCrawl, "the cluster has a crawl")
	f.finish()
	f.ends(0, "complete")
	// the only crawl is meant
	only := e2e.Invocation{Args: []string{"status", "--json"}, Env: []string{"MAPWRIGHT_CLUSTER=" + address}}.Run(t)
	if only.Code != 0 || !strings.Contains(only.Stdout, `"finished"`) {
		t.Errorf("status of the only crawl: %d, %s%s", only.Code, only.Stdout, only.Stderr)
	}
	if lines := f.export().lines; len(lines) != 120 {
		t.Errorf("an export after the end has %d lines", len(lines))
	}
	no := f.invoke("wipe")
	no.Stdin = "n\n"
	if got := no.Run(t); got.Code != 1 || !strings.Contains(got.Stdout, "120 URLs found") {
		t.Errorf("wipe that is not confirmed ends with %d: %s", got.Code, got.Stdout)
	}
	if got := f.invoke("wipe", "--yes").Run(t); got.Code != 0 {
		t.Errorf("wipe ends with %d: %s", got.Code, got.Stderr)
	}
	if got := f.look(); got.Code != 2 {
		t.Errorf("status of a deleted crawl ends with %d", got.Code)
	}

	// A crawl that is deleted under a machine ends it.
	web.SetLatency(slowAnswer)
	again := fleetAt(t, address, web, f.settings...)
	again.create()
	again.shares(again.machines[0], 1)
	if got := again.invoke("wipe", "--yes", "--force").Run(t); got.Code != 0 {
		t.Errorf("wipe under a machine ends with %d: %s", got.Code, got.Stderr)
	}
	if got := again.machines[0].Wait(); got.Code != 1 || !strings.Contains(got.Stderr,
		"mapwright: the crawl was deleted from the cluster while this machine worked on it\n") {
		t.Errorf("the machine of a deleted crawl ends with %d: %s", got.Code, got.Stderr)
	}
	for n, shown := range []e2e.Result{text, only, f.machines[0].Wait(), f.machines[1].Wait()} {
		if strings.Contains(shown.Stdout+shown.Stderr, secret) {
			t.Errorf("output %d has the password", n)
		}
	}
}
