package state

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store is closed")

	// ErrNotOurs is returned by Open for a directory that holds files and no
	// store. Nothing in it was touched.
	ErrNotOurs = errors.New("directory holds files that are not a crawl's")

	// ErrExists is returned by Open in mode CreateOnly if there is a store.
	ErrExists = errors.New("directory already holds a crawl")

	// ErrNotExist is returned by Open in mode ExistingOnly if there is none.
	ErrNotExist = errors.New("directory holds no crawl")

	// ErrTooLarge is returned by Commit for a record over MaxRecordSize, or a run
	// fact or origin with a name over MaxName.
	// Nothing was committed, and the store is unharmed.
	ErrTooLarge = errors.New("record is too large")

	// ErrDiskFull fails a store before Badger meets a full disk.
	ErrDiskFull = errors.New("disk is nearly full")
)

// A LockedError says that another process has the directory open.
type LockedError struct {
	Dir string
	PID int // of its owner; zero if it could not be read
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("%s is in use by process %d", e.Dir, e.PID)
}

// A VersionError says that something on disk is of a newer form than this
// program knows. Nothing was changed.
type VersionError struct {
	What  string
	Found uint64
	Known uint64 // the newest that this program knows
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program knows up to %d", e.What, e.Found, e.Known)
}

// A CorruptError says that something that had been made durable is damaged or
// missing.
type CorruptError struct {
	What   string // file, or kind of entry
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.What, e.Reason) }
