//go:build cluster

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/postgres"
	"github.com/mapwright/mapwright/internal/cluster/redis"
	"github.com/mapwright/mapwright/internal/cluster/replay"
	"github.com/mapwright/mapwright/internal/test/pgtest"
	"github.com/mapwright/mapwright/internal/test/redistest"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// An engineServer is a server of the engine that -engine names.
type engineServer struct {
	address string
	open    func(context.Context, string) (cluster.Engine, error)
	cpu     func() (time.Duration, error) // processor time of the server so far
}

var engineName = flag.String("engine", "postgres", "the engine of the benchmarks of several machines: postgres or redis")

// startServer starts a server for a benchmark: PostgreSQL with fsync, or Redis with an append-only file that is written
// to the disk once a second.
func startServer(b *testing.B) engineServer {
	b.Helper()
	if *engineName == "redis" {
		s, err := redistest.Start()
		removeAtEnd(b, s, err)
		return engineServer{s.URL(0), func(ctx context.Context, address string) (cluster.Engine, error) {
			return redis.Open(ctx, address)
		}, s.CPU}
	}
	s, err := pgtest.Start("max_wal_size=4GB")
	removeAtEnd(b, s, err)
	return engineServer{s.URL("postgres"), func(ctx context.Context, address string) (cluster.Engine, error) {
		return postgres.Open(ctx, address)
	}, s.CPU}
}

func removeAtEnd(b *testing.B, s interface{ Remove() error }, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Remove(); err != nil {
			b.Error(err)
		}
	})
}

// overCluster makes a command one of a machine of a cluster.
func overCluster(cmd *exec.Cmd, s engineServer, crawl string) *exec.Cmd {
	cmd.Args = append(cmd.Args, "--cluster", s.address, "--name", crawl)
	return cmd
}

// BenchmarkCluster crawls scenario (b) without a cluster and as one machine over the engine, in turns, and then replays
// the log of one crawl. Ratio compares the medians of both; engine-ms/100pages is the processor time of the server.
func BenchmarkCluster(b *testing.B) {
	s := Scenarios()[1]
	w, server := startWeb(b, s), startServer(b)
	last := ""
	speed := map[string][]float64{}
	var engine []float64
	for turn := range s.Turns {
		for _, kind := range []string{"none", *engineName} {
			b.Run(fmt.Sprintf("cluster=%s/turn=%d", kind, turn+1), func(b *testing.B) {
				for b.Loop() {
					before, err := server.cpu()
					if err != nil {
						b.Fatal(err)
					}
					cmd := ours(b, w)
					if kind == *engineName {
						last = fmt.Sprintf("turn%d-%d", turn, time.Now().UnixNano())
						overCluster(cmd, server, last)
					}
					speed[kind] = append(speed[kind], report(b, w, s, cmd).PagesPerSecond())
					after, err := server.cpu()
					if err != nil {
						b.Fatal(err)
					}
					if kind == *engineName {
						engine = append(engine, (after-before).Seconds()*1000/float64(s.URLs())*100)
						b.ReportMetric(engine[len(engine)-1], "engine-ms/100pages")
					}
				}
			})
		}
	}
	b.Run("ratio", func(b *testing.B) {
		if len(speed[*engineName]) == 0 || len(speed["none"]) == 0 {
			b.Fatal("nothing was measured")
		}
		for b.Loop() {
			b.ReportMetric(median(speed[*engineName])/median(speed["none"]), "of-no-cluster")
			b.ReportMetric(median(engine), "engine-ms/100pages")
			b.ReportMetric(0, "ns/op")
		}
	})
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			benchmarkReplay(b, server, last)
		}
	})
}

