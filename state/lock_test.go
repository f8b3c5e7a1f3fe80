package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// childHold opens a store and keeps it open until it is killed, or its input ends.
func childHold(dir string) error {
	s, err := Open(dir, small())
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.Close())
}

func TestSecondProcess(t *testing.T) {
	dir := t.TempDir() + "/store"
	c := startChild(t, "hold", dir, 0)
	c.line()
	_, err := Open(dir, small())
	if e := wantErrAs[*LockedError](t, err); e.PID != c.cmd.Process.Pid || e.Dir != dir {
		t.Errorf("locked by %d in %s, want %d in %s", e.PID, e.Dir, c.cmd.Process.Pid, dir)
	}
	if info, err := Look(dir); err != nil || !info.Exists || info.PID != c.cmd.Process.Pid {
		t.Errorf("look: %+v, %v", info, err)
	}
	if e := wantErrAs[*LockedError](t, Wipe(dir)); e.PID != c.cmd.Process.Pid {
		t.Errorf("wipe: locked by %d", e.PID)
	}
	// The lock ends with its owner.
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.drain()
	if info, err := Look(dir); err != nil || info.PID != 0 {
		t.Errorf("look after the owner's end: %+v, %v", info, err)
	}
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Wipe(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("wiped directory: %v", err)
	}
}

func TestSecondOpenInProcess(t *testing.T) {
	dir := t.TempDir() + "/store"
	open(t, dir, small())
	_, err := Open(dir, small())
	if e := wantErrAs[*LockedError](t, err); e.PID != os.Getpid() {
		t.Errorf("locked by %d, want %d", e.PID, os.Getpid())
	}
}
