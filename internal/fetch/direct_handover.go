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
// round trip: net/http may have had a connection already and left this one. Proto is the
// major version that the answer came by, or 0 without an answer; after HTTP/1 it is for
// direct to ask the next time. It can be that onSent has not been called yet, since
// net/http reports a write of HTTP/2 at any time.
func (d *direct) handedOver(k *call, r *Request, proto int) {
	if proto > 0 {
		d.protocols.learn(r.URL.Origin(), proto == 2)
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
			d.count(counted, addr, isHTTP2(conn))
		}
	}
	return conn, nil
}

// count notes that a connection is net/http's, until it is closed. No other goroutine may
// have it yet.
func (d *direct) count(c *countedConn, addr string, http2 bool) {
	handed := &d.dialer.handed
	handed.Add(1)
	c.onClose = func() { handed.Add(-1) }
	if !http2 || d.protocols == nil {
		return
	}
	origin := "https://" + strings.TrimSuffix(addr, ":443")
	d.protocols.opened(origin)
	c.onClose = func() {
		handed.Add(-1)
		d.protocols.closed(origin)
	}
}
