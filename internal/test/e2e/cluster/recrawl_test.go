//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// changingWeb is the web of the table with pages that change between two crawls.
func changingWeb(hosts, pages int) testweb.Config {
	cfg := tableWeb(hosts, pages)
	cfg.Changes = &testweb.Changes{Always: 0.1, Sometimes: 0.1, Vanish: 0.1, Redirect: 0.05, Move: 0.05, Title: 0.05,
		NoIndex: 0.05, Appear: 0.1, Unlink: 0.1}
	return cfg
}

// changes is what a recrawl says of each URL beside its story.
func (r *clusterResult) changes() map[string]string {
	all := map[string]string{}
	for url, l := range r.lines {
		all[url] = fmt.Sprint(l.Change, l.Generation, l.Stale, l.Volatile, l.Unlinked, l.InSitemap)
	}
	return all
}

// moveTo brings a web to another generation, with new statistics.
func moveTo(t *testing.T, web *testweb.Server, generation int) {
	t.Helper()
	if err := web.SetGeneration(generation); err != nil {
		t.Fatal(err)
	}
	web.Reset()
}

// recrawlAlone crawls a web without a cluster, and again in its next generation.
func recrawlAlone(t *testing.T, cfg testweb.Config,
	settings func(*testweb.Server) []string) (clusterResult, e2e.Report) {
	t.Helper()
	web, dir := e2e.Serve(t, cfg), filepath.Join(t.TempDir(), "alone")
	for generation, command := range [][]string{append([]string{"crawl"}, settings(web)...), {"recrawl"}} {
		moveTo(t, web, generation)
		if got := e2e.Run(t, append(command, "--data-dir", dir)...); got.Code != 0 {
			t.Fatalf("%s without a cluster ends with %d: %s", command[0], got.Code, got.Stderr)
		}
	}
	return resultIn(t, dir), e2e.ReadReport(t, dir)
}

// recrawl begins another generation with the first machine, and waits until its run is there.
func (f *fleet) recrawl(flags ...string) {
	f.t.Helper()
	before := f.status()
	for n := range f.machines {
		if err := os.Remove(filepath.Join(f.dir(n), "report.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.t.Fatal(err)
		}
	}
	f.machines[0] = f.invoke("recrawl", append([]string{"--data-dir", f.dir(0)}, flags...)...).Start(f.t)
	f.until(f.machines[0], "the recrawl has begun", func() bool { return f.status().Run == before.Run+1 })
}

// Machines that recrawl together see what one machine sees, also if they are killed in the middle of it.
func TestClusterRecrawl(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	cfg := changingWeb(size(40, 200), size(12, 25))
	settings := func(web *testweb.Server) []string { return tableCrawl(web, delay) }
	want, rep := recrawlAlone(t, cfg, settings)

	web := e2e.Serve(t, cfg)
	f, _ := newFleet(t, web, settings(web)...)
	f.start(2)
	f.ends(0, "complete")
	moveTo(t, web, 1)
	web.SetLatency(slowAnswer)
	web.Hold(0)
	f.recrawl()
	f.join(1)
	f.shares(f.machines[0], 2)
	e2e.Refused(t, f.invoke("recrawl", "--data-dir", f.dir(2)).Run(t), "it is not finished", "mapwright join")
	web.Release()
	for n := range 2 {
		at := e2e.Pages(web)
		f.machines[1-n].UntilEnded(func() bool { return e2e.Pages(web) >= at+20 })
		if got := f.machines[n].Kill(); got.Code != -1 {
			t.Fatalf("machine %d had ended with %d before it was killed", n, got.Code)
		}
		f.join(n)
		f.shares(f.machines[1-n], 2)
	}
	f.finish()
	final := f.ends(0, "complete")
	sameCounts(t, final, rep)
	if final.Generation != 1 {
		t.Errorf("the report is of generation %d", final.Generation)
	}
	got := f.export()
	got.same(t, &want)
	e2e.SameStory(t, got.changes(), want.changes())
	oneAtATime(t, web)
	if s := f.status(); s.State != "finished" || s.Run != 2 {
		t.Errorf("status: %+v", s)
	}
}

// What a limit of pages leaves out of a recrawl is visited when it goes on, and each generation has its own limit.
func TestClusterRecrawlLimit(t *testing.T) {
	t.Parallel()
	cfg := changingWeb(20, 10)
	settings := func(web *testweb.Server) []string { return tableCrawl(web, 10*time.Millisecond) }
	want, rep := recrawlAlone(t, cfg, settings)

	web := e2e.Serve(t, cfg)
	f, _ := newFleet(t, web, settings(web)...)
	f.start(2)
	f.ends(0, "complete")
	moveTo(t, web, 1)
	f.recrawl("--max-urls", "100")
	f.machines = f.machines[:1]
	if limited := f.ends(3, "partial"); limited.Pages != 100 || f.status().Counted != 100 {
		t.Errorf("a limit of 100: %d pages, %+v", limited.Pages, f.status())
	}
	if got := f.invoke("resume", "--data-dir", f.dir(0), "--max-urls", "0").Run(t); got.Code != 0 {
		t.Fatalf("resume ends with %d: %s", got.Code, got.Stderr)
	}
	sameCounts(t, e2e.ReadReport(t, f.dir(0)), rep)
	got := f.export()
	got.same(t, &want)
	e2e.SameStory(t, got.changes(), want.changes())
	if s := f.status(); s.Run != 3 || !strings.Contains(f.invoke("status").Run(t).Stdout, "Generation") {
		t.Errorf("status: %+v", s)
	}
}
