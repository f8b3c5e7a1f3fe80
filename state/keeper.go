package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/internal/disk"
)

// gcDiscardRatio is how much of a value log file must be garbage to make
// rewriting it worth while.
const gcDiscardRatio = 0.5

// keeper is the keeper goroutine: it makes Badger durable now and then and
// collects the garbage of its value log.
func (s *Store) keeper() {
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
		case <-s.stopKeeper:
			return
		case <-s.marks.broken:
			return
		case <-s.keep:
			err = s.syncBadger()
		case <-sync.C:
			if s.syncedLog.Load() > 0 {
				err = s.syncBadger()
			}
		case <-collect:
			err = s.collectValues()
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// syncBadger makes all that is applied durable in Badger and notes that.
func (s *Store) syncBadger() error {
	s.synced.mu.Lock()
	defer s.synced.mu.Unlock()
	return s.syncBadgerLocked()
}

func (s *Store) syncBadgerLocked() error {
	s.syncedLog.Store(0)
	p := s.view.progress()
	if p.seq == s.synced.seq {
		return nil
	}
	// Only what was valid before the sync is known to be durable after it.
	files, err := s.scanFiles()
	if err == nil {
		err = s.syncFiles()
	}
	if err != nil {
		return fmt.Errorf("make badger durable: %w", err)
	}
	p.files = files
	if err := writeSynced(s.badgerDir(), p); err != nil {
		return fmt.Errorf("note that badger is durable: %w", err)
	}
	s.synced.seq = p.seq
	s.checkpoints.synced(p.seq)
	return nil
}

// scanFiles returns how far Badger's memtables and value logs are valid. All that
// is applied lies before those ends. Each file is read from where the last call
// ended, so that nothing is read twice. Value logs that were there when the store
// was opened are not written to, and keep the ends that were known then.
func (s *Store) scanFiles() (map[string]span, error) {
	dir := s.badgerDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]span{}
	for _, e := range entries {
		name := e.Name()
		id, ext := fileID(name)
		known, isKnown := s.synced.spans[name]
		switch {
		case ext == ".vlog" && id < max(s.synced.scanFrom, s.synced.values):
			if isKnown {
				found[name] = known
			}
			continue
		case ext != ".vlog" && ext != ".mem":
			continue
		}
		got, err := scanEntries(filepath.Join(dir, name), known)
		switch {
		case errors.Is(err, os.ErrNotExist):
			// A memtable that is deleted, since a table holds what it held.
		case err != nil:
			return nil, err
		case got.first != 0:
			found[name] = got
		}
	}
	s.synced.spans = found
	return found, nil
}

// syncFiles syncs Badger's memtables and value logs. Badger itself syncs its
// tables and its manifest when it writes them. All entries of transactions
// that are committed by now are in files that exist by now: value logs are
// only deleted by collectValues, which keeps out of the way, and a memtable is
// deleted when a table holds what it held.
func (s *Store) syncFiles() error {
	dir := s.badgerDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	newest := s.synced.values
	var use diskUse
	for _, e := range entries {
		id, ext := fileID(e.Name())
		use.add(e, ext)
		switch {
		case ext == ".mem":
		case ext == ".vlog" && id >= s.synced.values:
			// Only the newest is written to, so those before the newest of last
			// time are durable.
			newest = max(newest, id)
		default:
			continue
		}
		err := syncFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) && ext == ".mem" {
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := disk.SyncDir(dir); err != nil {
		return err
	}
	s.synced.values = newest
	s.view.setDiskUse(use)
	return nil
}

func fileID(name string) (id int64, ext string) {
	ext = filepath.Ext(name)
	id, err := strconv.ParseInt(strings.TrimSuffix(name, ext), 10, 64)
	if err != nil {
		return 0, ""
	}
	return id, ext
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", path, err), f.Close())
	}
	return f.Close()
}

// gcFiles is how many value log files are rewritten in one go at most.
const gcFiles = 4

// collectValues rewrites value log files that are mostly garbage.
func (s *Store) collectValues() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.synced.mu.Lock()
	defer s.synced.mu.Unlock()
	for range gcFiles {
		again, err := s.collectFile()
		if err != nil {
			return fmt.Errorf("collect value log: %w", err)
		}
		if !again {
			break
		}
	}
	return nil
}

// checkCollected checks the value log that Badger would collect next, if it would
// collect one. That is never the newest, which is written to.
func (s *Store) checkCollected() error {
	dir := s.badgerDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	newest := newestValueLog(entries)
	id, garbage, valid, err := readDiscard(dir, newest)
	if err != nil || !valid || id == 0 || id == newest {
		return err
	}
	name := fmt.Sprintf("%06d.vlog", id)
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was collected before
	}
	if err != nil || float64(garbage) < gcDiscardRatio*float64(info.Size()) {
		return err
	}
	f := &badgerFiles{dir: dir, sizes: map[string]int64{name: info.Size()}, synced: s.synced.spans}
	return f.verifyEntries(name)
}

// newestValueLog returns the number of the newest value log; zero if there is none.
func newestValueLog(entries []os.DirEntry) int64 {
	newest := int64(0)
	for _, e := range entries {
		if id, ext := fileID(e.Name()); ext == ".vlog" {
			newest = max(newest, id)
		}
	}
	return newest
}

// collectFile rewrites one value log file, if one is worth it. Badger deletes
// the file when its live values are written elsewhere, which is not when they
// are durable there. But it puts the deletion off while there is an iterator,
// so one is held until they are.
func (s *Store) collectFile() (done bool, err error) {
	// Badger takes the first damaged entry for the end of the file, and deletes the
	// file with what follows.
	if err := s.checkCollected(); err != nil {
		return false, err
	}
	txn := s.view.db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{famMeta}})
	err = s.view.db.RunValueLogGC(gcDiscardRatio)
	done = err == nil
	if done {
		// The statistics may have changed just before Badger looked at them.
		err = s.checkCollected()
	}
	if err == nil && done {
		err = s.syncFiles()
	} else if errors.Is(err, badger.ErrNoRewrite) {
		err = nil
	}
	if err != nil {
		// The store fails now. Closing the iterator would delete the only
		// durable copy.
		return false, err
	}
	it.Close()
	txn.Discard()
	return done, nil
}
