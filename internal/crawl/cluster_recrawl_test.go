package crawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/memory"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// clusterRecrawl is a crawl of several machines and its recrawls, of a web that changes in between.
type clusterRecrawl struct {
	*testCluster
	web  *recrawled // what the web knows of itself; its directory is where the last outputs are
	list []*testMachine
}

// newClusterRecrawl crawls a web in generation 0.
func newClusterRecrawl(t *testing.T, cfg testweb.Config, machines int) *clusterRecrawl {
	t.Helper()
	web := newMemoryWeb(t, cfg)
	r := &recrawled{memoryWeb: web, settings: quick(web.Server), generations: []int{0}}
	r.settings.MaxRetries, r.crawl.MaxRetries = 1, 1
	r.settings.Timeout = 10 * time.Second
	c := &clusterRecrawl{testCluster: newTestCluster(t, web, r.settings, web.StartURLs()...), web: r}
	c.agent = "test"
	for range machines {
		c.list = append(c.list, c.machine())
	}
	return c
}

// begin plans another generation. The first machine begins it.
func (c *clusterRecrawl) begin(again *Recrawl) {
	c.Helper()
	row := c.look().Crawl
	failed := row.Reason == session.ReasonFailed
	if err := PlanRecrawl(c.plan, again, row.Run, row.Used, failed); err != nil {
		c.Fatal(err)
	}
}

// session runs one session of a machine as run makes it. It begins the generation of the plan if that has not begun
// and first is set, and waits for it otherwise.
func (c *clusterRecrawl) session(ctx context.Context, m *testMachine, first bool,
	run func(context.Context, *testMachine) (*report.Report, error)) (*report.Report, error) {
	for ; ; time.Sleep(time.Second) {
		snap, err := c.engine.Look(ctx, c.crawl.ID, cluster.Known{})
		if err != nil {
			continue // the engine may be away
		}
		isBegun := c.plan.Generation == nil || snap.Crawl.Run >= c.plan.Generation.Run
		if m.resume = nil; isBegun {
			return run(ctx, m)
		}
		if first {
			text, err := c.plan.Encode()
			if err != nil {
				return nil, err
			}
			m.resume = &session.Resume{Plan: text, MaxURLs: uint64(c.settings.PageCap()), Anew: true}
			return run(ctx, m)
		}
	}
}

// run runs all machines to the end of the generation, and returns the report, if one was written.
func (c *clusterRecrawl) run(run func(context.Context, *testMachine) (*report.Report, error)) *report.Report {
	c.Helper()
	type ended struct {
		rep *report.Report
		dir datadir.Dir
	}
	won := make(chan ended, len(c.list))
	var wg sync.WaitGroup
	for i, m := range c.list {
		wg.Go(func() {
			for range 200 {
				rep, err := c.session(c.Context(), m, i == 0, run)
				switch left := (*LeftError)(nil); {
				case err == nil && rep != nil:
					won <- ended{rep, m.dir}
					return
				case errors.As(err, &left) && left.Finished, errors.Is(err, session.ErrNotRunning):
					return
				}
				m.log.Info("the session is over", "error", err)
			}
			c.Error("the crawl does not end")
		})
	}
	wg.Wait()
	switch len(won) {
	case 0:
		return nil
	case 1:
		w := <-won
		c.web.dir = w.dir
		return w.rep
	}
	c.Fatalf("%d machines have written a report", len(won))
	return nil
}

// slowly makes a web take so long that all machines take part.
func slowly(cfg testweb.Config) testweb.Config {
	cfg.Faults = append(cfg.Faults, testweb.OnAll(testweb.Slow{Delay: 500 * time.Millisecond,
		Jitter: 1500 * time.Millisecond})...)
	return cfg
}

func once(ctx context.Context, m *testMachine) (*report.Report, error) { return m.once(ctx, nil) }

// Three machines see in each generation what changed, as one does: every kind of page, with every kind of validator.
func TestClusterRecrawl(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newClusterRecrawl(t, slowly(changingWeb(30)), 3)
		for generation := range uint32(3) {
			if generation > 0 {
				c.web.move(int(generation))
				c.begin(&Recrawl{})
			}
			rep := c.run(once)
			if rep == nil || rep.Status != page.Complete || rep.Generation != generation {
				t.Fatalf("generation %d: %+v", generation, rep)
			}
			if runs := c.look().Crawl.Run; runs != uint64(generation)+1 {
				t.Errorf("%d runs after generation %d", runs, generation)
			}
			c.web.compare()
			if agents := len(rep.Cluster.Machines); agents != 3 {
				t.Errorf("%d machines have worked", agents)
			}
		}
	})
}

