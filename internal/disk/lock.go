package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
)

// LockName is the name of the file in a directory that is locked.
const LockName = "LOCK"

// A Lock is the lock of a directory. The system releases it when the process ends, however that happens. The locked
// file also holds the owner's pid for other processes to read. The file must not be removed while the directory is in
// use: otherwise two processes could hold locks on two files of that name.
type Lock struct{ file *flock.Flock }

// A shared lock is only held for a moment. Acquire waits for it at most lockTries times lockPause.
const (
	lockTries = 2000
	lockPause = 5 * time.Millisecond
)

// pidAt is where the pid begins. On Windows the lock covers the first byte,
// which other handles can then neither read nor write.
const pidAt = 1

// Acquire locks dir. The error is a *LockedError if another process, or this one, has it locked.
func Acquire(dir string) (*Lock, error) {
	path := filepath.Join(dir, LockName)
	file := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|NoFollow|noWait), flock.SetPermissions(0o600))
	for try := 0; ; try++ {
		locked, err := file.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock: %w", orLink(path, err))
		}
		if locked {
			break
		}
		// An owner's lock is exclusive. The locks of Owner, and of this call, are shared.
		shared, err := file.TryRLock()
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if !shared || try == lockTries {
			_ = file.Close() // nothing was written
			return nil, &LockedError{Dir: dir, PID: readPID(path)}
		}
		if err := file.Unlock(); err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		time.Sleep(lockPause)
	}
	if err := writePID(path, strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), file.Close())
	}
	return &Lock{file}, nil
}

// Release unlocks the directory. The file may have been removed.
func (l *Lock) Release() error {
	// The pid is removed before the lock is: afterwards it may be that of
	// another process.
	err := writePID(l.file.Path(), "")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

// Owner returns the pid of the process that has dir locked, or zero if none has.
func Owner(dir string) (int, error) {
	path := filepath.Join(dir, LockName)
	pid := readPID(path)
	if pid == 0 {
		return 0, nil
	}
	file := flock.New(path, flock.SetFlag(os.O_RDONLY|NoFollow|noWait))
	locked, err := file.TryRLock()
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !locked {
		return pid, nil
	}
	return 0, file.Close()
}

// writePID replaces what the lock file says. It opens the file again, because
// the library does not show the file that it locked.
func writePID(path, text string) error {
	f, err := OpenRegular(path, os.O_RDWR)
	if err != nil {
		return err
	}
	err = f.Truncate(pidAt)
	if err == nil && text != "" {
		_, err = f.WriteAt([]byte(text), pidAt)
	}
	return errors.Join(err, f.Close())
}

// readPID returns zero if the file names no process.
func readPID(path string) int {
	f, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, pidAt) // always io.EOF: the text is shorter
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}
