package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// cpu adds the processor time of one iteration to a benchmark's figures: on a
// machine that does other things too, it says more than the time.
func cpu(b *testing.B) func() {
	before, n := testweb.CPUTime(), b.N
	return func() { b.ReportMetric(float64(testweb.CPUTime()-before)/float64(b.N-n), "cpu-ns/op") }
}

// nullStore forgets everything but the number of the last record, so that what is
// measured is the frontier.
type nullStore struct {
	Store // nil: no benchmark calls Backlogs or Keys
	last  Position
}

func (s *nullStore) Commit(recs ...Record) (Position, error) {
	for i := range recs {
		s.last++
		for j := range recs[i].Links {
			l := &recs[i].Links[j]
			l.At = Cursor{Priority: l.Priority, Position: s.last, Index: uint32(j)}
		}
	}
	return s.last, nil
}
func (s *nullStore) Ready(context.Context) error                            { return nil }
func (s *nullStore) Seen(_ context.Context, k []weburl.Key, o []bool) error { clear(o); return nil }
func (s *nullStore) Pending(context.Context, weburl.HostID, Cursor, int) ([]Link, Cursor, error) {
	return nil, Cursor{}, nil
}
func (s *nullStore) Host(context.Context, weburl.HostID) (HostFact, bool, error) {
	return HostFact{}, false, nil
}

// BenchmarkAdd adds pages of 30 links, of which one is new, as on the real web:
// the others lead to what was found before, most often lately.
func BenchmarkAdd(b *testing.B) {
	for _, hosts := range []int{1, 500} {
		b.Run(fmt.Sprintf("hosts=%d/repeats=97", hosts), func(b *testing.B) {
			f := newTest(b, Options{Shards: 1, Pace: fast(1)}, newMemStore())
			const known = 500_000
			url := func(i int) string {
				return fmt.Sprintf("https://www.host%d.example/section/%d/article-%d.html", i%hosts, i%97, i)
			}
			for i := 0; i < known; i += 1000 {
				links := make([]Link, 1000)
				for j := range links {
					links[j] = Link{URL: mustURL(url(i + j))}
				}
				add(b, f, links...)
			}
			r := rand.New(rand.NewPCG(1, 2))
			at := known
			pages := make([][30]Link, 1000)
			fill := func() {
				for p := range pages {
					for j := range pages[p] {
						pages[p][j] = Link{URL: mustURL(url(at - 1 - int(r.ExpFloat64()*float64(at)/8)%at)), Depth: 1}
					}
					pages[p][r.IntN(30)].URL = mustURL(url(at))
					at++
				}
			}
			p := len(pages)
			b.ReportAllocs()
			for b.Loop() {
				if p == len(pages) {
					b.StopTimer()
					fill()
					p = 0
					b.StartTimer()
				}
				if _, err := f.Add(context.Background(), pages[p][:]); err != nil {
					b.Fatal(err)
				}
				p++
			}
			b.ReportMetric(float64(b.N)*30/b.Elapsed().Seconds(), "links/s")
		})
	}
}

// BenchmarkAddNew adds links that are all new.
func BenchmarkAddNew(b *testing.B) {
	f := newTest(b, Options{Shards: 1, Pace: fast(1)}, &nullStore{})
	n, page := 0, make([]Link, 30)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		for j := range page {
			page[j] = Link{URL: mustURL(fmt.Sprintf("https://www.host%d.example/section/%d/article.html", n%500, n)),
				Depth: 1}
			n++
		}
		if _, err := f.Add(context.Background(), page); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "links/s")
	st := f.Stats()
	b.ReportMetric(float64(st.FilterBytes)/float64(st.FilterKeys), "filter-B/url")
}

