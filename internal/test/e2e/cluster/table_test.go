//go:build cluster

package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// One machine and three find the same as a crawl without a cluster, in the same order, with the same counts.
func TestClusterSameResult(t *testing.T) {
	t.Parallel()
	cfg := tableWeb(size(40, 200), 10)
	want, rep := alone(t, cfg, 10*time.Millisecond)
	for _, machines := range []int{1, 3} {
		t.Run(fmt.Sprint(machines, " machines"), func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, cfg)
			f, _ := newFleet(t, web, tableCrawl(web, 10*time.Millisecond)...)
			f.start(machines)
			sameCounts(t, f.ends(0, "complete"), rep)
			got := f.export()
			got.same(t, &want)
			e2e.AskedOnce(t, web)
			oneAtATime(t, web)
			if s := f.status(); s.State != "finished" || s.Done != len(want.lines) {
				t.Errorf("status: %+v, want %d URLs", s, len(want.lines))
			}
		})
	}
}

// Machines that are killed again and again, and join again, find the same. What is fetched again is what was in flight
// or not committed.
func TestClusterKills(t *testing.T) {
	t.Parallel()
	const delay = 500 * time.Millisecond
	cfg := tableWeb(size(60, 200), size(16, 40))
	want, rep := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	f, _ := newFleet(t, web, tableCrawl(web, delay)...)
	f.begin(3)
	kills := size(4, 20)
	rnd := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	killed, before := 0, e2e.Pages(web)
	for ; killed < kills; killed++ {
		n, at := rnd.IntN(3), e2e.Pages(web)
		f.machines[n].UntilEnded(func() bool { return e2e.Pages(web) >= at+20 })
		if got := f.machines[n].Kill(); got.Code != -1 {
			break // the crawl has ended
		}
		f.join(n)
	}
	if killed == 0 {
		t.Fatal("the crawl ended before a machine was killed")
	}
	f.finish()
	final := f.ends(0, "complete")
	if c := final.Cluster; c == nil || len(c.Machines) != 3 || c.Takeovers == 0 {
		t.Errorf("after %d kills the report says of the machines: %+v", killed, c)
	}
	got := f.export()
	got.same(t, &want)
	if s := f.status(); s.Done != rep.URLs {
		t.Errorf("%d URLs are done, want %d", s.Done, rep.URLs)
	}
	oneAtATime(t, web)
	if e2e.Pages(web) < before+cfg.Hosts {
		t.Errorf("the web had %d of %d requests before the first kill: the test shows nothing", before, e2e.Pages(web))
	}
	// With a delay of half a second, a host has one request in flight or one answer in a batch that is not committed,
	// if a commit takes no longer.
	if n, most := e2e.Repeats(web), killed*cfg.Hosts*2; n > most {
		t.Errorf("%d pages were fetched again after %d kills, want at most %d", n, killed, most)
	}
	t.Logf("%d kills from page %d of %d on; %d pages were fetched again", killed, before, e2e.Pages(web),
		e2e.Repeats(web))
}

// A machine that is stopped for longer than its lease has lost its partitions when it goes on. It starts no request for
// them, says why, and joins again.
func TestClusterPausedMachine(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), size(12, 25), testweb.Slow{Delay: 50 * time.Millisecond})
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	f, _ := newFleet(t, web, tableCrawl(web, delay)...)
	f.begin(3)
	f.machines[1].Signal(syscall.SIGSTOP)
	f.shares(f.machines[0], 2)
	f.machines[1].Signal(syscall.SIGCONT)
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
	if text := f.machines[1].Err.String(); !strings.Contains(text, "session") {
		t.Errorf("the machine that was stopped does not say that its session has ended: %s", text)
	}
}

// A machine that joins gets about its share of the partitions. One that is asked to stop hands over: nothing is fetched
// again.
func TestClusterJoinAndLeave(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), size(12, 20))
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	f, _ := newFleet(t, web, tableCrawl(web, delay)...)
	f.begin(2)
	f.join(2)
	f.until(f.machines[0], "each machine has about a third", func() bool {
		for _, m := range f.shares(f.machines[0], 3).Machines {
			if m.Partitions < cluster.Partitions/3-40 || m.Partitions > cluster.Partitions/3+40 {
				return false
			}
		}
		return true
	})
	f.machines[1].Signal(syscall.SIGTERM)
	if got := f.machines[1].Wait(); got.Code != 0 && got.Code != 130 {
		t.Errorf("a machine that is asked to stop ends with %d", got.Code)
	}
	f.shares(f.machines[0], 2)
	f.join(1)
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
	e2e.AskedOnce(t, web)
}

