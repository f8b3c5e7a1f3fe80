package state

import (
	"errors"
	"fmt"

	"github.com/mapwright/mapwright/internal/disk"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store is closed")

	// ErrNotOurs is returned by Open for a directory that holds files and no
	// store. Nothing in it was touched.
	ErrNotOurs = errors.New("directory holds files that are not a crawl's")

	// ErrExists is returned by Open in mode CreateOnly if there is a store.
	ErrExists = errors.New("directory already holds a crawl")

	// ErrNotExist is returned by Open in the modes ExistingOnly and ReadOnly if there is none.
	ErrNotExist = errors.New("directory holds no crawl")

	// ErrReadOnly is returned by Commit of a store that was opened in mode ReadOnly.
	ErrReadOnly = errors.New("store was opened to read it")

	// errView is returned by Open for the view of a crawl of several machines, which only
	// they can use.
	errView = errors.New("directory holds a machine's view of a crawl of several machines, whose data is in their " +
		"database")

	// ErrTooLarge is returned by Commit for a record over MaxRecordSize, or a run
	// fact or origin with a name over 60,000 bytes.
	// Nothing was committed, and the store is unharmed.
	ErrTooLarge = errors.New("record is too large")

	// ErrDiskFull fails a store while the disk still has a little space; see Options.MinFree.
	ErrDiskFull = disk.ErrFull
)

// A LockedError says that another process has the directory open: Dir is the directory, PID its owner or zero if that
// could not be read.
type LockedError = disk.LockedError

// A VersionError says that something on disk has another format version than this program reads: What it is, and the
// versions Found and Known. Nothing was changed.
type VersionError = disk.VersionError

// An IdentityError says that the keys of the store in Dir were computed by other
// rules (Found) than this program has (Known), so that it would not recognise
// URLs that are known. Nothing was changed. See weburl.Identity.
type IdentityError struct {
	Dir, Found, Known string
}

// Error implements error.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s was made by a version of the program that identifies URLs by other rules (%s; this one: "+
		"%s): "+
		"finish the crawl with the version that began it, or begin a new one in another directory", e.Dir, e.Found,
		e.Known)
}

// A CorruptError says that something that had been made durable is damaged or missing: What is the file or the kind of
// entry, Reason the fault.
type CorruptError = disk.CorruptError
