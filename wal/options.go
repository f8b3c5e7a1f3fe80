package wal

import (
	"cmp"
	"fmt"
)

const (
	// DefaultSegmentSize is the size of a segment if Options do not say another.
	DefaultSegmentSize = 64 << 20

	minSegmentSize = 2 * pageSize
)

// Options are the settings of a log. None of them is stored: a log may be
// opened with other options than it was written with.
type Options struct {
	// SegmentSize is how much space is reserved for a segment, and the size at
	// which the next one is begun. A segment may exceed it by one batch.
	// Zero means 64 MiB; the least is 8 KiB.
	SegmentSize int64

	// Durable is the last record that the caller knows to have been durable.
	// Open refuses a log that does not hold it, or that begins after the record
	// that follows it, with a *CorruptError. Zero means that nothing is known.
	// What the records up to Durable say is expected to be elsewhere too: Open
	// does not check the older segments that hold only those.
	Durable LSN

	// Written is the last record for which Append is known to have returned. Open
	// refuses a log that ends before it with a *CorruptError. It may be less than
	// Durable; zero means that nothing is known.
	Written LSN

	// FS is the file system of the log. Nil means the operating system.
	FS FS
}

// validate fills in defaults.
func (o Options) validate() (Options, error) {
	o.SegmentSize = cmp.Or(o.SegmentSize, DefaultSegmentSize)
	if o.SegmentSize < minSegmentSize {
		return o, fmt.Errorf("wal options: segment size %d is less than %d", o.SegmentSize, minSegmentSize)
	}
	o.SegmentSize = alignUp(o.SegmentSize)
	if o.FS == nil {
		o.FS = osFS{}
	}
	return o, nil
}
