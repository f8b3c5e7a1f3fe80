package badgerfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Badger's settings; state/DESIGN.md has the reasons.
const (
	memTables       = 2       // full ones that may wait; one more is being filled
	baseTableSize   = 1 << 20 // of the uppermost level; doubles with each below
	baseLevelSize   = 128 << 20
	levelZeroTables = 10 // so many are merged down at once
	levelZeroStall  = 25 // with so many, writes wait
	compactors      = 2
	bloomFalse      = 0.01
	discardFileSize = 1 << 20 // the size that Badger gives the file DISCARD, and expects it to have
)

// ValueThreshold is the length in bytes from which on values are kept in the value log. Shorter ones are kept beside
// their keys.
const ValueThreshold = 64

// Badger's list of encryption keys, which is empty: random bytes, then these
// words.
const (
	keyRegistryText  = 16
	keyRegistryWords = "Hello Badger"
	keyRegistrySize  = keyRegistryText + len(keyRegistryWords)
)

// Options are those settings of Badger that a caller chooses.
type Options struct {
	MemTableSize     int64
	ValueLogFileSize int64

	Logger *slog.Logger // gets what Badger logs
	// Failed is called with each error that Badger logs, from any goroutine. After an error of that kind Badger must
	// not be used any more.
	Failed func(error)
}

// Settings are Badger's settings for a directory, without a logger. Badger takes no lock of its own: the store has
// locked the directory above. Badger would release its lock by closing a file, which a process that is just being
// started by another goroutine keeps open for a moment.
func Settings(dir string, o Options) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(false).
		WithLogger(nil).
		WithMemTableSize(o.MemTableSize).
		WithNumMemtables(memTables).
		WithBaseTableSize(min(baseTableSize, o.MemTableSize)).
		WithBaseLevelSize(baseLevelSize).
		WithNumLevelZeroTables(levelZeroTables).
		WithNumLevelZeroTablesStall(levelZeroStall).
		WithValueThreshold(ValueThreshold).
		WithValueLogFileSize(o.ValueLogFileSize).
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithNumCompactors(compactors).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithBloomFalsePositive(bloomFalse).
		WithMetricsEnabled(false).
		WithBypassLockGuard(true)
}

// Open opens the Badger in dir, after removing the files that Badger cannot use.
func Open(dir string, o Options) (*badger.DB, error) {
	memSize, err := repair(dir)
	if err != nil {
		return nil, fmt.Errorf("repair badger: %w", err)
	}
	// A memtable is read back into an arena of the size that is set now, so that
	// must not be less than when it was written.
	o.MemTableSize = max(o.MemTableSize, memSize)
	l := &logger{log: o.Logger, fail: o.Failed, dir: dir}
	db, err := badger.Open(Settings(dir, o).WithLogger(l))
	if err != nil {
		return nil, fmt.Errorf("open badger: %w", err)
	}
	// Badger goes on without a table whose checksum is wrong, and says so.
	if err := l.failed(); err != nil {
		return nil, errors.Join(fmt.Errorf("open badger: %w", err), db.Close())
	}
	return db, nil
}

// repair removes files that Badger cannot use and that hold nothing that is
// needed: a memtable or value log that was created or deleted halfway, statistics
// about garbage and the list of encryption keys if they are damaged. It returns
// the size that memtables had when they were written.
func repair(dir string) (memSize int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	newest := newestValueLog(entries)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		var drop bool
		switch name := e.Name(); {
		case strings.HasSuffix(name, ".mem"):
			drop = info.Size() == 0
			memSize = max(memSize, (info.Size()+1)/2)
		case strings.HasSuffix(name, ".vlog"):
			drop = info.Size() == 0
		case name == discardName:
			drop = info.Size() < discardFileSize
			if !drop {
				_, _, valid, err := readDiscard(dir, newest)
				if err != nil {
					return 0, err
				}
				drop = !valid
			}
		case name == badger.KeyRegistryFileName:
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return 0, err
			}
			drop = len(b) != keyRegistrySize || string(b[keyRegistryText:]) != keyRegistryWords
		}
		if !drop {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return 0, err
		}
	}
	return memSize, nil
}
