package badgerfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

const (
	// discardRatio is how much of a value log must be garbage to make rewriting it worth while.
	discardRatio = 0.5
	// maxCollected is how many value logs are rewritten in one call at most.
	maxCollected = 4
)

// Collect rewrites value logs that are mostly garbage. If it fails, Badger must not be used any more.
func (f *Files) Collect(db *badger.DB) error {
	for range maxCollected {
		again, err := f.collectOne(db)
		if err != nil {
			return fmt.Errorf("collect value log: %w", err)
		}
		if !again {
			break
		}
	}
	return nil
}

// collectOne rewrites one value log, if one is worth it. Badger deletes the file when its live values are written
// elsewhere, which is not when they are durable there. But Badger delays the deletion while there is an iterator, so
// one is held until they are durable.
func (f *Files) collectOne(db *badger.DB) (done bool, err error) {
	// Badger takes the first damaged entry for the end of the file, and deletes the file with what follows.
	if err := f.checkNext(); err != nil {
		return false, err
	}
	txn := db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{0}}) // no table has such keys, so none is held
	err = db.RunValueLogGC(discardRatio)
	done = err == nil
	if done {
		// The statistics may have changed just before Badger read them.
		err = f.checkNext()
	}
	if err == nil && done {
		err = f.syncFiles()
	} else if errors.Is(err, badger.ErrNoRewrite) {
		err = nil
	}
	if err != nil {
		// The caller fails now. Closing the iterator would delete the only durable copy.
		return false, err
	}
	it.Close()
	txn.Discard()
	return done, nil
}

// checkNext checks the value log that Badger would collect next, if it would collect one. That is never the newest,
// which is written to.
func (f *Files) checkNext() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	newest := newestValueLog(entries)
	id, garbage, valid, err := readDiscard(f.dir, newest)
	if err != nil || !valid || id == 0 || id == newest {
		return err
	}
	name := fmt.Sprintf("%06d.vlog", id)
	info, err := os.Stat(filepath.Join(f.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was collected before
	}
	if err != nil || float64(garbage) < discardRatio*float64(info.Size()) {
		return err
	}
	l := &listing{dir: f.dir, sizes: map[string]int64{name: info.Size()}, durable: f.spans}
	return l.verifyEntries(name)
}

// Badger's file of statistics about garbage has a slot of 16 bytes for each value
// log: its number and how many bytes of it are garbage, both big-endian. The first
// slot with the number zero ends the list. The file has no checksum.
const (
	discardName = "DISCARD"
	discardSlot = 16
	maxDiscard  = 1 << 40 // more than a value log can hold
)

// readDiscard returns the value log with the most garbage, which is the one that
// Badger collects next, and how much that is; zero if there is none. The statistics are not valid if
// they name a value log that was never made: Badger looks for it for ever.
func readDiscard(dir string, newest int64) (most, garbage int64, valid bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, discardName))
	if err != nil {
		return 0, 0, false, err
	}
	for ; len(b) >= discardSlot; b = b[discardSlot:] {
		id, n := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
		if id == 0 {
			break
		}
		if id > uint64(newest) || n > maxDiscard {
			return 0, 0, false, nil
		}
		if int64(n) > garbage {
			most, garbage = int64(id), int64(n)
		}
	}
	return most, garbage, true, nil
}
