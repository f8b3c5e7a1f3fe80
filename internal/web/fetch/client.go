package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/http1"
)

// A Client fetches. It is safe for use by any number of goroutines.
//
// What its requests may reach and what they send belongs to the Client alone; sockets,
// memory and the limits of both are shared with the Clients that For makes of it. Clients
// never share a connection, a TLS session or an address from DNS.
type Client struct {
	opts    Options
	public  modeHeaders
	private *modeHeaders // for the origins of Options.PrivateTo; nil if there are no private headers
	route   *route
	dialer  *dialer
	account *share
	*shared
}

// shared holds the parts that related Clients use together (see Client.For).
type shared struct {
	network  *network
	pool     *http1.Pool
	buffers  *buffers
	decoders decoders
	watches  watches
	alarms   alarms

	mu     sync.Mutex
	routes map[*route]bool // guarded by mu; those of Clients that are not closed
}

// New makes a Client. It opens nothing yet.
func New(o Options) (*Client, error) {
	o.setDefaults()
	n := &network{
		sockets: &sockets{free: semaphore.NewWeighted(int64(o.MaxSockets))},
		guarded: &net.Dialer{Control: Guard},
		open:    &net.Dialer{},
	}
	if o.Dial != nil {
		n.guarded, n.open = dialWith(o.Dial), dialWith(o.Dial)
	}
	s := &shared{network: n, buffers: newBuffers(&o), routes: make(map[*route]bool)}
	n.sockets.idle = s.closeIdle
	s.pool = http1.NewPool(http1.PoolOptions{
		MaxIdlePerHost: o.MaxIdlePerHost, MaxIdle: o.MaxIdle, IdleTimeout: idleTimeout,
		Elsewhere: func() int { return int(n.handed.Load()) },
	})
	return s.newClient(o)
}

// For makes a Client whose requests have the permissions, headers, credentials and time-outs of o: the first part of
// Options. The second part is shared: it is taken from c, and what o says there is ignored. Each of the Clients must be
// closed; closing one does not touch the others.
func (c *Client) For(o Options) (*Client, error) {
	s := &c.opts
	o.MaxInflight, o.MaxIdlePerHost, o.MaxSockets, o.MaxIdle = s.MaxInflight, s.MaxIdlePerHost, s.MaxSockets, s.MaxIdle
	o.MaxMemory, o.Resolver, o.Dial = s.MaxMemory, s.Resolver, s.Dial
	return c.shared.newClient(o)
}

func (s *shared) newClient(o Options) (*Client, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("fetch options: %w", err)
	}
	c := &Client{opts: o, shared: s, account: s.buffers.budget.shareOf(o.Account)}
	var err error
	if c.public, err = newModeHeaders(o, o.Header); err != nil {
		return nil, err
	}
	if len(o.PrivateHeader) > 0 {
		private, err := newModeHeaders(o, o.Header, o.PrivateHeader)
		if err != nil {
			return nil, err
		}
		c.private = &private
	}
	c.dialer = newDialer(o, s.network, c.account)
	c.route = newRoute(o, c.dialer, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[c.route] = true
	return c, nil
}

func newDialer(o Options, n *network, account *share) *dialer {
	d := &dialer{
		network:      n,
		beside:       account.beside,
		compute:      o.Compute,
		dns:          newDNSCache(o, n.sockets),
		resolve:      o.Resolve,
		allowPrivate: o.AllowPrivate,
		allowed:      make(map[hostPort]bool),
		proxy:        o.Proxy,
		tls: &tls.Config{
			RootCAs:            o.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(mostSessions),
			NextProtos:         []string{"h2", "http/1.1"},
		},
	}
	d.tls.InsecureSkipVerify = o.Insecure
	if o.ClientCert != nil {
		d.tls.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if k := callOf(info.Context()); k != nil && k.showsCert {
				return o.ClientCert, nil
			}
			return &tls.Certificate{}, nil
		}
		// A session belongs to a host on every port, and names the certificate that it was made with.
		d.tls.ClientSessionCache = nil
	}
	if o.NoHTTP2 {
		d.tls.NextProtos = []string{"http/1.1"}
	}
	for _, a := range o.AllowHosts {
		if host, port, err := splitAddr(a); err == nil { // validate has refused any other
			d.allowed[hostPort{host, port}] = true
		}
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Do sends one request, once. It follows no redirect. If the
// server closed the connection that was kept for it before it answered, the error has
// Dropped set.
//
// An error is an *Error. A Response comes with it if the host had answered before
// things went wrong, as when the body is too large, and must then be closed too.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if err := c.check(&r); err != nil {
		return nil, err
	}
	r.Header = c.ownHeader(&r)
	call := c.newCall(ctx, &r)
	if c.opts.Archive != nil && !r.NoArchive {
		c.record(call, &r)
	}
	res, err := c.roundTrip(call, &r)
	if err != nil {
		err = call.classify(err)
		call.end()
		return nil, err
	}
	if k := c.opts.Cookies; k != nil && k.jar != nil {
		k.jar.take(r.URL, res.Header)
	}
	call.inBody.Store(true)
	out := newResponse(res)
	out.memory.share = c.account
	out.Reused = call.reused.Load()
	if call.record != nil {
		call.record.begin(&r, res, out)
	}
	if r.Mode == Stream && out.OK() {
		if err = c.stream(call, res, &r, out); err == nil {
			out.Timings = call.timings()
			return out, nil
		}
	} else {
		err = c.read(call, res, &r, out)
		if errors.Is(err, errTooLarge) {
			err = fmt.Errorf("%w of %d bytes", err, c.maxBody(&r))
		}
	}
	if err != nil {
		err = call.classify(err)
	}
	out.Timings = call.timings()
	if call.record != nil { // its time is not the host's
		err = call.record.finish(res, err)
	}
	res.Body.Close()
	out.WireBytes = call.bytes.Load()
	call.end()
	return out, err
}

