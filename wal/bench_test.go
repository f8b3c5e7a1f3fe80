package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppend has 64 goroutines append at once. Compare with BenchmarkBare
// of the same run.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		for _, appenders := range []int{1, 64} {
			b.Run(fmt.Sprintf("appenders=%d/record=%d", appenders, size), func(b *testing.B) {
				l, err := Open(b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				benchAppend(b, l, appenders, size)
				s := l.Stats()
				b.ReportMetric(float64(s.Payload)/float64(s.Batches), "B/batch")
				b.ReportMetric(float64(s.SyncTotal.Microseconds())/float64(s.Batches), "µs/fsync")
			})
		}
	}
}

func benchAppend(b *testing.B, l *Log, appenders, size int) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	rec := make([]byte, size)
	for i := range rec {
		rec[i] = byte(i)
	}
	b.ResetTimer()
	for range appenders {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := l.Append(rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if at := l.Size(); at > 256<<20 {
		l.TruncateBefore(l.Last())
	}
}

// BenchmarkBare is one goroutine that writes and syncs, the yardstick.
func BenchmarkBare(b *testing.B) {
	for _, size := range []int{200, 4096, 6700, 8192, 64 << 10, 2 << 20} {
		for _, mode := range []string{"grow", "prealloc"} {
			b.Run(fmt.Sprintf("write=%d/%s", size, mode), func(b *testing.B) {
				f, err := os.Create(filepath.Join(b.TempDir(), "f"))
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				b.SetBytes(int64(size))
				buf := make([]byte, size)
				for i := range buf {
					buf[i] = byte(i)
				}
				const room = 64 << 20
				off := int64(room)
				for b.Loop() {
					if off+int64(size) > room {
						f.Close()
						if f, err = os.Create(f.Name()); err != nil {
							b.Fatal(err)
						}
						if mode == "prealloc" {
							preallocate(f, room)
						}
						off = 0
					}
					if _, err := f.WriteAt(buf, off); err != nil {
						b.Fatal(err)
					}
					off += int64(size)
					if mode == "prealloc" {
						err = syncData(f)
					} else {
						err = f.Sync()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
