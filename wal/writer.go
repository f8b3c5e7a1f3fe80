package wal

import (
	"errors"
	"fmt"
	"time"
)

// keepBuffer is the largest memory of a batch that is kept for the next.
const keepBuffer = 2 * defaultMaxBatch

// batch is what becomes durable with one fsync.
type batch struct {
	seg     *header // segment it goes to
	off     int64   // its place there: a page boundary
	buf     []byte  // a barrier, then frames
	last    LSN
	records int
	payload int64
	done    chan struct{} // closed when it is durable or never will be
	err     error         // set before done is closed
}

// batchLocked returns the batch being filled, opening one if there is none.
func (l *Log) batchLocked() *batch {
	if l.pending != nil {
		return l.pending
	}
	if l.tail == nil || l.end >= l.opts.SegmentSize {
		l.tail, l.end = newHeader(l.logID, l.next), headerSize
	}
	b := &batch{seg: l.tail, off: l.end, buf: l.spare[:0], done: make(chan struct{})}
	l.spare = nil
	b.buf = b.seg.appendBarrier(b.buf, b.off, l.next)
	l.end = alignUp(b.off + int64(len(b.buf)))
	l.pending = b
	return b
}

func (l *Log) addLocked(b *batch, rec []byte) {
	b.buf = appendFrame(b.buf, typeRecord, b.seg.recordSeed(l.next), rec)
	b.last = l.next
	b.records++
	b.payload += int64(len(rec))
	l.next++
	l.end = alignUp(b.off + int64(len(b.buf)))
}

// run is the writer goroutine. It alone writes to the files of the log.
func (l *Log) run() {
	defer close(l.ended)
	var w writer
	for {
		l.mu.Lock()
		for l.pending == nil && !l.closing {
			l.work.Wait()
		}
		b := l.pending
		l.pending = nil
		failed := l.err
		l.room.Broadcast()
		l.mu.Unlock()
		if b == nil {
			l.finish(&w)
			return
		}
		if failed != nil {
			b.err = failed
			close(b.done)
			continue
		}
		l.commit(&w, b)
	}
}

// writer is the file that the writer goroutine has open.
type writer struct {
	seg *header
	f   File
	end int64 // end of what is durable
}

// commit makes b durable, or fails the log, and wakes everybody who waits.
func (l *Log) commit(w *writer, b *batch) {
	start := time.Now()
	fsync, err := l.write(w, b)
	l.mu.Lock()
	if err != nil {
		b.err = l.failLocked(fmt.Errorf("write log: %w", err))
	} else {
		l.durable = b.last
		l.segments[len(l.segments)-1].size = w.end
		l.stats.committed(b, fsync, time.Since(start))
	}
	if cap(b.buf) <= keepBuffer && l.spare == nil {
		l.spare = b.buf
	}
	l.mu.Unlock()
	close(b.done)
}

func (l *Log) write(w *writer, b *batch) (fsync time.Duration, err error) {
	if w.seg != b.seg {
		if err := l.rotate(w, b.seg); err != nil {
			return 0, err
		}
	}
	size := alignUp(int64(len(b.buf)))
	b.buf = append(b.buf, make([]byte, size-int64(len(b.buf)))...)
	if err := writeAt(w.f, b.buf, b.off); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := w.f.Sync(); err != nil {
		return 0, err
	}
	w.end = b.off + size
	return time.Since(start), nil
}

// rotate goes on to a new segment. All that went to the old one is durable.
func (l *Log) rotate(w *writer, h *header) error {
	if w.f != nil {
		err := w.f.Close()
		w.f = nil
		if err != nil {
			return err
		}
	}
	f, s, err := createSegment(l.opts.FS, l.dir, h, l.opts.SegmentSize)
	if err != nil {
		return err
	}
	w.f, w.seg, w.end = f, h, s.size
	l.mu.Lock()
	defer l.mu.Unlock()
	// A segment without records has the name of the one that follows it, and
	// was replaced by it.
	if n := len(l.segments); n > 0 && l.segments[n-1].base == s.base {
		l.segments = l.segments[:n-1]
	}
	l.segments = append(l.segments, s)
	return nil
}

// finish marks the end of the last segment, so that the next Open knows that
// nothing was under way.
func (l *Log) finish(w *writer) {
	if w.f == nil {
		return
	}
	l.mu.Lock()
	failed, next := l.err, l.durable+1
	l.mu.Unlock()
	var err error
	if failed == nil {
		err = seal(w.f, w.seg, w.end, next)
	}
	if err = errors.Join(err, w.f.Close()); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failLocked(fmt.Errorf("close log: %w", err))
		return
	}
	if failed == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.segments[len(l.segments)-1].size = w.end + pageSize
	}
}

// seal ends a segment at end, a page boundary, with a barrier. All before end
// must be durable.
func seal(f File, h *header, end int64, next LSN) error {
	page := make([]byte, pageSize)
	h.appendBarrier(page[:0], end, next)
	if err := writeAt(f, page, end); err != nil {
		return err
	}
	if err := f.Truncate(end + pageSize); err != nil {
		return err
	}
	return f.Sync()
}

// failLocked fails the log for good. The first error stays.
func (l *Log) failLocked(err error) error {
	if l.err == nil {
		l.err = err
		l.room.Broadcast()
	}
	return l.err
}
