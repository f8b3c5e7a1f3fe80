package state

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// BenchmarkCheckpoint makes checkpoints with a filter of 64 MB while records are
// committed at the rate of a fast crawl, and says how long a crawl was held up.
func BenchmarkCheckpoint(b *testing.B) {
	ctx := context.Background()
	var slowest atomic.Int64
	s, err := Open(b.TempDir()+"/s", Options{ObserveDurable: func(d time.Duration, _ int) {
		slowest.Store(max(slowest.Load(), int64(d)))
	}})
	if err != nil {
		b.Fatal(err)
	}
	w := newBenchWeb(s.Hasher(), 100)
	filter := make([]byte, 64<<20)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var held time.Duration
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var r frontier.Record
		for i := 0; ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for range 4 { // 4,000 pages a second with 5 new links each
				start := time.Now()
				w.links(&r, i, i+5)
				r.Finish = &frontier.Finish{Key: w.key(i), Status: 200, Facts: filter[:200]}
				i += 5
				if err := s.Ready(ctx); err != nil {
					return
				}
				if _, err := s.Commit(r); err != nil {
					return
				}
				held = max(held, time.Since(start))
			}
		}
	}()
	for b.Loop() {
		if err := s.Checkpoint(ctx, func(sw *SnapshotWriter) error {
			return sw.Put("filter", 1, func(out io.Writer) error {
				_, err := out.Write(filter)
				return err
			})
		}); err != nil {
			b.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	b.ReportMetric(float64(held)/1e6, "max-held-ms")
	b.ReportMetric(float64(slowest.Load())/1e6, "max-commit-ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCrawl commits the records of a crawl of 50,000 pages at the speed of
// a crawl, and says how much memory and CPU the store took.
func BenchmarkCrawl(b *testing.B) {
	pages := 50_000
	if os.Getenv("MAPWRIGHT_BENCH") == "smoke" {
		pages = 500
	}
	ctx := context.Background()
	for b.Loop() {
		f := newFifths(pages)
		s, err := Open(b.TempDir()+"/s", Options{
			ObserveDurable: func(d time.Duration, _ int) { f.slowest = max(f.slowest, d) },
			ObserveApplied: func(_ time.Duration, records int) { f.add(records) },
		})
		if err != nil {
			b.Fatal(err)
		}
		w := newBenchWeb(s.Hasher(), 100)
		facts := make([]byte, 300)
		var r frontier.Record
		tick := time.NewTicker(2 * time.Millisecond)
		for i := 0; i < pages; {
			<-tick.C
			for range 10 { // 5,000 pages a second
				w.links(&r, i*3, i*3+3)
				r.Leased = []weburl.Key{r.Links[0].Key}
				r.Finish = &frontier.Finish{Key: w.key(i), Outcome: 1, Status: 200, CheckedAt: w.now, Facts: facts}
				if err := s.Ready(ctx); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Commit(r); err != nil {
					b.Fatal(err)
				}
				i++
			}
		}
		tick.Stop()
		b.ReportMetric(float64(s.Stats().CommitLatency)/1e6, "commit-ms")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		f.report(b)
	}
}

// BenchmarkCommit is what the caller of Commit pays for a page with five new
// links.
func BenchmarkCommit(b *testing.B) {
	ctx := context.Background()
	s, err := Open(b.TempDir()+"/s", Options{})
	if err != nil {
		b.Fatal(err)
	}
	w := newBenchWeb(s.Hasher(), 1)
	var recs []frontier.Record
	for i := range 1000 {
		var r frontier.Record
		w.links(&r, i*5, i*5+5)
		r.Finish = &frontier.Finish{Key: w.key(i), Status: 200, Facts: make([]byte, 200)}
		recs = append(recs, r)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			b.StopTimer()
			if err := s.Flush(ctx); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if _, err := s.Commit(recs[i%1000]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecrawl is what the store does for pages that have not changed: visits are queued in no order of the URLs,
// read from the queue, and for each page what is known of it is read and a finish committed that keeps the facts. It
// says how many bytes were written to the log, padding of batches included, and how much CPU time each page took.
func BenchmarkRecrawl(b *testing.B) {
	ctx := context.Background()
	n := benchSize(b, 2_000_000) / 2
	s, w := fill(b, b.TempDir()+"/s", Options{}, 1, 2*n) // n pages are finished
	defer s.Close()
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for visit := uint32(2); b.Loop(); visit++ {
		queued, _ := s.queue.last()
		written, used, start := s.journal.Stats().Written, testweb.CPUTime(), time.Now()
		before := frontier.Summary{Outcome: 1, Status: 200}
		for from := 0; from < n; from += 4096 {
			var r frontier.Record
			for _, i := range order[from:min(n, from+4096)] {
				r.Visits = append(r.Visits, frontier.Link{Key: w.key(i), Depth: 3, Priority: 20, Source: 1,
					Visit: visit, Before: before})
			}
			if _, err := s.Commit(r); err != nil {
				b.Fatal(err)
			}
		}
		done := 0
		for at := (frontier.Cursor{Priority: 20, Position: queued}); done < n; {
			links, next, err := s.Pending(ctx, w.ids[0], at, 1000)
			if err != nil {
				b.Fatal(err)
			}
			at = next
			for _, l := range links {
				p, _, err := s.Before(ctx, l.Key, visit)
				if err != nil || p.Finish == nil {
					b.Fatal(err)
				}
				f := *p.Finish
				f.Visit, f.Generation, f.Before, f.Facts, f.KeepFacts, f.NotModified, f.Change, f.CheckedAt = visit,
					visit-1, l.Before, nil, true, true, 3, time.Now()
				if err := s.Ready(ctx); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Commit(frontier.Record{Finish: &f}); err != nil {
					b.Fatal(err)
				}
				done++
			}
		}
		if err := s.Flush(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(s.journal.Stats().Written-written)/float64(n), "log-B/page")
		b.ReportMetric(float64(testweb.CPUTime()-used)/1e3/float64(n), "cpu-µs/page")
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "pages/s")
	}
}
