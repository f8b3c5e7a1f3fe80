package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// fill makes a store with n links of hosts, of which those of the first half
// are finished and said to be.
func fill(b *testing.B, dir string, o Options, hosts, n int) (*Store, *benchWeb) {
	b.Helper()
	ctx := context.Background()
	s, err := Open(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	w := newBenchWeb(s.Hasher(), hosts)
	var r, cursors frontier.Record
	for i := 0; i < n; i += 30 {
		w.links(&r, i, min(i+30, n))
		if err := s.Ready(ctx); err != nil {
			b.Fatal(err)
		}
		at, err := s.Commit(r)
		if err != nil {
			b.Fatal(err)
		}
		if i+30 <= n/2 && i+60 > n/2 {
			for _, h := range w.ids {
				cursors.Cursors = append(cursors.Cursors, frontier.HostCursor{Host: h,
					Low: frontier.Cursor{Priority: r.Links[0].Priority, Position: at, Index: ^uint32(0)}})
			}
		}
	}
	for i := range n / 2 {
		if err := s.Ready(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Commit(frontier.Record{Finish: &frontier.Finish{Key: w.key(i), Outcome: 1, Status: 200,
			CheckedAt: w.now, Facts: make([]byte, 200)}}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.Commit(cursors); err != nil {
		b.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	return s, w
}

// BenchmarkRead measures what a crawl and an export ask of a store that has
// been filled.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	n := benchSize(b, 5_000_000)
	s, w := fill(b, b.TempDir()+"/s", Options{}, 100, n)
	defer s.Close()
	for _, hit := range []bool{true, false} {
		b.Run(fmt.Sprintf("seen/hit=%v", hit), func(b *testing.B) {
			const batch = 512
			keys, out := make([]weburl.Key, batch), make([]bool, batch)
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			asked := 0
			for b.Loop() {
				b.StopTimer()
				for i := range keys {
					k := rng.IntN(n)
					if !hit {
						k += n
					}
					keys[i] = w.key(k)
				}
				b.StartTimer()
				if err := s.Seen(ctx, keys, out); err != nil {
					b.Fatal(err)
				}
				asked += batch
			}
			b.ReportMetric(float64(asked)/b.Elapsed().Seconds(), "keys/s")
		})
	}
	b.Run("pending/n=1000", func(b *testing.B) {
		b.ReportAllocs()
		got := 0
		for i := 0; b.Loop(); i++ {
			links, _, err := s.Pending(ctx, w.ids[i%100], frontier.Cursor{}, 1000)
			if err != nil {
				b.Fatal(err)
			}
			got += len(links)
		}
		b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "links/s")
	})
	b.Run("pages", func(b *testing.B) {
		b.ReportAllocs()
		got := 0
		for b.Loop() {
			for _, err := range s.Pages(ctx) {
				if err != nil {
					b.Fatal(err)
				}
				got++
			}
		}
		b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "pages/s")
	})
	b.Run("keys", func(b *testing.B) {
		b.ReportAllocs()
		got := 0
		for b.Loop() {
			for _, err := range s.Keys(ctx, 0, 255) {
				if err != nil {
					b.Fatal(err)
				}
				got++
			}
		}
		b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "keys/s")
	})
}

// BenchmarkReopen opens a store that was killed with as much left to be applied
// again as there may be, and lists its queues.
func BenchmarkReopen(b *testing.B) {
	for _, hosts := range []int{1, 20_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			ctx := context.Background()
			root := b.TempDir()
			n := benchSize(b, 5_000_000)
			// Badger is made durable by hand, so that it is known when.
			o := Options{SyncBytes: 1 << 40, SyncInterval: time.Hour}
			s, w := fill(b, root+"/s", o, hosts, n)
			if err := s.keeper.sync(); err != nil {
				b.Fatal(err)
			}
			synced, err := os.ReadFile(filepath.Join(s.badgerDir, syncedName))
			if err != nil {
				b.Fatal(err)
			}
			again := 0
			for r := (frontier.Record{}); s.keeper.unsynced.Load() < 8<<20 && again < n; again += 30 {
				w.links(&r, n+again, n+again+30)
				if _, err := s.Commit(r); err != nil {
					b.Fatal(err)
				}
				if again%3000 == 0 {
					if err := s.Flush(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
			// With the SYNCED of before, all since then is applied again, as it is
			// after a kill.
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			copies := 0
			var opened, listed, cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				copies++
				dir := fmt.Sprintf("%s/copy%d", root, copies)
				if out, err := exec.Command("cp", "-r", "--sparse=always", root+"/s",
					dir).CombinedOutput(); err != nil {
					b.Fatalf("%v %s", err, out)
				}
				if err := os.WriteFile(filepath.Join(dir, badgerDir, syncedName), synced, 0o644); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				start, used := time.Now(), testweb.CPUTime()
				c, err := Open(dir, Options{})
				if err != nil {
					b.Fatal(err)
				}
				opened += time.Since(start)
				cpu += testweb.CPUTime() - used
				start = time.Now()
				got := 0
				for _, err := range c.Backlogs(ctx, 0, 255) {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if _, _, err := c.Pending(ctx, w.ids[0], frontier.Cursor{}, 1000); err != nil {
					b.Fatal(err)
				}
				listed += time.Since(start)
				b.StopTimer()
				b.ReportMetric(float64(c.Recovery().Applied), "records-again")
				b.ReportMetric(float64(got), "hosts")
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				os.RemoveAll(dir)
				b.StartTimer()
			}
			b.ReportMetric(opened.Seconds()/float64(copies), "open-s")
			b.ReportMetric(cpu.Seconds()/float64(copies), "open-cpu-s")
			b.ReportMetric(listed.Seconds()/float64(copies), "list-s")
		})
	}
}
