package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
)

const magic = "testfile"

func write(t *testing.T, path string, version uint32, body string) {
	t.Helper()
	n, err := WriteFrame(path, magic, version, func(w io.Writer) error {
		_, err := io.WriteString(w, body)
		return err
	})
	if err != nil || n != int64(len(body)) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
}

func TestFrame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, body := range []string{"first", "", "the third"} {
		write(t, path, 2, body)
		if got, err := ReadSmallFrame(path, magic, 2); err != nil || string(got) != body {
			t.Errorf("read %q, %v; want %q", got, err, body)
		}
	}
	_, err := ReadSmallFrame(path, magic, 1)
	if newer, ok := errors.AsType[*VersionError](err); !ok || newer.Found != 2 || newer.Known != 1 ||
		newer.What != path {
		t.Errorf("a newer version: %v", err)
	}
	_, err = ReadSmallFrame(path, "another.", 2)
	if _, ok := errors.AsType[*CorruptError](err); !ok {
		t.Errorf("a frame of another kind: %v", err)
	}
}

// TestFrameDamage changes every bit and every length of a frame.
func TestFrameDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, 1, "content")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSmallFrame(path, magic, 1)
		damage, ok := errors.AsType[*CorruptError](err)
		if !ok || damage.What != path {
			t.Errorf("%s: %v", what, err)
		}
	}
	for bit := range 8 * len(whole) {
		b := append([]byte{}, whole...)
		b[bit/8] ^= 1 << (bit % 8)
		refused("a bit is changed", b)
	}
	for n := range whole {
		refused("the end is missing", whole[:n])
	}
}

// TestFrameKeepsOld: if the new content cannot be written, the old content stays and nothing else is left in the
// directory.
func TestFrameKeepsOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, 1, "old")
	fault := errors.New("no more")
	_, err := WriteFrame(path, magic, 1, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return errors.Join(err, fault)
	})
	if !errors.Is(err, fault) {
		t.Errorf("error %v, want %v", err, fault)
	}
	if got, err := ReadSmallFrame(path, magic, 1); err != nil || string(got) != "old" {
		t.Errorf("read %q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// Another process looks who owns the directory, however slowly. It is not taken for the owner.
func TestLockBesideALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		look := flock.New(filepath.Join(dir, LockName))
		if shared, err := look.TryRLock(); !shared || err != nil {
			t.Fatal(shared, err)
		}
		got := make(chan error, 1)
		var l *Lock
		go func() {
			var err error
			l, err = Acquire(dir)
			got <- err
		}()
		time.Sleep(time.Second)
		select {
		case err := <-got:
			t.Fatalf("while another process looks: %v", err)
		default:
		}
		if err := look.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := Acquire(dir); time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	if pid, err := Owner(dir); err != nil || pid != 0 {
		t.Errorf("owner of a directory that was never locked: %d, %v", pid, err)
	}
	l, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(dir)
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Dir != dir || locked.PID != os.Getpid() {
		t.Errorf("a second lock: %v", err)
	}
	if pid, err := Owner(dir); err != nil || pid != os.Getpid() {
		t.Errorf("owner %d, %v; want %d", pid, err, os.Getpid())
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if pid, err := Owner(dir); err != nil || pid != 0 {
		t.Errorf("owner after the release: %d, %v", pid, err)
	}
	if l, err = Acquire(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