// roundTrip returns the answer without its body.
func (c *Client) roundTrip(call *call, r *Request) (*http.Response, error) {
	head, err := c.head(r)
	if err != nil {
		return nil, err
	}
	byHTTP1 := r.Form == nil && !c.asksProxy(r.URL.Scheme()) // http1 sends no bodies, and no request to a proxy
	if byHTTP1 {
		res, err := c.route.http1.Do(&call.exchange, http1.Request{Origin: r.URL.Origin(), URI: r.URL.RequestURI(),
			Head: head, NewConn: r.NewConn})
		if err != errHTTP2 {
			return res, err
		}
	}
	res, err := c.route.transport.RoundTrip(c.httpRequest(call, r))
	proto := 0
	if err == nil {
		proto = res.ProtoMajor
	}
	if byHTTP1 {
		c.route.handedOver(call, dialAddr(r), proto)
	}
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close() // it is the connection, which ends with no context
		res.Body = http.NoBody
	}
	if err == nil && res.StatusCode == http.StatusProxyAuthRequired && c.asksProxy(r.URL.Scheme()) {
		res.Body.Close()
		return nil, &phaseError{phaseConnect, &proxyError{Status: res.StatusCode}}
	}
	return res, err
}

// closeIdle closes the connections that no request uses, of all Clients.
func (s *shared) closeIdle() {
	s.pool.CloseIdle()
	s.closeIdleHTTP2()
}

// closeIdleHTTP2 closes the idle connections that net/http has.
func (s *shared) closeIdleHTTP2() {
	s.mu.Lock()
	routes := slices.Collect(maps.Keys(s.routes))
	s.mu.Unlock()
	for _, r := range routes {
		r.transport.CloseIdleConnections()
	}
}

// check refuses a request if no connection is needed to refuse it.
func (c *Client) check(r *Request) error {
	if r.URL.IsZero() {
		return &Error{Kind: ConnectError, Phase: string(phaseConnect), Err: errors.New("no URL")}
	}
	if c.opts.Proxy == nil || c.opts.AllowPrivate {
		return nil
	}
	// The proxy connects, and not we: names are looked up where the guard cannot
	// see it, but what the URL itself says can be judged.
	host, port, err := splitAddr(dialAddr(r))
	if err != nil {
		return &Error{Kind: ConnectError, Phase: string(phaseConnect), Err: err}
	}
	if c.dialer.allowed[hostPort{host, port}] {
		return nil
	}
	refusal := AddressError{Host: host}
	if addr, err := netip.ParseAddr(host); err == nil {
		refusal.Addr, refusal.Reason = addr, NotPublic(addr)
	} else if weburl.IsLocalhost(host) {
		refusal.Reason = "loopback"
	}
	if refusal.Reason == "" {
		return nil
	}
	c.dialer.refused.Add(1)
	return &Error{Kind: RefusedAddress, Phase: string(phaseConnect), Err: &refusal}
}

// Close closes the Client's idle connections and ends its lookups and dials under way.
// Calls of Do must have returned and responses be closed.
func (c *Client) Close() error {
	c.dialer.cancel()
	c.route.http1.Close()
	c.route.transport.CloseIdleConnections()
	c.dialer.dns.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.routes, c.route)
	return nil
}

// Conns is how many connections are open now, of all Clients that share sockets, and how many of them may be idle.
func (c *Client) Conns() (open, idle int64) { return c.dialer.conns.Load(), int64(c.opts.MaxIdle) }
