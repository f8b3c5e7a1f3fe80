//go:build cluster

package cluster

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Tests of several machines: processes with one CPU each, a real server of the engine that the tests start, and the
// synthetic web. They run with the build tag cluster, in a short form or whole.
var fullTable = flag.Bool("cluster-full", false, "run the tests of several machines in their full length")

const clusterCrawl = "table"

// A fleet is several machines on one crawl.
type fleet struct {
	t        *testing.T
	address  string
	database database        // empty if the test has servers of its own
	web      *testweb.Server // nil if the test has another
	settings []string        // of the crawl, with its start URLs
	dirs     string
	env      []string       // of the processes, beyond what all have
	machines []*e2e.Process // by number; the last process of each
}

// newFleet makes a fleet without machines, on a database of its own.
func newFleet(t *testing.T, web *testweb.Server, settings ...string) (*fleet, lines) {
	t.Helper()
	d := newDatabase(t)
	f := fleetAt(t, d.address, web, settings...)
	f.database = d
	return f, d.lines
}

func fleetAt(t *testing.T, address string, web *testweb.Server, settings ...string) *fleet {
	return &fleet{t: t, address: address, web: web, settings: settings, dirs: t.TempDir()}
}

func (f *fleet) dir(n int) string { return filepath.Join(f.dirs, fmt.Sprint("machine", n)) }

// invoke is a command about the fleet's crawl.
func (f *fleet) invoke(command string, args ...string) e2e.Invocation {
	return e2e.Invocation{Args: append([]string{command, "--cluster", f.address, "--name", clusterCrawl}, args...),
		Env: append([]string{"GOMAXPROCS=1"}, f.env...)}
}

// create begins the crawl with the first machine.
func (f *fleet) create() {
	f.t.Helper()
	f.machines = append(f.machines, f.invoke("crawl", append([]string{"--data-dir", f.dir(0)},
		f.settings...)...).Start(f.t))
	f.until(f.machines[0], "the crawl is there", func() bool { return f.look().Code == 0 })
}

// join starts a machine, a new one or one that has ended.
func (f *fleet) join(n int) *e2e.Process {
	f.t.Helper()
	p := f.invoke("join", "--data-dir", f.dir(n)).Start(f.t)
	if n == len(f.machines) {
		f.machines = append(f.machines, p)
	} else {
		f.machines[n] = p
	}
	return p
}

// start begins the crawl with so many machines.
func (f *fleet) start(machines int) {
	f.t.Helper()
	f.create()
	for n := 1; n < machines; n++ {
		f.join(n)
	}
}

// begin begins the crawl with so many machines and waits until it is under way: they share the partitions, and the web
// was asked for as many pages as it has hosts. No page is answered before the partitions are shared, so that the crawl
// cannot end before.
func (f *fleet) begin(machines int) clusterStatus {
	f.t.Helper()
	f.web.Hold(0)
	f.start(machines)
	s := f.shares(f.machines[0], machines)
	f.web.Release()
	f.answered(len(f.web.StartURLs()))
	return s
}

// until waits until status shows something, and gives up when a machine ends first. It looks five times a second: each
// look is a process, which takes time from the machines.
func (f *fleet) until(p *e2e.Process, what string, so func() bool) {
	f.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	p.Until(what, func() bool {
		select {
		case <-look.C:
			return so()
		default:
			return false
		}
	})
}

// look runs status.
func (f *fleet) look() e2e.Result {
	f.t.Helper()
	status := f.invoke("status", "--json")
	status.Quiet = true // a test looks hundreds of times
	return status.Run(f.t)
}

// clusterStatus is what of status --json the tests look at.
type clusterStatus struct {
	State    string           `json:"state"`
	Reason   string           `json:"reason"`
	Found    int              `json:"found"`
	Done     int              `json:"done"`
	Counted  int              `json:"pages_counted"`
	Outcomes map[string]int   `json:"outcomes"`
	Unowned  int              `json:"partitions_without_machine"`
	MaxURLs  int              `json:"max_urls"`
	Run      int              `json:"run"`
	Machines []clusterMachine `json:"machines"`
	Memory   struct {
		Used  int `json:"used"`
		Crawl int `json:"crawl"`
	} `json:"server_memory"`
}

