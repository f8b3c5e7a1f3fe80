package state

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/wal"
)

// TestKill kills a writing process at random moments, checkpoints and
// recoveries included, and checks after each that the store holds exactly the
// first n records, and at least those that were said to be durable.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir() + "/store"
	acked := 0
	for range 5 {
		c := startChild(t, "write", dir, seed)
		// Some are killed before they have recovered: their run has not begun, and the one before may have ended well.
		lines := rng.IntN(30)
		for range lines {
			acked = atoi(t, c.line())
		}
		acked = c.kill(acked)
		if rng.IntN(2) == 0 {
			continue
		}
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Recovery(); lines > 0 && !r.Unclean {
			t.Errorf("recovery after a kill: %+v", r)
		}
		m := modelAfter(t, s, seed)
		if m.n < acked {
			t.Errorf("%d records, %d were durable", m.n, acked)
		}
		m.check(t, s)
		checkSnapshots(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderBadger replaces Badger by what it was at earlier moments, or by
// nothing: the log brings it up, by any amount.
func TestOlderBadger(t *testing.T) {
	long.Test(t)
	const seed = 3
	root := t.TempDir()
	dir := root + "/store"
	c := startChild(t, "append", dir, seed)
	var olds []string
	acked := 0
	for i := range 3 {
		for range 1 + 8*i {
			acked = atoi(t, c.line())
		}
		name := filepath.Join(root, strconv.Itoa(i))
		c.stop()
		copyDir(t, filepath.Join(dir, badgerDir), name)
		c.resume()
		olds = append(olds, name)
	}
	acked = c.kill(acked)
	store := root + "/try"
	for i, old := range append(olds, "") {
		copyDir(t, dir, store)
		if err := os.RemoveAll(filepath.Join(store, badgerDir)); err != nil {
			t.Fatal(err)
		}
		if old != "" {
			copyDir(t, old, filepath.Join(store, badgerDir))
		}
		s, err := Open(store, small())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("copy %d: applied %d", i, s.Recovery().Applied)
		m := modelAfter(t, s, seed)
		if m.n < acked {
			t.Errorf("%d records, %d were durable", m.n, acked)
		}
		m.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Wipe(store); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissingParts takes away what cannot be made anew.
func TestMissingParts(t *testing.T) {
	for _, part := range []string{walDir, badgerDir, badgerDir + "/" + syncedName} {
		dir := t.TempDir() + "/store"
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(4)
		for range 3 {
			for range 500 {
				commit(t, s, m.record())
			}
			if err := s.Checkpoint(t.Context(), func(*SnapshotWriter) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if s.journal.(*localJournal).first() == 1 {
			t.Fatal("the log was not cut")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, small())
		if part == walDir {
			wantErrAs[*wal.CorruptError](t, err)
		} else {
			wantErrAs[*CorruptError](t, err)
		}
		if _, err := os.Stat(filepath.Join(dir, part)); !os.IsNotExist(err) {
			t.Errorf("%s was made again: %v", part, err)
		}
	}
}

// copyDir copies a directory, holes and all.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	for {
		before := fileNames(t, from)
		err := copyFiles(from, to)
		if err == nil && slices.Equal(before, fileNames(t, from)) {
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		// A memtable has just become a table, which a kill would show before or after, never halfway.
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// fileNames are the names of all files under a directory. Badger's list of its tables, which grows when a table is
// complete, has its size too.
func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "MANIFEST" {
			if info, err := e.Info(); err == nil {
				path += fmt.Sprint(" ", info.Size())
			}
		}
		names = append(names, path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o644)
	})
}
