package crawl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/replay"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/memory"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// A testCluster is a crawl of several machines of one process, over an engine in memory, in a bubble.
type testCluster struct {
	*testing.T
	web      *memoryWeb
	fetcher  fetch.Fetcher // instead of a client of the web, if it is not nil
	engine   *memory.Engine
	settings *config.Settings
	crawl    cluster.Crawl
	plan     *datadir.Plan
	machines byte
	agent    string // user agent of all machines; empty gives each its own
}

func newTestCluster(t *testing.T, web *memoryWeb, s *config.Settings, urls ...string) *testCluster {
	t.Helper()
	c := &testCluster{T: t, web: web, engine: memory.New(), settings: s}
	c.crawl = cluster.Crawl{ID: cluster.NewID(), Name: "test", Seed: 7, Identity: weburl.Identity(),
		MaxURLs: uint64(s.PageCap())}
	c.plan = datadir.NewPlan(s, starts(t, urls...))
	if err := c.engine.Create(t.Context(), c.crawl, session.TokenStart); err != nil {
		t.Fatal(err)
	}
	return c
}

// look is the crawl as it is now.
func (c *testCluster) look() *cluster.Snapshot {
	c.Helper()
	snap, err := c.engine.Look(c.Context(), c.crawl.ID, cluster.Known{})
	if err != nil {
		c.Fatal(err)
	}
	return snap
}

// A testMachine is a data directory that joins as one session after another.
type testMachine struct {
	*testCluster
	id     cluster.MachineID
	dir    datadir.Dir
	engine cluster.Engine // of the cluster, unless the test cuts the machine off
	log    *slog.Logger
	resume *session.Resume

	warnings []string // of its next session, before that begins
}

// machine makes one whose identity is its number: what a machine owns follows from it, and with random ones, one of
// three would sometimes own no host of a small web.
func (c *testCluster) machine() *testMachine {
	c.machines++
	return &testMachine{testCluster: c, id: cluster.MachineID{c.machines}, dir: newDir(c.T), engine: c.engine,
		log: testLog(c.T, slog.LevelInfo)}
}

// once runs one session.
func (m *testMachine) once(ctx context.Context, stop <-chan struct{}) (*report.Report, error) {
	began := time.Now()
	joined, err := session.Join(ctx, session.Options{
		Engine: m.engine, Crawl: m.crawl.ID, Machine: m.id, Log: m.log, Resume: m.resume,
		Clock: func() time.Duration { return time.Since(began) },
	})
	if err != nil {
		return nil, err
	}
	defer joined.Close()
	s := *m.settings
	s.UserAgent = cmp.Or(m.agent, "machine-"+m.id.String())
	o := Options{Settings: &s, Fetcher: m.fetcher, NoControl: true, Dir: m.dir, Version: "test"}
	if m.fetcher == nil {
		o = m.web.options(&s, m.dir)
	}
	o.Starts, o.Plan, o.Cluster, o.Log, o.Warnings = nil, m.plan, joined, m.log, m.warnings
	return runUntil(ctx, o, stop)
}

// run joins until the crawl has ended.
func (m *testMachine) run(ctx context.Context) (*report.Report, error) {
	for {
		rep, err := m.once(ctx, nil)
		if errors.Is(err, cluster.ErrFenced) || errors.Is(err, cluster.ErrRolledBack) {
			m.log.Info("the session is over", "error", err)
			continue
		}
		return rep, err
	}
}

// rows are the lines of sitemap.jsonl in their order, without what may differ between runs: times, attempts, and what
// follows from the order in which pages were read.
func rows(t *testing.T, dir datadir.Dir) []string {
	t.Helper()
	text, err := os.ReadFile(dir.JSONL())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var row map[string]any
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(row["url"], " ", row["outcome"], " ", row["status_code"], " ", row["title"], " ",
			row["redirect_to"]))
	}
	return list
}

func compareRows(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: row %d is\n%s, want\n%s", what, i, got[i], want[i])
			return
		}
	}
}

