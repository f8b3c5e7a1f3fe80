package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// historyPlan is what a child that makes or resumes a history is told.
type historyPlan struct {
	Dir                   datadir.Dir
	Hosts, Known, Pending int
}

// resumed is what a child that resumes says of its first fetch.
type resumed struct {
	Seconds float64 `json:"seconds"` // from the start of the program
	Found   int64   `json:"found"`
	Pending int64   `json:"pending"`
}

// BenchmarkResume kills a crawl in its middle and goes on with it: first-fetch-s is the time from the start of the new
// process to its first request for a page. The history is a real one, of a crawl with a web without wires.
// MAPWRIGHT_BENCH_RESUME is how many URLs the crawl knows when it is killed; a tenth of them is pending.
func BenchmarkResume(b *testing.B) {
	known := sizeOf(b, "MAPWRIGHT_BENCH_RESUME", 200_000, 5_000)
	for _, hosts := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("known=%d/hosts=%d", known, hosts), func(b *testing.B) {
			dir := datadir.Dir(filepath.Join(b.TempDir(), "data"))
			plan := historyPlan{Dir: dir, Hosts: hosts, Known: known, Pending: known / 10}
			made := killInTheMiddle(b, plan)
			b.ResetTimer()
			for b.Loop() {
				first, anonymous := firstFetch(b, plan)
				// What pages in flight brought in the last moment is not known.
				if first.Found < int64(known)/2 || first.Pending < int64(plan.Pending)/2 {
					b.Errorf("the resumed crawl knows %d URLs, %d of them pending: that is not the history of %d and %d", first.Found, first.Pending, known, plan.Pending)
				}
				b.ReportMetric(first.Seconds, "first-fetch-s")
				b.ReportMetric(float64(first.Found), "known")
				b.ReportMetric(float64(first.Pending), "pending")
				b.ReportMetric(anonymous, "anon-MB")
			}
			b.ReportMetric(made.Seconds(), "history-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// historian is this binary as one who makes a history, or resumes one.
func historian(b *testing.B, kind string, plan historyPlan) *exec.Cmd {
	b.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		b.Fatal(err)
	}
	cmd := limit(kind, "", string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// killInTheMiddle makes a history and kills it when it is as long as it should be.
func killInTheMiddle(b *testing.B, plan historyPlan) time.Duration {
	b.Helper()
	start := time.Now()
	cmd := historian(b, "history", plan)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(start)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || line != "reached\n" {
		b.Fatalf("the history was not made: %v %s", err, line)
	}
	return took
}

// firstFetch resumes a crawl up to its first fetch, and returns the largest anonymous RSS on the way in MB.
func firstFetch(b *testing.B, plan historyPlan) (first resumed, anonymous float64) {
	b.Helper()
	cmd := historian(b, "resume", plan)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	peak := make(chan int64)
	stop := make(chan struct{})
	go func() { peak <- watchRSS(cmd.Process.Pid, stop) }()
	err = json.NewDecoder(out).Decode(&first)
	close(stop)
	anonymous = float64(<-peak) / (1 << 20)
	_ = cmd.Wait()
	if err != nil {
		b.Fatalf("resume: %v", err)
	}
	return first, anonymous
}

// makeHistory crawls until it is killed, and says when it may be: when what it has found is durable.
func makeHistory(_, arg string) error {
	var plan historyPlan
	if err := json.Unmarshal([]byte(arg), &plan); err != nil {
		return err
	}
	var history *crawl.Crawl
	web := newMemoryWeb(plan.Hosts, plan.Known, plan.Pending, func() {
		// An export reads what is recorded, and waits until all of that is durable.
		dir := string(plan.Dir) + ".export"
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			_, err = history.Export(context.Background(), fmt.Appendf(nil, `{"Dir": %q, "Only": ["jsonl"]}`, dir), nil)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("reached")
	})
	start, err := weburl.Parse(string(web.appendURL(nil, 0)))
	if err != nil {
		return err
	}
	return runCrawl(crawl.Options{
		Settings: historySettings(), Starts: []datadir.Start{{URL: start}}, Dir: plan.Dir, Version: "bench",
		Log: warnings(), Fetcher: web,
	}, func(c *crawl.Crawl) { history = c })
}

// runCrawl runs one crawl that shares nothing. Made is told of it before it runs.
func runCrawl(o crawl.Options, made func(*crawl.Crawl)) error {
	shared, err := crawl.NewShared(crawl.ForOneCrawl(o.Settings))
	if err != nil {
		return err
	}
	defer shared.Close()
	o.Outputs = &results.Outputs{}
	c, err := crawl.New(shared, o)
	if err != nil {
		return err
	}
	made(c)
	return c.Run(context.Background())
}

// resumeHistory goes on with a crawl and leaves at its first fetch of a page.
func resumeHistory(_, arg string) error {
	began := time.Now()
	var plan historyPlan
	if err := json.Unmarshal([]byte(arg), &plan); err != nil {
		return err
	}
	old, err := datadir.ReadPlan(plan.Dir)
	if err != nil {
		return err
	}
	watch := &firstRequest{began: began}
	err = runCrawl(crawl.Options{
		Settings: historySettings(), Plan: old, Dir: plan.Dir, Version: "bench", Log: warnings(), Fetcher: watch,
		Started: func(m *monitor.Monitor) { watch.monitor = m },
	}, func(*crawl.Crawl) {})
	return errors.Join(errors.New("the crawl ended without a fetch"), err)
}

func historySettings() *config.Settings {
	s := config.Defaults(config.OwnSite)
	s.Scope = "any"
	return s
}

func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// firstRequest is a fetcher that ends the process when it is asked for a page.
type firstRequest struct {
	began   time.Time
	monitor *monitor.Monitor // set before the first lease
	once    sync.Once
}

// Do implements fetch.Fetcher. It does not return.
func (f *firstRequest) Do(context.Context, fetch.Request) (*fetch.Response, error) {
	f.once.Do(func() {
		took := time.Since(f.began)
		live := f.monitor.Live()
		_ = json.NewEncoder(os.Stdout).Encode(resumed{took.Seconds(), live.Found, live.Pending})
		os.Exit(0)
	})
	select {}
}
