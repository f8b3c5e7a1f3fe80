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
	s.keepMu.Lock()
	defer s.keepMu.Unlock()
	return s.syncBadgerLocked()
}

func (s *Store) syncBadgerLocked() error {
	s.syncedLog.Store(0)
	p := s.view.progress()
	if p.seq == s.syncedSeq {
		return nil
	}
	if err := s.syncFiles(); err != nil {
		return fmt.Errorf("make badger durable: %w", err)
	}
	if err := writeSynced(s.badgerDir(), p); err != nil {
		return fmt.Errorf("note that badger is durable: %w", err)
	}
	s.syncedSeq = p.seq
	s.checkpoints.synced(p.seq)
	return nil
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
	newest := s.syncedValues
	var use diskUse
	for _, e := range entries {
		id, ext := fileID(e.Name())
		use.add(e, ext)
		switch {
		case ext == ".mem":
		case ext == ".vlog" && id >= s.syncedValues:
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
	if err := syncDir(dir); err != nil {
		return err
	}
	s.syncedValues = newest
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
	s.keepMu.Lock()
	defer s.keepMu.Unlock()
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

// collectFile rewrites one value log file, if one is worth it. Badger deletes
// the file when its live values are written elsewhere, which is not when they
// are durable there. But it puts the deletion off while there is an iterator,
// so one is held until they are.
func (s *Store) collectFile() (done bool, err error) {
	txn := s.view.db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{famMeta}})
	err = s.view.db.RunValueLogGC(gcDiscardRatio)
	done = err == nil
	if done {
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
