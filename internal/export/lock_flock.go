//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a directory that another export writes to is looked at again. flock itself cannot be told to give up.
const lockPoll = 50 * time.Millisecond

// lockDir waits until no other export writes to the directory: two at once would write into each other's temporary files. The lock ends
// with the process, however that ends.
func lockDir(ctx context.Context, dir string) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOLCK) {
			return func() { _ = d.Close() }, nil // a file system without locks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), d.Close())
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another export to %s: %w", dir, ctx.Err()), d.Close())
		}
	}
}