// An engine that cannot be reached for longer than a lease stops the crawl meanwhile. No machine takes partitions from
// another, and nothing is fetched again.
func TestClusterEngineAway(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	f, p := newFleet(t, web, tableCrawl(web, delay)...)
	before := f.begin(3)
	p.SetAway(true)
	f.machines[0].Says("cannot be reached")
	f.machines[0].Until("the leases are over by the engine's clock",
		func() bool { return f.silence() > time.Duration(size(12, 30))*time.Second })
	p.SetAway(false)
	after := f.shares(f.machines[0], 3)
	if len(after.Machines) != len(before.Machines) {
		t.Fatalf("there are %d machines, and were %d", len(after.Machines), len(before.Machines))
	}
	for i := range before.Machines {
		// Partitions may still move, in good order, until the shares are equal.
		if b, a := before.Machines[i], after.Machines[i]; a.ID != b.ID || a.JoinedAt != b.JoinedAt || a.Takeovers > 0 {
			t.Errorf("machine %d joined at %s and %s, and has taken over %d partitions", i, b.JoinedAt, a.JoinedAt,
				a.Takeovers)
		}
	}
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
	e2e.AskedOnce(t, web)
}

// An engine that is stopped at once and started again, and one whose synchronous standby takes its place, lose nothing.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	p := newPair(t, true)
	f := fleetAt(t, p.address, web, tableCrawl(web, delay)...)
	f.begin(3)
	for _, step := range []func() error{p.crash, p.run} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	at := f.status().Done
	f.until(f.machines[0], "the crawl goes on", func() bool { return f.status().Done > at })
	for _, step := range []func() error{p.crash, p.promote} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	f.finish()
	f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
	e2e.AskedOnce(t, web)
}

// A standby that was behind takes the engine's place: what the engine has lost is found out, and the crawl ends with
// the same result.
func TestClusterLostData(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	p := newPair(t, false)
	f := fleetAt(t, p.address, web, tableCrawl(web, delay)...)
	f.begin(3)
	if err := p.behind(); err != nil {
		t.Fatal(err)
	}
	at := f.status().Done
	f.until(f.machines[0], "more is committed than the standby has", func() bool { return f.status().Done > at+50 })
	for _, step := range []func() error{p.crash, p.promote} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	f.finish()
	rep := f.ends(0, "complete")
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
	said := strings.Join(rep.Warnings, " ")
	for _, m := range f.machines {
		said += m.Err.String()
	}
	if !strings.Contains(said, "lost acknowledged data") {
		t.Error("no machine says that the engine has lost data")
	}
}

// A network that cuts connections, loses answers to COMMIT and delays answers loses and doubles nothing.
func TestClusterBadNetwork(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := tableWeb(size(40, 200), 12)
	want, _ := alone(t, cfg, delay)
	web := serveSlowly(t, cfg)
	f, p := newFleet(t, web, tableCrawl(web, delay)...)
	f.begin(3)
	p.LoseAnswers(5)
	total := e2e.Pages(web)
	for _, step := range []func(){p.Cut, func() { p.SetDelay(time.Second) }, p.Cut, func() { p.SetDelay(0) },
		func() { p.Lose(false) }, p.Cut} {
		step()
		total += 10
		f.answered(total)
	}
	if *fullTable {
		p.SetDelay(5 * time.Second)
		from, _ := f.clock()
		f.machines[0].Until("15 s have gone by", func() bool {
			now, _ := f.clock()
			return now.Sub(from) > 15*time.Second
		})
		p.SetDelay(0)
	}
	f.finish()
	f.ends(0, "complete")
	p.LoseAnswers(0)
	got := f.export()
	got.same(t, &want)
	oneAtATime(t, web)
}

