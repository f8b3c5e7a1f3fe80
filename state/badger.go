package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Badger's settings; DESIGN.md says why they are what they are.
const (
	memTables       = 2       // full ones that may wait; one more is being filled
	valueThreshold  = 64      // longer values live in the value log
	baseTableSize   = 1 << 20 // of the uppermost level; doubles with each below
	baseLevelSize   = 128 << 20
	levelZeroTables = 10 // so many are merged down at once
	levelZeroStall  = 25 // with so many, writes wait
	compactors      = 2
	bloomFalse      = 0.01
	discardFileSize = 1 << 20 // Badger makes it so large, and trusts that it is
)

// Badger's list of encryption keys, which is empty: random bytes, then these
// words.
const (
	keyRegistryText  = 16
	keyRegistryWords = "Hello Badger"
	keyRegistrySize  = keyRegistryText + len(keyRegistryWords)
)

func badgerOptions(dir string, o Options, l *badgerLogger) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(false).
		WithLogger(l).
		WithMemTableSize(o.MemTableSize).
		WithNumMemtables(memTables).
		WithBaseTableSize(min(baseTableSize, o.MemTableSize)).
		WithBaseLevelSize(baseLevelSize).
		WithNumLevelZeroTables(levelZeroTables).
		WithNumLevelZeroTablesStall(levelZeroStall).
		WithValueThreshold(valueThreshold).
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
		WithMetricsEnabled(false)
}

// openBadger opens the Badger in dir after putting right what Badger itself
// would stumble over.
func openBadger(dir string, o Options, l *badgerLogger) (*badger.DB, error) {
	memSize, err := repairBadger(dir)
	if err != nil {
		return nil, fmt.Errorf("repair badger: %w", err)
	}
	// A memtable is read back into an arena of the size that is set now, so that
	// must not be less than when it was written.
	o.MemTableSize = max(o.MemTableSize, memSize)
	l.dir = dir
	db, err := badger.Open(badgerOptions(dir, o, l))
	if err != nil {
		return nil, fmt.Errorf("open badger: %w", err)
	}
	// Badger goes on without a table whose checksum is wrong, and says so.
	if err := l.failed(); err != nil {
		return nil, errors.Join(fmt.Errorf("open badger: %w", err), db.Close())
	}
	return db, nil
}

// repairBadger removes files that Badger cannot use and that hold nothing that is
// needed: a memtable or value log that was created or deleted halfway, statistics
// about garbage and the list of encryption keys if they are damaged. It returns
// the size that memtables had when they were written.
func repairBadger(dir string) (memSize int64, err error) {
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

// A badgerLogger passes on what Badger says. Badger only logs some errors that
// it must not survive; this makes them fail the store.
type badgerLogger struct {
	log  *slog.Logger
	fail func(error) // is told of each error; may be called from any goroutine
	dir  string      // Badger's directory; set before Badger is opened

	mu  sync.Mutex
	err error // guarded by mu; the first error
}

func newBadgerLogger(log *slog.Logger, fail func(error)) *badgerLogger {
	return &badgerLogger{log: log, fail: fail}
}

func (l *badgerLogger) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *badgerLogger) note(format string, args []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	err := errors.New("badger: " + text)
	if damage := valueDamage(l.dir, text); damage != nil {
		err = damage
	}
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.fail(err)
}

// valueDamage finds out from what Badger logs which value log a value could not
// be read from: it names the place of a value as {Fid:1 Len:2 Offset:3}, and a
// missing file by its number. Reading the value returns no error and an empty
// value.
func valueDamage(dir, text string) error {
	var id, length, offset uint32
	reason := ""
	if at := strings.Index(text, "{Fid:"); at >= 0 {
		if _, err := fmt.Sscanf(text[at:], "{Fid:%d Len:%d Offset:%d}", &id, &length, &offset); err == nil {
			reason = fmt.Sprintf("the value of %d bytes at offset %d does not match its checksum", length, offset)
		}
	} else if at := strings.LastIndex(text, "file with ID: "); at >= 0 {
		if _, err := fmt.Sscanf(text[at:], "file with ID: %d not found", &id); err == nil {
			reason = "it is missing"
		}
	}
	if reason == "" {
		return nil
	}
	return &CorruptError{What: filepath.Join(dir, fmt.Sprintf("%06d.vlog", id)), Reason: reason}
}

// Errorf implements badger.Logger.
func (l *badgerLogger) Errorf(format string, args ...any) { l.note(format, args) }

// Warningf implements badger.Logger. A compaction that fails is a warning to
// Badger; it would be tried again until writes stall for good.
func (l *badgerLogger) Warningf(format string, args ...any) {
	if strings.Contains(format, "doCompact") {
		l.note(format, args)
		return
	}
	l.log.Debug("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger. Badger is talkative.
func (l *badgerLogger) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (l *badgerLogger) Debugf(string, ...any) {}