// BenchmarkPage ends pages of 30 links, of which one is new. The links are given as Found, which have their Origin in
// common, or as a Link each.
func BenchmarkPage(b *testing.B) {
	for _, as := range []string{"found", "links"} {
		b.Run(as, func(b *testing.B) {
			const known = 200_000
			f := newTest(b, Options{Shards: 1, Pace: fast(2), IgnoreRobots: true}, &nullStore{})
			targets, at := make([]Found, 0, 2*known), 0
			more := func() {
				for range known {
					u := mustURL(fmt.Sprintf("https://www.host.example/section/%d/article-%d.html", at%97, at))
					targets = append(targets, Found{URL: u, Key: f.hasher.Key(u)})
					at++
				}
			}
			more()
			for i := range targets {
				add(b, f, Link{URL: targets[i].URL, Key: targets[i].Key})
			}
			r := rand.New(rand.NewPCG(1, 2))
			o := Origin{Parent: targets[0].URL, Depth: 1, Source: 1, At: time.Now()}
			found, links, n := make([]Found, 0, 30), make([]Link, 0, 30), known
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if n == len(targets) {
					b.StopTimer()
					more()
					b.StartTimer()
				}
				l, err := f.Next(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				result := Result{Class: pace.ClassOK, Finish: &Finish{}}
				found, links = found[:0], links[:0]
				for i := range 30 {
					t := &targets[n]
					if i < 29 {
						t = &targets[n-1-r.IntN(500)]
					}
					if as == "found" {
						found = append(found, *t)
					} else {
						links = append(links, Link{URL: t.URL, Key: t.Key, Depth: o.Depth, Source: o.Source,
							Parent: o.Parent, Discovered: o.At})
					}
				}
				n++
				result.Origin, result.Found, result.Links = o, found, links
				if _, err := l.Done(result); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNextDone leases a page and ends it, with many hosts that are all ready
// and never run dry: each page links to one that is new.
func BenchmarkNextDone(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%.0e", float64(hosts)), func(b *testing.B) {
			f := newTest(b, Options{Shards: 2, Pace: fast(2), IgnoreRobots: true}, &nullStore{})
			queue := func(n int) {
				links := make([]Link, 0, 1000)
				for i := range hosts {
					for j := range n {
						links = append(links, Link{URL: mustURL(fmt.Sprintf("https://www.host%d.example/section/%d/%d.html", i, b.N, j))})
					}
					if len(links) >= 1000 || i == hosts-1 {
						add(b, f, links...)
						links = links[:0]
					}
				}
			}
			per := 2_000_000 / hosts
			queue(per)
			for f.Stats().Hosts["loading"] > 0 {
				runtime.Gosched()
			}
			left := per * hosts
			ctx := context.Background()
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if left--; left < 0 {
					b.Fatal("ran dry")
				}
				l, err := f.Next(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Done(Result{Class: pace.ClassOK, Finish: &Finish{}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWake hands leases to workers that wait for them: a host every so often
// becomes ready, and 512 calls of Next are waiting.
func BenchmarkWake(b *testing.B) {
	f := newTest(b, Options{Shards: 2, Pace: fast(1), IgnoreRobots: true}, &nullStore{})
	release := f.Source()
	leases := make(chan *Lease)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	for range 512 {
		go func() {
			for {
				l, err := f.Next(ctx)
				if err != nil {
					stopped <- struct{}{}
					return
				}
				leases <- l
			}
		}()
	}
	for f.Stats().Idle < 512 {
		runtime.Gosched()
	}
	i := 0
	defer cpu(b)()
	for b.Loop() {
		add(b, f, Link{URL: mustURL(fmt.Sprintf("https://www.host%d.example/%d", i%100, i))})
		i++
		l := <-leases
		if _, err := l.Done(Result{Class: pace.ClassOK, Finish: &Finish{}}); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	release()
	for range 512 {
		<-stopped
	}
}

// BenchmarkGrowth adds new URLs, 200 to a host, and logs what memory they take in
// all: run it with -benchtime 20000000x.
func BenchmarkGrowth(b *testing.B) {
	// The level of the links is not open, so that nothing is read back.
	f := newTest(b, Options{Pace: fast(1), LevelByLevel: true}, &nullStore{})
	defer f.Source()()
	page := make([]Link, 0, 30)
	text := make([]byte, 0, 30*80)
	start, added, mark := time.Now(), 0, 1_000_000
	for b.Loop() {
		i := added + len(page)
		from := len(text)
		text = fmt.Appendf(text, "https://www.host-%d.example/articles/%d/title-of-number-%d.html", i/200, i%7, i)
		page = append(page, Link{URL: mustURL(stringOf(text[from:])), Depth: 1})
		if len(page) < cap(page) {
			continue
		}
		add(b, f, page...)
		added += len(page)
		page, text = page[:0], make([]byte, 0, 30*80)
		if added >= mark {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			st := f.Stats()
			b.Logf("%4dM URLs: heap %4d MB, windows %3d MB for %d URLs, filter %3d MB, hot set %3d MB, %d hosts, %.0f s",
				added/1_000_000, m.HeapAlloc>>20, st.WindowBytes>>20, st.InMemory, st.FilterBytes>>20, st.HotBytes>>20,
				st.Active+st.Parked, time.Since(start).Seconds())
			mark = added * 3 / 2
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/float64(max(1, added)), "B/url")
}
