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

// A VersionError says that something on disk is of a newer form than this program knows. Nothing was changed.
type VersionError struct {
	What  string
	Found uint64
	Known uint64 // the newest that this program knows
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program knows up to %d", e.What, e.Found, e.Known)
}

// A CorruptError says that something that had been made durable is damaged or missing.
type CorruptError struct {
	What   string // file, or kind of entry
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.What, e.Reason) }
