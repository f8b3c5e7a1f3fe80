package state

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/testweb"
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

// A benchWeb makes records of pages that do not exist.
type benchWeb struct {
	hasher weburl.Hasher
	hosts  int
	ids    []weburl.HostID
	names  []string
	now    time.Time
	buf    []byte
}

func newBenchWeb(h weburl.Hasher, hosts int) *benchWeb {
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

func (w *benchWeb) key(i int) weburl.Key {
	host, url := w.url(i)
	return w.hasher.KeyOf(w.ids[host], url)
}

// links fills r with the links number from to to.
func (w *benchWeb) links(r *frontier.Record, from, to int) {
	r.Links = r.Links[:0]
	_, parent := w.url(from / 10)
	p := mustURL(string(parent))
	for i := from; i < to; i++ {
		host, url := w.url(i)
		r.Links = append(r.Links, frontier.Link{
			Key: w.hasher.KeyOf(w.ids[host], url), URL: mustURL(string(url)), Depth: 3, Priority: 20, Source: 1,
			Parent: p, Discovered: w.now,
		})
	}
}

// A fifths reports how fast the first and the last fifth of a run were. The
// applier feeds it.
type fifths struct {
	total, done int
	times       []time.Time // at the start and after each fifth
	cpus        []time.Duration
	rss         int64
	slowest     time.Duration // commit
}

func newFifths(total int) *fifths {
	return &fifths{total: total, times: []time.Time{time.Now()}, cpus: []time.Duration{testweb.CPUTime()}}
}

// add counts n more.
func (f *fifths) add(n int) {
	f.done += n
	for len(f.times) <= 5 && f.done >= len(f.times)*f.total/5 {
		f.times = append(f.times, time.Now())
		f.cpus = append(f.cpus, testweb.CPUTime())
	}
	f.rss = max(f.rss, anonRSS())
}

func (f *fifths) report(b *testing.B) {
	rate := func(from, to int) float64 {
		return float64(f.total) / 5 * float64(to-from) / f.times[to].Sub(f.times[from]).Seconds()
	}
	cpu := func(from, to int) float64 {
		return float64(f.cpus[to]-f.cpus[from]) / (float64(f.total) / 5 * float64(to-from))
	}
	b.ReportMetric(rate(0, 5), "records/s")
	b.ReportMetric(rate(0, 1), "first-fifth/s")
	b.ReportMetric(rate(4, 5), "last-fifth/s")
	b.ReportMetric(rate(4, 5)/rate(0, 1), "last/first")
	b.ReportMetric(cpu(0, 5), "cpu-ns/record")
	b.ReportMetric(cpu(4, 5)/cpu(0, 1), "cpu-last/first")
	b.ReportMetric(float64(f.rss)/(1<<20), "peak-anon-MB")
	b.ReportMetric(float64(f.slowest)/1e6, "max-commit-ms")
}

// BenchmarkWrite writes records until all are durable and applied. Links is how
// many links a record names, finish whether it finishes a page. Rates are of
// links; of pages where there are none.
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
	step := max(links, 1)
	f := newFifths(total)
	s, err := Open(b.TempDir()+"/s", Options{
		ObserveDurable: func(d time.Duration, _ int) { f.slowest = max(f.slowest, d) },
		ObserveApplied: func(_ time.Duration, records int) { f.add(records * step) },
	})
	if err != nil {
		b.Fatal(err)
	}
	w := newBenchWeb(s.Hasher(), hosts)
	facts := []byte(strings.Repeat("facts of a page, about as many as there are. ", 6))
	r := frontier.Record{}
	for i := 0; i < total; i += step {
		if links > 0 {
			w.links(&r, i, i+links)
		}
		if finish {
			r.Finish = &frontier.Finish{Key: w.key(i), Outcome: 1, Status: 200, Attempts: 1, CheckedAt: w.now,
				Bytes: 10_000, Facts: facts}
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
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	f.report(b)
}
