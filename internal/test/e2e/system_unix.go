//go:build unix

package e2e

import (
	"fmt"
	"syscall"
	"testing"
)

// Freeze stops the process until it is killed. It keeps what it holds.
func (p *Process) Freeze() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
}

// ClosedPort is an address on loopback that refuses connections while the test runs: a socket is bound to the port but
// does not listen.
func ClosedPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}
