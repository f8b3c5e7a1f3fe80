//go:build unix

package fetch

import "golang.org/x/sys/unix"

// openFileLimit is how many files the process may have open. Go has raised the
// soft limit to the hard one by the time this is asked.
func openFileLimit() uint64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 1024
	}
	return uint64(lim.Cur)
}
