package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
)

// checkpoints makes the checkpoints of a store. Its exported methods are the store's.
type checkpoints struct {
	access  *access
	keeper  *keeper
	journal Journal
	dir     string        // of the files
	due     chan struct{} // has a token when one is due
	limit   int64         // log bytes that make it due

	making sync.Mutex // held by Checkpoint, one at a time, and by Close

	mu     sync.Mutex
	newest checkpoint    // guarded by mu
	before checkpoint    // guarded by mu; the one before it
	length int64         // guarded by mu; bytes of log found by Open and written since
	saved  int64         // guarded by mu; the same, at the newest
	count  uint64        // guarded by mu; made by this run
	took   time.Duration // guarded by mu; of the last one
}

// openCheckpoints reads what is in dir. Unreadable is why newer checkpoints than the one it found could not be read.
func openCheckpoints(a *access, j Journal, dir string, limit int64) (_ *checkpoints, unreadable, err error) {
	c := &checkpoints{access: a, journal: j, dir: dir, due: make(chan struct{}, 1), limit: limit}
	if c.newest, c.before, unreadable, err = loadCheckpoints(dir); err != nil {
		return nil, nil, err
	}
	return c, unreadable, sweepSnapshots(dir, c.newest, c.before)
}

// logged sets length: the bytes of log found by Open and written since.
func (c *checkpoints) logged(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length = n
	if c.length-c.saved >= c.limit {
		select {
		case c.due <- struct{}{}:
		default:
		}
	}
}

func (c *checkpoints) stats(st *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Checkpoints, st.LastCheckpoint = c.count, c.took
}

// A SnapshotWriter saves the snapshots of one checkpoint.
type SnapshotWriter struct {
	dir      string
	previous checkpoint
	next     checkpoint
}

// Position is the position of the checkpoint. A snapshot must hold what records up to it say; it may hold more.
func (w *SnapshotWriter) Position() frontier.Position { return w.next.position }

// Put saves what write writes as the snapshot of that name. The version is the
// caller's.
func (w *SnapshotWriter) Put(name string, version uint32, write func(io.Writer) error) error {
	if _, ok := w.next.find(name); ok {
		return fmt.Errorf("save snapshot %q: it was saved already", name)
	}
	// The number of the snapshot, not its name, makes the name of the file:
	// names may hold anything.
	file := fmt.Sprintf("%016x-%04x%s", w.next.number, len(w.next.snapshots), snapshotExt)
	size, err := disk.WriteFrame(filepath.Join(w.dir, file), snapshotMagic, version, write)
	if err != nil {
		return fmt.Errorf("save snapshot %q: %w", name, err)
	}
	w.next.snapshots = append(w.next.snapshots, Snapshot{Name: name, Version: version, Size: size, file: file})
	return nil
}

// Keep keeps the snapshot of that name from the checkpoint before, for parts
// that do not change any more. It reports false if there is none.
func (w *SnapshotWriter) Keep(name string) bool {
	if _, ok := w.next.find(name); ok {
		return true
	}
	s, ok := w.previous.find(name)
	if ok {
		w.next.snapshots = append(w.next.snapshots, s)
	}
	return ok
}

// CheckpointDue returns a channel that delivers when so much log was written
// since the last checkpoint that another should be made.
func (c *checkpoints) CheckpointDue() <-chan struct{} { return c.due }

// Checkpoint saves snapshots and cuts the log below the checkpoint before this
// one. It takes the position first and calls save then, so that what save
// copies holds all that records up to the position say. The store goes on
// working meanwhile. If save returns an error, the last checkpoint stays as it
// was.
func (c *checkpoints) Checkpoint(ctx context.Context, save func(*SnapshotWriter) error) error {
	c.making.Lock()
	defer c.making.Unlock()
	if err := c.access.failed(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	start := time.Now()

	at, _ := c.access.queue.last()
	c.mu.Lock()
	previous, length := c.newest, c.length
	c.mu.Unlock()
	w := &SnapshotWriter{dir: c.dir, previous: previous, next: checkpoint{number: previous.number + 1, position: at}}
	if err := save(w); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	// The log is cut, so Badger must be durable past the cut; and a snapshot, which
	// may hold a little more than what the position says, must not be ahead of the
	// log: after a kill the next run would give the same positions to other records.
	end, _ := c.access.queue.last()
	if err := c.access.waitApplied(ctx, end); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := c.finish(ctx, w.next, previous); err != nil {
		err = fmt.Errorf("checkpoint: %w", err)
		c.access.fail(err)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest, c.before = w.next, previous
	c.saved = length
	c.count++
	c.took = time.Since(start)
	return nil
}

func (c *checkpoints) finish(ctx context.Context, next, previous checkpoint) error {
	if err := c.keeper.sync(); err != nil {
		return err
	}
	if err := writeCheckpoint(c.dir, next); err != nil {
		return err
	}
	if err := sweepSnapshots(c.dir, next, previous); err != nil {
		return err
	}
	err := c.journal.Truncate(ctx, everywhere(previous.position))
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Snapshots returns the snapshots of the newest checkpoint, and its position:
// what records after it say is not in them. There is no checkpoint if the
// position is zero.
func (c *checkpoints) Snapshots() (list []Snapshot, at frontier.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(list, c.newest.snapshots...), c.newest.position
}

// EarlierSnapshots returns those of the checkpoint before the newest, for a caller that
// finds one of the newest damaged. The log begins at its position or before it.
func (c *checkpoints) EarlierSnapshots() (list []Snapshot, at frontier.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(list, c.before.snapshots...), c.before.position
}

// ReadSnapshot hands the content of a snapshot to read. If the error is not
// nil, what read has seen must not be used: the checksum is known to be right
// only at the end.
func (c *checkpoints) ReadSnapshot(snap Snapshot, read func(io.Reader) error) error {
	err := disk.ReadFrame(filepath.Join(c.dir, snap.file), snapshotMagic,
		func(_ uint32, r io.Reader) error { return read(r) })
	if err != nil {
		return fmt.Errorf("read snapshot %q: %w", snap.Name, err)
	}
	return nil
}
