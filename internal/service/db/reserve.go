package db

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/mapwright/mapwright/internal/disk"
)

const (
	reserveName  = "reserve"
	reserveBytes = 8 << 20
)

// reserve is a file whose space is released when the disk is full, so that the database can record that crawls were
// paused.
type reserve struct {
	path string
	mu   sync.Mutex // held while the file is made or removed
}

// fill makes the file, unless it is there or the disk is nearly full. Other processes may do so at the same time, and
// one that was killed may have left a part of it: all of them write the same bytes to the same places.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch info, err := os.Lstat(r.path); {
	case err == nil && info.Size() >= reserveBytes:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if free, err := disk.FreeBytes(filepath.Dir(r.path)); err != nil || free < 8*reserveBytes {
		return nil
	}
	file, err := disk.OpenRegular(r.path, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, reserveBytes))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(r.path) // another process may have done so
	}
	return err
}

// release removes the file and says whether it was there.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return os.Remove(r.path) == nil
}

// ReleaseReserve releases the reserve of a data directory whose database is not open, and says whether there was one.
func ReleaseReserve(dir string) bool { return os.Remove(filepath.Join(dir, reserveName)) == nil }