// Machines that are killed, cut off and stopped in the middle of a recrawl see the same, and visit nothing twice that
// they have recorded.
func TestClusterRecrawlUnderKills(t *testing.T) {
	long.Test(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { clusterRecrawlUnderKills(t, seed) })
		})
	}
}

func clusterRecrawlUnderKills(t *testing.T, seed uint64) {
	c := newClusterRecrawl(t, slowly(changingWeb(25)), 3)
	if rep := c.run(once); rep == nil || rep.Status != page.Complete {
		t.Fatalf("the first crawl: %+v", rep)
	}
	faults := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	unreliable := func(string) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if faults.IntN(20) == 0 {
			return memory.Fault(1 + faults.IntN(3))
		}
		return memory.None
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for generation := 1; generation <= 2; generation++ {
		c.web.move(generation)
		c.begin(&Recrawl{})
		c.engine.Fault = unreliable
		c.run(func(ctx context.Context, m *testMachine) (*report.Report, error) {
			mu.Lock()
			own := rand.New(rand.NewPCG(rng.Uint64(), 3))
			mu.Unlock()
			rep, err := m.disturbed(ctx, own)
			if err != nil && own.IntN(2) == 0 {
				m.dir = datadir.Dir(filepath.Join(t.TempDir(), "again"))
			}
			return rep, err
		})
		c.engine.Fault = nil
		// The machine that has decided the end may have been killed before it had written the report.
		c.web.dir = newDir(t)
		c.exportTo(c.web.dir)
		c.web.compare()
	}
}

// A page limit counts one generation, and a lower one holds from its beginning. What it leaves out is visited by the
// next generation.
func TestClusterRecrawlPageLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cfg := clusterWeb()
		c := newClusterRecrawl(t, cfg, 2)
		c.settings.MaxURLs = 200
		if err := c.engine.Delete(t.Context(), c.crawl.ID); err != nil {
			t.Fatal(err)
		}
		c.crawl.MaxURLs = 200
		if err := c.engine.Create(t.Context(), c.crawl, session.TokenStart); err != nil {
			t.Fatal(err)
		}
		for generation, most := range []int{200, 90, 120} {
			c.settings.MaxURLs = most
			if generation > 0 {
				time.Sleep(time.Hour)
				c.begin(&Recrawl{})
			}
			rep := c.run(once)
			if rep == nil || rep.Status != page.Partial || rep.Pages != int64(most) {
				t.Fatalf("generation %d with a limit of %d: %+v", generation, most, rep)
			}
			snap := c.look()
			if snap.Counted() != uint64(most) || snap.Crawl.Granted > uint64(most) {
				t.Errorf("generation %d: %d pages are counted and %d granted, want %d", generation, snap.Counted(),
					snap.Crawl.Granted, most)
			}
		}
	})
}

// With a depth limit, each generation begins with the start pages: a page that is new has its least depth, although the
// pages that lead to it in another way could be asked before.
func TestClusterRecrawlDepth(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"a.test/":     `<html><title>Start</title><a href="/slow">slow</a><a href="http://b.test/1">b</a>`,
			"a.test/slow": `<html><title>Slow</title>`,
			"b.test/1":    `<html><title>One</title><a href="/2">two</a>`,
			"b.test/2":    `<html><title>Two</title>`,
		}}
		s := w.options(t).Settings
		s.Scope, s.MaxDepth = "any", 5
		c := &clusterRecrawl{testCluster: newTestCluster(t, nil, s, "http://a.test/"), web: &recrawled{}}
		c.agent, c.fetcher = "test", slowPage{w, "http://a.test/slow"}
		c.list = append(c.list, c.machine())
		c.run(once)
		for _, url := range []string{"a.test/slow", "b.test/2"} {
			w.answers[url] += `<a href="http://c.test/new">new</a>`
		}
		c.begin(&Recrawl{})
		if rep := c.run(once); rep == nil || rep.Status != page.Complete || rep.Generation != 1 {
			t.Fatalf("the recrawl: %+v", rep)
		}
		lines := readLines(t, c.web.dir)
		for url, depth := range map[string]int{"http://a.test/slow": 1, "http://b.test/2": 2, "http://c.test/new": 2} {
			if l := lines[url]; l.Depth != depth || l.Generation != 1 {
				t.Errorf("%s has depth %d in generation %d, want %d in 1", url, l.Depth, l.Generation, depth)
			}
		}
	})
}

