package wal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate reserves the blocks, so that later writes neither allocate nor
// change the length. File systems that cannot reserve get a sparse file.
func preallocate(f *os.File, size int64) error {
	err := control(f, "fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// syncData leaves out timestamps. The kernel still writes the length and the
// extents without which the data could not be read back.
func syncData(f *os.File) error { return control(f, "fdatasync", unix.Fdatasync) }

func control(f *os.File, op string, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = conn.Control(func(fd uintptr) {
		for {
			// An interrupted call has done nothing, and is made again.
			if opErr = fn(int(fd)); !errors.Is(opErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if opErr != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: opErr}
	}
	return nil
}
