//go:build linux || darwin || freebsd

package disk

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// FreeBytes is how much an ordinary user may still write below dir.
func FreeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // not an int64 everywhere
}

// Allocated is how many bytes a file takes on disk. That is less than its size if it has holes.
func Allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512 // not an int64 everywhere
	}
	return info.Size()
}
