//go:build unix

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In a directory that others can write to, LOCK may lead to any file of ours, or be a pipe: nothing is written there,
// and opening it does not wait for its other end.
func TestLockIsARegularFile(t *testing.T) {
	for name, c := range map[string]struct {
		make func(lock, other string) error
		want string
	}{
		"link": {func(lock, other string) error {
			return errors.Join(os.WriteFile(other, []byte("kept"), 0o600), os.Symlink(other, lock))
		}, "kept"},
		"link to nothing": {func(lock, other string) error { return os.Symlink(other, lock) }, ""},
		"pipe":            {func(lock, _ string) error { return syscall.Mkfifo(lock, 0o600) }, ""},
	} {
		dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
		lock := filepath.Join(dir, LockName)
		if err := c.make(lock, other); err != nil {
			t.Fatal(err)
		}
		if l, err := Acquire(dir); err == nil || !strings.Contains(err.Error(), lock) ||
			!strings.Contains(err.Error(), "move it") {
			t.Errorf("%s: got %v, %v", name, l, err)
		}
		text, err := os.ReadFile(other)
		if string(text) != c.want || errors.Is(err, os.ErrNotExist) != (c.want == "") {
			t.Errorf("%s: the other file has %q, %v", name, text, err)
		}
		if pid, err := Owner(dir); pid != 0 || err != nil {
			t.Errorf("%s: owner %d, %v", name, pid, err)
		}
	}
}
