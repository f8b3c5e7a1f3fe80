package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a directory that another export writes to is looked at again.
const lockPoll = 50 * time.Millisecond

// lockName is the lock file of an export on Windows, which cannot lock directories.
const lockName = ".mapwright.lock"

// Lock waits until no other export writes to the directory. The system releases the lock when the process ends, however
// that happens.
func Lock(ctx context.Context, dir string) (release func(), err error) {
	path, flag := dir, os.O_RDONLY
	if runtime.GOOS == "windows" {
		path, flag = filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR
	}
	lock := flock.New(path, flock.SetFlag(flag))
	_, err = lock.TryLockContext(ctx, lockPoll)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("wait for another export to %s: %w", dir, ctx.Err())
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EISDIR):
		// A file system without locks on directories, such as some network file systems: the export goes on unlocked.
	default:
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { _ = lock.Close() }, nil
}
