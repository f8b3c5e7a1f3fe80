//go:build !linux

package wal

import "os"

func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

func syncData(f *os.File) error { return f.Sync() }
