package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
)

// BenchmarkDashboards crawls a site of MAPWRIGHT_BENCH_DASHBOARDS pages through the service, with no and with 100 open
// pages of that crawl in turns. cpu-µs/page is the processor time of the server's whole process, from its start to its
// end. dashboards-cpu-% is by how much the median of the turns with open pages is above that of the others; the goal is
// 5 at most.
func BenchmarkDashboards(b *testing.B) {
	pages, turns := sizeOf(b, "MAPWRIGHT_BENCH_DASHBOARDS", 50_000, 500), 5
	if Smoke() {
		turns = 1
	}
	w := startWeb(b, Growth(pages))
	took := map[int][]float64{}
	for turn := range turns {
		for _, open := range []int{0, 100} {
			b.Run(fmt.Sprintf("open=%d/turn=%d", open, turn+1), func(b *testing.B) {
				for b.Loop() {
					cpu := crawlWatched(b, w, pages, open)
					b.ReportMetric(cpu, "cpu-µs/page")
					took[open] = append(took[open], cpu)
				}
			})
		}
	}
	if len(took[0]) == 0 || len(took[100]) == 0 {
		return // -bench asks for some of the turns only
	}
	b.Run("share", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(100*(median(took[100])/median(took[0])-1), "dashboards-cpu-%")
		b.ReportMetric(0, "ns/op")
	})
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// crawlWatched crawls the web in a new server while pages of the crawl are open, and returns the processor time of the
// server per page in µs.
func crawlWatched(b *testing.B, w *Web, pages, open int) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	if err := w.Reset(); err != nil {
		b.Fatal(err)
	}
	s := startService(ctx, b)
	settings := map[string]json.RawMessage{"profile": json.RawMessage(`"own-site"`),
		"allow_private": json.RawMessage("true"), "resolve": json.RawMessage(fmt.Sprintf("[%q]", w.Resolve))}
	crawl, err := s.client.Submit(ctx, service.Submission{StartURLs: []string{w.Start}, Settings: settings}, "")
	if err != nil {
		b.Fatal(err)
	}
	watching, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range open {
		all.Go(func() {
			if err := s.watch(watching, crawl.ID); err != nil && watching.Err() == nil {
				b.Error(err)
			}
		})
	}
	for e, err := range s.client.Events(ctx, crawl.ID, 0) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Type == service.CrawlFinished {
			break
		}
	}
	stop()
	all.Wait()
	cpu := s.end(b)
	stats, err := w.Stats()
	if err != nil {
		b.Fatal(err)
	}
	done := 0
	for _, h := range stats.Hosts {
		done += int(h.Pages)
	}
	if done != pages {
		b.Errorf("%d pages of %d were fetched", done, pages)
	}
	if open > 0 {
		b.ReportMetric(float64(s.samples.Load()), "samples")
		b.ReportMetric(float64(s.parts.Load()), "parts")
	}
	b.ReportMetric(0, "ns/op")
	return float64(cpu.Microseconds()) / float64(pages)
}

// running is a server of the service in a process of its own, and clients of it.
type running struct {
	cmd    *exec.Cmd
	url    string
	client *client.Client
	pages  *http.Client // with a session

	samples, parts atomic.Int64 // what open pages got
}

// startService starts a server that ends with the context at the latest.
func startService(ctx context.Context, b *testing.B) *running {
	b.Helper()
	path, dir := program(b, "mapwright", "..", "./cmd/mapwright"), filepath.Join(b.TempDir(), "data")
	s := &running{cmd: exec.CommandContext(ctx, path, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir,
		"--rate-limit", "0", "--min-free", "0", "--log-level", "warn")}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for s.url == "" && in.Scan() {
		if _, rest, found := strings.Cut(in.Text(), "listening on "); found {
			s.url = strings.TrimRight(rest, "/")
		}
	}
	if s.url == "" {
		b.Fatal("the server does not listen")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	key, err := exec.CommandContext(ctx, path, "keys", "create", "--scope", "admin", "--name", "bench", "--data-dir",
		dir).Output()
	if err != nil {
		b.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	b.Cleanup(transport.CloseIdleConnections)
	s.pages = &http.Client{Transport: transport, Jar: jar}
	secret := strings.TrimSpace(string(key))
	if s.client, err = client.New(client.Options{URL: s.url, Key: secret,
		HTTP: &http.Client{Transport: transport}}); err != nil {
		b.Fatal(err)
	}
	res, err := s.pages.PostForm(s.url+"/login", url.Values{"key": {secret}})
	if err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close() // nothing of it is read
	if res.StatusCode != http.StatusOK {
		b.Fatalf("the login answers %s", res.Status)
	}
	return s
}

// refreshAfter is how long the script of the page waits until it asks for the live part again.
const refreshAfter = 3 * time.Second

// watch does what an open page of a crawl does: it loads the page, follows the event stream, and asks for the live part
// again.
func (s *running) watch(ctx context.Context, id string) error {
	if err := s.get(ctx, "/crawls/"+id); err != nil {
		return err
	}
	refreshed := time.Now()
	for e, err := range s.client.Events(ctx, "", -1) {
		if err != nil {
			return err
		}
		if e.Type != service.Sample {
			continue
		}
		s.samples.Add(1)
		if time.Since(refreshed) > refreshAfter {
			refreshed = time.Now()
			if err := s.get(ctx, "/crawls/"+id+"/live"); err != nil {
				return err
			}
			s.parts.Add(1)
		}
	}
	return nil
}

func (s *running) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	res, err := s.pages.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent { // the crawl has ended
		return fmt.Errorf("%s answers %s", path, res.Status)
	}
	return nil
}

// end ends the server and returns the processor time that it took.
func (s *running) end(b *testing.B) time.Duration {
	b.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		b.Fatalf("the server ended: %v", err)
	}
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
}
