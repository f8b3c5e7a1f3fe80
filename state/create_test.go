package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/disk"
)

// TestCreateFails makes a store on a disk that is full or fails. What is left
// behind does not keep the next try from making it.
func TestCreateFails(t *testing.T) {
	nearlyFull := small()
	nearlyFull.MinFree, nearlyFull.Log.SegmentSize = 256<<20, 64<<20
	nearlyFull.FreeBytes = func(string) (int64, error) { return 300 << 20, nil }
	faulty := small()
	fs := &faultyFS{}
	fault := error(syscall.ENOSPC)
	fs.err.Store(&fault)
	faulty.Log.FS = fs
	fullLater := small()
	fullLater.MinFree = 1 << 20
	looks := 0
	fullLater.FreeBytes = func(string) (int64, error) {
		if looks++; looks == 1 {
			return 1 << 30, nil
		}
		return 0, nil
	}
	cases := map[string]struct {
		options Options
		want    error
	}{
		"too little space":            {nearlyFull, ErrDiskFull},
		"no space for the log":        {faulty, syscall.ENOSPC},
		"no space for the first page": {fullLater, ErrDiskFull},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/store"
			c.options.Mode = CreateOnly
			_, err := Open(dir, c.options)
			wantErr(t, c.want, err, "open")
			names, err := os.ReadDir(dir)
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left behind: %v, %v", names, err)
			}
			o := small()
			o.Mode = CreateOnly
			open(t, dir, o)
		})
	}
}

// TestWipeOfAnInterruptedCreation deletes what is left if a process was killed between the lock and the format. A file
// of another program stays, and so does an empty directory, which may be another program's.
func TestWipeOfAnInterruptedCreation(t *testing.T) {
	dir := t.TempDir() + "/store"
	leave := func(names ...string) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave(disk.LockName, formatName+disk.TempSuffix)
	if err := Wipe(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	leave()
	wantErr(t, ErrNotExist, Wipe(dir), "wipe of an empty directory")
	leave(disk.LockName, "other")
	wantErr(t, ErrNotOurs, Wipe(dir), "wipe of another program's directory")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("%v are left, %v", names, err)
	}
}

// TestKilledBeforeFirstRecord: Badger gives a memtable the name of one that was
// flushed. A run that is killed before it wrote to its memtable leaves an empty
// file of a name that the run before had made durable with content.
func TestKilledBeforeFirstRecord(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(9)
	for range 20 {
		commit(t, s, m.record())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reached, err := readSynced(filepath.Join(dir, badgerDir))
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for name := range reached.files {
		if filepath.Ext(name) == ".mem" {
			made++
			if err := os.WriteFile(filepath.Join(dir, badgerDir, name), make([]byte, 2<<20), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if made == 0 {
		t.Fatal("no memtable was durable")
	}
	m.check(t, open(t, dir, small()))
}