// clusterWeb has hosts with sitemaps that link to each other, so that machines hand links over.
func clusterWeb() testweb.Config {
	return testweb.Config{
		Hosts: 12, Pages: 25, Links: 8, CrossHost: 0.3, PageSize: 1024, Sitemaps: &testweb.Sitemaps{Orphans: 2},
		Log:    true,
		Faults: testweb.On("0-11", testweb.Slow{Delay: 500 * time.Millisecond, Jitter: 1500 * time.Millisecond}),
	}
}

// clusterSettings are those of a crawl that takes a few minutes of virtual time.
func clusterSettings(web *testweb.Server) *config.Settings {
	s := quick(web)
	s.MaxInflightPerHost, s.Timeout = 2, 10*time.Second
	return s
}

// alone is what a crawl of one machine without a cluster writes.
func (w *memoryWeb) alone(s *config.Settings) []string {
	w.t.Helper()
	web := newMemoryWeb(w.t, w.cfg)
	dir := newDir(w.t)
	if _, err := runAlone(w.t.Context(), web.options(s, dir, web.StartURLs()...)); err != nil {
		w.t.Fatal(err)
	}
	return rows(w.t, dir)
}

// One machine over an engine finds what it finds without.
func TestClusterOfOneMachine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		want := web.alone(s)
		m := newTestCluster(t, web, s, web.StartURLs()...).machine()
		rep, err := m.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rep.Status != page.Complete || rep.URLs != int64(len(want)) {
			t.Errorf("the report has status %s and %d URLs, want %d", rep.Status, rep.URLs, len(want))
		}
		compareRows(t, "one machine", rows(t, m.dir), want)
	})
}

// Three machines find what one finds, exactly one of them writes the report, and the others leave.
func TestClusterOfThreeMachines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		want := web.alone(s)
		c := newTestCluster(t, web, s, web.StartURLs()...)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []datadir.Dir
		for range 3 {
			m := c.machine()
			wg.Go(func() {
				rep, err := m.run(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if left := (*LeftError)(nil); errors.As(err, &left) && left.Finished ||
					errors.Is(err, session.ErrNotRunning) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				winners = append(winners, m.dir)
				if rep.Status != page.Complete {
					t.Errorf("the report has status %s", rep.Status)
				}
				wantMachines(t, rep, 3)
			})
		}
		wg.Wait()
		if len(winners) != 1 {
			t.Fatalf("%d machines have written a report", len(winners))
		}
		compareRows(t, "three machines", rows(t, winners[0]), want)
		if n := len(web.agents("")); n != 3 {
			t.Errorf("%d machines have made requests", n)
		}
		if twice := web.repeated(); len(twice) > 0 {
			t.Errorf("%d URLs were asked for twice, such as %s", len(twice), twice[0])
		}
	})
}

// wantMachines wants the report of a crawl in which no machine was lost to know all machines, and what each has
// fetched.
func wantMachines(t *testing.T, rep *report.Report, n int) {
	t.Helper()
	if rep.Cluster == nil || len(rep.Cluster.Machines) != n || rep.Cluster.Takeovers != 0 || rep.Cluster.Fenced != 0 {
		t.Fatalf("the report says of the machines: %+v", rep.Cluster)
	}
	pages := int64(0)
	for _, m := range rep.Cluster.Machines {
		if pages += int64(m.Pages); m.Pages == 0 || m.Batches == 0 || m.Sessions != 1 || m.Lost {
			t.Errorf("the report says of a machine: %+v", m)
		}
	}
	if pages != rep.Pages || rep.Pages == 0 {
		t.Errorf("the machines fetched %d pages, and the report says %d", pages, rep.Pages)
	}
}

// agents is how many requests each machine has made for a URL, or for all.
func (w *memoryWeb) agents(url string) map[string]int {
	n := map[string]int{}
	for _, r := range w.Log() {
		if url == "" || r.URL == url {
			n[r.Agent]++
		}
	}
	return n
}

