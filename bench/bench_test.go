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
	run := map[string]func(addr, arg string) error{"bare": Bare, "naive": Naive}[kind]
	if err := run(addr, arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(childReport{CrawlSeconds: time.Since(start).Seconds()})
	return 0
}

// program builds one of the module's programs, once.
func program(b *testing.B, name, pkg string) string {
	b.Helper()
	path := filepath.Join(binDir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

func startWeb(b *testing.B, s Scenario) *Web {
	b.Helper()
	w, err := StartWeb(program(b, "testweb", "./internal/testweb/cmd/testweb"), s)
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
func ours(b *testing.B, w *Web, s Scenario, extra ...string) *exec.Cmd {
	b.Helper()
	args := []string{"crawl", "--start-url", w.Start, "--profile", "own-site", "--scope", "any", "--resolve", w.Resolve, "--allow-private",
		"--data-dir", filepath.Join(b.TempDir(), "data"), "--json", "--log-level", "warn", "--metrics-addr", "127.0.0.1:0"}
	return exec.Command(program(b, "mapwright", "./cmd/mapwright"), append(args, extra...)...)
}

func limit(kind string, w *Web, arg string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MAPWRIGHT_BENCH_CHILD="+kind, "MAPWRIGHT_BENCH_ADDR="+w.Addr, "MAPWRIGHT_BENCH_ARG="+arg)
	return cmd
}

func BenchmarkCrawl(b *testing.B) {
	for _, s := range Scenarios() {
		b.Run("scenario="+s.Name, func(b *testing.B) {
			w := startWeb(b, s)
			urls := filepath.Join(b.TempDir(), "urls")
			if _, err := w.WriteURLs(urls); err != nil {
				b.Fatal(err)
			}
			for _, crawler := range []string{"bare", "naive", "ours"} {
				b.Run("crawler="+crawler, func(b *testing.B) {
					for b.Loop() {
						cmd := limit(crawler, w, map[string]string{"bare": urls, "naive": w.Start}[crawler])
						if crawler == "ours" {
							cmd = ours(b, w, s)
						}
						report(b, w, s, cmd)
					}
				})
			}
		})
	}
}

// BenchmarkGrowth crawls one host of growing size with ours alone. MAPWRIGHT_BENCH_GROWTH names the largest size.
func BenchmarkGrowth(b *testing.B) {
	most := 100_000
	if text := os.Getenv("MAPWRIGHT_BENCH_GROWTH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		most = n
	}
	for _, pages := range []int{10_000, 100_000, 1_000_000, 3_000_000} {
		if pages > most || (Smoke() && pages > 10_000) {
			break
		}
		if Smoke() {
			pages = 500
		}
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			w := startWeb(b, Growth(pages))
			for b.Loop() {
				report(b, w, Growth(pages), ours(b, w, Growth(pages)))
			}
		})
	}
}

// report measures a crawl and fails if it is not complete.
func report(b *testing.B, w *Web, s Scenario, cmd *exec.Cmd) {
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
	b.ReportMetric(float64(f.Connections)/float64(s.Hosts), "conns/host")
	b.ReportMetric(f.Export.Seconds(), "export-s")
	b.ReportMetric(0, "ns/op")
}
