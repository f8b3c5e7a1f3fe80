package fetch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// newAskingServer serves TLS, asks for a client certificate, and answers with whether it got one.
func newAskingServer(t *testing.T, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		text := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			text = "certificate"
		}
		_, _ = io.WriteString(w, text)
	}))
	s.EnableHTTP2 = http2
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A client certificate is shown to the origins that it is for, and not to another port of the host or to another host,
// over HTTP/1, HTTP/2 and through a proxy.
func TestClientCertificateStaysWithItsOrigins(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		own, other := newAskingServer(t, http2), newAskingServer(t, http2)
		roots := x509.NewCertPool()
		roots.AddCert(own.Certificate())
		roots.AddCert(other.Certificate())
		o := Options{RootCAs: roots, ClientCert: &own.TLS.Certificates[0]}
		o.PrivateTo.AddURL(mustURL(t, own.URL))
		o.PrivateTo.AddURL(mustURL(t, "https://example.com/"))
		direct := newClient(t, o)
		o.Resolver = always()
		o.Proxy, _ = newProxy(t, own.Listener.Addr().String())
		proxied := newClient(t, o)
		for _, test := range []struct {
			client    *Client
			url, want string
		}{
			{direct, own.URL, "certificate"}, {direct, other.URL, "none"}, {direct, own.URL + "/again", "certificate"},
			{proxied, "https://example.com/", "certificate"}, {proxied, "https://example.com:444/", "none"},
			{proxied, "https://sub.example.com/", "none"},
		} {
			res, err := get(t, test.client, test.url)
			if err != nil || string(res.Body) != test.want {
				t.Errorf("HTTP/2 %v, %s: %v, want %q", http2, test.url, err, test.want)
			}
		}
	}
}

// Without checks every certificate of a host is taken, but none of a proxy that is wrong.
func TestInsecure(t *testing.T) {
	s := newAskingServer(t, false)
	if _, err := get(t, newClient(t, Options{}), s.URL); KindOf(err) != TLSError {
		t.Errorf("%v, want a failure of TLS", err)
	}
	if res, err := get(t, newClient(t, Options{Insecure: true}), s.URL); err != nil || string(res.Body) != "none" {
		t.Errorf("insecure: %v", err)
	}
	proxy, err := ParseProxy(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, newClient(t, Options{Insecure: true, Proxy: proxy, Resolver: always()}),
		"http://example.com/"); err == nil {
		t.Error("the certificate of the proxy was not checked")
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, by *authority, name string) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.issue(by, &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: name}})
	return a
}

// issue makes a certificate, signed by an authority, or by itself if there is none.
func (a *authority) issue(by *authority, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	return a.issueWith(by, c, elliptic.P256())
}

