package badgerfiles

import (
	"os"
	"syscall"
	"testing"
)

// A lock on the directory that is still held, by a process that was started while Badger had it, does not keep Badger
// from opening.
func TestOpenWithLockHeld(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir.Name(), Options{MemTableSize: 1 << 20, ValueLogFileSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
