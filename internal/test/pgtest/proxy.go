package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Proxy passes connections on to a server, or to another one later. It can lose a
// COMMIT or its answer, delay answers, and be as a server that is away.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	socket  string                // guarded by mu; of the server
	next    loss                  // guarded by mu; for the next COMMIT
	every   int                   // guarded by mu; every so many COMMITs one answer is lost; 0 means none
	commits int                   // guarded by mu
	delay   time.Duration         // guarded by mu; of each answer
	away    bool                  // guarded by mu; connections are refused
	conns   map[net.Conn]struct{} // guarded by mu; both ends of all connections
}

type loss uint8

const (
	nothing loss = iota
	request
	answer
)

// NewProxy listens on a loopback address for a server. Close ends it.
func NewProxy(s *Server) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, socket: s.Socket(), conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.SetAway(true)
	p.wg.Wait()
	return err
}

// URL is the address of a database through the proxy, for a user with all rights. Its clients wait long for a
// connection: on a busy machine a server needs many seconds to answer, and a proxy that is away refuses at once.
func (p *Proxy) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&connect_timeout=300", p.listener.Addr(), database)
}

// Port is the one that the proxy listens on.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// SetServer passes later connections on to another server, and ends the present ones.
func (p *Proxy) SetServer(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.socket = s.Socket()
	p.cutLocked()
}

// SetAway refuses connections, or no longer. Connections that there are end.
func (p *Proxy) SetAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	p.cutLocked()
}

// SetDelay lets each answer wait so long before it is passed on.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Proxy) cutLocked() {
	for c := range p.conns {
		_ = c.Close()
	}
}

// Lose makes the next COMMIT fail, before or after the server has it.
func (p *Proxy) Lose(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next = request; done {
		p.next = answer
	}
}

// LoseAnswers loses one answer to a COMMIT of so many; 0 loses none.
func (p *Proxy) LoseAnswers(every int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.every = every
}

func (p *Proxy) take() loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits++
	next := p.next
	p.next = nothing
	if next == nothing && p.every > 0 && p.commits%p.every == 0 {
		next = answer
	}
	return next
}

// connect connects to the server, and remembers the connection; nil if that is not to be.
func (p *Proxy) connect(client net.Conn) *proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil
	}
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return nil
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return &proxied{proxy: p, client: client, server: server}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		c := p.connect(client)
		if c == nil {
			_ = client.Close()
			continue
		}
		p.wg.Go(c.requests)
		p.wg.Go(c.answers)
	}
}

// A proxied connection.
type proxied struct {
	proxy          *Proxy
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
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil || c.isLost() {
			return
		}
		c.proxy.mu.Lock()
		delay := c.proxy.delay
		c.proxy.mu.Unlock()
		time.Sleep(delay)
		if _, err := c.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *proxied) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *proxied) close() {
	_, _ = c.client.Close(), c.server.Close()
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	delete(c.proxy.conns, c.client)
	delete(c.proxy.conns, c.server)
}
