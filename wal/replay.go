package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Replay calls fn for each record from LSN from on, in order, up to the last
// one that was durable when Replay was called. From 0 means from the oldest
// that is kept. The bytes belong to fn until it returns. An error of fn ends
// the replay and is returned as it is.
//
// If the log does not hold the record from, and it is not the next one to be
// written, the error is ErrOutOfRange. Damage is a *CorruptError, given after
// the whole records before it.
func (l *Log) Replay(from LSN, fn func(LSN, []byte) error) error {
	return l.replay(from, func(p Place, rec []byte) error { return fn(p.LSN, rec) })
}

func (l *Log) replay(from LSN, fn func(Place, []byte) error) error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	first, last := l.firstLocked(), l.durable
	segs := append([]segment(nil), l.segments...)
	l.mu.Unlock()

	if from == 0 {
		from = first
	}
	if from < first || from > last+1 {
		return fmt.Errorf("replay from %d, log has %d to %d: %w", from, first, last, ErrOutOfRange)
	}
	for i, s := range segs {
		end := last + 1
		if i+1 < len(segs) {
			end = segs[i+1].base
		}
		if from >= end {
			continue
		}
		err := l.replaySegment(s, end, func(p Place, rec []byte) error {
			if p.LSN < from {
				return nil
			}
			return fn(p, rec)
		})
		if errors.Is(err, os.ErrNotExist) && s.base < l.First() {
			return fmt.Errorf("replay record %d, truncated meanwhile: %w", s.base, ErrOutOfRange)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replaySegment reads the records of a segment from its base up to end.
func (l *Log) replaySegment(s segment, end LSN, fn func(Place, []byte) error) error {
	f, err := l.opts.FS.Open(s.path, false)
	if err != nil {
		return fmt.Errorf("replay log: %w", err)
	}
	defer f.Close()
	return readSegment(f, s, end, fn)
}

// readSegment calls fn for the records of a segment from its base up to end, all of which are known to have been
// durable. What follows them is not looked at: in a segment that has a successor it may be a seal that a loss of power
// has damaged.
func readSegment(src io.ReaderAt, s segment, end LSN, fn func(Place, []byte) error) error {
	r := newFrameReader(src, s, s.size)
	for r.next < end {
		lsn, rec, err := r.read()
		if errors.Is(err, io.EOF) {
			return r.bad(fmt.Sprintf("records end here, but those up to %d were written", end-1))
		}
		if err != nil {
			return err
		}
		if err := fn(Place{LSN: lsn, Offset: r.off - frameOverhead - int64(len(rec))}, rec); err != nil {
			return err
		}
	}
	return nil
}