type clusterMachine struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Alive      bool   `json:"alive"`
	JoinedAt   string `json:"joined_at"`
	Partitions int    `json:"partitions"`
	Takeovers  int    `json:"takeovers"`
}

// sharing is how many machines are alive and have partitions.
func (s *clusterStatus) sharing() (n int) {
	for _, m := range s.Machines {
		if m.Alive && m.Partitions > 0 {
			n++
		}
	}
	return n
}

// status asks until the engine answers: a connection that is cut says nothing about the crawl.
func (f *fleet) status() clusterStatus {
	f.t.Helper()
	got := f.look()
	for deadline := time.Now().Add(e2e.Patience); got.Code != 0; got = f.look() {
		if !strings.Contains(got.Stderr, cluster.ErrAway.Error()) || time.Now().After(deadline) {
			f.t.Fatalf("status ends with %d: %s", got.Code, got.Stderr)
		}
	}
	var s clusterStatus
	if err := json.Unmarshal([]byte(got.Stdout), &s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// shares waits until the partitions are shared by so many machines.
func (f *fleet) shares(p *e2e.Process, machines int) clusterStatus {
	f.t.Helper()
	var s clusterStatus
	f.until(p, fmt.Sprintf("the partitions are shared by %d machines", machines), func() bool {
		s = f.status()
		return s.sharing() == machines && s.Unowned == 0
	})
	return s
}

// answered waits until the web has had so many requests for pages.
func (f *fleet) answered(n int) {
	f.t.Helper()
	f.machines[0].UntilEnded(func() bool { return e2e.Pages(f.web) >= n })
	if got := e2e.Pages(f.web); got < n {
		f.t.Fatalf("the web had %d requests for pages, want %d by then", got, n)
	}
}

// ends waits for the end of all machines, each with one of the exit statuses, and returns the report, which one of them
// has written.
func (f *fleet) ends(code int, status string) e2e.Report {
	f.t.Helper()
	var with []int
	for n, p := range f.machines {
		if got := p.Wait(); got.Code != code && got.Code != 0 {
			f.t.Errorf("machine %d ends with %d, want %d", n, got.Code, code)
		}
		if e2e.Exists(f.t, f.dir(n), "report.json") {
			with = append(with, n)
		}
	}
	if len(with) != 1 {
		f.t.Fatalf("machines %v have written a report, want one of them", with)
	}
	rep := e2e.ReadReport(f.t, f.dir(with[0]))
	if rep.Status != status {
		f.t.Errorf("the report says %q (%s), want %q", rep.Status, rep.Reason, status)
	}
	return rep
}

// export writes what the crawl has found.
func (f *fleet) export() clusterResult {
	f.t.Helper()
	out := f.t.TempDir()
	got := f.invoke("export", "--output", out).Run(f.t)
	if got.Code != 0 {
		f.t.Fatalf("export ends with %d: %s", got.Code, got.Stderr)
	}
	return resultIn(f.t, out)
}

// A clusterResult is what a crawl has found.
type clusterResult struct {
	lines map[string]e2e.Line
	order []string // of the URLs
}

func resultIn(t *testing.T, dir string) clusterResult {
	t.Helper()
	r := clusterResult{lines: e2e.ReadLines(t, dir)}
	file, err := os.Open(filepath.Join(dir, "sitemap.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var l struct{ URL string }
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		r.order = append(r.order, l.URL)
	}
	return r
}

// same holds one result against another: URLs, outcomes, facts and order.
func (r *clusterResult) same(t *testing.T, want *clusterResult) {
	t.Helper()
	e2e.SameStory(t, e2e.Story(r.lines), e2e.Story(want.lines))
	if !t.Failed() && !slices.Equal(r.order, want.order) {
		t.Error("the lines of sitemap.jsonl are in another order")
	}
}

// sameCounts holds the numbers of one report against those of another.
func sameCounts(t *testing.T, got, want e2e.Report) {
	t.Helper()
	text := func(r e2e.Report) string {
		return fmt.Sprint(r.URLs, r.Outcomes, r.StatusClasses, r.Indexable, r.SkippedLinks)
	}
	if text(got) != text(want) {
		t.Errorf("the report counts\n%s, want\n%s", text(got), text(want))
	}
	// which pages sitemaps list and others link to is known by several machines together
	linked := func(r e2e.Report) (text string) {
		for _, p := range r.Problems {
			if p.Code == "orphan" || p.Code == "not_in_sitemap" {
				text += fmt.Sprintln(p.Code, p.Result, p.Count)
			}
		}
		return text
	}
	if linked(got) != linked(want) || linked(want) == "" {
		t.Errorf("the report has\n%s, want\n%s", linked(got), linked(want))
	}
}

// tableWeb is the web of the table: many hosts, each with a little of everything that needs no patience.
func tableWeb(hosts, pages int, more ...testweb.Fault) testweb.Config {
	faults := append([]testweb.Fault{
		testweb.Slow{Delay: 5 * time.Millisecond, Jitter: 20 * time.Millisecond},
		testweb.Disallow{Count: 1}, testweb.StatusPages{Where: testweb.Where{Count: 1}},
		testweb.RedirectChain{Length: 2}, testweb.RedirectLoop{},
		testweb.NoIndex{},
	}, more...)
	return testweb.Config{Seed: 3, Hosts: hosts, Pages: pages, Links: 12, CrossHost: 0.3, PageSize: 2000,
		Sitemaps: &testweb.Sitemaps{Orphans: 1}, Faults: testweb.OnAll(faults...)}
}

// serveSlowly serves the web with pages that take slowAnswer, until the test has done to the crawl what it wants to do
// and calls finish. A host has at least twelve pages and is asked for one at a time, so the crawl lasts more than a
// minute until then.
func serveSlowly(t *testing.T, cfg testweb.Config) *testweb.Server {
	t.Helper()
	web := e2e.Serve(t, cfg)
	web.SetLatency(slowAnswer)
	return web
}

const (
	// slowAnswer is how long a web takes for a page until finish.
	slowAnswer = 5 * time.Second
	// fetchTimeout is that of the crawls of the table. A takeover waits for it. Headers may take three quarters of it,
	// which is much longer than slowAnswer, because both are of one busy machine.
	fetchTimeout = 16 * time.Second
)

// patient are settings by which a crawl goes on asking for a page that is not answered, as long as a test holds it.
func patient() []string {
	return []string{"--timeout", fetchTimeout.String(), "--max-retries", "250", "--max-host-failures", "255",
		"--failure-threshold", "0", "--max-host-backoff-secs", "1"}
}

// finish lets the web answer at once, so that the crawl ends soon.
func (f *fleet) finish() {
	f.t.Helper()
	f.t.Logf("the web was asked for %d pages by then", e2e.Pages(f.web))
	f.web.SetLatency(0)
}

// tableCrawl are the settings of a crawl of the table: one request at a time to a host, with a delay.
func tableCrawl(web *testweb.Server, delay time.Duration) []string {
	ms := fmt.Sprint(delay.Milliseconds())
	return append(patient(), "--start-url", web.StartURLs()[0], "--scope", "any", "--profile", "own-site",
		"--max-inflight-per-host", "1", "--min-delay-ms", ms, "--max-delay-ms", ms,
		"--resolve", web.Resolve())
}

// alone crawls a web of the same kind without a cluster.
func alone(t *testing.T, cfg testweb.Config, delay time.Duration, more ...string) (clusterResult, e2e.Report) {
	t.Helper()
	web := e2e.Serve(t, cfg)
	dir := filepath.Join(t.TempDir(), "alone")
	got := e2e.Run(t, append(append([]string{"crawl", "--data-dir", dir}, tableCrawl(web, delay)...), more...)...)
	if got.Code != 0 && got.Code != 3 {
		t.Fatalf("a crawl without a cluster ends with %d: %s", got.Code, got.Stderr)
	}
	return resultIn(t, dir), e2e.ReadReport(t, dir)
}

// oneAtATime wants no host to have had two requests at once.
func oneAtATime(t *testing.T, web *testweb.Server) {
	t.Helper()
	for name, h := range web.Stats().Hosts {
		if h.MostInFlight > 1 {
			t.Errorf("%s had %d requests at once", name, h.MostInFlight)
		}
	}
}

// size is a number of the short form or of the full one.
func size(short, full int) int {
	if *fullTable {
		return full
	}
	return short
}