func (a *authority) issueWith(by *authority, c *x509.Certificate, curve elliptic.Curve) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-48*time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// What verify accepts and refuses is what crypto/tls does, but for the number of certificates.
func TestVerify(t *testing.T) {
	root := newAuthority(t, nil, "an authority")
	between := newAuthority(t, root, "an authority")
	stranger := newAuthority(t, nil, "an authority")
	var junk [][]byte
	for range 3 * mostCertificates {
		junk = append(junk, newAuthority(t, stranger, "an authority").cert.Raw)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	leaf := func(by *authority, c x509.Certificate) [][]byte {
		made, _ := by.issue(by, &c)
		return [][]byte{made.Raw}
	}
	good := x509.Certificate{DNSNames: []string{"a.test"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1), net.IPv6loopback}}
	expired := good
	expired.NotAfter = time.Now().Add(-time.Hour)
	client := good
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	whole := append(leaf(between, good), between.cert.Raw)
	for name, c := range map[string]struct {
		host  string
		chain [][]byte
		ok    bool
	}{
		"a chain":           {"a.test", whole, true},
		"an address":        {"192.0.2.1", whole, true},
		"an IPv6 address":   {"::1", whole, true},
		"with more":         {"a.test", slices.Concat(whole, junk), true},
		"in another order":  {"a.test", slices.Concat(whole[:1], junk[:3], whole[1:]), true},
		"too far":           {"a.test", slices.Concat(whole[:1], junk, whole[1:]), false},
		"another name":      {"b.test", whole, false},
		"another address":   {"192.0.2.2", whole, false},
		"no name":           {"", whole, false},
		"no chain":          {"a.test", whole[:1], false},
		"nothing":           {"a.test", nil, false},
		"expired":           {"a.test", append(leaf(between, expired), between.cert.Raw), false},
		"for clients":       {"a.test", append(leaf(between, client), between.cert.Raw), false},
		"another authority": {"a.test", leaf(stranger, good), false},
	} {
		chain, err := parseChain(c.chain)
		if err == nil {
			err = chain.verify(c.host, roots)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Certificates that take long to verify wait for the account's turn, others do not. It is the same behind a proxy.
func TestCertificatesThatTakeLong(t *testing.T) {
	root := newAuthority(t, nil, "root")
	one, two := newAuthority(t, root, "one"), newAuthority(t, root, "two")
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("a-long-name-%d.example.com", i)
	}
	own := func(c x509.Certificate, curve elliptic.Curve) tls.Certificate {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		made, key := one.issueWith(one, &c, curve)
		return tls.Certificate{Certificate: [][]byte{made.Raw, one.cert.Raw}, PrivateKey: key}
	}
	with := func(more ...*authority) tls.Certificate {
		made := own(x509.Certificate{}, elliptic.P256())
		for _, a := range more {
			made.Certificate = append(made.Certificate, a.cert.Raw)
		}
		return made
	}
	for name, test := range map[string]struct {
		cert      tls.Certificate
		takesLong bool
	}{
		"usual":       {own(x509.Certificate{}, elliptic.P256()), false},
		"three":       {with(two), false},
		"one name":    {with(newAuthority(t, root, "one")), true},
		"a large key": {own(x509.Certificate{}, elliptic.P521()), true},
		"many names":  {own(x509.Certificate{DNSNames: names}, elliptic.P256()), true},
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{test.cert}}
		s.Config.ErrorLog = quiet()
		s.StartTLS()
		t.Cleanup(s.Close)
		for way, proxy := range proxiesTo(t, s.Listener.Addr().String()) {
			roots := x509.NewCertPool()
			roots.AddCert(root.cert)
			roots.AddCert(proxyCert(t))
			began, ended := 0, 0
			c := newClient(t, Options{RootCAs: roots, Proxy: proxy, AllowHosts: []string{s.Listener.Addr().String()},
				Compute: func(context.Context) func() {
					began++
					return func() { ended++ }
				}})
			if _, err := get(t, c, s.URL); err != nil {
				t.Errorf("%s, proxy %s: %v", name, way, err)
			}
			if began != ended || began > 0 != test.takesLong {
				t.Errorf("%s, proxy %s: computed %d times, %d ended", name, way, began, ended)
			}
		}
	}
}

// Certificates are not verified outside of the account's turn: not if the handshake ends before the turn comes.
func TestHandshakeEndsBeforeItsTurn(t *testing.T) {
	root := newAuthority(t, nil, "root")
	leaf, key := root.issueWith(root, &x509.Certificate{DNSNames: []string{"a.test"}}, elliptic.P521())
	ours, theirs := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		defer theirs.Close()
		_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw},
			PrivateKey: key}}}).Handshake()
	})
	defer serving.Wait()
	defer ours.Close()
	cfg := &tls.Config{ServerName: "a.test", RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(root.cert)
	cfg.VerifyConnection = func(tls.ConnectionState) error {
		t.Error("the certificates were verified")
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	compute := func(context.Context) func() { cancel(); return func() {} }
	if _, err := Handshake(ctx, ours, cfg, compute); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// Servers decide how large their certificates are, and each connection and session holds them: large sessions are not
// kept, and still larger certificates are refused, whether they are verified or not. It is the same behind a proxy.
func TestLargeCertificates(t *testing.T) {
	for _, test := range []struct {
		bytes           int
		isKept, isTaken bool
	}{{100, true, true}, {mostSession, false, true}, {mostChain, false, false}} {
		for _, insecure := range []bool{false, true} {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Connection", "close")
				_, _ = fmt.Fprint(w, r.TLS.DidResume)
			}))
			authority := newAuthority(t, nil, "an authority")
			large, _ := authority.issue(authority, &x509.Certificate{ExtraExtensions: []pkix.Extension{
				{Id: asn1.ObjectIdentifier{2, 999, 1}, Value: make([]byte, test.bytes)}}})
			leaf, key := authority.issue(authority, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
			s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, large.Raw}, PrivateKey: key}}}
			s.Config.ErrorLog = quiet()
			s.StartTLS()
			roots := x509.NewCertPool()
			roots.AddCert(authority.cert)
			roots.AddCert(proxyCert(t))
			for way, proxy := range proxiesTo(t, s.Listener.Addr().String()) {
				c := newClient(t, Options{RootCAs: roots, Insecure: insecure, Proxy: proxy,
					AllowHosts: []string{s.Listener.Addr().String()}})
				for i := range 3 {
					res, err := get(t, c, s.URL)
					want := fmt.Sprint(test.isKept && i > 0)
					if test.isTaken && (err != nil || string(res.Body) != want) || !test.isTaken &&
						(KindOf(err) != TLSError || IsOurs(err)) {
						t.Errorf("%d bytes, insecure %t, proxy %s, request %d: %v, %v", test.bytes, insecure, way, i, res, err)
					}
				}
			}
			s.Close()
		}
	}
}
