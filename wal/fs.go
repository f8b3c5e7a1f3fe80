package wal

import "io"

// FS is the small part of a file system that a log needs. Names are paths as
// package path/filepath makes them.
type FS interface {
	// MkdirAll makes dir and its parents, durably, if they are missing.
	MkdirAll(dir string) error
	// ReadDir returns the names of the files in dir, in any order.
	ReadDir(dir string) ([]string, error)
	// Create makes an empty file, replacing one that is there.
	Create(name string) (File, error)
	// Open opens a file for reading, and for writing too if write is set.
	Open(name string, write bool) (File, error)
	// Rename gives a file a new name, replacing what had it, atomically.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(name string) error
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
}

// File is an open file of an FS. ReadAt may run beside the other methods.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length of the file.
	Size() (int64, error)
	// Truncate sets the length of the file; bytes that are added read as zero.
	Truncate(size int64) error
	// Preallocate makes the file size bytes long, reading as zeros, and
	// reserves the space if the file system can.
	Preallocate(size int64) error
	// Sync makes the content and the length durable. If it fails, nothing may
	// be assumed of what was written since the last one that did not.
	Sync() error
}
