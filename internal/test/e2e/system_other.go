//go:build !unix

package e2e

import (
	"net"
	"testing"
)

// Freeze skips the test: no process can be stopped.
func (p *Process) Freeze() {
	p.t.Helper()
	p.t.Skip("this system cannot stop a process")
}

// ClosedPort is an address on loopback where nothing listens.
func ClosedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
