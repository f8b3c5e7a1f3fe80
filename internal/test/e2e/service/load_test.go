package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// load is how much is asked of a server.
type load struct {
	crawls, running  int // in all, and at once
	pages            int // of a crawl
	enough           int // crawls that are complete when the measurement ends
	pollers, streams int
	every            time.Duration // between two requests of a poller
	// milliseconds between two requests to a host, so that as many crawls run as may and the queue lasts
	delay int
}

func loadSize() load {
	if os.Getenv("MAPWRIGHT_BENCH") == "smoke" {
		return load{crawls: 12, running: 4, pages: 10, enough: 6, pollers: 6, streams: 4, every: 50 * time.Millisecond,
			delay: 10}
	}
	return load{crawls: 1050, running: 50, pages: 100, enough: 150, pollers: 200, streams: 100, every: time.Second,
		delay: 250}
}

// BenchmarkService puts a full queue, pollers and event streams on one server, and cancels what is left when enough
// crawls are complete. It reports how long reads take beside the crawls, the largest memory of the server, and the
// events that a stream has not got. An event that is lost, a request that is refused or a crawl that is not complete
// fails it.
func BenchmarkService(b *testing.B) {
	for b.Loop() {
		loadSize().put(b)
	}
}

func (l load) put(b *testing.B) {
	w := e2e.Serve(b, testweb.Config{Seed: 9, Hosts: l.running, Pages: l.pages, PageSize: 4000, Links: 10})
	dir := filepath.Join(b.TempDir(), "data")
	s := startServer(b, dir, "--max-crawls", strconv.Itoa(l.running), "--min-free", "0", "--rate-limit", "0",
		"--log-level", "warn")
	key := must(run(b, nil, "keys", "create", "--scope", "admin", "--data-dir", dir))(b)
	transport := &http.Transport{MaxIdleConnsPerHost: l.pollers}
	defer transport.CloseIdleConnections()
	api := must(client.New(client.Options{URL: s.url, Key: key, HTTP: &http.Client{Transport: transport}}))(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()

	watchers := newWatchers(ctx, api, l.streams)
	w.Hold(0) // so that the queue is full when the clock starts
	ids := l.submit(b, api, w)
	s.until("as many crawls run as may", func() bool {
		list := must(api.Crawls(ctx, service.CrawlFilter{States: []service.State{service.Running}, Limit: 200}))(b)
		return len(list.Items) == l.running
	})
	polls := l.poll(ctx, api, ids)
	began := time.Now()
	w.Release()
	every := time.NewTicker(l.every) // a client that asks all the time would be a load of its own
	defer every.Stop()
	for done := 0; done < l.enough; <-every.C {
		done = len(must(api.Crawls(ctx, service.CrawlFilter{States: []service.State{service.Complete},
			Limit: 500}))(b).Items)
	}
	took := time.Since(began)
	polls.stop()
	l.cancel(b, s, api, ids)
	lost := watchers.lost(s)
	memory := residentMB(s.cmd.Process.Pid)
	s.stop()

	if err := polls.err(); err != nil {
		b.Error(err)
	}
	if lost > 0 {
		b.Errorf("%d events were lost", lost)
	}
	b.ReportMetric(float64(lost), "lost-events")
	b.ReportMetric(polls.percentile(50), "read-p50-ms")
	b.ReportMetric(polls.percentile(99), "read-p99-ms")
	b.ReportMetric(float64(len(polls.all))/took.Seconds(), "reads/s")
	b.ReportMetric(float64(l.enough)/took.Minutes(), "crawls/min")
	if memory > 0 {
		b.ReportMetric(memory, "rss-MB")
	}
}

// submit submits all crawls.
func (l load) submit(b *testing.B, api *client.Client, w *testweb.Server) []string {
	b.Helper()
	settings := settingsFor(w, map[string]any{"timeout": "120s", "min_delay_ms": l.delay, "max_delay_ms": l.delay,
		"max_inflight_per_host": 1})
	ids := make([]string, l.crawls)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(8)
	for i := range ids {
		g.Go(func() error {
			crawl, err := api.Submit(ctx, service.Submission{StartURLs: []string{w.StartURLs()[i%l.running]},
				Settings: settings}, "")
			if err == nil {
				ids[i] = crawl.ID
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return ids
}

// cancel ends what is left.
func (l load) cancel(b *testing.B, s *server, api *client.Client, ids []string) {
	b.Helper()
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(8)
	for _, id := range ids {
		g.Go(func() error {
			crawl, err := api.Crawl(ctx, id)
			if err == nil && !crawl.State.Ended() {
				_, err = api.Command(ctx, id, service.CommandCancel)
			}
			if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusConflict {
				return nil // it has ended since
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	for _, id := range ids {
		s.reaches(api, id, service.Complete, service.Cancelled)
	}
}

// polls are clients that read again and again.
type polls struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu    sync.Mutex
	all   []time.Duration // guarded by mu until stop; what each read took, sorted by stop
	fault error           // guarded by mu until stop
}

// poll starts the clients. Of ten reads, seven are of one crawl, and one each of the list, the queue and the usage.
func (l load) poll(ctx context.Context, api *client.Client, ids []string) *polls {
	ctx, cancel := context.WithCancel(ctx)
	p := &polls{cancel: cancel}
	for i := range l.pollers {
		p.group.Go(func() {
			// Each asks at times of its own, whatever the answers take: clients that wait after an answer come to ask
			// all at once.
			next := time.Now().Add(l.every * time.Duration(i) / time.Duration(l.pollers))
			timer := time.NewTimer(time.Until(next))
			defer timer.Stop()
			for n := i; ; n++ {
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
				began := time.Now()
				var err error
				switch n % 10 {
				case 0:
					_, err = api.Crawls(ctx, service.CrawlFilter{})
				case 1:
					_, err = api.Queue(ctx, service.CrawlFilter{})
				case 2:
					err = api.Do(ctx, http.MethodGet, "/v1/usage", nil, &service.Usage{})
				default:
					_, err = api.Crawl(ctx, ids[n%len(ids)])
				}
				if ctx.Err() != nil {
					return
				}
				p.add(time.Since(began), err)
				for next = next.Add(l.every); time.Until(next) < 0; {
					next = next.Add(l.every)
				}
				timer.Reset(time.Until(next))
			}
		})
	}
	return p
}

func (p *polls) add(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, took)
	if err != nil && p.fault == nil {
		p.fault = fmt.Errorf("a read failed: %w", err)
	}
}

// stop ends the clients.
func (p *polls) stop() {
	p.cancel()
	p.group.Wait()
	slices.Sort(p.all)
}

// err is the first read that failed, or that there was none at all.
func (p *polls) err() error {
	if p.fault == nil && len(p.all) == 0 {
		return fmt.Errorf("no client has read anything")
	}
	return p.fault
}

// percentile is the time in milliseconds that so many of a hundred reads did not exceed.
func (p *polls) percentile(percent int) float64 {
	if len(p.all) == 0 {
		return 0
	}
	return float64(p.all[(len(p.all)-1)*percent/100].Microseconds()) / 1000
}

// watchers are clients of event streams.
type watchers struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	last   []atomic.Int64   // of each, the id of the newest event
	seen   []map[int64]bool // of each, the ids of its events; read after group.Wait
}

// newWatchers starts clients that read all events from the first one.
func newWatchers(ctx context.Context, api *client.Client, n int) *watchers {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{cancel: cancel, last: make([]atomic.Int64, n), seen: make([]map[int64]bool, n)}
	for i := range n {
		w.seen[i] = map[int64]bool{}
		w.group.Go(func() {
			for event, err := range api.Events(ctx, "", 0) {
				if err != nil {
					return // what it has not got is lost
				}
				if event.ID > 0 {
					w.seen[i][event.ID] = true
					w.last[i].Store(event.ID)
				}
			}
		})
	}
	return w
}

// lost ends the clients when each has got the newest event, and counts the events of the database that one of them has
// not got.
func (w *watchers) lost(s *server) (lost int) {
	s.t.Helper()
	defer w.cancel()
	records := must(service.Open(s.t.Context(), service.Options{Dir: s.dir, RecordsOnly: true}))(s.t)
	var ids []int64
	for {
		part := must(records.Events.Since(s.t.Context(), service.EventFilter{After: slices.Max(append(ids, 0))}))(s.t)
		if len(part) == 0 {
			break
		}
		for _, e := range part {
			ids = append(ids, e.ID)
		}
	}
	if err := records.Close(); err != nil || len(ids) == 0 {
		s.t.Fatalf("the database has %d events, %v", len(ids), err)
	}
	for i := range w.last {
		s.until("all events have come", func() bool { return w.last[i].Load() >= ids[len(ids)-1] })
	}
	w.cancel()
	w.group.Wait()
	for _, seen := range w.seen {
		for _, id := range ids {
			if !seen[id] {
				lost++
			}
		}
	}
	return lost
}

// residentMB is the largest memory that a process has had, or 0 where the system does not say it.
func residentMB(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			if err != nil {
				return 0
			}
			return float64(n) / 1024
		}
	}
	return 0
}