// A limit of pages is reached exactly, also if machines are killed.
func TestClusterMaxURLs(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	most := size(300, 2000)
	web := serveSlowly(t, tableWeb(size(60, 200), size(12, 30)))
	f, _ := newFleet(t, web, append(tableCrawl(web, delay), "--max-urls", fmt.Sprint(most))...)
	f.begin(3)
	for n := range size(2, 6) {
		f.machines[n%3].Kill()
		f.join(n % 3)
		f.answered(min(most/2, (n+1)*most/8))
	}
	f.finish()
	f.ends(3, "partial")
	s := f.status()
	if s.Counted != most {
		t.Errorf("%d pages are counted, want %d", s.Counted, most)
	}
	oneAtATime(t, web)
}

// A program with other rules for URLs does not join.
func TestClusterOtherRules(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 5})
	web.Hold(0)
	f, _ := newFleet(t, web, tableCrawl(web, 0)...)
	f.create()
	f.setIdentity("url=0 idna=0")
	for _, got := range []e2e.Result{f.invoke("join", "--data-dir", f.dir(1)).Run(t),
		f.invoke("export", "--output", t.TempDir()).Run(t)} {
		if got.Code != 2 || !strings.Contains(got.Stderr, "url=0 idna=0") || !strings.Contains(got.Stderr, "url=1") {
			t.Errorf("exit status %d: %s", got.Code, got.Stderr)
		}
	}
	web.Release()
}

// resume of a crawl that runs changes its settings for all machines: those that work on it join again with them, and
// the limit is exact.
func TestClusterResumeWhileItRuns(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	// 40 hosts, one request at a time to each: 460 pages take a minute at least, and the machines join again in a
	// fraction of that
	web := serveSlowly(t, tableWeb(40, 25))
	f, _ := newFleet(t, web, append(tableCrawl(web, delay), "--max-urls", "900")...)
	before := f.begin(2)
	const most = 500
	e2e.Refused(t, f.invoke("join", "--data-dir", f.dir(2), "--max-urls", fmt.Sprint(most)).Run(t), "--max-urls",
		"mapwright resume")
	f.machines = append(f.machines, f.invoke("resume", "--data-dir", f.dir(2), "--max-urls", fmt.Sprint(most)).Start(t))
	f.until(f.machines[0], "all machines have the new settings", func() bool {
		s := f.status()
		again := 0 // machines that have joined since
		for _, m := range s.Machines {
			if m.Alive && !slices.ContainsFunc(before.Machines,
				func(b clusterMachine) bool { return b.JoinedAt == m.JoinedAt }) {
				again++
			}
		}
		return s.MaxURLs == most && again == 3
	})
	f.finish()
	rep := f.ends(3, "partial")
	if s := f.status(); s.Counted != most || s.Run != 1 || s.Reason != "max-urls" {
		t.Errorf("%d pages are counted in run %d (%s), want %d", s.Counted, s.Run, s.Reason, most)
	}
	if c := rep.Cluster; c == nil || len(c.Machines) != 3 || c.Takeovers != 0 || rep.Pages != most {
		t.Errorf("the report says %d pages, and of the machines %+v", rep.Pages, c)
	}
	for n, p := range f.machines {
		if got := p.Wait(); got.Code != 3 {
			t.Errorf("machine %d ends with %d, although a limit has ended the crawl", n, got.Code)
		}
	}
	for n := range 2 {
		if text := f.machines[n].Err.String(); !strings.Contains(text, "settings of the crawl have changed") {
			t.Errorf("machine %d does not say that the settings have changed: %s", n, text)
		}
	}
	oneAtATime(t, web)

	// With all machines gone, resume begins another run.
	if got := f.invoke("resume", "--data-dir", f.dir(0), "--max-urls", "0").Run(t); got.Code != 0 {
		t.Fatalf("resume ends with %d: %s", got.Code, got.Stderr)
	}
	s := f.status()
	if last := e2e.ReadReport(t, f.dir(0)); last.Pages != s.Counted-most || last.Status != "complete" || s.Run != 2 {
		t.Errorf("run %d has status %s and %d pages, want %d", s.Run, last.Status, last.Pages, s.Counted-most)
	}
}
