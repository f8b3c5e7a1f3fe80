package disk

import "fmt"

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

// A VersionError says that something on disk has another format version than this program reads. Nothing was changed.
type VersionError struct {
	What  string
	Found uint64
	Known uint64 // the one that this program reads
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, and this version of the program reads %d: use the version that "+
		"wrote it, or begin a new crawl in another directory", e.What, e.Found, e.Known)
}

// A CorruptError says that something that had been made durable is damaged or missing.
type CorruptError struct {
	What   string // file, or kind of entry
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.What, e.Reason) }