func benchmarkReplay(b *testing.B, server engineServer, name string) {
	e, err := server.open(b.Context(), server.address)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	var snap *cluster.Snapshot
	list, err := e.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for i := range list {
		if list[i].Name == name {
			snap, err = e.Look(b.Context(), list[i].ID, cluster.Known{})
		}
	}
	if err != nil || snap == nil {
		b.Fatalf("crawl %s: %v", name, err)
	}
	began := time.Now()
	s, err := replay.Open(b.Context(), e, snap, filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	records := s.Recovery().Applied
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	whole := 0
	if err := replay.Records(b.Context(), e, snap, func(_ frontier.Position,
		rec []byte) error {
		whole += len(rec)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(whole)/1e6/took.Seconds(), "uncompressed-MB/s")
	b.ReportMetric(float64(logSize(b, e, snap))/1e6/took.Seconds(), "log-MB/s")
	b.ReportMetric(float64(records)/took.Seconds(), "records/s")
	b.ReportMetric(0, "ns/op")
}

// logSize is the size of the bodies of all rows.
func logSize(b *testing.B, e cluster.Engine, snap *cluster.Snapshot) (size int) {
	b.Helper()
	for part := range snap.Parts {
		for at := (cluster.Place{}); at != snap.Parts[part].Head; {
			rows, err := e.Read(b.Context(), snap.Crawl.ID, uint8(part), at, 1<<20)
			if err != nil || len(rows) == 0 {
				b.Fatalf("partition %d ends at %v: %v", part, at, err)
			}
			for i := range rows {
				size += len(rows[i].Body)
				at = rows[i].Place
			}
		}
	}
	return size
}

// A machineSet is machines of one crawl, each a process with one processor.
type machineSet struct {
	*testing.B
	server engineServer
	name   string // of the crawl
}

func newMachines(b *testing.B, server engineServer) *machineSet {
	return &machineSet{b, server, fmt.Sprint("crawl", time.Now().UnixNano())}
}

// start starts a machine. The end of the benchmark kills it.
func (m *machineSet) start(command string, args ...string) *exec.Cmd {
	m.Helper()
	cmd := exec.Command(program(m.B, "mapwright", "..", "./cmd/mapwright"),
		append([]string{command, "--data-dir", filepath.Join(m.TempDir(), "data"), "--log-level", "warn"}, args...)...)
	overCluster(cmd, m.server, m.name)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		kill(cmd)
		if m.Failed() {
			m.Logf("%s said: %s", command, tail(said.String(), 2000))
		}
	})
	return cmd
}

