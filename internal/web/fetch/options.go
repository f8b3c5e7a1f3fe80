package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Limits of every Client.
const (
	connectTimeout = 10 * time.Second // of the TCP connection, over all addresses of a host
	tlsTimeout     = 10 * time.Second // of the TLS handshake
	tunnelTimeout  = time.Minute      // of the connection that a proxy makes to a host
	idleTimeout    = 90 * time.Second // after which an idle connection is closed
	maxHeader      = 64 << 10         // bytes of a response's headers
	dnsTimeout     = 10 * time.Second // of one name
	dnsSize        = 1 << 16          // names that a Client remembers

	// dnsTTL is how long addresses are kept: Go's resolver does not tell the time to live in the answer itself.
	dnsTTL = 5 * time.Minute
	// dnsNegativeTTL is how long it is remembered that a name does not exist; other failures, a sixth of it.
	dnsNegativeTTL = 30 * time.Second
)

// noMinRate is the value of Options.MinRate that sets no least rate for bodies. The other time-outs hold.
const noMinRate = -1

// Options are the settings of a Client. The zero value is usable.
type Options struct {
	// The first part is about the requests: what they may reach, what they send and how long they may take. Each Client
	// has its own.

	// UserAgent is the User-Agent header. Empty means [DefaultUserAgent].
	UserAgent string

	// Header is sent with every request. It may replace the headers that a Client sends by itself, except
	// Accept-Encoding, and may name another Host.
	Header http.Header

	// PrivateHeader is sent like Header, but only to the origins in PrivateTo. It is
	// for credentials, and for any header that may be one; see [IsPublicHeader].
	PrivateHeader http.Header
	PrivateTo     Audience

	// BasicAuth are users of origins. The first one that is for the origin of a request counts, and replaces the header
	// Authorization.
	BasicAuth []BasicAuth

	// Cookies make the header Cookie. Nil means none.
	Cookies *Cookies

	// Proxy is the proxy that every request goes through, with scheme http, https,
	// socks5 or socks5h. Nil means none; the environment is not asked.
	Proxy *url.URL

	// Resolve gives addresses for names instead of DNS. See [ParseResolve].
	Resolve []Resolve

	// AllowPrivate lets requests go to addresses that are not public.
	AllowPrivate bool

	// AllowHosts are hosts, each as HOST:PORT with a name or an address, that may have
	// an address that is not public. Other ports of them stay guarded.
	AllowHosts []string

	// Account is for whom the requests are. The Clients of an account have one share of the memory of large bodies
	// together. A Client without an account has a share of its own.
	Account string

	// Compute waits until the account may compute something that takes long, as certificates and compressed bodies that
	// are made for it do, and returns what ends that. Nil means at once. A call waits for it that has no Request.Waits.
	Compute func(ctx context.Context) (done func())

	// HideAddresses keeps addresses out of the texts of errors; see [WithoutAddresses].
	HideAddresses bool

	// NoHTTP2 speaks HTTP/1.1 only.
	NoHTTP2 bool

	// Timeout is for the whole of a request, body included. Zero means 20 s.
	Timeout time.Duration

	// HeaderTimeout is from the request to the response's headers. Zero means three
	// quarters of Timeout.
	HeaderTimeout time.Duration

	// MinRate is the least number of bytes a second, over five seconds, at which a
	// body may come. Zero means 128.
	MinRate int64

	// MaxBody is the limit of a body after decompression. It does not apply to a Stream. Zero means 10 MiB.
	MaxBody int64

	// Archive keeps every request and its answer, with the whole body up to MaxBody. Nil means that nothing is kept.
	Archive Archive

	// RootCAs are trusted to sign certificates. Nil means the system's.
	RootCAs *x509.CertPool

	// ClientCert is shown to servers that ask for a certificate, if their origin is in PrivateTo. Nil means none.
	ClientCert *tls.Certificate

	// Insecure takes every certificate of a host, but not of the proxy.
	Insecure bool

	// The second part is shared by related Clients (see Client.For).

	// MaxInflight is how many calls of Do the caller will have under way at once. It
	// sizes pools and does not limit. Zero means 512.
	MaxInflight int

	// MaxIdlePerHost is how many idle connections are kept for one host. It should
	// be the number of requests in flight per host. Zero means 4.
	MaxIdlePerHost int

	// MaxSockets is how many sockets may be open at once: connections, attempts to
	// connect and DNS look-ups. Further ones wait. Zero means what the process's limit
	// of open files leaves beside a reserve for the rest of the process.
	MaxSockets int

	// MaxIdle is how many idle connections are kept in all; half of them may be of
	// HTTP/2. Zero means 2,048, or what MaxSockets leaves beside MaxInflight if that
	// is less.
	MaxIdle int

	// MaxMemory is how many bytes large bodies and the windows of decoders may hold together; further ones wait. A body
	// is large if it is over 1 MiB, or over MaxMemory/MaxInflight if that is less, but never below 64 KiB. One Client
	// has at most three quarters of MaxMemory, but one call of each Client may exceed it. Zero means 256 MiB.
	MaxMemory int64

	// Resolver asks DNS. Nil means the system's servers, asked by Go's own resolver.
	Resolver Resolver

	// Dial connects to an address instead of the operating system, and without the
	// check of the address. It is for tests that serve in memory. Nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Resolver finds the addresses of a name. *net.Resolver is one. The network is
// always "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DefaultUserAgent names the product and where to read about it.
const DefaultUserAgent = "Mapwright/1.0 (+https://github.com/mapwright/mapwright)"

// ParseProxy reads a proxy's URL. Without a scheme it is an HTTP proxy.
func ParseProxy(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse quotes the URL, which may hold a password.
		return nil, errors.New("parse proxy: not a URL")
	}
	return u, checkProxy(u)
}

