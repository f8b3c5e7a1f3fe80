package pgtest

import (
	"bytes"
	"fmt"

	"github.com/mapwright/mapwright/internal/test/netproxy"
)

// A Proxy stands between clients and a server.
type Proxy struct{ *netproxy.Proxy }

// NewProxy listens on a loopback address for a server. Close ends it.
func NewProxy(s *Server) (*Proxy, error) {
	p, err := netproxy.New(s.target(), func(sent []byte) bool {
		return bytes.HasPrefix(sent, []byte("Q")) && bytes.HasSuffix(sent, []byte("commit\x00"))
	})
	if err != nil {
		return nil, err
	}
	return &Proxy{p}, nil
}

func (s *Server) target() netproxy.Target {
	return netproxy.Target{Network: "unix", Address: s.Socket()}
}

// URL is the address of a database through the proxy, for a user with all rights. Its clients wait long for a
// connection: on a busy machine a server needs many seconds to answer, and a proxy that is away refuses at once.
func (p *Proxy) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&connect_timeout=300", p.Addr(), database)
}

// Port is the one that the proxy listens on.
func (p *Proxy) Port() int { return p.Addr().Port }

// SetServer passes later connections on to another server, and ends the present ones.
func (p *Proxy) SetServer(s *Server) { p.SetTarget(s.target()) }