// crawl starts the first machine, with settings of the crawl, and waits for the crawl.
func (m *machineSet) crawl(w *Web, settings ...string) *exec.Cmd {
	m.Helper()
	if err := w.Reset(); err != nil {
		m.Fatal(err)
	}
	cmd := m.start("crawl", append([]string{"--start-url", w.Start, "--profile", "own-site", "--scope", "any",
		"--resolve", w.Resolve, "--allow-private"}, settings...)...)
	waitFor(m.B, "the crawl is there", func() bool { return m.status() != nil })
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// clusterStatus is what status says of a crawl.
type clusterStatus struct {
	Found    int
	Machines []struct{ Partitions int }
}

// status is that of the crawl; nil if there is none yet.
func (m *machineSet) status() *clusterStatus {
	m.Helper()
	cmd := exec.Command(program(m.B, "mapwright", "..", "./cmd/mapwright"), "status", "--json")
	out, err := overCluster(cmd, m.server, m.name).Output()
	if err != nil {
		return nil
	}
	s := &clusterStatus{}
	if err := json.Unmarshal(out, s); err != nil {
		m.Fatal(err)
	}
	return s
}

// owners is how many machines have partitions.
func (m *machineSet) owners() (n int) {
	m.Helper()
	s := m.status()
	if s == nil {
		return 0
	}
	for _, machine := range s.Machines {
		if machine.Partitions > 0 {
			n++
		}
	}
	return n
}

// BenchmarkClusterSlowWeb has 1, 2 and 3 machines crawl 500 hosts that take half a second for an answer and are asked
// at most five times a second. The speed is that between a fifth and four fifths of the pages, when all machines have
// their partitions. of-linear is that of n machines beside n times that of one.
func BenchmarkClusterSlowWeb(b *testing.B) {
	s := Scenario{Name: "slow", Hosts: 500, Pages: 60, PageSize: 2 << 10, Links: 30, Cross: 0.2,
		Web: []string{"-fault", "kind=slow delay=500ms"}}
	workers := "100"
	if Smoke() {
		s.Hosts, s.Pages, workers, s.Web = 60, 30, "10", []string{"-fault", "kind=slow delay=200ms"}
	}
	w, server := startWeb(b, s), startServer(b)
	one := 0.0
	for machines := 1; machines <= 3; machines++ {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			for b.Loop() {
				m := newMachines(b, server)
				m.crawl(w, "--max-workers", workers, "--max-inflight-per-host", "1", "--min-delay-ms", "200",
					"--max-delay-ms", "200")
				for range machines - 1 {
					m.start("join")
				}
				var pages int
				var at time.Time
				passed := func(share float64) func() bool {
					return func() bool {
						pages, at = pagesOf(b, w), time.Now()
						return float64(pages) >= share*float64(s.URLs())
					}
				}
				waitFor(b, "all machines have partitions", func() bool { return m.owners() == machines })
				waitFor(b, "a fifth of the pages is fetched", passed(0.2))
				first, began := pages, at
				waitFor(b, "four fifths of the pages are fetched", passed(0.8))
				speed := float64(pages-first) / at.Sub(began).Seconds()
				if machines == 1 {
					one = speed
				}
				if one == 0 {
					b.Fatal("the speed of one machine was not measured")
				}
				b.ReportMetric(speed, "pages/s")
				b.ReportMetric(speed/one/float64(machines), "of-linear")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// pagesOf is how many pages the web has been asked for.
func pagesOf(b *testing.B, w *Web) (n int) {
	b.Helper()
	stats, err := w.Stats()
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range stats.Hosts {
		n += h.Pages
	}
	return n
}

// takeoverTimeout is how long a fetch may take in the benchmarks of takeovers, in which hosts are asked every second.
// The time of a takeover is from the kill to the next request to one of the hosts of the machine that was killed.
const takeoverTimeout = 5 * time.Second

func takeoverSettings() []string {
	return []string{"--max-inflight-per-host", "1", "--min-delay-ms", "1000", "--max-delay-ms", "1000", "--timeout",
		takeoverTimeout.String()}
}

// BenchmarkTakeover kills one of two machines.
func BenchmarkTakeover(b *testing.B) {
	s := Scenario{Name: "takeover", Hosts: 200, Pages: 1000, PageSize: 2 << 10, Links: 30, Cross: 0.2}
	w, server := startWeb(b, s), startServer(b)
	for b.Loop() {
		m := newMachines(b, server)
		first := m.crawl(w, takeoverSettings()...)
		second := m.start("join")
		waitFor(b, "both machines have partitions and all hosts are asked", func() bool {
			stats, err := w.Stats()
			return err == nil && len(stats.Hosts) == s.Hosts && m.owners() == 2
		})
		kill(second)
		reportTakeover(b, w, time.Now())
		kill(first)
	}
}

// BenchmarkTakeoverLarge kills the only machine of a crawl whose URLs are all in one partition, and has another join at
// once. MAPWRIGHT_BENCH_PARTITION is their number.
func BenchmarkTakeoverLarge(b *testing.B) {
	s := Scenario{Name: "partition", Hosts: 1, Pages: sizeOf(b, "MAPWRIGHT_BENCH_PARTITION", 5_000_000, 5_000),
		PageSize: 2 << 10, Links: 30, Web: []string{"-sitemap-per-file", "50000"}}
	w, server := startWeb(b, s), startServer(b)
	for b.Loop() {
		m := newMachines(b, server)
		first := m.crawl(w, takeoverSettings()...)
		waitFor(b, "all URLs are found", func() bool { now := m.status(); return now != nil && now.Found >= s.Pages })
		kill(first)
		killed := time.Now()
		second := m.start("join")
		reportTakeover(b, w, killed)
		b.ReportMetric(float64(s.Pages), "URLs")
		kill(second)
	}
}

// reportTakeover waits until a host is asked again that was not asked for five seconds since the kill.
func reportTakeover(b *testing.B, w *Web, killed time.Time) {
	b.Helper()
	const quiet = 5 * time.Second // hosts of machines that live are asked within it
	waitFor(b, "hosts are left alone", func() bool { return time.Since(killed) > quiet })
	hosts := func() map[string]testweb.HostStats {
		stats, err := w.Stats()
		if err != nil {
			b.Fatal(err)
		}
		return stats.Hosts
	}
	var left []string
	for host, h := range hosts() {
		if h.Last.Before(killed.Add(time.Second)) {
			left = append(left, host)
		}
	}
	if len(left) == 0 {
		b.Fatal("the machine that was killed had no hosts")
	}
	var again time.Time
	waitFor(b, "one of them is asked again", func() bool {
		now := hosts()
		for _, host := range left {
			if at := now[host].Last; at.After(killed.Add(quiet)) && (again.IsZero() || at.Before(again)) {
				again = at
			}
		}
		return !again.IsZero()
	})
	b.ReportMetric(again.Sub(killed).Seconds(), "takeover-s")
	b.ReportMetric(float64(len(left)), "hosts-left")
	b.ReportMetric(0, "ns/op")
}

// waitAtMost is long enough for a crawl to find five million URLs.
const waitAtMost = 30 * time.Minute

// waitFor waits until something is so.
func waitFor(b *testing.B, what string, so func() bool) {
	b.Helper()
	tick, late := time.NewTicker(100*time.Millisecond), time.After(waitAtMost)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			b.Fatalf("it took too long until %s", what)
		}
	}
}
