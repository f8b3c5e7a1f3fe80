package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
)

// errHTTP2 says that an origin speaks HTTP/2, which is left to net/http.
var errHTTP2 = errors.New("origin speaks HTTP/2")

func isHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// protocols remembers which https origins speak HTTP/2, at least size of them, those
// last asked for. To forget one costs a handshake only if it has a connection open.
//
// Of an origin that nobody knows one handshake is made first, and other requests
// wait for what it brings: if that is HTTP/2 they need no connection of their own.
type protocols struct {
	size int

	mu     sync.Mutex
	recent map[string]bool          // guarded by mu; whether an origin speaks HTTP/2
	older  map[string]bool          // guarded by mu; the generation before
	asking map[string]chan struct{} // guarded by mu; closed when it is known, or was not to be had
}

func newProtocols(size int) *protocols {
	return &protocols{size: size, recent: make(map[string]bool), asking: make(map[string]chan struct{})}
}

// ask reports whether an origin speaks HTTP/2, waiting for whoever is finding out.
// If nobody is, it is the caller who must, and call asked at the end. One who has
// waited in vain connects by himself.
func (p *protocols) ask(ctx context.Context, origin string) (h2, mine bool, err error) {
	p.mu.Lock()
	h2, known := p.knowsLocked(origin)
	wait := p.asking[origin]
	if !known && wait == nil {
		p.asking[origin] = make(chan struct{})
		mine = true
	}
	p.mu.Unlock()
	if known || mine {
		return h2, mine, nil
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h2, _ = p.knowsLocked(origin)
	return h2, false, nil
}

// asked lets those go on who wait for an origin.
func (p *protocols) asked(origin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.asking[origin]; wait != nil {
		close(wait)
		delete(p.asking, origin)
	}
}

func (p *protocols) learn(origin string, h2 bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnLocked(origin, h2)
}

func (p *protocols) knowsLocked(origin string) (h2, known bool) {
	if h2, known = p.recent[origin]; known {
		return h2, true
	}
	if h2, known = p.older[origin]; known {
		p.learnLocked(origin, h2)
	}
	return h2, known
}

func (p *protocols) learnLocked(origin string, h2 bool) {
	if _, known := p.recent[origin]; !known && len(p.recent) >= p.size {
		p.recent, p.older = make(map[string]bool), p.recent
	}
	p.recent[strings.Clone(origin)] = h2
}

// A handover is a connection of HTTP/2 on its way to net/http, which will ask for it
// when it dials for the call that made it, or for another of the same origin that
// comes first.
type handover struct {
	conn         net.Conn
	addr, origin string
	asking       bool // others wait for what the origin speaks
}

// handovers are the connections that net/http has not asked for yet.
type handovers struct {
	mu    sync.Mutex
	conns map[string][]net.Conn // guarded by mu; by address
}

func (h *handovers) put(addr string, conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = make(map[string][]net.Conn)
	}
	h.conns[addr] = append(h.conns[addr], conn)
}

func (h *handovers) take(addr string) net.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	conns := h.conns[addr]
	if len(conns) == 0 {
		return nil
	}
	h.removeLocked(addr, 0)
	return conns[0]
}

// drop takes one connection back, and reports whether it was still there.
func (h *handovers) drop(addr string, conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.conns[addr], conn)
	if i >= 0 {
		h.removeLocked(addr, i)
	}
	return i >= 0
}

func (h *handovers) removeLocked(addr string, i int) {
	// A new slice: who took the first one still holds the old.
	rest := slices.Concat(h.conns[addr][:i], h.conns[addr][i+1:])
	if len(rest) == 0 {
		delete(h.conns, addr)
		return
	}
	h.conns[addr] = rest
}

// handOver leaves a connection for net/http. Others learn of it only when net/http
// has sent something over it, because until then it would dial for each of them.
func (d *direct) handOver(k *call, h handover) {
	d.handovers.put(h.addr, h.conn)
	k.handover = &h
	k.onSent = func() {
		d.protocols.learn(h.origin, true)
		if h.asking {
			d.protocols.asked(h.origin)
		}
	}
}

// handedOver ends the handover of a call, if it had one, when net/http has made its
// round trip: net/http may have had a connection already and left this one. If the
// answer came by HTTP/1 after all, it is for direct to ask the next time.
func (d *direct) handedOver(k *call, r *Request, http1 bool) {
	if http1 {
		d.protocols.learn(r.URL.Origin(), false)
	}
	h := k.handover
	if h == nil {
		return
	}
	k.handover = nil
	if d.handovers.drop(h.addr, h.conn) {
		_ = h.conn.Close()
	}
	if h.asking {
		d.protocols.asked(h.origin)
	}
}

// dialTLS is a Transport's DialTLSContext: it brings what was left for it, or dials.
func (d *direct) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn := d.handovers.take(addr)
	if conn == nil {
		var err error
		if conn, err = d.dialer.dialTLS(ctx, network, addr); err != nil {
			return nil, err
		}
	}
	if secure, ok := conn.(*tls.Conn); ok {
		if counted, ok := secure.NetConn().(*countedConn); ok {
			counted.countAs(&d.dialer.handed)
		}
	}
	return conn, nil
}
