package wal

import "fmt"

// TruncateBefore deletes the segments whose records all have LSNs below lsn.
// The segment being written always stays. They go oldest first, and each is
// durably gone before the next, so that a crash leaves no gap.
func (l *Log) TruncateBefore(lsn LSN) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	for {
		l.mu.Lock()
		if err := l.usableLocked(); err != nil {
			l.mu.Unlock()
			return err
		}
		if len(l.segments) < 2 || l.segments[1].base > lsn {
			l.mu.Unlock()
			return nil
		}
		oldest := l.segments[0]
		l.mu.Unlock()
		if err := l.remove(oldest); err != nil {
			return err
		}
	}
}

// remove deletes the oldest segment. Reads wait meanwhile, so that none meets a file that is gone.
func (l *Log) remove(oldest segment) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	if err := l.closeReader(oldest.base); err != nil {
		return fmt.Errorf("truncate log: %w", err)
	}
	if err := l.opts.FS.Remove(oldest.path); err != nil {
		return fmt.Errorf("truncate log: %w", err)
	}
	err := l.opts.FS.SyncDir(l.dir)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = l.segments[1:]
	if err != nil {
		// The order of removals is no longer known to be kept.
		return l.failLocked(fmt.Errorf("truncate log: %w", err))
	}
	return nil
}
