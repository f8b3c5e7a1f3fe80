package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestOutcome provokes every outcome that needs no waiting, from real listeners.
func TestOutcome(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	const nobody = "http://127.0.0.1:1" // the port of a listener that is closed may go to another
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet()
	t.Cleanup(secure.Close)
	dnsError := func(e net.DNSError) Resolver {
		return fakeResolver(func(context.Context, string) ([]netip.Addr, error) { return nil, &e })
	}

	tests := []struct {
		name     string
		url      string
		opts     Options
		kind     Kind
		phase    phase
		ours     bool
		response bool
	}{
		{name: "fine", url: listen(t, answer(ok+"Content-Length: 1\r\n\r\nx")), response: true},
		{name: "server error is no failure", url: listen(t, answer("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")),
			response: true},
		{name: "connection refused", url: nobody, kind: ConnectError, phase: phaseConnect},
		{name: "closed before the answer", url: listen(t, func(_ int, c net.Conn) { readRequest(c) }), kind: ReadError,
			phase: phaseHeaders},
		{name: "reset before the answer", url: listen(t, func(_ int, c net.Conn) { readRequest(c); reset(c) }),
			kind: ReadError, phase: phaseHeaders},
		{name: "not HTTP", url: listen(t, answer("SSH-2.0-OpenSSH\r\n\r\n")), kind: ReadError, phase: phaseHeaders},
		{name: "malformed header", url: listen(t, answer("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n")), kind: ReadError,
			phase: phaseHeaders},
		{name: "headers too large", url: listen(t, answer(ok+"X: "+strings.Repeat("x", maxHeader)+"\r\n\r\n")),
			kind: ReadError, phase: phaseHeaders},
		{name: "body breaks off", url: listen(t, answer(ok+"Content-Length: 10\r\n\r\nabc")), kind: ReadError,
			phase: phaseBody, response: true},
		{name: "chunked body breaks off", url: listen(t, answer(ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nab")),
			kind: ReadError, phase: phaseBody, response: true},
		{name: "bad chunk", url: listen(t, answer(ok+"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n")),
			kind: ReadError, phase: phaseBody, response: true},
		{name: "bad gzip", url: listen(t,
			answer(ok+"Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n\x1f\x8b\x08\x00aaaaaaaa")), kind: ReadError,
			phase: phaseBody, response: true},
		{name: "too large by its length", url: listen(t, answer(ok+"Content-Length: 101\r\n\r\n")),
			opts: Options{MaxBody: 100}, kind: TooLarge, phase: phaseBody, response: true},
		{name: "too large without a length", url: listen(t, answer(ok+"\r\n"+strings.Repeat("x", 101))),
			opts: Options{MaxBody: 100}, kind: TooLarge, phase: phaseBody, response: true},
		{name: "as large as may be", url: listen(t, answer(ok+"\r\n"+strings.Repeat("x", 100))),
			opts: Options{MaxBody: 100}, response: true},
		{name: "unknown certificate", url: secure.URL, kind: TLSError, phase: phaseTLS},
		{name: "certificate of another host", url: "https://other.example:" + portOf(secure.URL), opts: Options{
			RootCAs: poolOf(secure), Resolve: []Resolve{{Host: "*",
				Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}},
		}, kind: TLSError, phase: phaseTLS},
		{name: "no TLS where it should be", url: strings.Replace(listen(t,
			func(_ int, c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 No\r\n\r\n") }), "http:", "https:", 1),
			kind: TLSError, phase: phaseTLS},
		{name: "closed in the handshake", url: strings.Replace(listen(t, func(int, net.Conn) {}), "http:", "https:", 1),
			kind: TLSError, phase: phaseTLS},
		{name: "name does not exist", url: "http://gone.example/",
			opts: Options{Resolver: dnsError(net.DNSError{Err: "no such host", IsNotFound: true})}, kind: DNSError,
			phase: phaseDNS},
		{name: "zone broken", url: "http://broken.example/",
			opts: Options{Resolver: dnsError(net.DNSError{Err: "server misbehaving", IsTemporary: true})},
			kind: DNSError, phase: phaseDNS},
		{name: "lookup times out", url: "http://slow.example/",
			opts: Options{Resolver: dnsError(net.DNSError{Err: "i/o timeout", IsTimeout: true})}, kind: DNSError,
			phase: phaseDNS},
		{name: "resolver down", url: "http://any.example/",
			opts: Options{Resolver: dnsError(net.DNSError{Err: "refused",
				UnwrapErr: os.NewSyscallError("read", syscall.ECONNREFUSED)})}, kind: DNSError, phase: phaseDNS,
			ours: true},
		{name: "resolver silent", url: "http://any.example/",
			opts: Options{Resolver: dnsError(net.DNSError{Err: "timeout", IsTimeout: true, UnwrapErr: errNoResolver})},
			kind: DNSError, phase: phaseDNS, ours: true},
		{name: "no address", url: "http://empty.example/", opts: Options{Resolver: always()}, kind: DNSError,
			phase: phaseDNS},
		{name: "loopback", url: "http://127.0.0.2/", kind: RefusedAddress, phase: phaseConnect},
		{name: "name of a private address", url: "http://inside.example/",
			opts: Options{Resolver: always("10.0.0.1", "fd00::1")}, kind: RefusedAddress, phase: phaseConnect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := get(t, newClient(t, tt.opts), tt.url)
			if KindOf(err) != tt.kind || IsOurs(err) != tt.ours || (res != nil) != tt.response {
				t.Fatalf("response %v, error %v; want kind %q, ours %v, response %v", res != nil, err, tt.kind, tt.ours,
					tt.response)
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Phase != string(tt.phase) {
				t.Errorf("phase %q, want %q (%v)", e.Phase, tt.phase, err)
			}
		})
	}
}

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

func portOf(url string) string {
	_, port, _ := net.SplitHostPort(url[strings.Index(url, "//")+2:])
	return port
}

func poolOf(s *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	if cert := s.Certificate(); cert != nil { // nil without TLS
		pool.AddCert(cert)
	}
	return pool
}

// TestOwnFailures holds the errors of this machine apart from those of hosts.
func TestOwnFailures(t *testing.T) {
	v4 := &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 80}
	v6 := &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 80}
	op := func(addr net.Addr, call string, errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: os.NewSyscallError(call, errno)}
	}
	tests := []struct {
		err  error
		ours bool
	}{
		{op(v4, "socket", syscall.EMFILE), true},
		{op(v6, "socket", syscall.ENFILE), true},
		{op(v4, "connect", syscall.ENOBUFS), true},
		{op(v4, "connect", syscall.ENETUNREACH), true},
		{op(v4, "connect", syscall.ENETDOWN), true},
		{op(v4, "connect", syscall.EADDRNOTAVAIL), true},
		{op(v6, "connect", syscall.ENETUNREACH), false},
		{op(v6, "connect", syscall.EADDRNOTAVAIL), false},
		{op(v4, "connect", syscall.EHOSTUNREACH), false},
		{op(v4, "connect", syscall.ECONNREFUSED), false},
		{op(v4, "connect", syscall.EPERM), false},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			c := newClient(t, Options{Resolver: always("8.8.8.8")})
			fails := fakeDialer(func(context.Context, string) (net.Conn, error) { return nil, tt.err })
			c.dialer.guarded = fails
			_, err := get(t, c, "http://a.example/")
			if KindOf(err) != ConnectError || IsOurs(err) != tt.ours {
				t.Errorf("%v: kind %q, ours %v; want ours %v", err, KindOf(err), IsOurs(err), tt.ours)
			}
		})
	}
}

