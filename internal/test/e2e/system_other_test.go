//go:build !unix

package e2e

import (
	"net"
	"testing"
)

// freeze skips the test: no process can be stopped.
func (p *process) freeze() {
	p.t.Helper()
	p.t.Skip("this system cannot stop a process")
}

// closedPort is an address on loopback where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
