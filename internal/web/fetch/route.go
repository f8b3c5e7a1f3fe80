package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/web/http1"
)

// errHTTP2 says that an origin speaks HTTP/2, which is left to net/http.
var errHTTP2 = errors.New("origin speaks HTTP/2")

func isHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// A route holds the connections of one Client. Requests over HTTP/1 to a host are made by http1, also through the tunnel
// of a proxy. All others are made by net/http: HTTP/2, forms, and http URLs that an HTTP proxy is asked for. Whether an
// https origin speaks HTTP/2 shows in the handshake; its connection is then handed over to net/http.
type route struct {
	dialer    *dialer
	http1     *http1.Transport
	transport *http.Transport
	protocols *protocols // nil if HTTP/2 is off
	handovers handovers
}

func newRoute(o Options, d *dialer, s *shared) *route {
	r := &route{dialer: d}
	r.http1 = http1.New(s.pool, http1.Options{Dial: r.dial, MaxHeader: maxHeader,
		Decrypted: func(conn net.Conn, bytes int) { besideOf(conn).decrypted(bytes) }})
	if !o.NoHTTP2 {
		r.protocols = newProtocols(o.MaxIdle + o.MaxInflight)
	}
	r.transport = newTransport(o, s, r)
	return r
}

// newTransport makes the transport of net/http. It may keep half of the idle connections, because http1 has the rest.
func newTransport(o Options, s *shared, r *route) *http.Transport {
	t := &http.Transport{
		DialContext:            r.dialPlain,
		DialTLSContext:         r.dialTLS, // net/http makes no handshake by itself
		DisableCompression:     true,
		MaxIdleConns:           max(1, o.MaxIdle/2),
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 4 * maxHeader, // beyond it, HTTP/2 ends all requests of the connection
		// An idle connection keeps its buffers. Requests are small.
		WriteBufferSize: 1 << 10,
		ReadBufferSize:  16 << 10,
		Protocols:       new(http.Protocols),
		HTTP2:           &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(!o.NoHTTP2)
	if isHTTPProxy(o.Proxy) {
		proxy := *o.Proxy
		proxy.Scheme = "http" // the dialer makes TLS with it
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "http" {
				return nil, nil // the dialer asks for a tunnel
			}
			return &proxy, nil
		}
	}
	most := int64(t.MaxIdleConns + o.MaxInflight)
	t.DialContext = s.boundIdle(t.DialContext, &r.dialer.handed, most)
	t.DialTLSContext = s.boundIdle(t.DialTLSContext, &r.dialer.handed, most)
	return t
}

// boundIdle closes the idle connections that net/http has when more are open than can be
// in use or may be idle. MaxIdleConns does so for HTTP/1 alone: a connection of HTTP/2
// is only forgotten by it, and stays open until its idle time is over.
func (s *shared) boundIdle(dial dialWith, open *atomic.Int64, most int64) dialWith {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil && open.Load() > most {
			s.closeIdleHTTP2()
		}
		return conn, err
	}
}

// dial makes a new connection of HTTP/1, for no longer than the call lasts.
func (r *route) dial(ctx context.Context, scheme, addr string) (net.Conn, error) {
	k := callOf(ctx)
	if scheme == "http" {
		conn, err := r.dialer.dial(ctx, "tcp", addr)
		if err != nil {
			return nil, k.dialError(err)
		}
		return conn, nil
	}
	asking := false
	if r.protocols != nil {
		h2, mine, err := r.protocols.ask(ctx, addr)
		if err != nil {
			return nil, k.dialError(err)
		}
		if h2 {
			return nil, errHTTP2
		}
		asking = mine
	}
	conn, err := r.dialer.dialTLS(ctx, "tcp", addr)
	if err == nil && isHTTP2(conn) {
		r.handOver(k, handover{conn: conn, addr: addr, asking: asking})
		return nil, errHTTP2
	}
	if secure, ok := conn.(*tls.Conn); ok {
		besideOf(conn).serveHTTP1(secure.ConnectionState().Version)
	}
	if err == nil && r.protocols != nil {
		r.protocols.learn(addr, false)
	}
	if asking {
		r.protocols.asked(addr)
	}
	if err != nil {
		return nil, k.dialError(err)
	}
	return conn, nil
}

// A handover is a connection of HTTP/2 that net/http has not asked for yet. net/http takes it when it dials for the
// call that made it, or for another call of the same origin that comes first.
type handover struct {
	conn   net.Conn
	addr   string
	asking bool // other calls wait for what the origin speaks
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
	// A new slice, because a caller of removeLocked may still read the old one.
	rest := slices.Concat(h.conns[addr][:i], h.conns[addr][i+1:])
	if len(rest) == 0 {
		delete(h.conns, addr)
		return
	}
	h.conns[addr] = rest
}

// handOver leaves a connection for net/http. Other calls learn that the origin speaks HTTP/2 only when net/http has
// sent something over the connection: before that, net/http would dial for each of them.
func (r *route) handOver(k *call, h handover) {
	r.handovers.put(h.addr, h.conn)
	k.handover = &h
	k.onSent = func() {
		r.protocols.learn(h.addr, true)
		if h.asking {
			r.protocols.asked(h.addr)
		}
	}
}

