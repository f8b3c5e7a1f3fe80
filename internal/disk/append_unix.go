//go:build unix

package disk

import (
	"io/fs"
	"os"
	"syscall"
)

// NoFollow is a flag of [os.OpenFile] that makes the system refuse to open a symbolic link.
const NoFollow = syscall.O_NOFOLLOW

// noWait makes an open of a pipe that has no reader fail instead of waiting for one.
const noWait = syscall.O_NONBLOCK

// isOwn reports whether a file belongs to the user of this process.
func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
