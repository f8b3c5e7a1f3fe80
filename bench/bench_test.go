package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// As a child of itself, the test binary is one of the limits instead of a test.
func TestMain(m *testing.M) {
	if kind := os.Getenv("MAPWRIGHT_BENCH_CHILD"); kind != "" {
		os.Exit(child(kind, os.Getenv("MAPWRIGHT_BENCH_ADDR"), os.Getenv("MAPWRIGHT_BENCH_ARG")))
	}
	flag.Parse()
	dir, err := os.MkdirTemp("", "mapwright-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// binDir holds the programs under test; TestMain makes and removes it.
var binDir string

func child(kind, addr, arg string) int {
	start := time.Now()
	run := map[string]func(addr, arg string) error{"bare": Bare, "naive": Naive, "history": makeHistory,
		"resume": resumeHistory}[kind]
	if err := run(addr, arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(childReport{CrawlSeconds: time.Since(start).Seconds()})
	return 0
}

// program builds a program, once. Module is the directory of its module, seen from here.
func program(b *testing.B, name, module, pkg string) string {
	b.Helper()
	path := filepath.Join(binDir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	profile := "-pgo=auto" // as users build it
	if os.Getenv("MAPWRIGHT_BENCH") == "smoke" {
		profile = "-pgo=off" // with it every package is compiled once more
	}
	cmd := exec.Command("go", "build", profile, "-o", path, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

func startWeb(b *testing.B, s Scenario) *Web {
	b.Helper()
	w, err := StartWeb(program(b, "testweb", "..", "./internal/test/testweb/cmd/testweb"), s)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

// ours is the command of our own crawl, with everything on.
func ours(b *testing.B, w *Web) *exec.Cmd {
	b.Helper()
	return oursIn(b, w, filepath.Join(b.TempDir(), "data"))
}

// oursIn is ours in a given data directory.
func oursIn(b *testing.B, w *Web, dir string) *exec.Cmd {
	b.Helper()
	args := []string{"crawl", "--start-url", w.Start, "--profile", "own-site", "--scope", "any", "--resolve", w.Resolve,
		"--allow-private",
		"--data-dir", dir, "--json", "--log-level", "warn", "--metrics-addr", "127.0.0.1:0"}
	return exec.Command(program(b, "mapwright", "..", "./cmd/mapwright"), args...)
}

// limit is the command of this test binary as something else; see TestMain.
func limit(kind, addr, arg string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MAPWRIGHT_BENCH_CHILD="+kind, "MAPWRIGHT_BENCH_ADDR="+addr,
		"MAPWRIGHT_BENCH_ARG="+arg)
	return cmd
}

// peer is the command of another crawler, which is in the module of the peers.
func peer(b *testing.B, name string, w *Web) *exec.Cmd {
	b.Helper()
	return exec.Command(program(b, name, "peers", "./"+name), w.Addr, w.Start)
}

// crawlers are who crawls in a turn of a scenario, the first of which is 0. With MAPWRIGHT_BENCH_PEERS=1 the peers are
// among them in some, and must find everything too.
func crawlers(s Scenario, turn int) []string {
	all := []string{"bare", "naive", "ours"}
	if turn < s.PeerTurns && os.Getenv("MAPWRIGHT_BENCH_PEERS") == "1" {
		all = append(all, "colly")
	}
	return all
}

func BenchmarkCrawl(b *testing.B) {
	for _, s := range Scenarios() {
		b.Run("scenario="+s.Name, func(b *testing.B) {
			w := startWeb(b, s)
			urls := filepath.Join(b.TempDir(), "urls")
			if _, err := w.WriteURLs(urls); err != nil {
				b.Fatal(err)
			}
			for turn := range s.Turns {
				for _, crawler := range crawlers(s, turn) {
					b.Run(fmt.Sprintf("crawler=%s/turn=%d", crawler, turn+1), func(b *testing.B) {
						for b.Loop() {
							var cmd *exec.Cmd
							switch crawler {
							case "bare":
								cmd = limit(crawler, w.Addr, urls)
							case "naive":
								cmd = limit(crawler, w.Addr, w.Start)
							case "ours":
								cmd = ours(b, w)
							default:
								cmd = peer(b, crawler, w)
							}
							report(b, w, s, cmd)
						}
					})
				}
			}
		})
	}
}

// BenchmarkGrowth crawls one host of growing size with ours alone. MAPWRIGHT_BENCH_GROWTH names the largest size. The
// small sizes are crawled before, between and after the large ones, which take minutes.
func BenchmarkGrowth(b *testing.B) {
	most := sizeOf(b, "MAPWRIGHT_BENCH_GROWTH", 100_000, 10_000)
	turn := map[int]int{}
	for _, pages := range []int{10_000, 100_000, 1_000_000, 10_000, 100_000, 3_000_000, 10_000, 100_000} {
		if pages > most {
			continue
		}
		if Smoke() {
			pages = 500
		}
		turn[pages]++
		b.Run(fmt.Sprintf("pages=%d/turn=%d", pages, turn[pages]), func(b *testing.B) {
			w := startWeb(b, Growth(pages))
			for b.Loop() {
				report(b, w, Growth(pages), ours(b, w))
			}
		})
	}
}

// sizeOf is the size that a variable of the environment names, or a small one, which takes seconds.
func sizeOf(b *testing.B, variable string, small, smoke int) int {
	b.Helper()
	if Smoke() {
		return smoke
	}
	text := os.Getenv(variable)
	if text == "" {
		return small
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%s is not a size", variable, text)
	}
	return n
}

// report measures a crawl and fails if it is not complete.
func report(b *testing.B, w *Web, s Scenario, cmd *exec.Cmd) Figures {
	b.Helper()
	f, err := Measure(w, cmd)
	if err != nil {
		b.Fatal(err)
	}
	if f.Pages != int64(s.URLs()) || f.Duplicates != 0 {
		b.Errorf("%d of %d pages fetched, %d twice", f.Pages, s.URLs(), f.Duplicates)
	}
	b.ReportMetric(f.PagesPerSecond(), "pages/s")
	b.ReportMetric(float64(f.CPUPerPage().Nanoseconds())/1000, "cpu-µs/page")
	b.ReportMetric(float64(f.ServerCPU.Nanoseconds())/1000/float64(max(f.Pages, 1)), "server-µs/page")
	b.ReportMetric(f.AnonymousMB, "anon-MB")
	b.ReportMetric(f.AnonymousMB-f.HotSetMB, "anon-less-hot-MB")
	b.ReportMetric(float64(f.Connections)/float64(s.Hosts), "conns/host")
	b.ReportMetric(f.Export.Seconds(), "export-s")
	b.ReportMetric(0, "ns/op")
	return f
}