// handedOver is called when net/http has made its round trip, and ends the handover of the call, if it had one. It
// closes the connection if net/http has not taken it, as when it had another one already. Proto is the major version of
// the answer, or 0 without an answer. After HTTP/1, http1 asks the origin again the next time. onSent may not have been
// called yet, since net/http reports a write of HTTP/2 at any time.
func (r *route) handedOver(k *call, addr string, proto int) {
	if proto > 0 {
		r.protocols.learn(addr, proto == 2)
	}
	h := k.handover
	if h == nil {
		return
	}
	k.handover = nil
	if r.handovers.drop(h.addr, h.conn) {
		_ = h.conn.Close()
	}
	if h.asking {
		r.protocols.asked(h.addr)
	}
}

// dialPlain is a Transport's DialContext.
func (r *route) dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := r.dialer.dial(ctx, network, addr)
	if counted, ok := conn.(*countedConn); ok {
		r.count(counted, addr, false)
	}
	return conn, err
}

// dialTLS is a Transport's DialTLSContext: it returns the connection that was left for it, or dials.
func (r *route) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn := r.handovers.take(addr)
	if conn == nil {
		var err error
		if conn, err = r.dialer.dialTLS(ctx, network, addr); err != nil {
			return nil, err
		}
	}
	if secure, ok := conn.(*tls.Conn); ok {
		if counted, ok := secure.NetConn().(*countedConn); ok {
			r.count(counted, addr, isHTTP2(conn))
		}
	}
	return conn, nil
}

// count counts a connection as net/http's until it is closed. No other goroutine may have it yet.
func (r *route) count(c *countedConn, addr string, http2 bool) {
	handed := &r.dialer.handed
	handed.Add(1)
	c.onClose = func() { handed.Add(-1) }
	if !http2 || r.protocols == nil {
		return
	}
	r.protocols.opened(addr)
	c.onClose = func() {
		handed.Add(-1)
		r.protocols.closed(addr)
	}
}

// protocols remembers which https origins speak HTTP/2, by HOST:PORT. It keeps at least those size origins that were
// last asked for. To forget one costs a handshake only if it has a connection open.
//
// If an origin is not known, one request makes a handshake and the others wait for its
// result: with HTTP/2 they need no connection of their own. An origin whose last
// connection of HTTP/2 is closed is not known any more, since net/http would dial for
// each of several requests at once.
type protocols struct {
	size int

	mu     sync.Mutex
	recent map[string]bool          // guarded by mu; whether an origin speaks HTTP/2
	older  map[string]bool          // guarded by mu; the generation before
	asking map[string]chan struct{} // guarded by mu; closed when the handshake has ended
	open   map[string]int           // guarded by mu; connections of HTTP/2 that net/http has open
}

func newProtocols(size int) *protocols {
	return &protocols{size: size, recent: make(map[string]bool), asking: make(map[string]chan struct{}),
		open: make(map[string]int)}
}

// opened counts a connection of HTTP/2.
func (p *protocols) opened(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[addr]++
}

// closed forgets an origin with its last connection of HTTP/2.
func (p *protocols) closed(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[addr]--
	if p.open[addr] > 0 {
		return
	}
	delete(p.open, addr)
	if h2, _ := p.knowsLocked(addr); h2 {
		delete(p.recent, addr)
		delete(p.older, addr)
	}
}

// ask reports whether an origin speaks HTTP/2, waiting for the handshake of another call.
// If there is none (mine), the caller must make it and call asked at the end. If that
// handshake fails, the calls that waited for it connect for themselves.
func (p *protocols) ask(ctx context.Context, addr string) (h2, mine bool, err error) {
	p.mu.Lock()
	h2, known := p.knowsLocked(addr)
	wait := p.asking[addr]
	if !known && wait == nil {
		p.asking[addr] = make(chan struct{})
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
	h2, _ = p.knowsLocked(addr)
	return h2, false, nil
}

// asked wakes the calls that wait for an origin.
func (p *protocols) asked(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.asking[addr]; wait != nil {
		close(wait)
		delete(p.asking, addr)
	}
}

// learn remembers what an origin speaks. That it is HTTP/2 counts while a connection is
// open.
func (p *protocols) learn(addr string, h2 bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !h2 || p.open[addr] > 0 {
		p.learnLocked(addr, h2)
	}
}

func (p *protocols) knowsLocked(addr string) (h2, known bool) {
	if h2, known = p.recent[addr]; known {
		return h2, true
	}
	if h2, known = p.older[addr]; known {
		p.learnLocked(addr, h2)
	}
	return h2, known
}

func (p *protocols) learnLocked(addr string, h2 bool) {
	if _, known := p.recent[addr]; !known && len(p.recent) >= p.size {
		p.recent, p.older = make(map[string]bool), p.recent
	}
	p.recent[addr] = h2
}