// repeated are the URLs that were asked for more than once.
func (w *memoryWeb) repeated() []string {
	times := map[string]int{}
	var list []string
	for _, r := range w.Log() {
		if times[r.URL]++; times[r.URL] == 2 {
			list = append(list, r.URL)
		}
	}
	return list
}

// A cut is an engine whose calls fail when it is closed: the machine is cut off for ever.
type cut struct {
	cluster.Engine
	ctx context.Context
}

func (e cut) gone(ctx context.Context) error {
	if e.ctx.Err() != nil {
		<-ctx.Done()
		return cluster.ErrAway
	}
	return nil
}

func (e cut) Beat(ctx context.Context, s cluster.Session, k cluster.Known) (*cluster.Snapshot, error) {
	if err := e.gone(ctx); err != nil {
		return nil, err
	}
	return e.Engine.Beat(ctx, s, k)
}

func (e cut) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	if err := e.gone(ctx); err != nil {
		return cluster.ErrUnknown
	}
	return e.Engine.Commit(ctx, s, b)
}

func (e cut) Leave(ctx context.Context, s cluster.Session) error {
	if err := e.gone(ctx); err != nil {
		return err
	}
	return e.Engine.Leave(ctx, s)
}

// Machines are killed again and again, some of them leave in good order, and the engine loses answers: every URL is
// recorded once, as without a cluster.
func TestClusterUnderKills(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { clusterUnderKills(t, seed) })
		})
	}
}

func clusterUnderKills(t *testing.T, seed uint64) {
	web := newMemoryWeb(t, clusterWeb())
	s := clusterSettings(web.Server)
	want := web.alone(s)
	c := newTestCluster(t, web, s, web.StartURLs()...)
	faults := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	c.engine.Fault = func(string) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if faults.IntN(20) == 0 {
			return memory.Fault(1 + faults.IntN(3))
		}
		return memory.None
	}
	won := make(chan datadir.Dir, 3)
	sessions, began := 0, time.Now()
	var wg sync.WaitGroup
	for i := range 3 {
		rng := rand.New(rand.NewPCG(seed, uint64(10+i)))
		m := c.machine()
		wg.Go(func() {
			for range 200 {
				rep, err := m.disturbed(t.Context(), rng)
				mu.Lock()
				sessions++
				mu.Unlock()
				switch left := (*LeftError)(nil); {
				case err == nil && rep != nil:
					won <- m.dir
					return
				case errors.As(err, &left) && left.Finished, errors.Is(err, session.ErrNotRunning):
					return
				}
				// A killed machine comes back with an empty directory or with what it had.
				if rng.IntN(2) == 0 {
					m.dir = datadir.Dir(filepath.Join(t.TempDir(), "again"))
				}
			}
			t.Error("the crawl does not end")
		})
	}
	wg.Wait()
	t.Logf("%d sessions, %d URLs asked for more than once, %v of virtual time", sessions, len(web.repeated()),
		time.Since(began).Round(time.Second))
	c.engine.Fault = nil
	compareRows(t, "the log", c.export(), want)
	// The machine that has decided the end may have been killed before it had written the report.
	if len(won) > 1 {
		t.Fatalf("%d machines have written a report", len(won))
	}
	if len(won) == 1 {
		compareRows(t, "the report", rows(t, <-won), want)
	}
}

// export is what the log has, whether or not a machine has written a report.
func (c *testCluster) export() []string {
	c.Helper()
	dir := newDir(c.T)
	c.exportTo(dir)
	return rows(c.T, dir)
}

func (c *testCluster) exportTo(dir datadir.Dir) {
	c.Helper()
	s, err := replay.Open(c.Context(), c.engine, c.look(), dir.State())
	if err != nil {
		c.Fatal(err)
	}
	defer s.Close()
	if _, err := report.Export(c.Context(), s, c.settings.XMLTypes,
		report.ExportOptions(c.settings, starts(c.T, c.web.StartURLs()...), dir)); err != nil {
		c.Fatal(err)
	}
}

