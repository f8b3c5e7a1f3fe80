//go:build unix

package slot

import "syscall"

// openFlags keep another user's files from misleading an open: a link is not followed, and a pipe does not block.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