// TestGravestError checks which of two addresses' errors counts for the host.
func TestGravestError(t *testing.T) {
	noRoute6 := &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, Err: syscall.ENETUNREACH}
	noRoute4 := &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4)}, Err: syscall.ENETUNREACH}
	refused := &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4)}, Err: syscall.ECONNREFUSED}
	private := &AddressError{Addr: netip.MustParseAddr("10.0.0.1")}
	tests := []struct{ a, b, want error }{
		{nil, refused, refused},
		{noRoute6, noRoute4, noRoute4},
		{noRoute4, noRoute6, noRoute4},
		{noRoute6, refused, refused},
		{noRoute4, refused, refused},
		{refused, noRoute4, refused},
		{private, noRoute6, noRoute6},
		{private, private, private},
		{refused, context.Canceled, refused},
	}
	for _, tt := range tests {
		if got := graver(tt.a, tt.b); got != tt.want {
			t.Errorf("graver(%v, %v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestFileLimit checks that idle connections are given up for a new one.
func TestFileLimit(t *testing.T) {
	c := newClient(t, Options{Resolver: always("8.8.8.8")})
	freed, tries := 0, 0
	c.dialer.sockets.idle = func() { freed++ }
	c.dialer.guarded = fakeDialer(func(context.Context, string) (net.Conn, error) {
		tries++
		return nil, os.NewSyscallError("socket", syscall.EMFILE)
	})
	_, err := get(t, c, "http://a.example/")
	if !IsOurs(err) || freed != 1 || tries != 2 {
		t.Errorf("%v, idle closed %d times, %d tries; want an own failure, 1, 2", err, freed, tries)
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("crawl over")
	url := listen(t, func(_ int, c net.Conn) {
		readRequest(c)
		cancel(why)
		_, _ = c.Read(make([]byte, 1))
	})
	_, err := newClient(t, Options{}).Do(ctx, Request{URL: mustURL(t, url)})
	if KindOf(err) != Canceled || !errors.Is(err, why) {
		t.Errorf("error %v, want it canceled by %v", err, why)
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]*Error{
		"tls_error (tls: bad certificate)": {Kind: TLSError, Phase: "tls", Err: errors.New("bad certificate")},
		"tls_error (tls: handshake failure)": {Kind: TLSError, Phase: "tls",
			Err: errors.New("tls: handshake failure")},
		"too_large (body: larger than the limit)": {Kind: TooLarge, Phase: "body", Err: errTooLarge},
		"connect_error (connect: connected twice)": {Kind: ConnectError, Phase: "connect",
			Err: errors.New("connected twice")},
		"refused_address (connect: 10.0.0.1 is not a public address (private), and --allow-private is not set)": {
			Kind: RefusedAddress, Phase: "connect", Err: &AddressError{Host: "10.0.0.1",
				Addr: netip.MustParseAddr("10.0.0.1"), Reason: "private"}},
		"refused_address (connect: a.test has the address 10.0.0.1, which is not a public address (private), and " +
			"--allow-private is not set)": {
			Kind: RefusedAddress, Phase: "connect", Err: &AddressError{Host: "a.test",
				Addr: netip.MustParseAddr("10.0.0.1"), Reason: "private"}},
		"refused_address (connect: localhost is not a public address (loopback), and --allow-private is not set)": {
			Kind: RefusedAddress, Phase: "connect", Err: &AddressError{Host: "localhost", Reason: "loopback"}},
	} {
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if KindOf(errors.New("other")) != "" || IsOurs(nil) {
		t.Error("an error of others has a kind")
	}
}

// TestClientCertificate meets an alert that comes after the handshake.
func TestClientCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := get(t, newClient(t, Options{RootCAs: poolOf(s)}), s.URL)
	if KindOf(err) != TLSError {
		t.Errorf("error %v, want a TLS error", err)
	}
}

// Errors for users of a service say what went wrong and name no address, and what they wrap can still be found.
func TestWithoutAddresses(t *testing.T) {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	tcp := func(text string) net.Addr { a, _ := net.ResolveTCPAddr("tcp", text); return a }
	dns := &net.DNSError{Err: "no such host", Name: "proxy.corp", Server: "10.0.0.2:53", IsNotFound: true}
	for want, err := range map[string]error{
		"connect: connection refused": &net.OpError{Op: "dial", Net: "tcp", Addr: tcp("10.0.0.1:80"),
			Err: refused},
		"read: connection reset by peer": &net.OpError{Op: "read", Net: "tcp", Source: tcp("10.0.0.9:999"),
			Addr: tcp("10.0.0.1:80"), Err: errors.New("read: connection reset by peer")},
		"no such host": fmt.Errorf("the proxy: %w",
			&net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Err: dns}}),
		"the address is not public": &AddressError{Host: "intranet.corp",
			Addr: netip.MustParseAddr("fd00::1"), Reason: "private"},
		"cannot use (address), (address) at 10": errors.New("cannot use [fd00::1]:443, 192.168.0.7 at 10"),
		"larger than the limit":                 errTooLarge,
	} {
		got := WithoutAddresses(err)
		if got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestHideAddresses(t *testing.T) {
	c := newClient(t, Options{Resolver: always("10.1.2.3"), HideAddresses: true})
	_, err := get(t, c, "http://intranet.example/")
	if e, _ := errors.AsType[*Error](err); e == nil || e.Kind != RefusedAddress ||
		e.Detail() != "connect: the address is not public" {
		t.Errorf("%v", err)
	}
}
