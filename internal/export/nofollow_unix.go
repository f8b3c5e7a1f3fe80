//go:build unix

package export

import "syscall"

// noFollow makes the system refuse to open a symbolic link.
const noFollow = syscall.O_NOFOLLOW
