package testweb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// Authority signs the certificates of a web with TLS. It is made at start. Only clients
// that were given it trust them.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	issued map[string]*tls.Certificate // guarded by mu; by host name
}

// Authority returns the web's certificate authority, or nil if it has no TLS.
func (s *Server) Authority() *Authority { return s.authority }

func newAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority key: %w", err)
	}
	a := &Authority{key: key, issued: make(map[string]*tls.Certificate)}
	t := template("testweb authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	return a, nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(365 * 24 * time.Hour),
	}
}

// PEM returns the authority's certificate, to be trusted by clients.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool returns a pool with nothing but the authority.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *Authority) config() *tls.Config {
	return &tls.Config{GetCertificate: a.certificate, NextProtos: []string{"http/1.1"}}
}

// certificate issues one for the name a client asks for, once.
func (a *Authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	if name == "" { // a client that was given an address
		if name = "127.0.0.1"; hello.Conn != nil {
			if host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil {
				name = host
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.issued[name]; c != nil {
		return c, nil
	}
	t := template(name)
	if ip := net.ParseIP(name); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	a.issued[name] = c
	return c, nil
}
