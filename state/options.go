package state

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/wal"
)

// Mode says what Open may find.
type Mode uint8

const (
	// OpenOrCreate opens a store, or makes one in an empty directory.
	OpenOrCreate Mode = iota
	// CreateOnly refuses a directory that holds a store with ErrExists.
	CreateOnly
	// ExistingOnly refuses a directory that holds none with ErrNotExist.
	ExistingOnly
	// ReadOnly does so too, and begins no run: nothing can be committed, and however often the store is opened, it
	// takes no more of the disk.
	ReadOnly
)

// Off is the value that switches off a field in which zero means a default.
const Off = -1

// Options are the settings of a store. Only Seed is stored: a store may be opened with other options than it was
// written with.
type Options struct {
	// Mode says what Open may find. The zero value is OpenOrCreate.
	Mode Mode

	// Seed is the hash seed of a store that is made. Zero means a random one.
	Seed uint64

	// BatchRecords, BatchBytes and BatchDelay bound a batch: it goes to the log
	// when it holds so many records or bytes, or when its first record has
	// waited so long, or when a call waits for it. Zero means 5,000 records,
	// 1 MiB, 20 ms.
	BatchRecords int
	BatchBytes   int
	BatchDelay   time.Duration

	// QueueBytes is how much may be committed and not yet applied before Ready
	// blocks. Zero means 8 MiB, about a second of work.
	QueueBytes int64

	// SyncBytes and SyncInterval say how often Badger is made durable: when
	// so much log was applied since the last time, or, if any was, after so
	// long. They bound what is applied again after a crash. Zero means 8 MiB
	// and 5 s.
	SyncBytes    int64
	SyncInterval time.Duration

	// CheckpointBytes is how much log makes CheckpointDue fire. Zero means
	// 256 MiB.
	CheckpointBytes int64

	// MinFree is how much space the disk must have left. With less, the store
	// fails with ErrDiskFull: Badger maps its files, and a write to a map that
	// the disk has no space for kills the process. Zero means 256 MiB, Off means
	// not to look.
	MinFree int64

	// FreeBytes says how much space the disk of a directory has left. Nil asks the
	// operating system.
	FreeBytes func(dir string) (int64, error)

	// CheckValues makes Open check every value log, for a caller that is going to
	// read them all. Otherwise it checks the newest ones, up to 256 MiB, and values
	// in older ones are checked when they are read.
	CheckValues bool

	// GCInterval is how often Badger's value log is looked at for files that
	// are worth rewriting. Zero means 1 minute, Off means never.
	GCInterval time.Duration

	// MemTableSize is the size of one of Badger's memtables, of which there are
	// up to three. Zero means 8 MiB; the least is 1 MiB.
	MemTableSize int64

	// ValueLogFileSize is when a value log file is full. Zero means 64 MiB; the
	// least is 1 MiB.
	ValueLogFileSize int64

	// Workers is how many workers of the caller note what they read, see [Store.SetInFlight].
	Workers int

	// Journal is where records become durable. Nil means the log in the store's directory; a [SharedJournal] makes the
	// store a view. The store closes it. If Open fails after it has looked at the directory, Open closes it.
	Journal Journal

	// Log are the options of the log in the directory. The store sets Durable and Written.
	Log wal.Options

	// ObserveDurable and ObserveApplied are called, if not nil, for every batch
	// with how long its first record took from Commit until it was durable or
	// applied, and with how many records it had. They must not block.
	ObserveDurable func(latency time.Duration, records int)
	ObserveApplied func(latency time.Duration, records int)

	// Logger gets what Badger logs. Nil means that it is dropped.
	Logger *slog.Logger
}

// DefaultMinFree is the default of Options.MinFree.
const DefaultMinFree = 256 << 20

const (
	minMemTableSize = 1 << 20
	minValueLogSize = 1 << 20
	maxValueLogSize = 1 << 30
)

// validate fills in defaults and names every fault at once.
func (o Options) validate() (Options, error) {
	var faults []error
	positive(&faults, "batch records", &o.BatchRecords, 5000)
	positive(&faults, "batch bytes", &o.BatchBytes, 1<<20)
	positive(&faults, "batch delay", &o.BatchDelay, 20*time.Millisecond)
	positive(&faults, "queue bytes", &o.QueueBytes, 8<<20)
	positive(&faults, "sync bytes", &o.SyncBytes, 8<<20)
	positive(&faults, "sync interval", &o.SyncInterval, 5*time.Second)
	positive(&faults, "checkpoint bytes", &o.CheckpointBytes, 256<<20)
	positive(&faults, "memtable size", &o.MemTableSize, 8<<20)
	positive(&faults, "value log file size", &o.ValueLogFileSize, 64<<20)
	if o.Workers < 0 {
		faults = append(faults, fmt.Errorf("workers is %d", o.Workers))
	}
	if o.MinFree != Off {
		positive(&faults, "least free disk", &o.MinFree, DefaultMinFree)
	}
	if o.GCInterval != Off {
		positive(&faults, "gc interval", &o.GCInterval, time.Minute)
	}
	if o.MemTableSize < minMemTableSize {
		faults = append(faults, fmt.Errorf("memtable size %d is less than %d", o.MemTableSize, minMemTableSize))
	}
	if o.ValueLogFileSize < minValueLogSize || o.ValueLogFileSize >= maxValueLogSize {
		faults = append(faults, fmt.Errorf("value log file size %d is not between %d and %d",
			o.ValueLogFileSize, minValueLogSize, maxValueLogSize))
	}
	if o.view() != nil && o.Mode != CreateOnly {
		faults = append(faults, errors.New("the view of a shared journal is made anew"))
	}
	if o.Mode > ReadOnly {
		faults = append(faults, fmt.Errorf("mode %d is unknown", o.Mode))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FreeBytes == nil {
		o.FreeBytes = disk.FreeBytes
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("state options: %w", errors.Join(faults...))
	}
	return o, nil
}

// badger are the options of the Badger below the store. Fail is called with each error that Badger logs.
func (o *Options) badger(fail func(error)) badgerfiles.Options {
	return badgerfiles.Options{MemTableSize: o.MemTableSize, ValueLogFileSize: o.ValueLogFileSize, Logger: o.Logger,
		Failed: fail}
}

// view is the journal of the crawl that the store is a view of; nil for a store of its own.
func (o *Options) view() SharedJournal {
	shared, _ := o.Journal.(SharedJournal)
	return shared
}

// space is the free space that the disk must have.
func (o *Options) space() disk.Space { return disk.Space{Min: o.MinFree, Free: o.FreeBytes} }

// positive sets *v to its default if it is zero, and notes a fault if it is
// negative.
func positive[T int | int64 | time.Duration](faults *[]error, name string, v *T, def T) {
	switch {
	case *v == 0:
		*v = def
	case *v < 0:
		*faults = append(*faults, fmt.Errorf("%s %v is negative", name, *v))
	}
}
