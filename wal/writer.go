package wal

import (
	"errors"
	"fmt"
	"time"
)

// writer is what the writer goroutine has open.
type writer struct {
	seg *header
	f   File
	end int64 // end of what is durable
}

// run is the writer goroutine. It alone writes to the files of an open log.
func (l *Log) run() {
	defer close(l.ended)
	var w writer
	for {
		b, failed := l.take()
		switch {
		case b == nil:
			l.finish(&w, failed)
			return
		case failed != nil:
			b.err = failed
			close(b.done)
		default:
			l.commit(&w, b)
		}
	}
}

// take waits for a batch. It returns nil when the log is closing and none is
// left, and the error that failed the log, if one did.
func (l *Log) take() (*batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending == nil && !l.closing {
		l.work.Wait()
	}
	b := l.pending
	l.pending = nil
	l.room.Broadcast()
	return b, l.err
}

// commit makes b durable, or fails the log, and wakes everybody who waits.
func (l *Log) commit(w *writer, b *batch) {
	start := time.Now()
	fsync, err := l.write(w, b)
	took := time.Since(start)

	l.mu.Lock()
	if err != nil {
		b.err = l.failLocked(fmt.Errorf("write log: %w", err))
	} else {
		l.durable = b.last
		l.segments[len(l.segments)-1].size = w.end
		l.stats.committed(b, fsync, took)
	}
	if cap(b.buf) <= keepBuffer {
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
	b.pad()
	if err := writeAt(w.f, b.buf, b.off); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := w.f.Sync(); err != nil {
		return 0, err
	}
	w.end = b.off + int64(len(b.buf))
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

// finish ends the last segment, so that the next Open knows that nothing was
// under way. A failed log is left as it is.
func (l *Log) finish(w *writer, failed error) {
	if w.f == nil {
		return
	}
	var err error
	if failed == nil {
		err = seal(w.f, w.seg, w.end, l.Last()+1)
	}
	if err = errors.Join(err, w.f.Close()); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failLocked(fmt.Errorf("close log: %w", err))
	}
}

// failLocked fails the log for good and returns why. The first error stays.
func (l *Log) failLocked(err error) error {
	if l.err == nil {
		l.err = err
		l.room.Broadcast()
	}
	return l.err
}
