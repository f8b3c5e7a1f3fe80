// Package netproxy stands for a network that fails, between the machines of a cluster and their engine's server. New
// makes a [Proxy], Close ends it.
package netproxy

import (
	"net"
	"sync"
	"time"
)

// A Proxy passes connections on to a server, or to another one later. It can lose a
// commit or its answer, delay answers, and be as a server that is away.
type Proxy struct {
	listener net.Listener
	isCommit func(sent []byte) bool
	wg       sync.WaitGroup

	mu      sync.Mutex
	server  Target                // guarded by mu
	next    loss                  // guarded by mu; for the next commit
	every   int                   // guarded by mu; every so many commits one answer is lost; 0 means none
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

// A Target is the address of a server, as [net.Dial] takes it.
type Target struct{ Network, Address string }

// New listens on a loopback address for a server. IsCommit tells whether what a client sends at once begins the message
// that commits; the client sends it when it has the answers to all others. Close ends it.
func New(server Target, isCommit func(sent []byte) bool) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server, isCommit: isCommit, conns: map[net.Conn]struct{}{}}
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

// Addr is the address that the proxy listens on.
func (p *Proxy) Addr() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// Target is the server that connections are passed on to.
func (p *Proxy) Target() Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// SetTarget passes later connections on to another server, and ends the present ones.
func (p *Proxy) SetTarget(server Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
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

// Lose makes the next commit fail, before or after the server has it.
func (p *Proxy) Lose(done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next = request; done {
		p.next = answer
	}
}

// LoseNothing takes back Lose, if no commit has come since.
func (p *Proxy) LoseNothing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = nothing
}

// LoseAnswers loses one answer to a commit of so many; 0 loses none.
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
	server, err := net.Dial(p.server.Network, p.server.Address)
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

// requests passes on what the client sends.
func (c *proxied) requests() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if err != nil {
			return
		}
		if c.proxy.isCommit(buf[:n]) {
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
