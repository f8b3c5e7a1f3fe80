package wal

import (
	"fmt"
	"sync"
)

// Log is an open log.
type Log struct {
	dir      string
	opts     Options
	recovery *TornTail
	logID    [8]byte

	truncating sync.Mutex    // held by TruncateBefore: one at a time
	ended      chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	work     sync.Cond // of mu: there is a batch to write, or closing is set
	room     sync.Cond // of mu: the pending batch was taken, or the log ended
	pending  *batch    // guarded by mu; being filled; nil if nothing waits
	spare    []byte    // guarded by mu; memory of a batch already written
	tail     *header   // guarded by mu; segment that batches now go to; nil before the first
	end      int64     // guarded by mu; where the next frame goes in tail
	next     LSN       // guarded by mu; LSN of the next record
	durable  LSN       // guarded by mu; last record that is durable
	segments []segment // guarded by mu; oldest first, durable ones only
	stats    Stats     // guarded by mu
	err      error     // guarded by mu; why the log failed, for good
	closing  bool      // guarded by mu
}

// Open opens the log in dir, making both if they are missing, and repairs a
// torn tail. If anything but the tail is damaged it returns a *CorruptError,
// and for a log of a newer format a *VersionError, having changed nothing.
func Open(dir string, o Options) (*Log, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, opts: o, ended: make(chan struct{})}
	l.work.L, l.room.L = &l.mu, &l.mu
	if err := l.recover(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	go l.run()
	return l, nil
}

// Append adds records to the log, one after the other and with no other's
// between them, and returns the LSN of the last one when all are durable.
// After a crash before that, any number of them from the first on may be found.
func (l *Log) Append(recs ...[]byte) (LSN, error) {
	need := 0
	for _, rec := range recs {
		if len(rec) > MaxRecordSize {
			return 0, fmt.Errorf("append %d bytes: %w", len(rec), ErrTooLarge)
		}
		need += frameOverhead + len(rec)
	}
	l.mu.Lock()
	for l.usableLocked() == nil && l.pending != nil && len(l.pending.buf)+need > l.opts.MaxBatch {
		l.room.Wait()
	}
	if err := l.usableLocked(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	if len(recs) == 0 {
		defer l.mu.Unlock()
		return l.durable, nil
	}
	b := l.batchLocked()
	for _, rec := range recs {
		l.addLocked(b, rec)
	}
	last := l.next - 1
	l.work.Signal()
	l.mu.Unlock()

	<-b.done
	if b.err != nil {
		return 0, b.err
	}
	return last, nil
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

// Close writes what was accepted, ends the writer, marks the log as cleanly
// ended and gives back what was reserved and not used. It returns the error
// that failed the log, if one did. Calling it again does nothing more.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.work.Signal()
	l.room.Broadcast()
	l.mu.Unlock()

	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
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
