package state

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// benchSize is how many links or pages the large benchmarks write: a twentieth
// of the whole, unless the environment says otherwise.
func benchSize(b *testing.B, whole int) int {
	switch {
	case os.Getenv("MAPWRIGHT_BENCH") == "smoke":
		return whole / 500
	case os.Getenv("STATE_BENCH_SIZE") != "":
		n, err := strconv.Atoi(os.Getenv("STATE_BENCH_SIZE"))
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return whole / 20
}

// anonRSS is what the process has in memory beside mapped files, in bytes, or
// zero where that cannot be read.
func anonRSS() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "RssAnon:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// cpuTime is what the process has used of its CPUs. On a machine that is shared
// it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A benchWeb makes records of pages that do not exist.
type benchWeb struct {
	hasher urlnorm.Hasher
	hosts  int
	ids    []urlnorm.HostID
	names  []string
	now    time.Time
	buf    []byte
}

func newBenchWeb(h urlnorm.Hasher, hosts int) *benchWeb {
	w := &benchWeb{hasher: h, hosts: hosts, now: time.UnixMilli(1_700_000_000_000)}
	for i := range hosts {
		w.names = append(w.names, fmt.Sprintf("https://www.site-%d.example/", i))
		w.ids = append(w.ids, h.HostID(fmt.Sprintf("www.site-%d.example", i)))
	}
	return w
}

func (w *benchWeb) url(i int) (host int, url []byte) {
	host = i % w.hosts
	w.buf = append(w.buf[:0], w.names[host]...)
	w.buf = append(w.buf, "catalogue/section-"...)
	w.buf = strconv.AppendInt(w.buf, int64(i/1000), 10)
	w.buf = append(w.buf, "/article-"...)
	w.buf = strconv.AppendInt(w.buf, int64(i), 10)
	return host, append(w.buf, ".html"...)
}

func (w *benchWeb) key(i int) urlnorm.Key {
	host, url := w.url(i)
	return w.hasher.KeyOf(w.ids[host], url)
}

// links fills r with the links number from to to.
func (w *benchWeb) links(r *Record, from, to int) {
	r.Links = r.Links[:0]
	_, parent := w.url(from / 10)
	p := string(parent)
	for i := from; i < to; i++ {
		host, url := w.url(i)
		r.Links = append(r.Links, Link{
			Key: w.hasher.KeyOf(w.ids[host], url), URL: string(url), Depth: 3, Priority: 20, Source: 1,
			Parent: p, DiscoveredAt: w.now,
		})
	}
}

// A fifths reports rates of the first and the last fifth of a run.
type fifths struct {
	total, done int
	start       time.Time
	cpu         time.Duration
	times       []time.Time
	rss         int64
}

func newFifths(total int) *fifths {
	return &fifths{total: total, start: time.Now(), cpu: cpuTime()}
}

// add counts n more; call it often.
func (f *fifths) add(n int) {
	f.done += n
	for f.done >= (len(f.times)+1)*f.total/5 {
		f.times = append(f.times, time.Now())
	}
}

func (f *fifths) report(b *testing.B) {
	n := float64(f.total) / 5
	first := n / f.times[0].Sub(f.start).Seconds()
	last := n / f.times[4].Sub(f.times[3]).Seconds()
	b.ReportMetric(float64(f.total)/f.times[4].Sub(f.start).Seconds(), "records/s")
	b.ReportMetric(first, "first-fifth/s")
	b.ReportMetric(last, "last-fifth/s")
	b.ReportMetric(last/first, "last/first")
	b.ReportMetric(float64((cpuTime()-f.cpu).Nanoseconds())/float64(f.total), "cpu-ns/record")
	b.ReportMetric(float64(f.rss)/(1<<20), "peak-anon-MB")
}

// BenchmarkWrite writes records and waits until all are durable and applied.
// Links is how many links a record names, finish whether it finishes a page.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		links  int
		finish bool
		hosts  int
	}{
		{links: 30, hosts: 1},
		{links: 30, hosts: 10_000},
		{finish: true, hosts: 1},
		{links: 3, finish: true, hosts: 500},
	} {
		b.Run(fmt.Sprintf("links=%d/finish=%v/hosts=%d", c.links, c.finish, c.hosts), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchWrite(b, c.links, c.finish, c.hosts, benchSize(b, 5_000_000))
			}
		})
	}
}

func benchWrite(b *testing.B, links int, finish bool, hosts, total int) {
	ctx := context.Background()
	var durable atomic.Int64
	s, err := Open(b.TempDir()+"/s", Options{ObserveDurable: func(d time.Duration, _ int) {
		durable.Store(max(durable.Load(), int64(d)))
	}})
	if err != nil {
		b.Fatal(err)
	}
	w := newBenchWeb(s.Hasher(), hosts)
	facts := []byte(strings.Repeat("facts of a page, about as many as there are. ", 6))
	f := newFifths(total)
	r := Record{}
	for i, step := 0, max(links, 1); i < total; i += step {
		if links > 0 {
			w.links(&r, i, min(i+links, total))
		}
		if finish {
			r.Finish = &Finish{Key: w.key(i), Outcome: 1, Status: 200, Attempts: 1, CrawledAt: w.now, Bytes: 10_000, Facts: facts}
		}
		if err := s.Ready(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Commit(r); err != nil {
			b.Fatal(err)
		}
		select {
		case <-s.CheckpointDue():
			if err := s.Checkpoint(ctx, func(*SnapshotWriter) error { return nil }); err != nil {
				b.Fatal(err)
			}
		default:
		}
		f.add(min(step, total-i))
		if i/step%1024 == 0 {
			f.rss = max(f.rss, anonRSS())
		}
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	f.times[4] = time.Now()
	f.report(b)
	b.ReportMetric(float64(durable.Load())/1e6, "max-commit-ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
