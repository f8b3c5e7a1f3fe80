//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A lock is held by flock, so that it ends with its process, however that
// ends. The file holds the owner's pid for others to read. It is never
// removed while the store exists: two processes could then hold locks of two
// files of that name.
type lock struct{ f *os.File }

const (
	lockTries = 3
	lockPause = 5 * time.Millisecond
)

func acquireLock(dir string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// A lockOwner that looks at this very moment is not an owner.
	for range lockTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(lockPause)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(&LockedError{Dir: dir, PID: readPID(f)}, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return &lock{f}, nil
}

func (l *lock) release() error {
	// The pid goes first: what is left of it would name a process that may by
	// then be somebody else's.
	return errors.Join(l.f.Truncate(0), l.f.Close())
}

// lockOwner returns the pid of the process that holds the lock, or zero if
// none does.
func lockOwner(dir string) (int, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	pid := readPID(f)
	if pid == 0 {
		return 0, nil
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return pid, nil
	}
	return 0, err
}

func readPID(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}
