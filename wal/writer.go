package wal

import (
	"errors"
	"time"
)

// keepBuffer is the largest memory of a batch that is kept for the next one.
const keepBuffer = 16 << 20

// A writer is the segment that batches go to.
type writer struct {
	seg *header // nil before the first batch
	f   File
	end int64  // end of what is durable, a page boundary: the next batch begins here
	buf []byte // memory for the next batch
}

// write makes records durable as one batch: a barrier, then a frame for each, then
// padding. It is called with writing held, and returns how many bytes it wrote and how long
// the fsync took.
func (l *Log) write(recs [][]byte) (written int64, fsync time.Duration, err error) {
	w := &l.w
	next := l.Last() + 1
	if w.seg == nil || w.end >= l.opts.SegmentSize {
		if err := l.rotate(newHeader(l.logID, next)); err != nil {
			return 0, 0, err
		}
	}
	buf := w.seg.appendBarrier(w.buf[:0], w.end, next)
	for i, rec := range recs {
		buf = appendFrame(buf, typeRecord, w.seg.recordSeed(next+LSN(i)), rec)
	}
	buf = pad(buf)
	w.buf = buf
	if cap(buf) > keepBuffer {
		w.buf = nil
	}
	if err := writeAt(w.f, buf, w.end); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := w.f.Sync(); err != nil {
		return 0, 0, err
	}
	written = int64(len(buf))
	w.end += written
	return written, time.Since(start), nil
}

// pad fills the last page of a batch, so that no later write touches a page of it.
func pad(buf []byte) []byte {
	n := alignUp(int64(len(buf))) - int64(len(buf))
	return append(buf, make([]byte, n)...)
}

// rotate begins a new segment. All that was written to the old one is durable.
func (l *Log) rotate(h *header) error {
	w := &l.w
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
	l.appending = true
	return nil
}

// close ends the segment, with a seal if whole is set: the next Open then knows
// that nothing was under way. A failed log is left without one.
func (w *writer) close(whole bool, next LSN) error {
	if w.f == nil {
		return nil
	}
	var err error
	if whole {
		err = seal(w.f, w.seg, w.end, next)
	}
	err = errors.Join(err, w.f.Close())
	*w = writer{}
	return err
}