// disturbed runs a session that is cut off, stopped or left alone after a while.
func (m *testMachine) disturbed(ctx context.Context, rng *rand.Rand) (*report.Report, error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	after := time.Duration(5+rng.IntN(60)) * time.Second
	off, cutOff := context.WithCancel(context.Background())
	defer cutOff()
	again := *m
	again.engine = cut{m.testCluster.engine, off}
	stop := make(chan struct{})
	var disturb func()
	switch rng.IntN(4) {
	case 0:
		disturb = func() { close(stop) }
	case 1: // killed
		disturb = func() { cutOff(); kill() }
	case 2: // cut off from the engine, and comes back after the others have taken over
		disturb = func() {
			cutOff()
			time.AfterFunc(30*time.Second, kill)
		}
	default:
		disturb = func() {}
	}
	timer := time.AfterFunc(after, disturb)
	defer timer.Stop()
	return again.once(ctx, stop)
}

// A page limit is exact: machines together record as many pages as one, also if they are killed.
func TestClusterPageLimit(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := newMemoryWeb(t, clusterWeb())
				s := clusterSettings(web.Server)
				s.MaxURLs = 100
				c := newTestCluster(t, web, s, web.StartURLs()...)
				var wg sync.WaitGroup
				reports := make(chan *report.Report, 3)
				for i := range 3 {
					rng := rand.New(rand.NewPCG(seed, uint64(20+i)))
					m := c.machine()
					wg.Go(func() {
						for range 100 {
							rep, err := m.disturbed(t.Context(), rng)
							switch left := (*LeftError)(nil); {
							case err == nil && rep != nil:
								reports <- rep
								return
							case errors.As(err, &left) && left.Finished, errors.Is(err, session.ErrNotRunning):
								return
							}
						}
						t.Error("the crawl does not end")
					})
				}
				wg.Wait()
				snap, err := c.engine.Look(t.Context(), c.crawl.ID, cluster.Known{})
				if err != nil {
					t.Fatal(err)
				}
				counters, err := snap.Counters()
				if err != nil || counters.Counted != 100 {
					t.Errorf("%d pages were counted, %v", counters.Counted, err)
				}
				if len(reports) > 0 {
					if rep := <-reports; rep.Status != page.Partial || rep.Pages != 100 {
						t.Errorf("the report has status %s and %d pages", rep.Status, rep.Pages)
					}
				}
			})
		})
	}
}

// A limit of pages per host makes the report partial, whichever machines have met it.
func TestClusterPagesPerHost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		s.MaxURLsPerHost = 5
		c := newTestCluster(t, web, s, web.StartURLs()...)
		first := c.machine()
		met := &countHosts{Handler: first.log.Handler(), message: "a host reached max-urls-per-host", left: 12,
			none: make(chan struct{})}
		first.log = slog.New(met)
		if _, err := first.once(t.Context(), met.none); !errors.As(err, new(*LeftError)) {
			t.Fatal(err)
		}
		rep, err := c.machine().run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rep.Status != page.Partial || rep.Pages != 60 {
			t.Errorf("status %s (%s), %d pages", rep.Status, rep.Reason, rep.Pages)
		}
		if got := c.look().Crawl; got.State != cluster.Finished || got.Reason != session.ReasonPerHost {
			t.Errorf("the engine says %s (%s)", got.State, got.Reason)
		}
	})
}

// countHosts closes none when a message was logged of so many hosts as left.
type countHosts struct {
	slog.Handler
	message string
	mu      sync.Mutex
	left    int // guarded by mu
	none    chan struct{}
}

func (h *countHosts) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Message == h.message {
		if h.left--; h.left == 0 {
			close(h.none)
		}
	}
	return h.Handler.Handle(ctx, r)
}

