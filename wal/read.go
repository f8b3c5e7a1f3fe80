package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

// A Place says where a record lies in the log, so that it can be read alone.
type Place struct {
	LSN    LSN
	Offset int64 // of its frame, in the segment that holds it
}

// Next returns the place of the record that follows one of this size in the same call of AppendPlaced.
func (p Place) Next(size int) Place {
	return Place{LSN: p.LSN + 1, Offset: p.Offset + frameOverhead + int64(size)}
}

// AppendPlaced is Append, and returns the place of the first record. [Place.Next] has the places of the others.
// At least one record must be given.
func (l *Log) AppendPlaced(recs ...[]byte) (Place, error) {
	if len(recs) == 0 {
		return Place{}, errors.New("append: no record was given")
	}
	return l.append(recs)
}

// ReplayPlaced is Replay, and gives the place of each record to fn.
func (l *Log) ReplayPlaced(from LSN, fn func(Place, []byte) error) error { return l.replay(from, fn) }

// Oldest returns the first record of the oldest segment, and the first of the next one. The second is zero while
// the oldest segment is also the newest.
func (l *Log) Oldest() (first, next LSN) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) > 1 {
		next = l.segments[1].base
	}
	return l.firstLocked(), next
}

// ReadOverhead is how many bytes more than the size of a record Read needs of its buffer.
const ReadOverhead = frameOverhead

// Read reads the record of this size at p, into buf if that has the capacity. Records that were truncated away, or are
// not durable yet, are ErrOutOfRange. It may be called from several goroutines, and beside every other method.
func (l *Log) Read(p Place, size int, buf []byte) ([]byte, error) {
	l.reading.RLock()
	defer l.reading.RUnlock()
	s, f, err := l.reader(p.LSN)
	if err != nil {
		return nil, err
	}
	n := frameOverhead + size
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	frame := buf[:n]
	if got, err := f.ReadAt(frame, p.Offset); got < n {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read log segment %s: %w", s.path, err)
		}
		return nil, &CorruptError{Segment: s.path, Offset: p.Offset, Next: p.LSN, Reason: "file ends in the record"}
	}
	body, sum := frame[:n-frameTrailer], frame[n-frameTrailer:]
	if frame[0] != typeRecord || binary.LittleEndian.Uint32(frame[1:]) != uint32(size) ||
		checksum(s.recordSeed(p.LSN), body) != binary.LittleEndian.Uint32(sum) {
		return nil, &CorruptError{Segment: s.path, Offset: p.Offset, Next: p.LSN,
			Reason: "no such record, or its checksum does not match"}
	}
	return body[frameHeader:], nil
}

// reader returns the segment that holds a record, and its file, which stays open until the segment is truncated away
// or the log is closed. It is called with reading held.
func (l *Log) reader(lsn LSN) (segment, File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return segment{}, nil, ErrClosed
	}
	if lsn < l.firstLocked() || lsn > l.durable {
		return segment{}, nil, fmt.Errorf("read record %d, log has %d to %d: %w", lsn, l.firstLocked(), l.durable,
			ErrOutOfRange)
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > lsn }) - 1
	s := l.segments[i]
	if f := l.readers[s.base]; f != nil {
		return s, f, nil
	}
	f, err := l.opts.FS.Open(s.path, false)
	if err != nil {
		return s, nil, fmt.Errorf("read log: %w", err)
	}
	if l.readers == nil {
		l.readers = make(map[LSN]File)
	}
	l.readers[s.base] = f
	return s, f, nil
}

// closeReader closes what Read opened of a segment. It is called with reading held for writing.
func (l *Log) closeReader(base LSN) error {
	l.mu.Lock()
	f := l.readers[base]
	delete(l.readers, base)
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.Close()
}

// closeReaders waits for the reads under way and closes all that Read opened.
func (l *Log) closeReaders() error {
	l.reading.Lock()
	defer l.reading.Unlock()
	var errs []error
	for _, f := range l.readers {
		errs = append(errs, f.Close())
	}
	l.readers = nil
	return errors.Join(errs...)
}
