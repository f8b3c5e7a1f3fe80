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
		path := l.segments[0].path
		l.mu.Unlock()

		if err := l.opts.FS.Remove(path); err != nil {
			return fmt.Errorf("truncate log: %w", err)
		}
		err := l.opts.FS.SyncDir(l.dir)
		l.mu.Lock()
		l.segments = l.segments[1:]
		if err != nil {
			// The order of removals is no longer known to be kept.
			err = l.failLocked(fmt.Errorf("truncate log: %w", err))
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
