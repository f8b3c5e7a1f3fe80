//go:build unix

package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only the owner can read the database and what is beside it, also in a directory that all can read, and also if an
// older version of the program made them.
func TestModes(t *testing.T) {
	t.Parallel()
	defer syscall.Umask(syscall.Umask(0o022))
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	for name, older := range map[string]bool{"new": false, "of [older] versions": true} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		want := []string{reserveName, Name, Name + "-shm", Name + "-wal"}
		if older {
			path := filepath.Join(dir, Name)
			d := &DB{o: Options{Dir: dir}}
			if d.writer, err = open(path, "&_txlock=immediate", 1); err != nil {
				t.Fatal(err)
			}
			defer d.writer.Close() // until then its -wal and -shm stay
			if _, err := d.writer.ExecContext(t.Context(),
				"CREATE TABLE schema_version (version INTEGER NOT NULL)"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.step(t.Context(), 0, texts[0], ""),
				os.WriteFile(path+".before-1", nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			for i := range texts {
				want = append(want, fmt.Sprintf("%s.before-%d", Name, i+1))
			}
		}
		if err := insert(t, openTest(t, dir), "a", nil); err != nil {
			t.Fatal(err)
		}
		for _, file := range want {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, %s: %v, %v", name, file, info, err)
			}
		}
	}
}
