package state

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

// A keeper makes Badger durable from time to time, and collects the garbage of its value logs. It is made before Badger is
// opened.
type keeper struct {
	store *Store
	stop  chan struct{} // closed by Close
	wake  chan struct{} // has a token when so much was applied that Badger should be made durable

	unsynced atomic.Int64 // bytes of log applied since Badger was last made durable; written by applier and keeper

	mu    sync.Mutex         // held while Badger is made durable or collected: one at a time
	files *badgerfiles.Files // guarded by mu
	seq   uint64             // guarded by mu; position up to which Badger is durable

	use atomic.Pointer[badgerfiles.Use] // at the last sync; written under mu
}

// newKeeper looks at Badger's files, which are durable up to reached.
func newKeeper(s *Store, reached *progress) (*keeper, error) {
	files, err := badgerfiles.New(s.badgerDir(), reached.files)
	if err != nil {
		return nil, err
	}
	k := &keeper{store: s, stop: make(chan struct{}), wake: make(chan struct{}, 1), files: files, seq: reached.seq}
	k.use.Store(&badgerfiles.Use{})
	return k, nil
}

// run is the keeper goroutine.
func (k *keeper) run() {
	s := k.store
	sync := time.NewTicker(s.opts.SyncInterval)
	defer sync.Stop()
	var collect <-chan time.Time
	if s.opts.GCInterval != Off {
		t := time.NewTicker(s.opts.GCInterval)
		defer t.Stop()
		collect = t.C
	}
	for {
		var err error
		select {
		case <-k.stop:
			return
		case <-s.marks.broken:
			return
		case <-k.wake:
			err = k.sync()
		case <-sync.C:
			if k.unsynced.Load() > 0 {
				err = k.sync()
			}
		case <-collect:
			err = k.collect()
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// applied notes that so many bytes of log were applied.
func (k *keeper) applied(bytes int64) {
	if k.unsynced.Add(bytes) < k.store.opts.SyncBytes {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// sync makes all that is applied durable in Badger, and writes down up to where.
func (k *keeper) sync() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsynced.Store(0)
	p := k.store.view.progress()
	if p.seq == k.seq {
		return nil
	}
	var err error
	if p.files, err = k.files.Sync(); err != nil {
		return fmt.Errorf("make badger durable: %w", err)
	}
	k.noteUseLocked()
	if err := writeSynced(k.store.badgerDir(), p); err != nil {
		return fmt.Errorf("note that badger is durable: %w", err)
	}
	k.seq = p.seq
	k.store.checkpoints.synced(p.seq)
	return nil
}

// collect rewrites value logs that are mostly garbage.
func (k *keeper) collect() error {
	if err := k.store.enter(); err != nil {
		return err
	}
	defer k.store.leave()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.files.Collect(k.store.view.db); err != nil {
		return err
	}
	k.noteUseLocked()
	return nil
}

func (k *keeper) noteUseLocked() {
	use := k.files.Use()
	k.use.Store(&use)
}
