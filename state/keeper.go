package state

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

// A keeper makes Badger durable from time to time, and collects the garbage of its value logs.
type keeper struct {
	access *access
	view   *view
	opts   *Options
	stop   chan struct{} // closed by Close
	wake   chan struct{} // has a token when so much was applied that Badger should be made durable

	unsynced atomic.Int64 // bytes of log applied since Badger was last made durable; written by applier and keeper

	mu    sync.Mutex         // held while Badger is made durable or collected: one at a time
	files *badgerfiles.Files // guarded by mu

	// Written under mu.
	synced atomic.Uint64                   // position up to which Badger is durable
	use    atomic.Pointer[badgerfiles.Use] // when it was made durable
}

func newKeeper(a *access, v *view, files *badgerfiles.Files, o *Options) *keeper {
	k := &keeper{access: a, view: v, files: files, opts: o, stop: make(chan struct{}), wake: make(chan struct{}, 1)}
	k.synced.Store(uint64(v.progress().position))
	k.use.Store(&badgerfiles.Use{})
	return k
}

// run is the keeper goroutine.
func (k *keeper) run() {
	sync := time.NewTicker(k.opts.SyncInterval)
	defer sync.Stop()
	var collect <-chan time.Time
	if k.opts.GCInterval != Off {
		t := time.NewTicker(k.opts.GCInterval)
		defer t.Stop()
		collect = t.C
	}
	for {
		var err error
		select {
		case <-k.stop:
			return
		case <-k.access.broken:
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
			k.access.fail(err)
			return
		}
	}
}

// applied notes that so many bytes of log were applied.
func (k *keeper) applied(bytes int64) {
	if k.unsynced.Add(bytes) < k.opts.SyncBytes {
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
	p := k.view.progress()
	if uint64(p.position) == k.synced.Load() {
		return nil
	}
	var err error
	if p.files, err = k.files.Sync(); err != nil {
		return fmt.Errorf("make badger durable: %w", err)
	}
	k.noteUseLocked()
	if err := writeSynced(k.access.badgerDir, p); err != nil {
		return fmt.Errorf("note that badger is durable: %w", err)
	}
	k.synced.Store(uint64(p.position))
	return nil
}

// collect rewrites value logs that are mostly garbage.
func (k *keeper) collect() error {
	if err := k.access.enter(); err != nil {
		return err
	}
	defer k.access.leave()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.files.Collect(k.view.db); err != nil {
		return err
	}
	k.noteUseLocked()
	return nil
}

func (k *keeper) noteUseLocked() {
	use := k.files.Use()
	k.use.Store(&use)
}
