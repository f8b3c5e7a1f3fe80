//go:build cluster

package postgres

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A proxy passes connections on to the server, and loses a COMMIT or its answer.
type proxy struct {
	listener net.Listener
	socket   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	next  loss                  // guarded by mu; for the next COMMIT
	conns map[net.Conn]struct{} // guarded by mu; both ends of all connections
}

type loss uint8

const (
	nothing loss = iota
	request
	answer
)

func newProxy(t testing.TB, socket string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, socket: socket, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// through is the address of a database through the proxy.
func (p *proxy) through(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = p.listener.Addr().String(), "sslmode=disable"
	return u.String()
}

// lose makes the next COMMIT fail, before or after the server has it.
func (p *proxy) lose(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next = request; done {
		p.next = answer
	}
}

func (p *proxy) take() loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.next
	p.next = nothing
	return next
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		c := &proxied{proxy: p, client: client, server: server}
		p.wg.Go(c.requests)
		p.wg.Go(c.answers)
	}
}

// A proxied connection.
type proxied struct {
	proxy          *proxy
	client, server net.Conn

	mu   sync.Mutex
	lost bool // guarded by mu; the next answer of the server is not passed on
}

// requests passes on what the client sends. A COMMIT is a message of its own, which the
// client sends when it has the answers to all others.
func (c *proxied) requests() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasPrefix(buf[:n], []byte("Q")) && bytes.HasSuffix(buf[:n], []byte("commit\x00")) {
			switch c.proxy.take() {
			case request:
				return
			case answer:
				c.mu.Lock()
				c.lost = true
				c.mu.Unlock()
			}
		}
		if _, err := c.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answers passes on what the server sends, until an answer is to be lost.
func (c *proxied) answers() {
	defer c.close()
	_, _ = io.Copy(c, c.server)
}

// Write passes on an answer to the client.
func (c *proxied) Write(b []byte) (int, error) {
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if lost {
		return 0, io.ErrClosedPipe
	}
	return c.client.Write(b)
}

func (c *proxied) close() {
	_, _ = c.client.Close(), c.server.Close()
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	delete(c.proxy.conns, c.client)
	delete(c.proxy.conns, c.server)
}
