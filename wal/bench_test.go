package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkAppend appends from one goroutine, as the log's users do: many records
// in a call, or one.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		for _, records := range []int{1, 32} {
			b.Run(fmt.Sprintf("records=%d/record=%d", records, size), func(b *testing.B) {
				l := benchLog(b)
				recs := benchRecords(records, size)
				b.SetBytes(int64(size * records))
				b.ReportAllocs()
				for b.Loop() {
					mustAppend(b, l, recs...)
				}
				s := l.Stats()
				b.ReportMetric(float64(s.SyncTotal.Microseconds())/float64(s.Batches), "µs/fsync")
			})
		}
	}
}

func benchRecords(n, size int) [][]byte {
	rec := testRecord(1, size)
	recs := make([][]byte, n)
	for i := range recs {
		recs[i] = rec
	}
	return recs
}

// BenchmarkAgainstBare lets the log and a bare writer, one goroutine that
// writes and syncs, take turns of some milliseconds, so that both meet the
// disk in the same state. The log gets 32 records with each call. The bare writer
// does the same bytes three times: a write and fsync per record, the same at the
// size of the log's batches, and that once more with all that the log
// knows, preallocation and fdatasync. The x- figures are the log's throughput over
// theirs, by the median turn of each, since a disk that others use too stalls now
// and then.
func BenchmarkAgainstBare(b *testing.B) {
	const records = 32
	for _, bb := range []struct{ size, calls int }{{200, 80}, {64 << 10, 16}} {
		b.Run(fmt.Sprintf("records=%d/record=%d", records, bb.size), func(b *testing.B) {
			l := benchLog(b)
			perRecord, perBatch, best := newBare(b, false), newBare(b, false), newBare(b, true)
			recs := benchRecords(records, bb.size)
			batch := records * bb.size
			data := testRecord(2, bb.calls*batch)
			mustAppend(b, l, recs...)
			var log pace
			for b.Loop() {
				start := time.Now()
				for range bb.calls {
					mustAppend(b, l, recs...)
				}
				log.add(len(data), time.Since(start))

				perRecord.round(b, data[:2*batch], bb.size)
				perBatch.round(b, data, batch)
				best.round(b, data, batch)
				if err := l.TruncateBefore(l.Last()); err != nil {
					b.Fatal(err)
				}
			}
			speed := log.median()
			b.ReportMetric(speed, "MB/s")
			b.ReportMetric(speed/perRecord.median(), "x-record")
			b.ReportMetric(speed/perBatch.median(), "x-batch")
			b.ReportMetric(speed/best.median(), "x-best")
			b.ReportMetric(0, "ns/op")
		})
	}
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
