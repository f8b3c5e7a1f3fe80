package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// network holds what related Clients share (see Client.For): the socket limit and its counters.
type network struct {
	sockets       *sockets
	guarded, open tcpDialer

	conns, dials, refused atomic.Int64 // conns is the number of connections open now
	handed                atomic.Int64 // how many of them net/http has
}

// A dialer makes the connections of one Client: name to addresses, addresses past the
// guard, TCP, the tunnel of a proxy, and TLS. It does what net/http would do by itself,
// in order to know which part of it failed and how long each took, and to bound what a
// handshake costs.
type dialer struct {
	*network

	compute      func(ctx context.Context) (done func()) // Options.Compute
	beside       *rate.Limiter                           // of the account
	dns          *dnsCache
	resolve      []Resolve
	allowPrivate bool
	allowed      map[hostPort]bool // hosts whose addresses need not be public
	proxy        *url.URL          // nil if there is none
	tls          *tls.Config

	// ctx ends when the Client is closed: net/http's dials outlive the requests
	// that asked for them, ours do not.
	ctx    context.Context
	cancel context.CancelFunc
}

// A hostPort is a host in normal form and a port.
type hostPort struct {
	host string
	port uint16
}

// A tcpDialer connects to an address. It is a *net.Dialer, except in tests.
type tcpDialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// A dialWith is a tcpDialer that is one function.
type dialWith func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialWith) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// A phase is a part of a request's life.
type phase string

const (
	phaseDNS     phase = "dns"
	phaseConnect phase = "connect"
	phaseTLS     phase = "tls"
	phaseHeaders phase = "headers"
	phaseBody    phase = "body"
)

// A phaseError says in which phase an error arose.
type phaseError struct {
	phase phase
	err   error
}

func (e *phaseError) Error() string { return string(e.phase) + ": " + e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// dial connects for an http URL: to its host, or to the proxy if that reads the request.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, done := d.bound(ctx)
	defer done()
	connect := d.toHost
	if isHTTPProxy(d.proxy) {
		connect, addr = d.toProxy, proxyAddr(d.proxy)
	}
	conn, err := connect(ctx, network, addr)
	if err != nil {
		return nil, err // and no *countedConn, which would not be nil
	}
	return conn, nil
}

// dialTLS connects to a host for an https URL.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, done := d.bound(ctx)
	defer done()
	raw, err := d.toHost(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(addr)
	if cfg.ClientSessionCache != nil {
		cfg.ClientSessionCache = &sessions{ClientSessionCache: cfg.ClientSessionCache}
	}
	raw.beside.serve(handshakeUse)
	conn, err := d.handshake(ctx, raw, cfg)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// handshake is Handshake for a call.
func (d *dialer) handshake(ctx context.Context, raw net.Conn, cfg *tls.Config) (*tls.Conn, error) {
	start := time.Now()
	conn, err := Handshake(ctx, raw, cfg, d.compute)
	callOf(ctx).timed(phaseTLS, time.Since(start))
	if err != nil {
		return nil, &phaseError{phaseTLS, err}
	}
	return conn, nil
}

// toHost connects to a host, through the proxy if there is one.
func (d *dialer) toHost(ctx context.Context, network, addr string) (*countedConn, error) {
	if d.proxy != nil {
		return d.tunnel(ctx, network, addr)
	}
	return d.connect(ctx, network, addr, false)
}

// bound ends a context when the client is closed.
func (d *dialer) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (d *dialer) connect(ctx context.Context, network, addr string, isProxy bool) (*countedConn, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, &phaseError{phaseConnect, err}
	}
	t, err := d.target(ctx, host, port, isProxy)
	if err != nil {
		return nil, err
	}
	if err := callOf(ctx).reach(t.first()); err != nil {
		return nil, err
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := t.race(ctx, network)
	if err != nil && isFileLimit(err) {
		// Idle connections are the one thing that can be given up at once.
		d.sockets.idle()
		conn, err = t.race(ctx, network)
	}
	if err == nil {
		callOf(ctx).timed(phaseConnect, time.Since(start))
		d.dials.Add(1)
		return conn, nil
	}
	if refusal, ok := errors.AsType[*AddressError](err); ok {
		refusal.Host = host
		d.refused.Add(1)
		return nil, &phaseError{phaseConnect, refusal}
	}
	if t.fromDNS {
		d.dns.forget(host)
	}
	return nil, &phaseError{phaseConnect, err}
}

// A target is what to dial for a host and port.
type target struct {
	*network
	beside  *rate.Limiter
	dialer  tcpDialer
	addrs   []netip.Addr // in the order in which they are tried
	port    uint16
	fromDNS bool

	isProxy   bool
	isGuarded bool // addresses that are not public are refused
}

// first is the address that is tried first. It is invalid if no request to it is counted: it is the proxy's, or the
// guard refuses it.
func (t *target) first() netip.Addr {
	if t.isProxy || t.isGuarded && NotPublic(t.addrs[0]) != "" {
		return netip.Addr{}
	}
	return t.addrs[0]
}

func (d *dialer) target(ctx context.Context, host string, port uint16, isProxy bool) (target, error) {
	t := target{network: d.network, beside: d.beside, dialer: d.guarded, port: port, isProxy: isProxy, isGuarded: true}
	if d.allowPrivate || d.allowed[hostPort{host, port}] || t.isProxy {
		t.dialer, t.isGuarded = d.open, false
	}
	if !t.isProxy {
		if r, ok := override(d.resolve, host, port); ok {
			t.dialer, t.isGuarded = d.open, false
			t.addrs, t.port = interleave(r.Addrs), cmp.Or(r.ToPort, port)
			return t, nil
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		t.addrs = []netip.Addr{a}
		return t, nil
	}
	start := time.Now()
	addrs, err := d.dns.lookup(ctx, host)
	callOf(ctx).timed(phaseDNS, time.Since(start))
	if err != nil {
		return t, &phaseError{phaseDNS, err}
	}
	t.addrs, t.fromDNS = interleave(addrs), true
	return t, nil
}

// dial connects to an address. The caller has taken a socket, which belongs to the
// connection from then on.
func (t *target) dial(ctx context.Context, network string, addr netip.Addr) (*countedConn, error) {
	conn, err := t.dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), strconv.Itoa(int(t.port))))
	if err != nil {
		t.sockets.release(1)
		return nil, err
	}
	t.conns.Add(1)
	counted := &countedConn{Conn: conn, sockets: t.sockets, open: &t.conns}
	counted.beside.account = t.beside
	if !t.isProxy {
		counted.addr = addr
	}
	return counted, nil
}