// With a depth limit, each URL has the depth that it has on one machine, also if a machine leaves that knew of lesser
// depths.
func TestClusterDepth(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cfg := clusterWeb()
		web := newMemoryWeb(t, cfg)
		s := clusterSettings(web.Server)
		s.MaxDepth = 3
		dir := newDir(t)
		alone := newMemoryWeb(t, cfg)
		if _, err := runAlone(t.Context(), alone.options(s, dir, web.StartURLs()[0])); err != nil {
			t.Fatal(err)
		}
		want := readLines(t, dir)
		c := newTestCluster(t, web, s, web.StartURLs()[0])
		// The first machine leaves when it knows by the sitemap that links of the start page are less deep.
		leave := make(chan struct{})
		time.AfterFunc(8*time.Second, func() { close(leave) })
		if _, err := c.machine().once(t.Context(), leave); !errors.As(err, new(*LeftError)) {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		won := make(chan datadir.Dir, 3)
		for range 3 {
			m := c.machine()
			wg.Go(func() {
				if rep, err := m.run(t.Context()); err == nil && rep != nil {
					won <- m.dir
				}
			})
		}
		wg.Wait()
		got := readLines(t, <-won)
		if len(got) != len(want) {
			t.Errorf("%d URLs, want %d", len(got), len(want))
		}
		for u, l := range want {
			if got[u].Depth != l.Depth || got[u].Outcome != l.Outcome {
				t.Errorf("%s has depth %d (%s), want %d (%s)", u, got[u].Depth, got[u].Outcome, l.Depth, l.Outcome)
			}
		}
	})
}

// Settings that change while machines work, and are narrower, hold for what is queued.
func TestClusterNarrowerScope(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		c := newTestCluster(t, web, s, web.StartURLs()...)
		leave := make(chan struct{})
		time.AfterFunc(8*time.Second, func() { close(leave) })
		if _, err := c.machine().once(t.Context(), leave); !errors.As(err, new(*LeftError)) {
			t.Fatal(err)
		}
		s.Exclude = []string{"."}
		m := c.machine()
		rep, err := m.run(t.Context())
		if err != nil || rep.Status != page.Complete || rep.Outcomes["excluded"] == 0 ||
			rep.Outcomes["pending"] != 0 || rep.Cluster.Run != 1 {
			t.Fatalf("%+v, %v", rep, err)
		}
		for u, l := range readLines(t, m.dir) {
			if l.Outcome == page.Excluded.String() && (web.agents(u)["machine-"+m.id.String()] > 0 ||
				!strings.Contains(l.Error, "--exclude")) {
				t.Errorf("%s: %q", u, l.Error)
			}
		}
	})
}

// The robots.txt of an origin that redirects to a host of another machine is asked for there, at that host's pace, and
// obeyed.
func TestClusterRobotsOfAnotherMachine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const chain, origins = 15, 12
		w := &timedWeb{answers: map[string]string{"rules.test/shared.txt": forbidsNo}}
		last := ""
		for i := range origins {
			host := fmt.Sprintf("a%d.test", i)
			w.answers[host+"/robots.txt"] = "> http://rules.test/shared.txt"
			last += fmt.Sprintf(`<a href="http://%s/no">n</a><a href="http://%s/yes">y</a>`, host, host)
		}
		for i := range chain { // meanwhile the machines share the partitions
			w.answers[fmt.Sprintf("start.test/%d", i)] = fmt.Sprintf(`<a href="/%d">next</a>`, i+1)
		}
		w.answers[fmt.Sprintf("start.test/%d", chain)] = last
		s := w.options(t).Settings
		s.Scope = "any"
		c := newTestCluster(t, nil, s, "http://start.test/0")
		c.fetcher = w
		won := make(chan datadir.Dir, 3)
		var wg sync.WaitGroup
		for range 3 {
			m := c.machine()
			wg.Go(func() {
				rep, err := m.run(t.Context())
				if left := (*LeftError)(nil); err != nil && !errors.As(err, &left) {
					t.Error(err)
				}
				if rep != nil {
					won <- m.dir
				}
			})
		}
		wg.Wait()
		if len(won) == 0 {
			t.Fatal("no machine has written a report")
		}
		lines := readLines(t, <-won)
		for i := range origins {
			wantOutcomes(t, lines, map[string]string{fmt.Sprintf("http://a%d.test/no", i): "blocked_by_robots",
				fmt.Sprintf("http://a%d.test/yes", i): "ok"})
		}
	})
}

