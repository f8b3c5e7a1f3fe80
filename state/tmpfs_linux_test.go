package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/test/long"
)

const noMount = "cannot mount"

// TestFullTmpfs fills a small file system below Badger, in a child with a mount
// namespace of its own.
func TestFullTmpfs(t *testing.T) {
	long.Test(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"=fill", childDir+"="+t.TempDir()+"/store")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte(noMount)):
		t.Logf("no namespaces here; TestDiskFull stands in: %v %s", err, out)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
}

// childFill writes until the file system below Badger is nearly full, makes
// it larger, and goes on.
func childFill(dir string) error {
	ctx := context.Background()
	// Nothing that is mounted here is seen outside.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%s: %w", noMount, err)
	}
	below := filepath.Join(dir, badgerDir)
	s, err := Open(dir, small())
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	// Badger is made anew on the small file system.
	if err := os.RemoveAll(below); err != nil {
		return err
	}
	if err := os.Mkdir(below, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", below, "tmpfs", 0, "size=96m"); err != nil {
		return fmt.Errorf("%s: %w", noMount, err)
	}
	o := small()
	// What is queued is still written when less than MinFree is left, and a compaction writes its tables before it
	// removes the old ones: as for the default, it is several times both.
	o.MinFree = 64 << 20
	if s, err = Open(dir, o); err != nil {
		return err
	}
	m := newModel(9)
	for err == nil {
		if m.n == 100_000 {
			return errors.New("the disk does not fill up")
		}
		if err = s.Ready(ctx); err != nil {
			break
		}
		r := m.record()
		for i := range 20 {
			r.Origins = append(r.Origins, frontier.OriginFact{Origin: fmt.Sprintf("https://h%d-%d.example", m.n, i),
				Body: make([]byte, 4000)})
		}
		_, err = s.Commit(r)
	}
	if !errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.Close(); !errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("close: %w", err)
	}
	if err := syscall.Mount("tmpfs", below, "tmpfs", syscall.MS_REMOUNT, "size=256m"); err != nil {
		return err
	}
	if s, err = Open(dir, o); err != nil {
		return err
	}
	// All but the last record, which was refused or came too late.
	n, err := strconv.Atoi(string(s.Facts()["n"]))
	if err != nil || n < m.n-1 {
		return fmt.Errorf("%d of %d records: %w", n, m.n, err)
	}
	return s.Close()
}
