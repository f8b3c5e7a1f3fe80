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

// reserve is a file whose space is released when the disk is full, so that the database can record that crawls were paused.
type reserve struct {
	path string
	mu   sync.Mutex // held while the file is made or removed
}

// fill makes the file, unless it is there or the disk is nearly full.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := os.Stat(r.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if free, err := disk.FreeBytes(filepath.Dir(r.path)); err != nil || free < 8*reserveBytes {
		return nil
	}
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, reserveBytes))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(r.path))
	}
	return nil
}

// release removes the file and says whether it was there.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return os.Remove(r.path) == nil
}