// slowPage takes long for one page.
type slowPage struct {
	*timedWeb
	url string
}

func (w slowPage) Do(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	if r.URL.String() == w.url {
		time.Sleep(20 * time.Second)
	}
	return w.timedWeb.Do(ctx, r)
}

// The machine that begins a generation is killed after it has changed the plan, or the state too. The next machines
// begin the generation, or go on with it, and see what changed.
func TestClusterRecrawlBegunByAMachineThatIsKilled(t *testing.T) {
	for what, isLast := range map[string]func(cluster.Change) bool{
		"after the plan":  func(c cluster.Change) bool { _, ok := c.(cluster.SetPlan); return ok },
		"after the state": func(c cluster.Change) bool { _, ok := c.(cluster.SetState); return ok },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newClusterRecrawl(t, changingWeb(15), 2)
				if rep := c.run(once); rep == nil || rep.Status != page.Complete {
					t.Fatalf("the first crawl: %+v", rep)
				}
				c.web.move(1)
				c.begin(&Recrawl{})
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				m := c.machine()
				m.engine = killing{cut{c.engine, ctx}, isLast, kill}
				if _, err := c.session(ctx, m, true, once); err == nil {
					t.Fatal("the machine was not killed")
				}
				row := c.look().Crawl
				if begun := what == "after the state"; (row.Run == 2) != begun || row.PlanVersion != 2 ||
					(row.State == cluster.Running) != begun {
					t.Errorf("run %d is %s, and the plan has version %d", row.Run, row.State, row.PlanVersion)
				}
				rep := c.run(once)
				if rep == nil || rep.Status != page.Complete || rep.Generation != 1 {
					t.Fatalf("the recrawl: %+v", rep)
				}
				if row := c.look().Crawl; row.Run != 2 {
					t.Errorf("the recrawl ends with run %d", row.Run)
				}
				c.web.compare()
			})
		})
	}
}

// killing kills its machine when a change was made.
type killing struct {
	cut
	isLast func(cluster.Change) bool
	kill   func()
}

func (e killing) Change(ctx context.Context, s cluster.Session, c cluster.Change) (bool, error) {
	done, err := e.cut.Change(ctx, s, c)
	if done && err == nil && e.isLast(c) {
		e.kill()
		<-ctx.Done()
		return false, cluster.ErrAway
	}
	return done, err
}

// A machine that begins a generation while another still writes the report of the one before waits for it.
func TestClusterRecrawlAwaitsTheReport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newClusterRecrawl(t, clusterWeb(), 2)
		late := &lateClaims{Engine: c.engine, until: make(chan struct{})}
		for _, m := range c.list {
			m.engine = late
		}
		var first *report.Report
		var wg sync.WaitGroup
		wg.Go(func() { first = c.run(once) })
		for c.look().Crawl.State == cluster.Running {
			time.Sleep(time.Second)
		}
		// The machine that writes the report waits for partitions now.
		row := c.look().Crawl
		next := *c.testCluster
		plan := *c.plan
		if err := PlanRecrawl(&plan, &Recrawl{}, row.Run, row.Used, false); err != nil {
			t.Fatal(err)
		}
		text, err := plan.Encode()
		if err != nil {
			t.Fatal(err)
		}
		next.plan, next.machines = &plan, 10
		m := next.machine()
		m.resume = &session.Resume{Plan: text, Anew: true}
		var again *report.Report
		wg.Go(func() { again, err = m.run(t.Context()) })
		time.Sleep(30 * time.Second)
		if owned := c.look(); owned.Crawl.Run != 1 {
			t.Errorf("run %d began before the report was written", owned.Crawl.Run)
		}
		close(late.until)
		wg.Wait()
		if err != nil || first == nil || again == nil || first.Generation != 0 || again.Generation != 1 ||
			again.Status != page.Complete {
			t.Errorf("the first report: %+v, the second: %+v, %v", first, again, err)
		}
	})
}

// lateClaims is an engine that gives no partitions to the machine that writes the report, for a while.
type lateClaims struct {
	cluster.Engine
	until chan struct{}
}

func (e *lateClaims) Claim(ctx context.Context, s cluster.Session, parts []uint8) ([]cluster.Claimed, error) {
	snap, err := e.Engine.Look(ctx, s.Crawl, cluster.Known{})
	if err == nil && snap.Crawl.State == cluster.Finished {
		select {
		case <-e.until:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return e.Engine.Claim(ctx, s, parts)
}