func checkProxy(u *url.URL) error {
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
	default:
		return fmt.Errorf("proxy scheme %q: want http, https, socks5 or socks5h", u.Scheme)
	}
	if u.Hostname() == "" {
		return errors.New("proxy has no host")
	}
	return nil
}

func (o *Options) setDefaults() {
	o.UserAgent = cmp.Or(o.UserAgent, DefaultUserAgent)
	o.MaxInflight = cmp.Or(o.MaxInflight, 512)
	o.MaxIdlePerHost = cmp.Or(o.MaxIdlePerHost, 4)
	o.MaxSockets = cmp.Or(o.MaxSockets, socketsFor(openFileLimit()))
	if o.MaxIdle == 0 {
		o.MaxIdle = idleFor(o.MaxSockets, o.MaxInflight)
	}
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, o.Timeout*3/4)
	o.MinRate = cmp.Or(o.MinRate, 128)
	o.MaxBody = cmp.Or(o.MaxBody, 10<<20)
	o.MaxMemory = cmp.Or(o.MaxMemory, 256<<20)
	if o.Resolver == nil {
		o.Resolver = newSystemResolver()
	}
}

const maxIdle = 2048

// idleFor says how many idle connections fit into a number of sockets, when each call
// in flight may hold one connection and race another for it.
func idleFor(sockets, inflight int) int {
	return max(min(sockets-2*inflight, maxIdle), min(sockets/8, 16), 1)
}

// validate reports every fault of options whose defaults are set.
func (o *Options) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"timeout", o.Timeout}, {"header timeout", o.HeaderTimeout},
	} {
		if d.value < 0 {
			fail("%s %v: must not be negative", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"max inflight", int64(o.MaxInflight)}, {"max idle per host", int64(o.MaxIdlePerHost)},
		{"max idle", int64(o.MaxIdle)}, {"max sockets", int64(o.MaxSockets)},
		{"max body", o.MaxBody}, {"max memory", o.MaxMemory},
	} {
		if n.value < 1 {
			fail("%s %d: must be positive", n.name, n.value)
		}
	}
	if o.MinRate < noMinRate {
		fail("min rate %d: must not be negative", o.MinRate)
	}
	if !httpguts.ValidHeaderFieldValue(o.UserAgent) {
		fail("user agent %q: not a header value", o.UserAgent)
	}
	for _, header := range []http.Header{o.Header, o.PrivateHeader} {
		for name, values := range header {
			if !httpguts.ValidHeaderFieldName(name) {
				fail("header %q: not a header name", name)
			}
			for _, v := range values {
				if !httpguts.ValidHeaderFieldValue(v) {
					fail("header %s: not a header value", name)
				}
			}
		}
	}
	for _, a := range o.AllowHosts {
		if _, _, err := splitAddr(a); err != nil {
			fail("allowed host %q: want HOST:PORT", a)
		}
	}
	if o.Proxy != nil {
		if err := checkProxy(o.Proxy); err != nil {
			errs = append(errs, err)
		}
	}
	for _, r := range o.Resolve {
		if err := r.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
