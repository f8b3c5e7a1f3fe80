//go:build unix

package http1

import (
	"net"
	"syscall"
)

// newLook makes a function that looks at a socket without waiting, and reports
// whether there is nothing to read, not even its end. Nil means that it cannot be
// told.
func newLook(conn net.Conn) func() bool {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn }) // a wrapper, or TLS with a proxy
		if !ok {
			break
		}
		conn = c.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	quiet := false
	var one [1]byte
	look := func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EINTR
	}
	return func() bool {
		return raw.Control(look) == nil && quiet
	}
}
