package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkAppend appends from many goroutines at once.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		for _, appenders := range []int{1, 64} {
			b.Run(fmt.Sprintf("appenders=%d/record=%d", appenders, size), func(b *testing.B) {
				l := benchLog(b)
				rec := testRecord(1, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				// RunParallel starts a multiple of GOMAXPROCS goroutines.
				procs := runtime.GOMAXPROCS(0)
				if appenders == 1 {
					for b.Loop() {
						mustAppend(b, l, rec)
					}
				} else {
					b.SetParallelism((appenders + procs - 1) / procs)
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if _, err := l.Append(rec); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				s := l.Stats()
				b.ReportMetric(float64(s.Records)/float64(s.Batches), "records/fsync")
				b.ReportMetric(float64(s.SyncTotal.Microseconds())/float64(s.Batches), "µs/fsync")
			})
		}
	}
}

// BenchmarkAgainstBare lets 64 appenders and a bare writer, one goroutine that
// writes and syncs, take turns of some milliseconds, so that both meet the
// disk in the same mood. The bare writer does the same bytes three times: a
// write and fsync per record, the same at the size of the batches that the log
// formed, and that once more with all that the log knows, preallocation and
// fdatasync. The x- figures are the log's throughput over theirs, by the median
// turn of each, since a disk that others use too stalls now and then.
func BenchmarkAgainstBare(b *testing.B) {
	const appenders = 64
	for _, bb := range []struct{ size, each int }{{200, 40}, {64 << 10, 8}} {
		b.Run(fmt.Sprintf("appenders=%d/record=%d", appenders, bb.size), func(b *testing.B) {
			l := benchLog(b)
			perRecord, perBatch, best := newBare(b, false), newBare(b, false), newBare(b, true)
			rec := testRecord(1, bb.size)
			data := testRecord(2, appenders*bb.each*bb.size)
			mustAppend(b, l, rec)
			var log pace
			for b.Loop() {
				before := l.Stats()
				log.add(len(data), appendRound(b, l, rec, appenders, bb.each))
				after := l.Stats()

				batch := len(data) / int(after.Batches-before.Batches)
				perRecord.round(b, data[:64*bb.size], bb.size)
				perBatch.round(b, data, batch)
				best.round(b, data, batch)
				if err := l.TruncateBefore(l.Last()); err != nil {
					b.Fatal(err)
				}
			}
			speed := log.median()
			s := l.Stats()
			b.ReportMetric(speed, "MB/s")
			b.ReportMetric(float64(s.Records)/float64(s.Batches), "records/fsync")
			b.ReportMetric(speed/perRecord.median(), "x-record")
			b.ReportMetric(speed/perBatch.median(), "x-batch")
			b.ReportMetric(speed/best.median(), "x-best")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func appendRound(b *testing.B, l *Log, rec []byte, appenders, each int) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for range appenders {
		wg.Go(func() {
			for range each {
				if _, err := l.Append(rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// bare writes to a file and syncs it, beginning anew where the log would rotate.
type bare struct {
	pace
	f    *os.File
	best bool
	off  int64
}

func newBare(b *testing.B, best bool) *bare {
	w := &bare{best: best, off: DefaultSegmentSize}
	b.Cleanup(func() { w.f.Close() })
	w.rotate(b)
	return w
}

func (w *bare) rotate(b *testing.B) {
	b.Helper()
	if w.f != nil {
		w.f.Close()
	}
	var err error
	if w.f, err = os.Create(filepath.Join(b.TempDir(), "bare")); err != nil {
		b.Fatal(err)
	}
	w.off = 0
	if w.best {
		if err := preallocate(w.f, DefaultSegmentSize); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.f.Sync(); err != nil {
		b.Fatal(err)
	}
}

func (w *bare) round(b *testing.B, data []byte, size int) {
	b.Helper()
	if w.off+int64(len(data)) > DefaultSegmentSize {
		w.rotate(b)
	}
	total := len(data)
	start := time.Now()
	for len(data) > 0 {
		n := min(size, len(data))
		if _, err := w.f.WriteAt(data[:n], w.off); err != nil {
			b.Fatal(err)
		}
		sync := w.f.Sync
		if w.best {
			sync = func() error { return syncData(w.f) }
		}
		if err := sync(); err != nil {
			b.Fatal(err)
		}
		w.off += int64(n)
		data = data[n:]
	}
	w.add(total, time.Since(start))
}

// pace is the throughput of each turn, in MB/s.
type pace []float64

func (p *pace) add(bytes int, took time.Duration) {
	*p = append(*p, float64(bytes)/1e6/took.Seconds())
}

func (p pace) median() float64 {
	slices.Sort(p)
	return p[len(p)/2]
}

// BenchmarkReplay reads a log that lies in the page cache.
func BenchmarkReplay(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		b.Run(fmt.Sprintf("record=%d", size), func(b *testing.B) {
			l := benchLog(b)
			const total = 64 << 20
			recs := make([][]byte, total/size/16)
			for i := range recs {
				recs[i] = testRecord(i, size)
			}
			for range 16 {
				mustAppend(b, l, recs...)
			}
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Replay(0, func(LSN, []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchLog(b *testing.B) *Log {
	b.Helper()
	l, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mustClose(b, l) })
	return l
}
