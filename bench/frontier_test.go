package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state"
)

// addLinks is how many links are added at once, as many as a page has.
const addLinks = 30

// BenchmarkFrontierOverBadger adds URLs that are all new to a frontier over the store that crawls use, with its
// checkpoints, and ends when all are durable and applied. MAPWRIGHT_BENCH_FRONTIER is how many; each tenth of them is
// measured, and last/first says how much slower the last one was.
func BenchmarkFrontierOverBadger(b *testing.B) {
	total := sizeOf(b, "MAPWRIGHT_BENCH_FRONTIER", 500_000, 10_000)
	for _, hosts := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("urls=%d/hosts=%d", total, hosts), func(b *testing.B) {
			for b.Loop() {
				a := newAdder(b, hosts, total)
				a.run(b)
				a.close(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// adder fills one frontier.
type adder struct {
	hosts, total int
	store        *state.Store
	frontier     *frontier.Frontier
	next         atomic.Int64 // the next batch to add
	added        atomic.Int64 // links that were taken in
	applied      int          // links that Badger has; written by the store's applier
	tenths       [10]time.Time
	background   sync.WaitGroup
	stop         context.CancelFunc
}

func newAdder(b *testing.B, hosts, total int) *adder {
	b.Helper()
	a := &adder{hosts: hosts, total: total}
	s, err := state.Open(filepath.Join(b.TempDir(), "state"), state.Options{ObserveApplied: a.observe})
	if err != nil {
		b.Fatal(err)
	}
	f, err := frontier.New(frontier.Options{Seed: s.Seed()}, s)
	if err != nil {
		b.Fatal(err)
	}
	a.store, a.frontier = s, f
	ctx, stop := context.WithCancel(b.Context())
	a.stop = stop
	a.background.Go(func() {
		if err := a.checkpoints(ctx); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	})
	return a
}

// observe notes when each tenth was applied. A record holds the links of one call; the few records of checkpoints are
// counted as if they did.
func (a *adder) observe(_ time.Duration, records int) {
	before := a.applied * 10 / a.total
	a.applied += records * addLinks
	for tenth := before; tenth < min(10, a.applied*10/a.total); tenth++ {
		a.tenths[tenth] = time.Now()
	}
}

// checkpoints makes them as a crawl does, when the log has grown.
func (a *adder) checkpoints(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.store.CheckpointDue():
		}
		if err := a.frontier.Checkpoint(ctx); err != nil {
			return err
		}
		if err := a.store.Checkpoint(ctx,
			func(w *state.SnapshotWriter) error { return a.frontier.SaveFilters(w) }); err != nil {
			return err
		}
	}
}

// run adds everything and reports.
func (a *adder) run(b *testing.B) {
	b.Helper()
	stop := make(chan struct{})
	peak := make(chan int64)
	go func() { peak <- watchRSS(os.Getpid(), stop) }()
	start := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			if err := a.add(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
	workers.Wait()
	if err := a.store.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	a.tenths[9] = time.Now() // nothing is left to be applied
	close(stop)
	anonymous := <-peak
	if n := a.added.Load(); n != int64(a.total) {
		b.Fatalf("%d of %d URLs were added", n, a.total)
	}
	first := float64(a.total) / 10 / a.tenths[0].Sub(start).Seconds()
	last := float64(a.total) / 10 / a.tenths[9].Sub(a.tenths[8]).Seconds()
	st := a.frontier.Stats()
	b.ReportMetric(float64(a.total)/a.tenths[9].Sub(start).Seconds(), "urls/s")
	b.ReportMetric(first, "first-tenth/s")
	b.ReportMetric(last, "last-tenth/s")
	b.ReportMetric(last/first, "last/first")
	b.ReportMetric(float64(anonymous)/(1<<20), "anon-MB")
	b.ReportMetric(float64(st.Doubtful)/float64(a.total), "looked-up/url")
}

// add adds batch after batch.
func (a *adder) add(ctx context.Context) error {
	links := make([]frontier.Link, 0, addLinks)
	found := time.Now()
	for {
		batch := int(a.next.Add(1)) - 1
		from, to := batch*addLinks, min((batch+1)*addLinks, a.total)
		if from >= a.total {
			return nil
		}
		host := strconv.Itoa(batch % a.hosts)
		links = links[:0]
		for n := from; n < to; n++ {
			url := "http://www.site-" + host + ".test/catalogue/section-" + strconv.Itoa(n/1000) + "/article-" +
				strconv.Itoa(n) + ".html"
			u, err := weburl.Parse(url)
			if err != nil {
				return err
			}
			links = append(links, frontier.Link{URL: u, Depth: 3, Discovered: found})
		}
		n, err := a.frontier.Add(ctx, links)
		if err != nil {
			return err
		}
		a.added.Add(int64(n))
	}
}

// close ends what newAdder began.
func (a *adder) close(b *testing.B) {
	b.Helper()
	a.stop()
	a.background.Wait()
	if err := a.frontier.Close(); err != nil {
		b.Error(err)
	}
	if err := a.store.Close(); err != nil {
		b.Error(err)
	}
}