// A countedConn knows when it is closed, and closes if the server sends too much that serves no request. Conn is TLS
// with the proxy if that is an https proxy.
type countedConn struct {
	net.Conn
	addr    netip.Addr // that it goes to; invalid for a proxy's
	sockets *sockets
	open    *atomic.Int64
	onClose func() // called once; may be nil
	closed  atomic.Bool
	beside  beside
}

// NetConn is the connection below.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		defer c.sockets.release(1)
		if c.onClose != nil {
			c.onClose() // before it is counted as closed, so that no more connections are handed over than are open
		}
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// addressOf is the address that a connection of a dialer goes to. It is invalid if that is a proxy.
func addressOf(conn net.Conn) netip.Addr {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		return counted.addr
	}
	return netip.Addr{}
}

const (
	// raceDelay is the head start of an address before the next one is tried
	// beside it (RFC 8305's connection attempt delay).
	raceDelay = 250 * time.Millisecond

	// maxRace bounds how many addresses of one host are tried.
	maxRace = 6
)

// race connects to the first address that answers. Addresses are tried one after the other, each as soon as the one
// before has failed or raceDelay has passed. All attempts have ended when race returns.
func (t *target) race(ctx context.Context, network string) (*countedConn, error) {
	addrs := t.addrs
	if err := t.sockets.take(ctx, 1); err != nil {
		return nil, err
	}
	if len(addrs) == 1 {
		return t.dial(ctx, network, addrs[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	type result struct {
		conn *countedConn
		err  error
	}
	results := make(chan result)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var (
		next, running int
		won           *countedConn
		failed        error
	)
	for next < len(addrs) || running > 0 {
		var start <-chan time.Time
		if next < len(addrs) && won == nil {
			start = timer.C
		}
		select {
		case <-start:
			if next > 0 && running > 0 && !t.sockets.tryTake() {
				timer.Reset(raceDelay) // the attempts under way go on alone
				break
			}
			if next > 0 && running == 0 {
				if err := t.sockets.take(ctx, 1); err != nil {
					failed, next = graver(failed, err), len(addrs)
					break
				}
			}
			addr := addrs[next]
			next++
			running++
			go func() {
				conn, err := t.dial(ctx, network, addr)
				results <- result{conn, err}
			}()
			timer.Reset(raceDelay)
		case r := <-results:
			running--
			switch {
			case r.err == nil && won == nil:
				won, next = r.conn, len(addrs)
				cancel()
			case r.err == nil:
				r.conn.Close()
			default:
				failed = graver(failed, r.err)
				timer.Reset(0)
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, failed
}

// graver picks the error that says most about a host: one that came from its
// network over one that never left this machine, and the earlier of two such,
// because later ones are often only cancelled.
func graver(a, b error) error {
	if a == nil || gravity(b) > gravity(a) {
		return b
	}
	return a
}

func gravity(err error) int {
	_, refused := errors.AsType[*AddressError](err)
	switch {
	case refused:
		return 0
	case isOurs(err):
		return 2
	case isNoRoute(err):
		return 1
	}
	return 3
}

// interleave orders addresses by taking turns between the families, beginning
// with that of the first, and keeps maxRace of them.
func interleave(addrs []netip.Addr) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	var first, second []netip.Addr
	for _, a := range addrs {
		if a.Unmap().Is4() == addrs[0].Unmap().Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	var out []netip.Addr
	for len(out) < maxRace && len(first)+len(second) > 0 {
		if len(first) > 0 {
			out, first = append(out, first[0]), first[1:]
		}
		first, second = second, first
	}
	return out
}