// A crawl that reached its page limit goes on in another run with a higher one, and is complete then.
func TestClusterResume(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		want := web.alone(s)
		s.MaxURLs = 50
		created := time.Now()
		m := newTestCluster(t, web, s, web.StartURLs()...).machine()
		m.warnings = []string{"of the first run", "of both runs"}
		rep, err := m.run(t.Context())
		if err != nil || rep.Status != page.Partial || rep.Pages != 50 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if _, err := m.once(t.Context(), nil); !errors.Is(err, session.ErrNotRunning) {
			t.Errorf("joined a crawl that has ended: %v", err)
		}
		s.MaxURLs = 0
		m.resume, m.warnings = &session.Resume{}, []string{"of the second run", "of both runs"}
		time.Sleep(time.Minute)
		began := time.Now()
		if rep, err = m.run(t.Context()); err != nil || rep.Status != page.Complete {
			t.Fatalf("%+v, %v", rep, err)
		}
		counters, err := m.look().Counters()
		if got, want := rep.Pages, int64(counters.Counted)-50; err != nil || got != want {
			t.Errorf("the second run has %d pages, want %d; %v", got, want, err)
		}
		if !rep.StartedAt.Equal(created) || rep.CrawlSeconds > time.Since(began).Seconds() ||
			rep.Elapsed <= rep.CrawlSeconds || rep.Cluster.Run != 2 || rep.Runs != 2 {
			t.Errorf("%d runs since %v, the second took %.1f s of %.1f s, run %d", rep.Runs, rep.StartedAt,
				rep.CrawlSeconds, rep.Elapsed, rep.Cluster.Run)
		}
		slices.Sort(rep.Warnings)
		if want := []string{"of both runs", "of the first run", "of the second run"}; !slices.Equal(rep.Warnings,
			want) {
			t.Errorf("warnings %q, want %q", rep.Warnings, want)
		}
		compareRows(t, "after the resume", rows(t, m.dir), want)
		snap, err := m.testCluster.engine.Look(t.Context(), m.crawl.ID, cluster.Known{})
		if err != nil || snap.Crawl.Run != 2 || snap.Crawl.State != cluster.Finished || snap.Crawl.MaxURLs != 0 {
			t.Errorf("%+v, %v", snap.Crawl, err)
		}
	})
}

// panicOnce panics when it is asked for a URL for the first time.
type panicOnce struct {
	fetch.Fetcher
	url  string
	once sync.Once
}

func (f *panicOnce) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if r.URL.String() == f.url {
		f.once.Do(func() { panic("as a fault of the crawler would") })
	}
	return f.Fetcher.Do(ctx, r)
}

// A page that was given up because the crawler failed at it is tried again by another run that is asked to.
func TestClusterRetryCrashed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{"a.test/": `<a href="/bad">x</a><a href="http://b.test/">y</a>`,
			"a.test/bad": `<a href="/behind">z</a>`}}
		s := w.options(t).Settings
		s.Scope = "any"
		c := newTestCluster(t, nil, s, "http://a.test/")
		c.fetcher = &panicOnce{Fetcher: w, url: "http://a.test/bad"}
		m := c.machine()
		m.log = slog.New(slog.DiscardHandler)
		run := func(want map[string]string) {
			t.Helper()
			if rep, err := m.run(t.Context()); err != nil || rep.Status != page.Complete {
				t.Fatalf("%+v, %v", rep, err)
			}
			wantOutcomes(t, readLines(t, m.dir), want)
		}
		run(map[string]string{"http://a.test/bad": "crashed", "http://b.test/": "ok"})
		m.resume = &session.Resume{}
		run(map[string]string{"http://a.test/bad": "crashed"}) // it was not asked to
		s.RetryCrashed = true
		run(map[string]string{"http://a.test/bad": "ok", "http://a.test/behind": "ok"})
	})
}

