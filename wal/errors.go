package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("log is closed")

	// ErrTooLarge is returned by Append for a record over MaxRecordSize. The
	// log is unharmed.
	ErrTooLarge = errors.New("record is too large")

	// ErrOutOfRange is returned by Replay when the log does not hold the record
	// it is asked to begin with: it was truncated away, or never written.
	ErrOutOfRange = errors.New("record is not in the log")
)

// TornTail says what Open cut from the end of the log: bytes of a batch whose
// fsync never returned. It is an error value so that it can be logged or
// wrapped as one, but a log with a torn tail opens.
type TornTail struct {
	Segment string // path of the segment file
	Offset  int64  // where the first bad frame begins
	Bytes   int64  // from Offset to the last byte that was not zero
	Next    LSN    // LSN of the first record that was lost, now free again
	Reason  string // what was wrong at Offset
}

// Error implements error.
func (t *TornTail) Error() string {
	return fmt.Sprintf("torn tail cut from %s at offset %d, %d bytes, from record %d on: %s",
		t.Segment, t.Offset, t.Bytes, t.Next, t.Reason)
}

// CorruptError says that the log is damaged in a place that was durable
// before. Nothing on disk has been changed.
type CorruptError struct {
	Segment string // path of the segment file
	Offset  int64  // where reading had to stop
	Next    LSN    // LSN of the record expected there; zero if not known
	Reason  string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt log segment %s at offset %d, record %d: %s", e.Segment, e.Offset, e.Next, e.Reason)
}

// VersionError says that a segment is whole but written in a form that this
// package does not know. Nothing on disk has been changed.
type VersionError struct {
	Segment string
	Version uint32 // format version of the segment
	Detail  string // what is unknown
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("log segment %s has format version %d, this program knows up to %d: %s",
		e.Segment, e.Version, formatVersion, e.Detail)
}
