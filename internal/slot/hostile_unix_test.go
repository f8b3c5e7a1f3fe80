//go:build unix

package slot

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Opening a pipe would block until its other end is opened; following a link could open any file.
func TestPipesAndLinksAreNotOpened(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		dir := shared(t, "", "")
		if err := make(path(dir, 3)); err != nil {
			t.Fatal(err)
		}
		if err := acquire(t, t.Context(), dir, "u0", noWait(t)).Release(); err != nil {
			t.Errorf("%s as a ticket: %v", name, err)
		}
		dir = shared(t, "", "")
		if err := make(filepath.Join(dir, "gate")); err != nil {
			t.Fatal(err)
		}
		if _, err := acquireIn(t.Context(), dir, nil, Info{}, noWait(t)); err == nil {
			t.Errorf("%s as the gate is taken", name)
		}
	}
}

// Tickets and the gate can be read by every user, whatever the umask of the one who made them.
func TestModesDoNotDependOnTheUmask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slot")
	was := syscall.Umask(0o077)
	s := acquire(t, t.Context(), dir, "u0", noWait(t))
	syscall.Umask(was)
	for path, want := range map[string]os.FileMode{dir: 0o777 | os.ModeSticky | os.ModeDir,
		filepath.Join(dir, "gate"): 0o666, s.lock.Path(): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", filepath.Base(path), info.Mode(), err, want)
		}
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
}
