package wal

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Log is an open log.
type Log struct {
	dir      string
	opts     Options
	recovery *TornTail
	logID    [8]byte

	truncating sync.Mutex // held by TruncateBefore: one at a time

	reading sync.RWMutex // held by Read; for writing, where files are closed that Read uses. Taken before mu

	writing sync.Mutex // held by Append and Close: one at a time
	w       writer     // guarded by writing

	// A goroutine that needs both locks takes writing first.
	mu       sync.Mutex
	durable  LSN          // guarded by mu; last record that is durable; written with writing held
	segments []segment    // guarded by mu; oldest first, durable ones only
	readers  map[LSN]File // guarded by mu; files that Read opened, by the first LSN of their segment
	stats    Stats        // guarded by mu
	err      error        // guarded by mu; why the log failed, for good
	closing  bool         // guarded by mu
	// appending is guarded by mu: space is reserved behind the last segment.
	appending bool
}

// Open opens the log in dir, making both if they are missing, and repairs a
// torn tail. If anything but the tail is damaged it returns a *CorruptError,
// and for a log of a newer format a *VersionError, having changed nothing.
func Open(dir string, o Options) (*Log, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, opts: o}
	if err := l.recover(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return l, nil
}

// Append adds records to the log, one after the other, writes and syncs them in
// the calling goroutine, and returns the LSN of the last one when all are durable.
// After a crash before that, any number of them from the first on may be found.
// Calls from several goroutines are made one after the other, each with an
// fsync of its own: a caller that has many records passes them in one call.
func (l *Log) Append(recs ...[]byte) (LSN, error) {
	if len(recs) == 0 {
		l.writing.Lock()
		defer l.writing.Unlock()
		if err := l.usable(); err != nil {
			return 0, err
		}
		return l.Last(), nil
	}
	first, err := l.append(recs)
	if err != nil {
		return 0, err
	}
	return first.LSN + LSN(len(recs)-1), nil
}

// append makes records durable, and returns the place of the first one.
func (l *Log) append(recs [][]byte) (Place, error) {
	for _, rec := range recs {
		if len(rec) > MaxRecordSize {
			return Place{}, fmt.Errorf("append %d bytes: %w", len(rec), ErrTooLarge)
		}
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); err != nil {
		return Place{}, err
	}
	written, fsync, err := l.write(recs)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return Place{}, l.failLocked(fmt.Errorf("write log: %w", err))
	}
	first := Place{LSN: l.durable + 1, Offset: l.w.end - written + barrierSize}
	l.durable += LSN(len(recs))
	l.segments[len(l.segments)-1].size = l.w.end
	l.stats.add(written, fsync)
	return first, nil
}

// Recovery says what Open cut from the tail, or nil if it cut nothing.
func (l *Log) Recovery() *TornTail { return l.recovery }

// First returns the LSN of the oldest record that is kept. If the log holds
// none, it is Last()+1.
func (l *Log) First() LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firstLocked()
}

func (l *Log) firstLocked() LSN {
	if len(l.segments) == 0 {
		return 1
	}
	return l.segments[0].base
}

// Last returns the LSN of the last durable record, or 0 if there never was one.
func (l *Log) Last() LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// Size returns the bytes in use, headers and padding included, but not what is
// only reserved.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

// Reserved returns the bytes of the file system that are set aside for further
// records: Close gives them back.
func (l *Log) Reserved() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.appending {
		return 0
	}
	return max(0, l.opts.SegmentSize-l.segments[len(l.segments)-1].size)
}

// Close waits for the Append that is under way, marks the log as cleanly ended
// and gives back what was reserved and not used. It returns the error that
// failed the log, if one did. Calling it again does nothing more.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()

	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	failed, next := l.err, l.durable+1
	l.mu.Unlock()
	if err := errors.Join(l.w.close(failed == nil, next), l.closeReaders()); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.failLocked(fmt.Errorf("close log: %w", err))
	}
	return failed
}

func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked()
}

// usableLocked says why the log takes no records, or nil if it does.
func (l *Log) usableLocked() error {
	if l.err != nil {
		return l.err
	}
	if l.closing {
		return ErrClosed
	}
	return nil
}

// failLocked fails the log for good and returns why. The first error stays.
func (l *Log) failLocked(err error) error {
	if l.err == nil {
		l.err = err
	}
	return l.err
}

// Stats are counts since Open. Durations are of this process's clock.
type Stats struct {
	Batches   uint64        // calls of Append that made records durable: each has one fsync
	Written   int64         // bytes written for them, padding included
	SyncTotal time.Duration // time spent in their fsyncs
	SyncMean  time.Duration // of an fsync, exponentially weighted: about the last 16 count
	Segments  int           // segments now kept
}

const meanWeight = 16

func (s *Stats) add(written int64, fsync time.Duration) {
	s.Written += written
	s.SyncTotal += fsync
	if s.Batches == 0 {
		s.SyncMean = fsync
	}
	s.SyncMean += (fsync - s.SyncMean) / meanWeight
	s.Batches++
}

// Stats returns the counts so far.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Segments = len(l.segments)
	return s
}