// A resume of a crawl that runs changes its settings: the other machine leaves, joins again, and the new page limit is
// exact.
func TestClusterChangedWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		s.MaxURLs = 100
		c := newTestCluster(t, web, s, web.StartURLs()...)
		first, second := c.machine(), c.machine()
		second.resume = &session.Resume{Plan: []byte("another"), MaxURLs: 150}
		var wg sync.WaitGroup
		reports := make(chan *report.Report, 2)
		work := func(m *testMachine) {
			rep, err := m.run(t.Context())
			if left := (*LeftError)(nil); err != nil && !errors.As(err, &left) {
				t.Error(err)
			}
			if rep != nil {
				reports <- rep
			}
		}
		wg.Go(func() {
			_, err := first.once(t.Context(), nil)
			if left := (*LeftError)(nil); !errors.As(err, &left) || !left.Changed || left.Finished {
				t.Errorf("the settings have changed, and the machine says: %v", err)
				return
			}
			work(first)
		})
		time.Sleep(500 * time.Millisecond)
		wg.Go(func() { work(second) })
		wg.Wait()
		if len(reports) != 1 {
			t.Fatalf("%d reports", len(reports))
		}
		snap, err := c.engine.Look(t.Context(), c.crawl.ID, cluster.Known{})
		if err != nil {
			t.Fatal(err)
		}
		counters, err := snap.Counters()
		if rep := <-reports; err != nil || rep.Pages != 150 || counters.Counted != 150 || snap.Crawl.PlanVersion != 2 ||
			snap.Crawl.Run != 1 {
			t.Errorf("%d pages in the report, %d counted, plan %d, run %d; %v", rep.Pages, counters.Counted,
				snap.Crawl.PlanVersion, snap.Crawl.Run, err)
		}
	})
}

// The time limit holds for the crawl, and not for each machine.
func TestClusterDuration(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := newMemoryWeb(t, clusterWeb())
		s := clusterSettings(web.Server)
		s.Duration, s.MinDelayMS, s.MaxDelayMS = 10*time.Second, 2000, 2000
		c := newTestCluster(t, web, s, web.StartURLs()...)
		began := time.Now()
		var wg sync.WaitGroup
		reports := make(chan *report.Report, 2)
		for range 2 {
			m := c.machine()
			wg.Go(func() {
				rep, err := m.run(t.Context())
				if left := (*LeftError)(nil); err != nil && !errors.As(err, &left) {
					t.Error(err)
				}
				if rep != nil {
					reports <- rep
				}
			})
		}
		wg.Wait()
		snap, err := c.engine.Look(t.Context(), c.crawl.ID, cluster.Known{})
		if err != nil || snap.Crawl.Reason != session.ReasonDuration || snap.Crawl.Used < s.Duration ||
			snap.Crawl.Used > s.Duration+2*cluster.BeatEvery {
			t.Errorf("%+v, %v", snap.Crawl, err)
		}
		if len(reports) != 1 {
			t.Fatalf("%d reports", len(reports))
		}
		if rep := <-reports; rep.Status != page.Partial {
			t.Errorf("the report has status %s after %v", rep.Status, time.Since(began))
		}
	})
}

// slowInbox is an engine that delivers hand-overs late, and notes when the last work was committed and when the crawl
// ended.
type slowInbox struct {
	cluster.Engine
	late time.Duration

	mu sync.Mutex
	// guarded by mu; when a hand-over was first seen, by its sender and batch
	sent map[cluster.SessionID]map[uint64]time.Time
	// guarded by mu; the last commit of records, hand-overs or tokens in state Running
	worked time.Time
	ended  time.Time // guarded by mu
}

func (e *slowInbox) Inbox(ctx context.Context, s cluster.Session, after []frontier.Mark, limit int) ([]cluster.Handover,
	error) {
	list, err := e.Engine.Inbox(ctx, s, after, limit)
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(list, func(h cluster.Handover) bool {
		batches := e.sent[h.From]
		if batches == nil {
			batches = map[uint64]time.Time{}
			e.sent[h.From] = batches
		}
		if batches[h.Batch].IsZero() {
			batches[h.Batch] = time.Now()
		}
		return time.Since(batches[h.Batch]) < e.late
	}), err
}

