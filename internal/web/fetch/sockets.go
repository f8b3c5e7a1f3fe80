package fetch

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sync/semaphore"
)

const (
	// minOpenFiles is the least limit of open files with which a crawl can work.
	minOpenFiles = 256

	// A quarter of the limit of open files, within these bounds, is reserved for the rest of the process: above all for
	// the store's tables and logs, whose number grows with the crawl.
	minReserve = 128
	maxReserve = 4096
)

// SocketLimit is how many sockets a Client may have open by default: what the
// process's limit of open files leaves beside the reserve. It is an error if the limit
// is less than minOpenFiles.
func SocketLimit() (int, error) {
	files := openFileLimit()
	if files < minOpenFiles {
		return 0, fmt.Errorf("this process may open %d files, and at least %d are needed: raise the limit first, for "+
			"example with 'ulimit -n 4096'", files, minOpenFiles)
	}
	return socketsFor(files), nil
}

func socketsFor(files uint64) int {
	n := int64(min(files, 1<<20))
	return int(max(16, n-min(max(n/4, minReserve), maxReserve)))
}

// FilesFor is the least limit of open files, in steps of 1,024, that leaves this many sockets.
func FilesFor(sockets int) int {
	files := 1024
	for socketsFor(uint64(files)) < sockets && files < 1<<20 {
		files += 1024
	}
	return files
}

// sockets bounds how many sockets are open at once: connections, attempts to connect
// and look-ups.
type sockets struct {
	free *semaphore.Weighted
	idle func() // closes idle connections
}

// take waits for n sockets, which release gives back. It closes idle connections to make room. Its error is the one of
// a process that has no file descriptors left.
func (s *sockets) take(ctx context.Context, n int64) error {
	if s.free.TryAcquire(n) {
		return nil
	}
	s.idle()
	if s.free.Acquire(ctx, n) != nil {
		return fmt.Errorf("wait for a free socket: %w", syscall.EMFILE)
	}
	return nil
}

// tryTake takes a socket if there is one.
func (s *sockets) tryTake() bool { return s.free.TryAcquire(1) }

func (s *sockets) release(n int64) { s.free.Release(n) }
