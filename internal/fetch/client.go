package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A Client fetches. It is safe for use by any number of goroutines.
type Client struct {
	opts      Options
	headers   modeHeaders  // read only
	private   *modeHeaders // read only; for the origins of Options.PrivateTo; nil if there are no private headers
	direct    *direct
	transport *http.Transport // behind a proxy, and for HTTP/2
	dialer    *dialer
	buffers   *buffers
	decoders  decoders
	watches   watches
	alarms    alarms
}

// New makes a Client. It opens nothing yet.
func New(o Options) (*Client, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("fetch options: %w", err)
	}
	c := &Client{opts: o, headers: baseHeaders(o, o.Header), buffers: newBuffers(o.MaxMemory)}
	if len(o.PrivateHeader) > 0 {
		private := baseHeaders(o, o.Header, o.PrivateHeader)
		c.private = &private
	}
	c.dialer = newDialer(o)
	c.direct = newDirect(o, c.dialer, c.headers, c.private)
	c.transport = newTransport(o, c.dialer, c.direct)
	c.dialer.sockets.idle = c.closeIdle
	return c, nil
}

func newDialer(o Options) *dialer {
	sockets := &sockets{free: semaphore.NewWeighted(int64(o.MaxSockets))}
	d := &dialer{
		dns:            newDNSCache(o, sockets),
		sockets:        sockets,
		resolve:        o.Resolve,
		allowPrivate:   o.AllowPrivate,
		allowed:        make(map[hostPort]bool),
		connectTimeout: o.ConnectTimeout,
		tlsTimeout:     o.TLSTimeout,
		guarded:        &net.Dialer{Control: guardControl},
		open:           &net.Dialer{},
		tls: &tls.Config{
			RootCAs:            o.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(2048),
			NextProtos:         []string{"h2", "http/1.1"},
		},
	}
	if o.NoHTTP2 {
		d.tls.NextProtos = []string{"http/1.1"}
	}
	for _, a := range o.AllowHosts {
		if host, port, err := splitAddr(a); err == nil { // validate has refused any other
			d.allowed[hostPort{host, port}] = true
		}
	}
	if o.Proxy != nil {
		d.proxy = proxyAddr(o.Proxy.Scheme, o.Proxy.Hostname(), o.Proxy.Port())
	}
	if o.Dial != nil {
		d.guarded, d.open = dialWith(o.Dial), dialWith(o.Dial)
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// proxyAddr is the address by which net/http will ask for the proxy.
func proxyAddr(scheme, host, port string) string {
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[scheme]
	}
	return net.JoinHostPort(host, port)
}

// checkTunnel gives a proxy's refusal to connect a type.
func checkTunnel(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &phaseError{phaseConnect, &ProxyError{Status: res.StatusCode}}
}

// newTransport makes what speaks HTTP/2, and everything behind a proxy. Of idle
// connections it may keep half without a proxy, since direct has the rest.
func newTransport(o Options, d *dialer, direct *direct) *http.Transport {
	t := &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         direct.dialTLS,
		TLSClientConfig:        d.tls.Clone(), // net/http changes it
		TLSHandshakeTimeout:    o.TLSTimeout,  // behind a proxy
		DisableCompression:     true,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: o.MaxHeader,
		// An idle connection keeps its buffers. Requests are small.
		WriteBufferSize: 1 << 10,
		ReadBufferSize:  readBuffer,
		Protocols:       new(http.Protocols),
		HTTP2:           &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(!o.NoHTTP2)
	open := &d.handed
	if o.Proxy != nil {
		t.Proxy = http.ProxyURL(o.Proxy)
		t.OnProxyConnectResponse = checkTunnel
		open = &d.conns
	} else {
		t.MaxIdleConns = max(1, o.MaxIdle/2)
	}
	most := int64(t.MaxIdleConns + o.MaxInflight)
	t.DialContext = boundIdle(t, t.DialContext, open, most)
	t.DialTLSContext = boundIdle(t, t.DialTLSContext, open, most)
	return t
}

// boundIdle closes a Transport's idle connections when it has more open than can be
// in use or may be idle. MaxIdleConns does so for HTTP/1 alone: a connection of HTTP/2
// is only forgotten by it, and stays open until its idle time is over.
func boundIdle(t *http.Transport, dial dialWith, open *atomic.Int64, most int64) dialWith {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil && open.Load() > most {
			t.CloseIdleConnections()
		}
		return conn, err
	}
}

// Do sends one request, once. It follows no redirect and keeps no cookie. If the
// server closed the connection that was kept for it before it answered, the error has
// Dropped set.
//
// An error is an *Error. A Response comes with it if the host had answered before
// things went wrong, as when the body is too large, and must then be closed too.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if err := c.check(&r); err != nil {
		return nil, err
	}
	call := c.newCall(ctx, &r)
	res, err := c.roundTrip(call, &r)
	if err != nil {
		err = call.classify(err)
		call.end()
		return nil, err
	}
	call.inBody.Store(true)
	out := newResponse(res)
	out.Reused = call.reused.Load()
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
	res.Body.Close()
	out.WireBytes = call.bytes.Load()
	out.Timings = call.timings()
	call.end()
	return out, err
}

// roundTrip returns the answer without its body.
func (c *Client) roundTrip(call *call, r *Request) (*http.Response, error) {
	if c.opts.Proxy == nil {
		res, err := c.direct.roundTrip(call, r)
		if err != errHTTP2 {
			return res, err
		}
	}
	res, err := c.transport.RoundTrip(c.httpRequest(call, r))
	proto := 0
	if err == nil {
		proto = res.ProtoMajor
	}
	if c.opts.Proxy == nil {
		c.direct.handedOver(call, r, proto)
	}
	return res, err
}

// closeIdle closes the connections that nobody uses.
func (c *Client) closeIdle() {
	c.direct.closeIdle()
	c.transport.CloseIdleConnections()
}

// check refuses what needs no connection to be refused.
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
	} else if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		refusal.Reason = "loopback"
	}
	if refusal.Reason == "" {
		return nil
	}
	c.dialer.refused.Add(1)
	return &Error{Kind: RefusedAddress, Phase: string(phaseConnect), Err: &refusal}
}

// Close closes idle connections and ends lookups and dials under way. Calls of Do
// must have returned and responses be closed.
func (c *Client) Close() error {
	c.dialer.cancel()
	c.direct.close()
	c.transport.CloseIdleConnections()
	c.dialer.dns.close()
	return nil
}

// Stats are a Client's counts.
type Stats struct {
	// Conns is how many connections are open now, idle ones included. Each is a file
	// descriptor.
	Conns int64
	// MaxIdle is how many of them may be idle.
	MaxIdle int
	// Dials and Refused count connections made and connections that the address
	// guard refused.
	Dials, Refused int64
	// DNSHits and DNSMisses count names that were in the cache and were not.
	DNSHits, DNSMisses int64
}

// Stats returns the counts as they are now.
func (c *Client) Stats() Stats {
	d := c.dialer
	return Stats{
		Conns:     d.conns.Load(),
		MaxIdle:   c.opts.MaxIdle,
		Dials:     d.dials.Load(),
		Refused:   d.refused.Load(),
		DNSHits:   d.dns.hits.Load(),
		DNSMisses: d.dns.misses.Load(),
	}
}