func (e *slowInbox) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	err := e.Engine.Commit(ctx, s, b)
	works := len(b.Sent)+len(b.Received)+len(b.Release) > 0 ||
		slices.ContainsFunc(b.Writes, func(w cluster.Write) bool { return len(w.Body) > 0 && !w.Close })
	e.mu.Lock()
	defer e.mu.Unlock()
	if works && err == nil && e.ended.IsZero() {
		e.worked = time.Now()
	}
	return err
}

func (e *slowInbox) Change(ctx context.Context, s cluster.Session, ch cluster.Change) (bool, error) {
	done, err := e.Engine.Change(ctx, s, ch)
	e.mu.Lock()
	defer e.mu.Unlock()
	if set, ok := ch.(cluster.SetState); ok && set.To == cluster.Finished && done && e.ended.IsZero() {
		e.ended = time.Now()
	}
	return done, err
}

// The end of a crawl is found at most a second after the last record, also if hand-overs come late, and never before
// all have come.
func TestClusterEndIsNotLate(t *testing.T) {
	for _, late := range []time.Duration{0, 700 * time.Millisecond, 7 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				web := newMemoryWeb(t, clusterWeb())
				s := clusterSettings(web.Server)
				want := web.alone(s)
				c := newTestCluster(t, web, s, web.StartURLs()...)
				e := &slowInbox{Engine: c.engine, late: late, sent: map[cluster.SessionID]map[uint64]time.Time{}}
				var wg sync.WaitGroup
				reports := make(chan datadir.Dir, 3)
				for range 3 {
					m := c.machine()
					m.engine = e
					wg.Go(func() {
						rep, err := m.run(t.Context())
						if err != nil && !errors.As(err, new(*LeftError)) {
							t.Error(err)
						}
						if rep != nil {
							reports <- m.dir
						}
					})
				}
				wg.Wait()
				if len(reports) != 1 {
					t.Fatalf("%d reports", len(reports))
				}
				if len(e.sent) != 3 {
					t.Errorf("%d machines have handed links over", len(e.sent))
				}
				compareRows(t, "hand-overs that come late", rows(t, <-reports), want)
				if took := e.ended.Sub(e.worked); took < 0 || took > time.Second {
					t.Errorf("the crawl ended %v after the last record", took)
				} else {
					t.Logf("the crawl ended %v after the last record", took)
				}
			})
		})
	}
}

// A farEngine answers a commit after some time, whatever it has to do.
type farEngine struct {
	cluster.Engine
	way time.Duration
}

func (e farEngine) Commit(ctx context.Context, s cluster.Session, b *cluster.Batch) error {
	time.Sleep(e.way / 2)
	err := e.Engine.Commit(ctx, s, b)
	time.Sleep(e.way / 2)
	return err
}

// messages counts what is logged, by message.
type messages struct {
	slog.Handler
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func (h *messages) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[r.Message]++
	return h.Handler.Handle(ctx, r)
}

// The way to the engine is not taken for slow commits, at least as long as it is below the bound of what counts as way.
// What is beyond is slow.
func TestClusterFarEngine(t *testing.T) {
	for _, test := range []struct {
		way  time.Duration
		slow bool
	}{{150 * time.Millisecond, false}, {450 * time.Millisecond, false}, {2 * time.Second, true}} {
		t.Run(test.way.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				cfg := clusterWeb()
				cfg.Pages = 6
				web := newMemoryWeb(t, cfg)
				s := clusterSettings(web.Server)
				want := web.alone(s)
				m := newTestCluster(t, web, s, web.StartURLs()...).machine()
				m.engine = farEngine{m.engine, test.way}
				said := &messages{Handler: m.log.Handler(), counts: map[string]int{}}
				m.log = slog.New(said)
				if _, err := m.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				compareRows(t, "an engine that is far away", rows(t, m.dir), want)
				if n := said.counts["commits are slow: fewer workers"]; n > 0 != test.slow {
					t.Errorf("the machine has shrunk its workers %d times", n)
				}
			})
		})
	}
}
