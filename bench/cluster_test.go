//go:build cluster

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/pgtest"
	"github.com/mapwright/mapwright/internal/cluster/postgres"
	"github.com/mapwright/mapwright/internal/cluster/replay"
)

// startServer starts a PostgreSQL server with fsync for a benchmark.
func startServer(b *testing.B) *pgtest.Server {
	b.Helper()
	s, err := pgtest.Start("max_wal_size=4GB")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Remove(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// overCluster makes a command one of a machine of a cluster.
func overCluster(cmd *exec.Cmd, s *pgtest.Server, crawl string) *exec.Cmd {
	cmd.Args = append(cmd.Args, "--cluster", s.URL("postgres"), "--name", crawl)
	return cmd
}

// BenchmarkCluster crawls scenario (b) without a cluster and as one machine over PostgreSQL, in turns. engine-µs/page is the processor time of the server. Then it
// replays the log of one crawl (replay).
func BenchmarkCluster(b *testing.B) {
	s := Scenarios()[1]
	w, server := startWeb(b, s), startServer(b)
	last := ""
	for turn := range s.Turns {
		for _, kind := range []string{"none", "postgres"} {
			b.Run(fmt.Sprintf("cluster=%s/turn=%d", kind, turn+1), func(b *testing.B) {
				for b.Loop() {
					before, err := server.CPU()
					if err != nil {
						b.Fatal(err)
					}
					cmd := ours(b, w)
					if kind == "postgres" {
						last = fmt.Sprint("turn", turn, time.Now().UnixNano())
						overCluster(cmd, server, last)
					}
					report(b, w, s, cmd)
					after, err := server.CPU()
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64((after-before).Microseconds())/float64(s.URLs()), "engine-µs/page")
				}
			})
		}
	}
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			benchmarkReplay(b, server, last)
		}
	})
}

func benchmarkReplay(b *testing.B, server *pgtest.Server, name string) {
	e, err := postgres.Open(b.Context(), server.URL("postgres"))
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
	conn, err := pgx.Connect(b.Context(), server.URL("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	var bytes int64
	err = conn.QueryRow(b.Context(), `SELECT sum(octet_length(body)) FROM mapwright_log_`+snap.Crawl.ID.String()).Scan(&bytes)
	_ = conn.Close(b.Context())
	if err != nil {
		b.Fatal(err)
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
	b.ReportMetric(float64(bytes)/1e6/took.Seconds(), "log-MB/s")
	b.ReportMetric(float64(records)/took.Seconds(), "records/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTakeover kills one of two machines and measures how long its hosts wait for their next request.
func BenchmarkTakeover(b *testing.B) {
	s := Scenario{Name: "takeover", Hosts: 200, Pages: 1000, PageSize: 2 << 10, Links: 30, Cross: 0.2}
	const timeout = 5 * time.Second
	w, server := startWeb(b, s), startServer(b)
	for b.Loop() {
		name := fmt.Sprint("takeover", time.Now().UnixNano())
		start := func(command string, args ...string) *exec.Cmd {
			cmd := exec.Command(program(b, "mapwright", "..", "./cmd/mapwright"), append([]string{command, "--cluster", server.URL("postgres"), "--name", name, "--data-dir", filepath.Join(b.TempDir(), command)}, args...)...)
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = cmd.Process.Kill() })
			return cmd
		}
		first := start("crawl", "--start-url", w.Start, "--profile", "own-site", "--scope", "any", "--resolve", w.Resolve, "--allow-private", "--max-inflight-per-host", "1", "--min-delay-ms", "500", "--timeout", timeout.String())
		waitFor(b, "the crawl is there", func() bool { return partitions(b, server, name) != nil })
		second := start("join")
		waitFor(b, "both machines have partitions and all hosts are asked", func() bool {
			stats, err := w.Stats()
			return err == nil && len(stats.Hosts) == s.Hosts && len(partitions(b, server, name)) == 2
		})
		if err := second.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		killed := time.Now()
		_ = second.Wait()
		waitFor(b, "hosts are left alone", func() bool { return time.Since(killed) > 5*time.Second })
		var left []string
		stats, err := w.Stats()
		if err != nil {
			b.Fatal(err)
		}
		for host, h := range stats.Hosts {
			if h.Last.Before(killed.Add(time.Second)) {
				left = append(left, host)
			}
		}
		var again time.Time
		waitFor(b, "one of them is asked again", func() bool {
			stats, err := w.Stats()
			if err != nil {
				b.Fatal(err)
			}
			for _, host := range left {
				if at := stats.Hosts[host].Last; at.After(killed.Add(5*time.Second)) && (again.IsZero() || at.Before(again)) {
					again = at
				}
			}
			return !again.IsZero()
		})
		_ = first.Process.Kill()
		_ = first.Wait()
		b.ReportMetric(again.Sub(killed).Seconds(), "takeover-s")
		b.ReportMetric(float64(len(left)), "hosts-left")
		b.ReportMetric(0, "ns/op")
	}
}

// partitions are how many partitions each machine of a crawl has that has any; nil if there is no such crawl.
func partitions(b *testing.B, server *pgtest.Server, name string) []int {
	b.Helper()
	out, err := exec.Command(program(b, "mapwright", "..", "./cmd/mapwright"), "status", "--cluster", server.URL("postgres"), "--name", name, "--json").Output()
	if err != nil {
		return nil
	}
	var s struct{ Machines []struct{ Partitions int } }
	if err := json.Unmarshal(out, &s); err != nil {
		b.Fatal(err)
	}
	all := []int{}
	for _, m := range s.Machines {
		if m.Partitions > 0 {
			all = append(all, m.Partitions)
		}
	}
	return all
}

// waitFor waits until something is so.
func waitFor(b *testing.B, what string, so func() bool) {
	b.Helper()
	tick, late := time.NewTicker(100*time.Millisecond), time.After(5*time.Minute)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			b.Fatalf("it took too long until %s", what)
		}
	}
}
